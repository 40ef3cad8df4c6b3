"""`owpc-ltr bounds`: the papers' risk bounds of a model, and which of them are vacuous.

The bounds are for linear rankers, of one model and one sample, in log space. Each says: with
probability 1 − δ over samples of n queries, the true risk is at most empirical risk + complexity.
A bound above the largest possible risk is vacuous; `queries_needed` is the number of queries from
which it would not be, all else equal.

B is the norm of the model's weights and M the largest norm of a document's features, measured on
the sample: strictly the theorems want both fixed beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.options import MaxFeatureNumber
from owpc_ltr.errors import BadInput, UsageError, give_warnings
from owpc_ltr.host.commands import Plugins
from owpc_ltr.host.report_parts import ReportSection
from owpc_ltr.kernels.kernel import bind, linear_scores, losses_of_scores
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Loss, Model
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Reads, job


@dataclass(frozen=True)
class RiskBounds(BlockResult):
    """Bounds that hold with probability 1 − `delta`, on a sample of so many `queries`.

    `trained_here` is whether the model was trained on exactly these queries; None where it does not
    know.
    """

    bounds: tuple[Bound, ...]
    delta: float
    queries: int
    trained_here: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """The bounds as JSON."""
        return {**vars(self), "bounds": [bound.as_dict() for bound in self.bounds]}

    def _blocks(self) -> Iterator[Block]:
        """A table, and what it holds for."""
        headers = ["BOUND", "OF", "EMPIRICAL", "BOUND SAYS", "AT MOST", "VERDICT"]
        rows = [
            (
                bound.name,
                bound.about,
                *map(_power, (bound.log_empirical, bound.log_value, bound.log_largest_risk)),
                _verdict(bound),
            )
            for bound in self.bounds
        ]
        whose = "it was trained on" if self.trained_here else "drawn as these are"
        yield from (Table(headers, rows), "")
        yield f"with probability {1 - self.delta:g}, {self.queries} queries, for queries {whose}"


@job
def bounds(
    model: Annotated[
        Model | Path | str, Reads("A linear model.", cli=Path, absent=NO_MODEL), Argument.RANKER
    ],
    data: Annotated[
        RankingDataset | Path | str,
        Reads("The queries that it was trained on.", cli=Path, flag="--data"),
        Argument.DATA,
    ],
    *,
    delta: Annotated[float, Help("The bounds hold with probability 1 − DELTA.")] = 0.05,
    generator: Annotated[
        str | None,
        Help("The OWPC weights of the ranking error; default: the model's own.", metavar="NAME"),
    ] = None,
    max_feature_number: MaxFeatureNumber = None,
    plugins: Plugins = (),
) -> RiskBounds:
    """Evaluate the papers' risk bounds for a linear model.

    A bound above the largest possible risk is reported as vacuous. For queries that the model was
    not trained on, the bounds hold for queries drawn as these are; a warning says so.

    Usunier, Buffoni & Gallinari (2009), Theorem 4; Riezler & De Bona (2009), Theorems 3 and 4 and
    Corollaries 1 to 3.
    """
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.evaluation.judged_data import model_data
    from owpc_ltr.host.registry import load
    from owpc_ltr.host.settings import configure
    from owpc_ltr.models.combined import load_model

    registry = load(map(Path, plugins))
    ranker: Any = load_model(Path(model)) if isinstance(model, Path | str) else model
    if isinstance(data, Path | str):
        data = read_dataset(data, max_feature_number=max_feature_number)
    settings = {"generator": generator} if generator else _own_settings(ranker.record)
    losses = {"owpc": settings, "position-sensitive": {}, "average-precision": {}}
    configured = [configure(registry.find("loss", name), losses[name]) for name in losses]
    sample = model_data(ranker, data, "all")[0]
    evaluated = all_bounds(ranker, sample.without_missing(), *configured, delta=delta)
    on_these, warnings = trained_here(ranker.record, sample)
    give_warnings(warnings)
    return RiskBounds(tuple(evaluated), delta, sample.n_queries, on_these)


def _own_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the loss that the model was trained with, where that is OWPC."""
    loss = record.get("loss")
    if isinstance(loss, dict) and loss.get("name") == "owpc":
        return {key: loss["settings"][key] for key in ("generator", "p")}
    return {}


