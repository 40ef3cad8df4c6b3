"""`evaluate`: how good a ranker is on judged queries, and whether a difference can be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.comparing.figures import ComparedPair
    from owpc_ltr.evaluation.evaluate import Measured
    from owpc_ltr.evaluation.verdict import Verdict
    from owpc_ltr.metrics import Metric
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model

METRICS = ("ndcg@10", "map", "mrr")
WEIGHTED = "weighted by the importance of queries"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The figures of a ranker on some queries, and of another one beside it.

    `side` says which queries of the data they are: `test` (held out), `all` …
    `scores` has one score a document of `data`, NaN where a run did not retrieve it; None where
    these are a folder of parts. `against` is the other ranker's name, `pairs` are the comparison
    with it by metric. Where it is `weighted`, means and tests weigh each query by its importance.
    """

    ranker: str
    data: RankingDataset | PartitionedDataset = field(repr=False)
    side: str
    scores: Vector | None
    measured: tuple[Measured, ...]
    against: str | None
    others: tuple[Measured, ...]
    pairs: tuple[ComparedPair, ...]
    warnings: tuple[str, ...]
    weighted: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the ranker against the other one; None where it was measured alone."""
        from owpc_ltr.evaluation.verdict import over_metrics

        return over_metrics({one.metric: one.verdict for one in self.pairs}) if self.pairs else None

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row a metric: its value, zero-score baseline, convention, and how many queries."""
        return [one.as_dict() for one in self.measured]

    @property
    def comparison(self) -> list[dict[str, Any]]:
        """One row a metric: both means, their difference with its interval, p and the verdict."""
        return [one.as_dict() for one in self.pairs]

    @cached_property
    def per_query(self) -> pa.Table:
        """One row a query: its id, each metric's value, and the other ranker's (`… against`)."""
        import pyarrow as pa

        columns: dict[str, Any] = {"query_id": self.data.query_ids}
        columns |= {str(one.metric): one.per_query for one in self.measured}
        columns |= {f"{one.metric} against": one.per_query for one in self.others}
        return pa.table(columns)

    def to_frame(self, per_query: bool = False) -> Any:
        """The table, or the figures of each query, as a pandas DataFrame."""
        import pandas as pd

        return self.per_query.to_pandas() if per_query else pd.DataFrame(self.table)

    @property
    def _verdict_lines(self) -> list[str]:
        from owpc_ltr.evaluation.comparing.shown import opening_of

        verdict = self.verdict
        if verdict is None:
            return []
        return [opening_of(verdict, self.ranker, str(self.against), self.pairs[0].metric)]

    @property
    def _title(self) -> str:
        said = f"{self.ranker} on {self.data.n_queries} queries ({side_in_words(self.side)})"
        return f"{said}, {WEIGHTED}" if self.weighted else said

    def __repr__(self) -> str:
        lines = [*self._verdict_lines, self._title]
        lines += [
            f"{row['metric']:<12} {row['mean']:.4f}  (zero-score baseline "
            f"{row['zero_score_baseline']:.4f})"
            for row in self.table
        ]
        lines += [
            f"{row['metric']:<12} {row['mean_difference']:+.4f} "
            f"[{row['low']:+.4f}, {row['high']:+.4f}] against {self.against}, "
            f"p = {row['p_holm']:.2g}: {pair.verdict.outcome}"
            for row, pair in zip(self.comparison, self.pairs, strict=True)
        ]
        return "\n".join([*lines, *(f"warning: {message}" for message in self.warnings)])

    def _repr_html_(self) -> str:
        """Values as bars, the comparison as a table, warnings below."""
        from owpc_ltr.data.html import bars, block, line, table

        parts = [bars([(str(one.metric), one.mean) for one in self.measured], "{:.4f}")]
        if self.pairs:
            headers = ["metric", f"difference from {self.against}", "95 % interval", "p", "verdict"]
            parts.append(table(headers, [_compared(pair) for pair in self.pairs]))
        warnings = (line(f"warning: {message}") for message in self.warnings)
        return block(self._title, *map(line, self._verdict_lines), *parts, *warnings)


