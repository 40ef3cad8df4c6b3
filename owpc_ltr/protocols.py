"""What a plugin can be: a loss, an optimizer, a reranker, what reads, exports, or learns of clicks.

Metrics extend a class of `owpc_ltr.metrics` instead, for what they share.

A plugin object is a frozen dataclass whose fields are its settings, each with a default. What
it learns is another object (a `Fit`, a `Reordering`). The command line and its help are made
from those fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Labels, Matrix, Vector
from owpc_ltr.files.output import finite_json
from owpc_ltr.signatures import silent
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from pathlib import Path

    from owpc_ltr.data.click_counts import ClickCounts, ClickLists
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import JudgmentLines, Judgments
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.features.feature_set import FeatureSet


class Loss(Protocol):
    """A price on the scores of one query's documents; lower is better.

    `convex`, `conservative` (the gradient is the gradient of the value) and `smooth` (it is
    continuous) are claims, which `owpc_ltr.plugin_checks.check_loss` verifies. They may be
    properties of the settings. A loss that tells two grades apart by default, and more by a
    setting, may have a mapping `for_grades` of such settings: training takes them for metrics with
    a use for grades. `from_metric` may name settings that are also options of metrics: where they
    are not set, training takes them from the metric that chooses. `check_labels(highest)` may raise
    Refused where the loss does not take the highest label.
    """

    name: ClassVar[str]

    @property
    def convex(self) -> bool:
        """Whether the value is a convex function of the scores."""

    @property
    def conservative(self) -> bool:
        """Whether the gradient is the (sub)gradient of the value."""

    @property
    def smooth(self) -> bool:
        """Whether the gradient is continuous."""

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        """Value and (sub)gradient in the scores; all arrays have one entry a document.

        A document of weight k counts as k copies of it where the loss allows that reading. A
        query on which the loss is undefined (no relevant document, say) has value 0, gradient 0.
        """


class RankingModel(Protocol):
    """What ranks documents by their features and is kept in a file: a model, or a reordering."""

    kind: ClassVar[str]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that it expects, in order."""

    @property
    def record(self) -> dict[str, Any]:
        """What the model was learned from and how: JSON, shown by reports and kept in the file."""

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""

    def save(self, path: Path | str) -> None:
        """Write the model and its record as one JSON file, whole or not at all."""


class Model(RankingModel, Protocol):
    """A ranker that scores each document by its own features alone."""

    def score(self, features: Matrix) -> Vector:
        """One float64 score a row; a missing feature (NaN) is filled as the engine fills it."""


@dataclass(frozen=True, repr=False)
class Certificate(ShortRepr):
    """How near to the optimum a fit is, and why it stopped.

    `gap` is primal minus dual objective, `relative_gap` the gap divided by what training gained
    over the model that scores everything zero (see `relative_gap`). `risk` and `risk_at_zero` are
    the summed losses (without regularisation) of the fit and of that model. NaN where an optimizer
    has no bound.
    """

    objective: float
    gap: float = float("nan")
    relative_gap: float = float("nan")
    passes: int = 0
    nonzero_duals: int = 0
    risk: float = float("nan")
    risk_at_zero: float = float("nan")
    stop_reason: str = ""

    @property
    def risk_ratio(self) -> float:
        """The risk divided by that of scoring everything zero; NaN where that one is 0."""
        return self.risk / self.risk_at_zero if self.risk_at_zero else float("nan")

    @property
    def collapsed(self) -> bool:
        """Whether the optimum is as good as scoring everything zero (risk ratio above .99)."""
        return self.risk > 0.99 * self.risk_at_zero

    def as_dict(self) -> dict[str, Any]:
        """The certificate as JSON; a quantity without a bound is null."""
        content: dict[str, Any] = finite_json({**asdict(self), "risk_ratio": self.risk_ratio})
        return content


