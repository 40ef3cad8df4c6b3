"""The papers' protocols: the methods that each compares, as jobs, and the metrics.

Usunier, Buffoni & Gallinari (ICML 2009), § 6: OWPC by LaRank, with the paper's generators. C is
chosen from 10⁻³ … 10³ by MAP on each fold's validation queries; `g_All` chooses the generator so
as well. The authors' experiments on INEX have no validation queries: C is chosen on the training
queries.

Burges, "Ranking as Learning Structured Outputs": the paper has no experiment. Its only figures are
of an example, which is arithmetic. Its proposals are measured here on LETOR data: a λ-function for
each measure, with RankNet's pair force or the margin form (eqs 4–6), for a linear model and for the
two-layer network.

Pareek & Ravikumar (NIPS 2014), § 4: exchangeable reranking of base rankers. Base and weights are
learned on the training queries; the penalty is chosen by NDCG@10 on the validation queries, with
the base as it is always a candidate. The paper's sums over a list are raw; ours are divided by
m − 1, and both are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from owpc_ltr.metrics import Metric, RankedQueries, parse_metric
from owpc_ltr_papers.jobs import Job


@dataclass(frozen=True)
class Method:
    """A row of a table of ours: of its jobs, each fold takes the one that validation chooses.

    `published` is what the paper calls it, where that is another name. `against` is the method that
    it is compared with, query by query.
    """

    name: str
    jobs: tuple[Job, ...]
    published: str = ""
    against: str = ""

    @property
    def published_name(self) -> str:
        """The row of the paper that it stands beside."""
        return self.published or self.name


@dataclass(frozen=True)
class Fact:
    """A figure that needs no data set: its names in the paper, and the library's value."""

    data_set: str
    method: str
    metric: str
    value: float


@dataclass(frozen=True)
class Protocol:
    """What a paper did, on whatever data sets there are.

    `sources` are keys of the published figures, the paper's own first. `says` explains conventions
    and differences from the paper. `facts` are figures that need no data. `elsewhere`: the paper's
    data set is not part of LETOR, so that its rows have no figures of ours.
    """

    sources: tuple[str, ...]
    metrics: tuple[Metric, ...]
    methods: Callable[[bool], Sequence[Method]]
    says: tuple[str, ...]
    facts: Callable[[], Sequence[Fact]] = tuple
    elsewhere: bool = False


def parts_of(methods: Sequence[Method]) -> list[Job]:
    """Every job of these methods once, bases before what is built on them."""
    jobs: dict[str, Job] = {}

    def add(job: Job) -> None:
        if job.base is not None:
            add(job.base)
        if jobs.setdefault(job.name, job) != job:
            raise ValueError(f"two jobs are called '{job.name}'")

    for method in methods:
        for job in method.jobs:
            add(job)
    return list(jobs.values())


QUICK_GRID = "1e-1,10"
FULL_GRID = "1e-3..1e3"
_SHARES = (5, 10, 20)
Chosen = Literal["validation", "training"]