def evaluate(
    model: Model | ReorderingModel | TrecRun | str | Path,
    data: RankingDataset | PartitionedDataset,
    metrics: Sequence[Any] | str = METRICS,
    *,
    against: Any = None,
    queries: str = "auto",
    documents: Path | str | None = None,
    id_field: str | None = None,
    unweighted: bool = False,
    seed: int = 0,
    plugins: Sequence[Path | str] = (),
) -> Evaluation:
    """The metrics of a ranker on the queries of `data` that it was not trained on.

    `model` and `against` are models, their files, runs (`read_run`), or `feature:NAME`. `queries`:
    `auto` takes the held-out ones: those that the model has not seen, by their ids and texts; where
    its record does not tell, all, with a warning; or `all`, `train`, `validation`, `test`. Ties
    count their expected value unless a metric says otherwise; each metric names its
    convention. `documents` is the file that was indexed, for rerankers that read fields of
    documents. Means and tests weigh queries by their importance (`query_weights`) unless
    `unweighted`. `seed` is the permutation test's. Data of `open_dataset`
    are gone through part by part.

    Runs are measured as by `trec_eval -c`: judged documents that a run lacks are not retrieved,
    queries that it lacks count 0, and its documents that are not judged are irrelevant.

    Raises UsageError for a metric that there is not, BadInput for data with other features.
    """
    from owpc_ltr.data.document_fields import with_document_fields
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
    from owpc_ltr.evaluation.evaluate import (
        importance_of,
        measure_queries,
        model_data,
    )
    from owpc_ltr.evaluation.judgment_checks import judgment_findings
    from owpc_ltr.evaluation.ranked_lists import list_warnings, lists_of
    from owpc_ltr.evaluation.unused_weights import unused_weights
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import Metric, parse_metric

    files = [Path(plugin) for plugin in plugins]
    asked = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    registry = load(files)
    parsed = [parse_metric(one, registry) for one in asked]
    ranker = ranker_of(model, data, files)
    if isinstance(data, PartitionedDataset):
        if documents is not None:
            data = in_memory(data, "--documents")
        else:
            return _of_parts(
                model, ranker, data, parsed, against, queries, seed, files, not unweighted
            )
    asked_of = model_data(ranker, data, queries)
    chosen, side = asked_of.data, asked_of.side
    named = None if documents is None else Path(documents)
    chosen = with_document_fields(chosen, _field_names(ranker), named, id_field)
    lists = lists_of(ranker, chosen)
    weights = None if unweighted else importance_of(chosen)
    measured = measure_queries(lists.queries, chosen, parsed, weights)
    others: tuple[Measured, ...] = ()
    pairs: tuple[ComparedPair, ...] = ()
    of_other: list[str] = []
    if against is not None:
        other = ranker_of(against, chosen, files)
        model_data(other, chosen, "all")
        theirs = lists_of(other, chosen)
        others = measure_queries(theirs.queries, chosen, parsed, weights)
        of_other = _of_run(other, against, list_warnings(other, [theirs.facts], tell_unjudged=True))
        both = (model, against), (ranker, other)
        pairs = _pairs(*both, chosen, measured, others, weights, seed)
    return Evaluation(
        ranker=_name(model),
        data=chosen,
        side=side,
        scores=lists.scores,
        measured=measured,
        against=None if against is None else _name(against),
        others=others,
        pairs=pairs,
        warnings=(
            *asked_of.warnings,
            *list_warnings(ranker, [lists.facts], tell_unjudged=True),
            *of_other,
            *unused_weights(chosen),
            *(() if pairs else judgment_findings(chosen)),
        ),
        weighted=weights is not None,
    )


def _of_parts(
    model: Any,
    ranker: Model | ReorderingModel | TrecRun,
    data: PartitionedDataset,
    metrics: Sequence[Metric],
    against: Any,
    queries: str,
    seed: int,
    files: Sequence[Path],
    weighted: bool,
) -> Evaluation:
    """The same of a folder of parts."""
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.evaluation.evaluate_parts import measure_parts
    from owpc_ltr.evaluation.judgment_checks import judgment_findings
    from owpc_ltr.evaluation.unused_weights import unused_weights

    asked_of = model_data(ranker, data, queries)
    found = measure_parts(ranker, asked_of.data, metrics, weighted=weighted)
    others: tuple[Measured, ...] = ()
    pairs: tuple[ComparedPair, ...] = ()
    of_other: list[str] = []
    if against is not None:
        other = ranker_of(against, data, files)
        model_data(other, asked_of.data, "all")
        theirs = measure_parts(other, asked_of.data, metrics, weighted=weighted)
        others, of_other = theirs.measured, _of_run(other, against, theirs.warnings)
        both = (model, against), (ranker, other)
        pairs = _pairs(*both, asked_of.data, found.measured, others, found.weights, seed)
    return Evaluation(
        ranker=_name(model),
        data=asked_of.data,
        side=asked_of.side,
        scores=None,
        measured=found.measured,
        against=None if against is None else _name(against),
        others=others,
        pairs=pairs,
        warnings=(
            *asked_of.warnings,
            *found.warnings,
            *of_other,
            *unused_weights(asked_of.data),
            *(() if pairs else judgment_findings(asked_of.data.head)),
        ),
        weighted=found.weights is not None,
    )