def relative_gap(gap: float, gain: float) -> float:
    """The gap divided by the gain; NaN where nothing was gained.

    A gap there is 0 or rounding, and neither says anything relative to a gain of 0.

    >>> relative_gap(0.5, 100.0), relative_gap(0.0, 0.0), relative_gap(1e-12, 0.0)
    (0.005, nan, nan)
    """
    return gap / gain if gain > 0 else float("nan")


@dataclass(frozen=True, repr=False)
class Fit(ShortRepr):
    """What an optimizer found: a model, how it got there, and how near the optimum it is.

    `history` has one row a pass. `state` is the optimizer's own, for a warm start. `after` gives
    the model after so many passes of `history`, where an optimizer that stops early can tell.
    """

    model: Model
    certificate: Certificate
    history: tuple[dict[str, float], ...] = ()
    state: object = None
    after: Callable[[int], Model] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Run:
    """What every fit is given besides its loss and data.

    `seed` makes it repeatable bit for bit, whatever `threads` is. `validation` and `metric` (a
    `Metric`, or a text that `owpc_ltr.metrics` parses) serve optimizers that stop early or that
    maximise a metric; the queries are in memory unless the optimizer goes through parts.
    `progress(message, share done or None)` may be called at any time.
    """

    seed: int = 0
    threads: int = 1
    validation: JudgedTable | None = None
    metric: Any = "map"
    progress: Callable[[str, float | None], None] = field(default=silent, repr=False)

    def random(self) -> np.random.Generator:
        """A fresh random generator, the same for the same seed."""
        return np.random.default_rng(self.seed)


class Optimizer(Protocol):
    """Finds a model with a small loss on a dataset."""

    name: ClassVar[str]
    needs_convex: ClassVar[bool]
    uses_loss: ClassVar[bool]
    """False where the method has an objective of its own (AdaRank, coordinate ascent)."""

    def minimise(self, loss: Loss, data: RankingDataset, run: Run, start: Fit | None = None) -> Fit:
        """Fit to all queries of `data`; `start` is a fit of neighbouring settings to warm from.

        Features are read as they are, times `data.feature_scales` where that is given; the
        model is for the features as they are.
        """


@runtime_checkable
class StreamingOptimizer(Optimizer, Protocol):
    """An optimizer that also fits to data in a folder, of which few parts are in memory."""

    def streams(self, loss: Loss) -> bool:
        """Whether it can with this loss and its own settings; if not, data are loaded for it."""

    def minimise(self, loss: Loss, data: JudgedTable, run: Run, start: Fit | None = None) -> Fit:
        """Fit to all queries of `data`; `data.each` goes through the parts, in order."""


class Reordering(Protocol):
    """A learned function from the whole list of a query to new scores of its documents."""

    kind: ClassVar[str]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that `rerank` expects, in order."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that `rerank` needs besides the features; mostly none."""

    def rerank(
        self,
        features: Matrix,
        base_scores: Vector,
        offsets: NDArray[np.int64] | None = None,
        fields: Fields | None = None,
    ) -> Vector:
        """Scores of all documents; permuting the documents of a query permutes their scores.

        `offsets` cuts the rows into queries, as in a dataset; without, they are one query.
        """

    def as_dict(self) -> dict[str, Any]:
        """The learned parameters as JSON."""


@dataclass(frozen=True, eq=False, repr=False)
class ListTerm(ShortRepr):
    """One of the terms by which a list changed its documents' scores, and what it added to each.

    `amounts` (n_documents) are in the units of the scores. `logarithms` (n_documents) are the term
    as it was learned, where it is a factor's. `by_document` (n_documents, n_documents) says what
    each document (column) added to the amount of each (row), where that is known.
    """

    name: str
    amounts: Vector
    logarithms: Vector | None = None
    by_document: Vector | None = None


