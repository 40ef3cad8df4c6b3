"""Usunier, Buffoni & Gallinari (ICML 2009), § 6: OWPC by LaRank, with the paper's generators.

C is chosen from 10⁻³ … 10³ by MAP on each fold's validation queries; `g_All` chooses the generator
so as well. Buffoni, Usunier & Gallinari's version with INEX has the same but for the data: no
validation queries, so that C is chosen on the training queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from owpc_ltr.metrics import parse_metric
from owpc_ltr_papers.jobs import Training
from owpc_ltr_papers.protocol import Extent, Method, Protocol

QUICK_GRID = "1e-1,10"
FULL_GRID = "1e-3..1e3"
_SHARES = (5, 10, 20)
Chosen = Literal["validation", "training"]


def owpc2009() -> Protocol:
    """The protocol of § 6 on whatever LETOR data there are."""
    metrics = ("map", "ndcg-letor@1", "ndcg-letor@3")
    return Protocol(
        name="owpc2009",
        sources=("owpc2009", "letor3", "letor2"),
        metrics=tuple(map(parse_metric, metrics)),
        methods=_methods,
        says=(
            "OWPC by LaRank; features as they are; C from 10⁻³ … 10³ by MAP on each fold's "
            "validation queries",
            "documents of any grade above 0 are relevant; the paper leaves OHSUMED out, whose "
            "grades are three: LETOR's own baselines stand beside it",
            "tied scores count their expected value, where LETOR's script takes file order",
        ),
    )


def inex2009() -> Protocol:
    """The five generators of the version with INEX, C chosen on the training queries."""
    return Protocol(
        name="inex2009",
        sources=("inex2009",),
        metrics=(parse_metric("map"),),
        methods=_inex_methods,
        says=(
            "C from 10⁻³ … 10³ by MAP on the training queries, for INEX has no validation queries",
            "INEX'09 itself (about 20 queries to train on, 69 to test, 15 features) is in no LETOR "
            "folder: what can be shown is the order of the five generators on other data",
            "1/log j has no first term: the logarithmic weights are 1/log(j + 1)",
        ),
        elsewhere=True,
    )


def generator_job(
    name: str, settings: Mapping[str, Any], extent: Extent, choose_on: Chosen = "validation"
) -> Training:
    """OWPC with one generator, C by MAP."""
    grid = {"optimizer.C": QUICK_GRID if extent.quick else FULL_GRID}
    own = {f"loss.{key}": value for key, value in settings.items()}
    return Training(f"OWPC {name}", "owpc", "larank", own, grid, choose_on=choose_on)


def _generators(extent: Extent) -> dict[str, dict[str, Any]]:
    """The weights of the paper, by the names of its tables."""
    shares = _SHARES[:1] if extent.quick else _SHARES
    return {
        "constant": {"generator": "constant"},
        "inverse": {"generator": "inverse"},
        **{f"top {p} %": {"generator": "top", "p": p} for p in shares},
        **{f"exponential {p} %": {"generator": "exponential", "p": p} for p in shares},
    }


def _methods(extent: Extent) -> Sequence[Method]:
    jobs = [generator_job(name, own, extent) for name, own in _generators(extent).items()]
    grid = {"optimizer.C": QUICK_GRID if extent.quick else FULL_GRID}
    rivals = {
        "RankSVM": Training("RankSVM", "pairwise", "larank", grid=grid),
        "SVMmap": Training("SVMmap", "average-precision", "larank", grid=grid),
    }
    return [
        *(Method(job.name, (job,), against="" if number == 0 else jobs[0].name)
          for number, job in enumerate(jobs)),
        Method("OWPC g_All", tuple(jobs), against=jobs[0].name),
        *(Method(name, (job,)) for name, job in rivals.items()),
    ]  # fmt: skip


def _inex_methods(extent: Extent) -> Sequence[Method]:
    weights: dict[str, dict[str, Any]] = {
        "constant": {"generator": "constant"},
        "top 10 %": {"generator": "top", "p": 10},
        "top 5 %": {"generator": "top", "p": 5},
        "logarithmic": {"generator": "logarithmic"},
        "inverse": {"generator": "inverse"},
    }
    jobs = [generator_job(name, own, extent, "training") for name, own in weights.items()]
    return [
        Method(job.name, (job,), against="" if number == 0 else jobs[0].name)
        for number, job in enumerate(jobs)
    ]
