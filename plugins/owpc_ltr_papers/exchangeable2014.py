"""Pareek & Ravikumar (NIPS 2014), § 4: exchangeable reranking of base rankers.

Base and weights are learned on the training queries; the penalty is chosen by NDCG@10 on the
validation queries, with the base as it is always a candidate. The paper's sums over a list are
raw; ours are divided by m − 1, and both are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from owpc_ltr.metrics import parse_metric
from owpc_ltr_papers.jobs import Job, Training
from owpc_ltr_papers.protocol import Extent, Method, Protocol
from owpc_ltr_papers.ranklib_jobs import RankLibTraining
from owpc_ltr_papers.rerankings import Reranking

SELECT = "ndcg-letor@10"
_METRICS = (*(f"ndcg-letor@{k},ties=file-order" for k in (1, 2, 5, 10)), "ndcg-letor@10")
_LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "cross-entropy": ("bregman", {"loss.psi": "cross-entropy"}),
    "square": ("bregman", {"loss.psi": "square"}),
    "q-norm": ("bregman", {"loss.psi": "q-norm"}),
    "ListNet": ("listnet", {}),
    "cosine": ("cosine", {}),
}
_NEVER_NEGATIVE = "RankLib RankBoost"
_LIFT = 1e-9  # a score of 0 stays at the bottom, and has a logarithm
_OF_RANKLIB = ("RankBoost", "MART", "coordinate ascent", "AdaRank")


def exchangeable2014() -> Protocol:
    """Bases of ours, and RankLib's where asked for, each by itself and reranked."""
    return Protocol(
        name="exchangeable2014",
        sources=("exchangeable2014", "letor3", "letor2"),
        metrics=tuple(map(parse_metric, _METRICS)),
        methods=_methods,
        says=(
            "one kernel, the cosine of query-normalised features: the paper's others need "
            "documents' similarity, links and sitemap, which the feature files do not carry",
            "base scores are made positive as exp of their z-scores in each list, for the paper "
            "multiplies them and says nothing of negative ones; 'scores as they are' multiplies "
            "those of a base that has none",
            "bases of ours stand beside the paper's rows, whose bases are RankLib's 2.1-patched, "
            "trained without validation queries; --with-ranklib runs RankLib's own learners too",
            "tied scores count in file order, as in LETOR's script; NDCG@10 stands a second time "
            "with ties at their expected value, by which settings are chosen here, for file order "
            "flatters scores that are tied",
        ),
        uses_ranklib=True,
    )


def _methods(extent: Extent) -> Sequence[Method]:
    methods: list[Method] = []
    for base in (*_own_bases(extent), *(_ranklib_bases(extent) if extent.with_ranklib else ())):
        published = base.name if base.name.startswith("RankLib ") else f"RankLib {base.name}"
        methods.append(Method(base.name, (base,), published))
        for name in list(_LOSSES)[: 1 if extent.quick else None]:
            loss, settings = _LOSSES[name]
            for sums, told in (("raw", ""), ("mean", ", mean sums")):
                job = _reranking(f"reranked by {name}{told}", base, loss, settings, sums, extent)
                row = f"{published}, reranked by {name}{told}"
                methods.append(Method(job.name, (job,), row, against=base.name))
            if base.name == _NEVER_NEGATIVE:
                methods.append(_as_is(base, name, extent))
    return methods


def _as_is(base: Job, name: str, extent: Extent) -> Method:
    """Equation 14 to the letter, b being the score itself: for a base that is never negative."""
    loss, settings = _LOSSES[name]
    own = {**settings, "reranker.positive": "as-is"}
    job = _reranking(f"reranked by {name}, scores as they are", base, loss, own, "raw", extent)
    job = replace(job, lift=_LIFT)
    return Method(job.name, (job,), f"{base.name}, reranked by {name}", against=base.name)


def _reranking(
    name: str, base: Job, loss: str, settings: dict[str, Any], sums: str, extent: Extent
) -> Reranking:
    own = {**settings, "reranker.kernel_sums": sums}
    grid = {"reranker.penalty": "0,1e-1,10"} if extent.quick else {}
    return Reranking(f"{base.name}, {name}", base, loss, own, grid, SELECT)


def _own_bases(extent: Extent) -> list[Job]:
    quick = extent.quick

    def base(
        name: str,
        optimizer: str,
        settings: dict[str, Any],
        loss: str = "owpc",
        of_loss: dict[str, Any] | None = None,
    ) -> Training:
        own = {f"optimizer.{key}": value for key, value in settings.items()} | (of_loss or {})
        return Training(name, loss, optimizer, own, select=SELECT, is_base=True)

    trees = {"trees": 30 if quick else 1000, "depth": 4, "patience": 10 if quick else 100}
    return [
        base("RankBoost", "rankboost", {"rounds": 30} if quick else {}),
        # The square of the distance to the gains is what the trees of MART descend.
        base("MART", "boosting", trees, "bregman", {"loss.psi": "square"}),
        base("coordinate ascent", "coordinate-ascent", {"restarts": 1} if quick else {}),
        base("AdaRank", "adarank", {}),
    ]


def _ranklib_bases(extent: Extent) -> list[Job]:
    few = {"RankBoost": {"round": "20"}, "MART": {"tree": "20"}} if extent.quick else {}
    rankers = _OF_RANKLIB[:2] if extent.quick else _OF_RANKLIB
    jobs: list[Job] = [
        RankLibTraining(f"RankLib {ranker}", ranker, options=few.get(ranker, {}))
        for ranker in rankers
    ]
    if not extent.quick:
        name = "RankLib RankBoost, stopped by validation"
        jobs.insert(1, RankLibTraining(name, "RankBoost", stopped=True))
    return jobs