def _power(log: float) -> str:
    return f"{math.exp(log):.4g}" if log < 30 else f"10^{log / math.log(10):.1f}"


def report_sections(risk: RiskBounds) -> list[ReportSection]:
    """What a report says of bounds."""
    rows = [
        (
            bound.name,
            bound.about,
            _power(bound.log_value),
            "no: no ranking has a larger risk" if bound.vacuous else "yes",
            _rounded_queries(bound.queries_needed) if bound.vacuous else "–",
        )
        for bound in risk.bounds
    ]
    caption = f"Theoretical bounds of the risk on other queries, at {100 * (1 - risk.delta):g} %"
    headers = ["bound", "of", "risk at most", "informative", "queries until it is"]
    lead = "What theory says of other queries, from the risk on the queries of the training."
    title = "What do theoretical bounds say?"
    return [ReportSection("bounds", "Bounds", title, lead, [Table(headers, rows, caption)])]


def _rounded_queries(queries: float) -> str:
    return _power(math.log(queries)) if math.isfinite(queries) else "no number"


def _verdict(bound: Bound) -> str:
    if not bound.vacuous:
        return "holds, and is not vacuous"
    if math.isinf(bound.queries_needed):
        return "vacuous, for any number of queries"
    return f"vacuous below {bound.queries_needed:.3g} queries"


_MARGINS = 30
_LOG_MOST = 690.0