def owpc2009() -> Protocol:
    """The protocol of § 6 on whatever LETOR data there are."""
    metrics = ("map", "ndcg-letor@1", "ndcg-letor@3")
    return Protocol(
        sources=("owpc2009", "letor3", "letor2"),
        metrics=tuple(map(parse_metric, metrics)),
        methods=_owpc_methods,
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


def _grid(quick: bool) -> dict[str, str]:
    return {"optimizer.C": QUICK_GRID if quick else FULL_GRID}


def _by_generator(
    weights: Mapping[str, dict[str, Any]], quick: bool, choose_on: Chosen
) -> list[Method]:
    """OWPC with each generator, C by MAP; all are compared with the first."""
    jobs = [
        Job(
            f"OWPC {name}",
            "owpc",
            "larank",
            {f"loss.{key}": value for key, value in settings.items()},
            _grid(quick),
            choose_on=choose_on,
        )
        for name, settings in weights.items()
    ]
    return [
        Method(job.name, (job,), against="" if job is jobs[0] else jobs[0].name) for job in jobs
    ]


def _owpc_methods(quick: bool) -> Sequence[Method]:
    shares = _SHARES[:1] if quick else _SHARES
    weights: dict[str, dict[str, Any]] = {
        "constant": {"generator": "constant"},
        "inverse": {"generator": "inverse"},
        **{f"top {p} %": {"generator": "top", "p": p} for p in shares},
        **{f"exponential {p} %": {"generator": "exponential", "p": p} for p in shares},
    }
    methods = _by_generator(weights, quick, "validation")
    jobs = tuple(job for method in methods for job in method.jobs)
    rivals = {"RankSVM": "pairwise", "SVMmap": "average-precision"}
    return [
        *methods,
        Method("OWPC g_All", jobs, against=methods[0].name),
        *(
            Method(name, (Job(name, loss, "larank", grid=_grid(quick)),))
            for name, loss in rivals.items()
        ),
    ]


def _inex_methods(quick: bool) -> Sequence[Method]:
    weights: dict[str, dict[str, Any]] = {
        "constant": {"generator": "constant"},
        "top 10 %": {"generator": "top", "p": 10},
        "top 5 %": {"generator": "top", "p": 5},
        "logarithmic": {"generator": "logarithmic"},
        "inverse": {"generator": "inverse"},
    }
    return _by_generator(weights, quick, "training")


_LAMBDA_METRICS = (
    *("map", "ndcg-letor@1", "ndcg-letor@3", "ndcg-letor@10", "mrr", "winner-takes-all"),
)
_MEASURES = ("ndcg", "map", "mrr", "winner-takes-all", "pairwise-error")
_EXAMPLE_DOCUMENTS = 1000


def lambdarank() -> Protocol:
    """λ-functions of five measures, and the paper's example."""
    return Protocol(
        sources=("lambdarank", "letor3", "letor2"),
        metrics=tuple(map(parse_metric, _LAMBDA_METRICS)),
        methods=_lambda_methods,
        says=(
            "the paper reports no experiment: LETOR's own baselines stand beside",
            "batches of queries by Adam; C from .01, 1 and 100 by MAP on each fold's validation "
            "queries, where the best epoch is kept too",
            "tied scores count their expected value, where LETOR's script takes file order",
        ),
        facts=worked_example,
    )


def worked_example() -> Sequence[Fact]:
    """A thousand documents: the relevant ones move from ranks 1 and 1,000 to ranks 2 and 3."""
    before, after = _relevant_at(1, _EXAMPLE_DOCUMENTS), _relevant_at(2, 3)
    pairs = 2 * (_EXAMPLE_DOCUMENTS - 2)
    wrong = [_value("pairwise-error", queries) * pairs for queries in (before, after)]
    method = "two relevant documents move"
    values = {
        "pairs that become right": wrong[0] - wrong[1],
        # The paper's is the cost: 0 where the first document is relevant.
        "winner-takes-all cost before": 1 - _value("winner-takes-all", before),
        "winner-takes-all cost after": 1 - _value("winner-takes-all", after),
    }
    return [Fact("worked example", method, name, value) for name, value in values.items()]


def _relevant_at(*ranks: int) -> RankedQueries:
    labels = np.zeros(_EXAMPLE_DOCUMENTS, dtype=np.float32)
    labels[[rank - 1 for rank in ranks]] = 1
    scores = -np.arange(_EXAMPLE_DOCUMENTS, dtype=np.float64)
    return RankedQueries(scores, labels, np.array([0, _EXAMPLE_DOCUMENTS]))


def _value(metric: str, queries: RankedQueries) -> float:
    return float(parse_metric(metric).of(queries)[0])


def _lambda_methods(quick: bool) -> Sequence[Method]:
    measures = _MEASURES[:1] if quick else _MEASURES
    settings: dict[str, dict[str, Any]] = {
        **{f"λ of {name}": {"loss.measure": name} for name in measures},
        "λ of ndcg, margin force": {"loss.pair": "margin"},
        "λ of ndcg, two layers": {"optimizer.model": "network"},
    }
    grid = {"optimizer.C": "1" if quick else "0.01,1,100"}
    few = {"optimizer.epochs": 10} if quick else {}
    return [
        Method(name, (Job(name, "lambdarank", "gradient", model_settings | few, grid),))
        for name, model_settings in settings.items()
    ]


SELECT = "ndcg-letor@10"
_RERANKING_METRICS = (*(f"ndcg-letor@{k},ties=file-order" for k in (1, 2, 5, 10)), "ndcg-letor@10")
_LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "cross-entropy": ("bregman", {"loss.psi": "cross-entropy"}),
    "square": ("bregman", {"loss.psi": "square"}),
    "q-norm": ("bregman", {"loss.psi": "q-norm"}),
    "ListNet": ("listnet", {}),
    "cosine": ("cosine", {}),
}
_VARIANTS: dict[str, dict[str, Any]] = {
    "": {"reranker.kernel_sums": "raw"},
    ", mean sums": {"reranker.kernel_sums": "mean"},
}