def _of_run(other: Any, given: Any, warnings: Sequence[str]) -> list[str]:
    """What must be known of the other ranker: of a run, what it lacks."""
    from owpc_ltr.data.runs import TrecRun

    return [f"{_name(given)}: {told}" for told in warnings] if isinstance(other, TrecRun) else []


def ranker_of(
    given: Any, data: RankingDataset | PartitionedDataset, plugins: Sequence[Path] = ()
) -> Model | ReorderingModel | TrecRun:
    """A ranker as it is, from its file (of a model, or a TREC run), or `feature:NAME`."""
    from owpc_ltr.data.runs import is_run, read_run
    from owpc_ltr.models.reordering import FEATURE, feature_ranker, load_ranker

    if isinstance(given, str) and given.startswith(FEATURE):
        return feature_ranker(given, data)
    if isinstance(given, Path | str):
        path = Path(given)
        return read_run(path) if is_run(path) else load_ranker(path, plugins)
    return given  # type: ignore[no-any-return]


def _field_names(ranker: Model | ReorderingModel | TrecRun) -> tuple[str, ...]:
    """The document fields that a reranker needs; a model needs none."""
    from owpc_ltr.models.reordering import ReorderingModel

    return ranker.field_names if isinstance(ranker, ReorderingModel) else ()


def _compared(pair: ComparedPair) -> tuple[str, ...]:
    one = pair.comparison
    interval = f"[{one.low:+.4f}, {one.high:+.4f}]"
    figures = f"{one.mean_difference:+.4f}", interval, f"{pair.p_holm:.2g}"
    return pair.metric, *figures, str(pair.verdict.outcome)


def _pairs(
    names: tuple[Any, Any],
    rankers: tuple[Any, Any],
    data: RankingDataset | PartitionedDataset,
    measured: tuple[Measured, ...],
    others: tuple[Measured, ...],
    weights: Vector | None,
    seed: int,
) -> tuple[ComparedPair, ...]:
    """The ranker against the other one, with the doubts about what they have seen and the labels.

    p is corrected over the metrics (Holm).
    """
    import numpy as np

    from owpc_ltr.data.partitioned.dataset import head_of
    from owpc_ltr.data.sources import known_sides
    from owpc_ltr.evaluation.comparing.figures import ComparedPair
    from owpc_ltr.evaluation.evaluate import compare
    from owpc_ltr.evaluation.judgment_checks import judgment_doubts
    from owpc_ltr.evaluation.multiple_comparisons import holm
    from owpc_ltr.evaluation.trained_on import seen_doubts

    a, b = map(_name, names)
    doubts = [
        doubt
        for name, ranker in zip((a, b), rankers, strict=True)
        for record in [getattr(ranker, "record", None)]
        if record
        for doubt in seen_doubts(name, known_sides(record, data))
    ]
    doubts += judgment_doubts(head_of(data))
    found = [
        compare(one, other, seed, weights) for one, other in zip(measured, others, strict=True)
    ]
    corrected = holm(np.array([one.p_permutation for one in found])).tolist()
    return tuple(
        ComparedPair(a, b, str(one.metric), of, p, one.metric.higher_is_better, tuple(doubts))
        for one, of, p in zip(measured, found, corrected, strict=True)
    )


def _name(given: Any) -> str:
    if isinstance(given, Path | str):
        return str(given)
    return f"the {given.kind} model" if hasattr(given, "kind") else "the run"


def side_in_words(side: str) -> str:
    """Which queries a figure is of."""
    return {"test": "held out", "all": "all of them"}.get(side, f"{side} side")