@runtime_checkable
class ExplainingReordering(Reordering, Protocol):
    """A reordering that also says what the list did to each score: `explain` may be offered."""

    def explain(
        self, features: Matrix, base_scores: Vector, fields: Fields | None = None
    ) -> Sequence[ListTerm]:
        """The terms of one list: with the base scores their amounts add up to `rerank`'s scores."""


class RerankObjective(Protocol):
    """What a reranker descends: the price of its weights on the lists that it is fitted to."""

    @property
    def size(self) -> int:
        """How many weights there are."""

    def value_and_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """Price and (sub)gradient of `weights`, both finite where these are small."""

    def reordering(self, weights: Vector) -> Reordering:
        """What `weights` stand for; weights of zero give the base scores, to the last bit."""


class Reranker(Protocol):
    """Learns a `Reordering` on top of a base ranker's scores."""

    name: ClassVar[str]
    has_objective: ClassVar[bool]
    """Whether it is a `DescendingReranker`, whose gradient and zero weights can be checked."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that `fit` needs besides the features; mostly none."""

    def fit(self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run) -> Reordering:
        """Fit to all queries of `data`; `base_scores` has one entry a document."""

    def load(self, content: dict[str, Any]) -> Reordering:
        """The reordering whose `as_dict` gave `content`."""


class DescendingReranker(Reranker, Protocol):
    """A reranker whose `fit` descends an objective, and gives the reordering of where it ends."""

    def objective(
        self, loss: Loss, data: RankingDataset, base_scores: Vector, run: Run
    ) -> RerankObjective:
        """The objective that `fit` descends first, from weights of zero or elsewhere."""