def exchangeable2014() -> Protocol:
    """Bases of ours, each by itself and reranked."""
    return Protocol(
        sources=("exchangeable2014", "letor3", "letor2"),
        metrics=tuple(map(parse_metric, _RERANKING_METRICS)),
        methods=_reranking_methods,
        says=(
            "one kernel, the cosine of query-normalised features: the paper's others need "
            "documents' similarity, links and sitemap, which the feature files do not carry",
            "base scores are made positive as exp of their z-scores in each list, for the paper "
            "multiplies them and says nothing of negative ones",
            "bases of ours stand beside the paper's rows, whose bases are RankLib's 2.1-patched, "
            "trained without validation queries",
            "tied scores count in file order, as in LETOR's script; NDCG@10 stands a second time "
            "with ties at their expected value, by which settings are chosen here, for file order "
            "flatters scores that are tied",
        ),
    )


def _reranking_methods(quick: bool) -> Sequence[Method]:
    methods: list[Method] = []
    grid = {"reranker.penalty": "0,1e-1,10"} if quick else {}
    for base in _own_bases(quick):
        published = f"RankLib {base.name}"
        methods.append(Method(base.name, (base,), published))
        for loss_name in list(_LOSSES)[: 1 if quick else None]:
            loss, settings = _LOSSES[loss_name]
            for ending, variant in _VARIANTS.items():
                job = Job(
                    f"{base.name}, reranked by {loss_name}{ending}",
                    loss,
                    settings=settings | variant,
                    grid=grid,
                    select=SELECT,
                    base=base,
                )
                row = f"{published}, reranked by {loss_name}{ending}"
                methods.append(Method(job.name, (job,), row, against=base.name))
    return methods


def _own_bases(quick: bool) -> list[Job]:
    bases: dict[str, tuple[str, str, dict[str, Any]]] = {
        "RankBoost": ("owpc", "rankboost", {"optimizer.rounds": 30} if quick else {}),
        # The square of the distance to the gains is what the trees of MART descend.
        "MART": (
            "bregman",
            "boosting",
            {
                "optimizer.trees": 30 if quick else 1000,
                "optimizer.depth": 4,
                "optimizer.patience": 10 if quick else 100,
                "loss.psi": "square",
            },
        ),
        "coordinate ascent": (
            "owpc",
            "coordinate-ascent",
            {"optimizer.restarts": 1} if quick else {},
        ),
        "AdaRank": ("owpc", "adarank", {}),
    }
    return [
        Job(name, loss, optimizer, settings, select=SELECT, is_base=True)
        for name, (loss, optimizer, settings) in bases.items()
    ]