@dataclass(frozen=True)
class Bound:
    """One bound; logarithms are natural. `largest_risk` is what no ranking exceeds."""

    name: str
    about: str
    log_empirical: float
    log_complexity: float
    log_largest_risk: float
    queries_needed: float
    margin: float | None = None

    @property
    def log_value(self) -> float:
        """ln(empirical risk + complexity)."""
        return float(np.logaddexp(self.log_empirical, self.log_complexity))

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the largest risk there is."""
        return self.log_value >= self.log_largest_risk

    def as_dict(self) -> dict[str, Any]:
        """The bound as JSON."""
        return {**asdict(self), "log_value": self.log_value, "vacuous": self.vacuous}


@dataclass(frozen=True)
class Sizes:
    """What the bounds need of a sample and a model.

    `norm` is B, `radius` is M; `log_pairs`, `log_graded_pairs`, `log_binary_pairs`,
    `log_permutations` and `log_relevance_orders` are logarithms of the largest count in a query.
    """

    queries: int
    features: int
    norm: float
    radius: float
    longest: int
    grades: int
    log_pairs: float
    log_graded_pairs: float
    log_binary_pairs: float
    log_permutations: float
    log_relevance_orders: float


def sizes_of(model: LinearModel, data: RankingDataset) -> Sizes:
    """Measure a sample. Raises BadInput where no query has an order."""
    from scipy.special import gammaln

    weights, _ = model.folded()
    lengths = np.diff(data.offsets)
    relevant = np.add.reduceat((data.labels > 0).astype(np.int64), data.offsets[:-1])
    graded, grades = _graded_pairs(data)
    if not graded.any():
        raise BadInput("no query has two documents with different labels: there is no risk")
    squares = np.einsum("ij,ij->i", data.features, data.features, dtype=np.float64)
    orders = gammaln(lengths + 1) - gammaln(relevant + 1) - gammaln(lengths - relevant + 1)
    longest = int(lengths.max())
    with np.errstate(divide="ignore"):
        return Sizes(
            queries=data.n_queries,
            features=data.n_features,
            norm=float(np.linalg.norm(weights)),
            radius=float(np.sqrt(squares.max())),
            longest=longest,
            grades=grades,
            log_pairs=float(np.log(longest * (longest - 1) / 2)),
            log_graded_pairs=float(np.log(graded.max())),
            log_binary_pairs=float(np.log((relevant * (lengths - relevant)).max())),
            log_permutations=float(gammaln(longest + 1)),
            log_relevance_orders=float(orders.max()),
        )


def rademacher_complexity(
    log_count: float, K: float, sizes: Sizes, delta: float, n: float
) -> float:
    """The logarithm of P · 4BM/√n + P · K · √(8 ln(2/δ)/n), with P = exp(log_count).

    Riezler & De Bona (2009), Theorems 3, 4 and Corollaries 1–3.
    """
    width = 4 * sizes.norm * sizes.radius + K * np.sqrt(8 * np.log(2 / delta))
    return float(log_count + np.log(width) - 0.5 * np.log(n))


def covering_complexity(margin: float, sizes: Sizes, delta: float, n: float) -> float:
    """The logarithm of √( ln(N(γ/2)/δ) / (2n) ) (Usunier, Buffoni & Gallinari 2009, Theorem 4).

    N ≤ (1 + 2R/ε)^d balls of radius ε cover a ball of radius R in d dimensions (Vershynin 2018,
    Corollary 4.2.13); here R = B · 2M, as functions are of differences of two documents.
    """
    reach = 2 * sizes.norm * sizes.radius
    log_cover = sizes.features * np.log1p(2 * reach / (margin / 2))
    return float(0.5 * np.log((log_cover + np.log(1 / delta)) / (2 * n)))


def margin_bound(model: LinearModel, data: RankingDataset, owpc: Loss, delta: float) -> Bound:
    """Theorem 4 of the OWPC paper, at the best of a grid of margins γ.

    `owpc` gives the weights of the ranking error. The margins of the grid share the probability δ.
    """
    sizes = sizes_of(model, data)
    scores = linear_scores(data.without_missing().features, model.folded()[0])
    spread = float(np.ptp(scores)) or 1.0
    margins = spread * np.logspace(-4, 1, _MARGINS)
    share = delta / len(margins)
    empirical = margin_errors(scores, data, margins, owpc)
    complexities = np.array(
        [covering_complexity(margin, sizes, share, sizes.queries) for margin in margins]
    )
    best = int(np.argmin(empirical + np.exp(complexities)))

    # With more queries another margin would be the best one.
    needed = min(
        _queries_needed(covering_complexity(margin, sizes, share, 1.0), _log(risk), 0.0)
        for margin, risk in zip(margins.tolist(), empirical.tolist(), strict=True)
    )
    return Bound(
        "OWPC Theorem 4",
        "ranking error of a relevant document, from 0 to 1",
        _log(float(empirical[best])),
        float(complexities[best]),
        log_largest_risk=0.0,
        queries_needed=needed,
        margin=float(margins[best]),
    )


def margin_errors(scores: Vector, data: RankingDataset, margins: Vector, owpc: Loss) -> Vector:
    """Mean over queries of the mean over relevant i of owa_j [s_i − s_j ≤ γ], for each γ.

    The indicators sorted in decreasing order are ones, then zeros: their OWA is the sum of as
    many first weights as irrelevant documents are within the margin.
    """
    totals = np.zeros(len(margins))
    counted = 0
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        labels, s = data.labels[start:end], scores[start:end]
        relevant, irrelevant = s[labels > 0], np.sort(s[labels <= 0])
        if not len(relevant) or not len(irrelevant):
            continue
        cumulated = np.concatenate(([0.0], np.cumsum(owa_weights(owpc, len(irrelevant)))))
        reach = relevant[:, None] - margins[None, :]
        within = len(irrelevant) - np.searchsorted(irrelevant, reach, side="left")
        totals += cumulated[within].mean(axis=0)
        counted += 1
    return totals / max(counted, 1)


def owa_weights(owpc: Loss, n: int) -> Vector:
    """The weights α_1 … α_n of an OWPC loss with the hinge: its slopes at its worst."""
    scores = np.concatenate(([0.0], np.linspace(2.0, 1.0, n)))
    labels = np.zeros(n + 1, dtype=np.float32)
    labels[0] = 1.0
    _, gradient = owpc.value_and_gradient(scores, labels, np.ones_like(labels))
    return gradient[1:]


def rademacher_bounds(
    model: LinearModel, data: RankingDataset, pairwise: Loss, listwise: Loss, delta: float
) -> list[Bound]:
    """Theorems 3, 4 and Corollaries 1–3 of Riezler & De Bona.

    `pairwise` is their Definition 1, the `position-sensitive` loss; `listwise` the maximum over
    permutations of Definition 3, the `average-precision` loss, of which the sum over P
    permutations is at most P-fold: so it is bounded here.
    """
    sizes = sizes_of(model, data)
    scores = model.score(data.features)
    pair_risk, list_risk = (
        _log(float(losses_of_scores(data, bind(loss), scores)[0].mean()))
        for loss in (pairwise, listwise)
    )
    reach = 2 * sizes.norm * sizes.radius
    grades = "misordered pairs of different grades"
    cases = (
        ("Theorem 3", "misordered pairs of a query", sizes.log_pairs, sizes.longest - 1, True),
        ("Corollary 1", grades, sizes.log_graded_pairs, sizes.grades - 1, True),
        ("Corollary 2", "misordered pairs, two grades", sizes.log_binary_pairs, 1, True),
        ("Theorem 4", "1 − AP", sizes.log_permutations, 1, False),
        ("Corollary 3", "1 − AP, by relevance", sizes.log_relevance_orders, 1, False),
    )
    bounds = []
    for theorem, about, log_count, k, of_pairs in cases:
        if not np.isfinite(log_count):
            continue
        empirical, largest = (pair_risk, log_count) if of_pairs else (list_risk + log_count, 0.0)
        at_one, at_all = (
            rademacher_complexity(log_count, k + reach, sizes, delta, n) for n in (1, sizes.queries)
        )
        needed = _queries_needed(at_one, empirical, largest)
        name = f"Riezler & De Bona {theorem}"
        bounds.append(Bound(name, about, empirical, at_all, largest, queries_needed=needed))
    return bounds


def all_bounds(
    model: object,
    data: RankingDataset,
    owpc: Loss,
    pairwise: Loss,
    listwise: Loss,
    *,
    delta: float = 0.05,
) -> list[Bound]:
    """Every bound for this model and sample. UsageError for a model that is not linear."""
    if not 0 < delta < 1:
        raise UsageError(f"delta is a probability between 0 and 1, not {delta}")
    if not isinstance(model, LinearModel):
        raise UsageError("the bounds are for linear models: this one is of another kind")
    return [
        margin_bound(model, data, owpc, delta),
        *rademacher_bounds(model, data, pairwise, listwise, delta),
    ]


def _queries_needed(log_complexity: float, log_empirical: float, log_largest: float) -> float:
    """The smallest n for which the bound says something; infinite if none does.

    `log_complexity` is that of one query.
    """
    difference = log_largest - log_empirical
    if difference <= 0:
        return float("inf")
    log_room = log_largest + np.log(-np.expm1(-difference))
    # Every complexity here falls as 1/√n.
    log_n = 2 * (log_complexity - log_room)
    return float(np.ceil(np.exp(max(log_n, 0.0)))) if log_n < _LOG_MOST else float("inf")


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else -np.inf


def _graded_pairs(data: RankingDataset) -> tuple[Vector, int]:
    """Pairs of different grades in each query, and the largest number of grades in one."""
    pairs = np.zeros(data.n_queries)
    most = 0
    for query, (start, end) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        _, counts = np.unique(data.labels[start:end], return_counts=True)
        pairs[query] = (counts.sum() ** 2 - (counts**2).sum()) / 2
        most = max(most, len(counts))
    return pairs, most


def trained_here(record: Mapping[str, Any], data: RankingDataset) -> tuple[bool | None, list[str]]:
    """Whether a model was trained on exactly these queries (None: unknown), and warnings.

    A bound on the risk holds for queries drawn as those from which it was computed.
    """
    trained = record.get("fingerprint")
    if trained is None:
        return None, [
            "the model does not say which queries it was trained on: the bounds hold for queries "
            f"drawn as these {data.n_queries} are, and of others they say nothing"
        ]
    if trained == data.fingerprint:
        return True, []
    count, source = record.get("queries"), record.get("source") or {}
    if source.get("split") is not None and source.get("fingerprint") == data.fingerprint:
        return False, [
            f"the model was trained on {count} of these {data.n_queries} queries, the others "
            "chose its settings or were kept out: the bounds are of all of them"
        ]
    return False, [
        f"the model was trained on other data ({count} queries) than this: the bounds hold for "
        f"queries drawn as these {data.n_queries} are, and say nothing of those it was trained on"
    ]