class JudgmentReader(Protocol):
    """Reads judgment lists of one format; `name` is the format's.

    `owpc_ltr.plugin_checks.check_judgment_reader` verifies what a reader promises. One whose format
    has no query ids, so that the texts are the ids, says so by `ids_are_texts = True`.
    """

    name: ClassVar[str]

    @property
    def precedence(self) -> int:
        """When the reader is asked, lowest first: 0 for a format that none other can look like.

        Of the shipped ones, parquet has 0, srw 20, quepid 21, jsonl 30, ranklib 40, qrels 50,
        tsv 90 and csv 100: it takes what is left, so that readers above it are never asked.
        """

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file that begins with `head`, unpacked, is of this format.

        `head` has at least the first 50 lines, whole, or all of a short file, or 1 MiB. The
        first reader that says yes reads the file; two of one precedence that do are refused.
        """

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        """One entry a judgment, in the order of the file; `topics` has texts by query id.

        The file may be packed (gzip, xz, zstandard): `owpc_ltr.files.input` unpacks. Grades, ids
        and repeated judgments are checked by the host. Raises BadInput naming file, line and
        value for all else that cannot be right, and for a file that has no judgment.

        A reader of tables may take `columns` too: by role, as `doc_id`, the column that the user
        names.
        """

    def example(self) -> bytes:
        """A short file of the format, which no other installed reader is to take for its own.

        The queries are called q1, q2 or q3 where the format does not have their texts.
        """


@runtime_checkable
class JudgmentWriter(JudgmentReader, Protocol):
    """A judgment reader whose format `judge convert` can write too."""

    def to_bytes(self, judgments: Judgments) -> bytes:
        """A file that `read` takes for the same judgments, as far as the format can hold them.

        What it cannot hold (ids, parameters, weights) is told by the host, which reads the file
        again. Raises BadInput where documents or grades would be others, or queries be merged.
        """


class ExportTarget(Protocol):
    """An engine that takes models as a file of its own; `name` is what `export()` calls it."""

    name: ClassVar[str]
    versions: ClassVar[tuple[str, ...]]
    """The first version of each behaviour that is told apart, oldest first.

    A later version is taken to do as the last.
    """

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """The file that makes the model there, under this name, scored as here.

        The same arguments give the same text. `featureset` has the model's features, in its
        order; without it nothing is known of them but their names. Raises Refused where the
        engine cannot score the model so, UsageError for a name or a version that the engine has
        not, or where the feature set's queries are needed.
        """

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """What the engine would score by the file's text alone, one number a row of `features`.

        `features` has one column a name, in the feature set's order (some files have only
        numbers), NaN where a feature is missing. The scores are the model's up to a constant (or
        their log-odds, where the file says so).
        Raises BadInput for a text that the engine would not take.
        """


@dataclass(frozen=True, repr=False)
class ExportedFile(ShortRepr):
    """A model as a version of an engine takes it: the file's text, its type, how to send it.

    `version` is written as the engine's own, without what does not count (`3.8` for
    `3.8-SNAPSHOT`). `log_odds`: the model scores probabilities, and the engine their log-odds,
    which order the same. `notes` are what one should know before it is sent, a line each. `target`
    is the name of the export target, which `export_model` fills in.
    """

    text: str
    type: str
    request: str
    version: str
    log_odds: bool = False
    notes: tuple[str, ...] = ()
    target: str = ""

    def as_dict(self) -> dict[str, Any]:
        """What the file is, and how to send it, as JSON."""
        content = {"for": self._engine, "type": self.type, "request": self.request}
        return content | ({"notes": list(self.notes)} if self.notes else {})

    def __str__(self) -> str:
        first = f"{self.type} for {self._engine}; send it by {self.request}"
        return "\n".join([first, *(f"- {note}" for note in self.notes)])

    @property
    def _engine(self) -> str:
        return f"{self.target} {self.version}".strip()


class ClickModel(Protocol):
    """Tells from clicks how attractive each document is for each query.

    `owpc_ltr.plugin_checks.check_click_model` verifies what a click model promises.
    """

    name: ClassVar[str]

    def fit(self, counts: ClickCounts) -> ClickFit:
        """What the counts say of every pair; the same counts give the same bits.

        A pair that was never shown has the prior's mean, and no trials.
        """


@dataclass(frozen=True, eq=False, repr=False)
class ClickFit(ShortRepr):
    """What a click model found: how attractive each pair is, how sure that is, how far users look.

    The chance that a user who looks at a document is drawn to it is, of pair i, distributed as
    Beta(`prior[0]` + successes, `prior[1]` + failures): `attractiveness[i]` is its mean, and
    `trials[i]` successes and failures together, the impressions that tell something of it.
    `examination[r]` is the chance that a user looks at rank r + 1, relative to the greatest one.
    `notes` say what to doubt, a line each. Where a model compares clicks between ranks and the log
    does not allow it, as no document changes its rank, `identified` is False.
    """

    attractiveness: Vector
    trials: Vector
    examination: Vector
    prior: tuple[float, float]
    notes: tuple[str, ...] = ()
    identified: bool = True

    @property
    def deviation(self) -> Vector:
        """The standard deviation of each attractiveness, given the clicks."""
        certain = self.trials + sum(self.prior) + 1
        return np.sqrt(self.attractiveness * (1 - self.attractiveness) / certain)

    @property
    def certainty(self) -> Vector:
        """The share of each attractiveness that is due to its own clicks, not to the prior."""
        return self.trials / (self.trials + sum(self.prior))

    def click_probability(self, counts: ClickCounts) -> Vector:
        """The chance of a click, one for each row of `counts`, which are of the same pairs.

        At ranks that were never seen it is as at the lowest one.
        """
        rank = np.minimum(counts.rank, len(self.examination)) - 1
        probability: Vector = self.attractiveness[counts.pair] * self.examination[rank]
        return probability

    def conditional_click_probability(self, lists: ClickLists) -> Vector:
        """The chance of a click on each result, given which results above it were clicked.

        The product over a list is the likelihood of its clicks. Here clicks do not depend on each
        other; a model in which they do overrides this.
        """
        rank = np.minimum(lists.rank, len(self.examination)) - 1
        probability: Vector = self.attractiveness[lists.pair] * self.examination[rank]
        return probability
