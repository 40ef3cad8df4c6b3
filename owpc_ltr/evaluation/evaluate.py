"""`evaluate`: how good a ranker is on judged queries, and whether a difference can be chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import RUN_TAG, MaxFeatures, Memory
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import (
    METRICS,
    Dask,
    Documents,
    EngineOfJudgments,
    IdField,
    IndexToCheck,
    Metrics,
    QueryTemplate,
    SmallestGain,
    Split,
    Unweighted,
    by_workers,
    engine_doubts,
    split_in_words,
    workers_at,
)
from owpc_ltr.plain_text import REPR_LINES
from owpc_ltr.signatures import NO_MODEL, Plugins, Reads, Seed, Writes, job, public, spelled

if TYPE_CHECKING:
    import pyarrow as pa

    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.compared_pair import ComparedPair
    from owpc_ltr.evaluation.comparison_table import RankerComparison
    from owpc_ltr.evaluation.measurement import Measured, Ranking
    from owpc_ltr.evaluation.query_choice import EvaluationQueries
    from owpc_ltr.evaluation.results import ComparisonPlan
    from owpc_ltr.evaluation.significance import Verdict
    from owpc_ltr.metrics import Metric
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model

    Data = RankingDataset | PartitionedDataset


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The figures of a ranker on some queries, and of a baseline beside it.

    `evaluation["map"]` has those of one metric, `evaluation["map"].interval` the 95 % interval of
    its mean. `split` says which queries of the data they are:
    `test` (held out), `all` … `scores` has one score a document of `data`, NaN where a run did not
    retrieve it; None where these are a folder of parts. `baseline` is the other ranker's name,
    `pairs` are the comparison with it by metric. Where it is `weighted`, means and tests weigh each
    query by its importance.
    """

    result: RankerComparison
    data: Data = field(repr=False)
    scores: Vector | None
    doubts: tuple[str, ...] = ()

    @property
    def ranker(self) -> str:
        """What the ranker is called."""
        return self.result.rankers[0].name

    @property
    def baseline(self) -> str | None:
        """What the other ranker is called; None where it was measured alone."""
        return self.result.baseline

    @property
    def split(self) -> str:
        """Which queries of the data they are."""
        return self.result.split

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The ranker's figures, by metric."""
        return self.result.rankers[0].measured

    @property
    def baseline_measured(self) -> tuple[Measured, ...]:
        """Those of the baseline; none where there is none."""
        return self.result.rankers[1].measured if self.baseline is not None else ()

    @property
    def pairs(self) -> tuple[ComparedPair, ...]:
        """The comparison with the baseline, by metric."""
        return self.result.pairs

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the figures."""
        return (*self.doubts, *self.result.warnings)

    @property
    def weighted(self) -> bool:
        """Whether queries are weighed by their importance."""
        return self.result.weighted

    @property
    def data_name(self) -> str:
        """The file of the data."""
        return self.result.data

    def __getitem__(self, metric: Metric | str) -> Measured:
        """The figures of a metric: its mean, and each query's value."""
        for one in self.measured:
            if str(one.metric) == str(metric):
                return one
        known = ", ".join(str(one.metric) for one in self.measured)
        raise KeyError(f"{metric} was not measured: there are {known}")

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the ranker against the baseline; None where it was measured alone."""
        from owpc_ltr.evaluation.significance import over_metrics

        return over_metrics({one.metric: one.verdict for one in self.pairs}) if self.pairs else None

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row a metric: its value, all-tied baseline, convention, and how many queries."""
        return [one.as_dict() for one in self.measured]

    @property
    def comparison(self) -> list[dict[str, Any]]:
        """One row a metric: both means, their difference with its interval, p and the verdict."""
        return [one.as_dict() for one in self.pairs]

    @cached_property
    def per_query(self) -> pa.Table:
        """One row a query: its id, each metric's value, and the baseline's (`… baseline`)."""
        import pyarrow as pa

        columns: dict[str, Any] = {"query_id": self.data.query_ids}
        columns |= {str(one.metric): one.per_query for one in self.measured}
        columns |= {f"{one.metric} baseline": one.per_query for one in self.baseline_measured}
        return pa.table(columns)

    def to_frame(self, per_query: bool = False) -> Any:
        """The table, or the figures of each query, as a pandas DataFrame."""
        import pandas as pd

        return self.per_query.to_pandas() if per_query else pd.DataFrame(self.table)

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of single queries, as JSON."""
        return {
            "model": self.ranker,
            "data": self.data_name,
            "split": self.split,
            "n_queries": self.data.n_queries,
            "on_judged_documents": self.result.on_judged_documents,
            "n_independent": self.result.n_independent,
            "earlier_comparisons": self.result.looks,
            "metrics": self.table,
            **({"weighted": True} if self.weighted else {}),
            "baseline": self.baseline,
            "comparisons": self.comparison,
            **({} if self.verdict is None else {"verdict": self.verdict.as_dict()}),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """The verdict first, then each figure with its convention."""
        return "\n".join(_text_lines(self))

    def __repr__(self) -> str:
        from owpc_ltr.evaluation.compared_pair import difference_of

        lines = [*_verdict_lines(self), _title(self)]
        lines += [
            f"{one.metric!s:<12} {one.mean:.4f}  (all-tied baseline {one.all_tied_baseline:.4f})"
            for one in self.measured
        ]
        lines += [
            f"{pair.metric:<12} {difference_of(pair)} against {self.baseline}, "
            f"p = {pair.p_holm:.2g}: {pair.verdict.outcome}"
            for pair in self.pairs
        ]
        lines += _disagreements(self)
        lines += [f"warning: {message}" for message in self.warnings]
        if len(lines) > REPR_LINES:
            left = len(lines) - REPR_LINES + 1
            lines = [*lines[: REPR_LINES - 1], f"and {left} more: print the evaluation"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Values as bars, the comparison as a table, warnings below."""
        from owpc_ltr.data.html import bars, block, line, table

        parts = [bars([(str(one.metric), one.mean) for one in self.measured], "{:.4f}")]
        if self.pairs:
            headers = [
                "metric", f"difference from {self.baseline}", "95 % interval", "p", "verdict"
            ]  # fmt: skip
            parts.append(table(headers, [_html_row(pair) for pair in self.pairs]))
            parts += map(line, _disagreements(self))
        warnings = (line(f"warning: {message}") for message in self.warnings)
        return block(_title(self), *map(line, _verdict_lines(self)), *parts, *warnings)


@job
def evaluate(
    model: Annotated[
        Model | ReorderingModel | TrecRun | Path | str,
        Reads(
            "A file of a model, reranker or TREC run, or feature:NAME.",
            cli=str,
            unless="feature:",
            absent="cannot read the model {path}: No such file or directory; an uploaded model is "
            "measured live (evaluate-live)",
        ),
    ],
    data: Annotated[
        Data | Path | str,
        Reads("Judged queries: Parquet, LETOR text, or a folder of parts.", flag="--data"),
    ],
    *,
    metrics: Metrics = METRICS,
    baseline: Annotated[
        Any,
        Reads(
            "Compare with this model, TREC run, or feature (feature:NAME).",
            cli=str,
            unless="feature:",
            absent=NO_MODEL,
        ),
    ] = None,
    split: Split = "auto",
    unweighted: Unweighted = False,
    smallest_gain: SmallestGain = 0.0,
    documents: Documents = None,
    id_field: IdField = None,
    run: Annotated[
        Path | str | None,
        Writes("Also write the ranking as a TREC run, to this file.", needs_folder=False),
    ] = None,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    index: IndexToCheck = None,
    query_template: QueryTemplate = None,
    cluster: EngineOfJudgments = None,
    dask: Dask = None,
    seed: Seed = 0,
    plugins: Plugins = (),
) -> Evaluation:
    """Measure a ranker on held-out judged queries.

    Held out are the queries that it was not trained on, by their ids and texts. If its record does
    not tell, all queries are measured, with a warning. Every figure comes with its convention, the
    number of queries, and the value of scoring all documents the same. Tied documents count their
    expected value unless the metric says otherwise. With --index, the engine is searched to check
    that it returns what was judged.

    Runs are measured as by `trec_eval -c`: judged documents that a run lacks are not retrieved,
    queries that it lacks count 0, and its documents that are not judged are irrelevant.

    Python: `model` and `baseline` are also models and runs, `data` what was read before; data of
    `open_dataset` are gone through part by part. `seed` is the permutation test's. Of the result,
    `result["map"].mean` is a metric's mean, `result["map"].interval` its 95 % interval.
    Raises UsageError for a metric that there is not, BadInput for data with other features.
    """
    from owpc_ltr.evaluation.measurement import ranker_of
    from owpc_ltr.evaluation.query_choice import model_data
    from owpc_ltr.evaluation.results import ComparisonPlan, Drawing
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metrics

    files = [Path(plugin) for plugin in plugins]
    registry = load(files)
    parsed = parse_metrics(metrics, registry)
    judged = _judged(data, documents, memory, max_features)
    doubts = engine_doubts(cluster, judged, index, query_template)
    if run is not None and _in_parts(judged):
        raise UsageError(
            f"{spelled('run')} lists documents of a dataset in memory: give a file, not a folder"
        )
    ranker = ranker_of(model, judged, files)
    with workers_at(dask, [data], files) as workers:
        chosen = model_data(ranker, by_workers(judged, workers), split, by_folds=True)
        part = _with_fields(chosen.data, ranker, documents, id_field)
        names = _names(model, baseline)
        rankers = {names[0]: ranker}
        if baseline is not None:
            rankers[names[1]] = ranker_of(baseline, part, files)
        how = ComparisonPlan(
            parsed,
            baseline=None if baseline is None else names[1],
            drawing=Drawing(seed),
            smallest_gain=smallest_gain,
        )
        found, scores = _compared(rankers, chosen, part, how, weighted=not unweighted)
    if run is not None:
        _write_run(scores, part, run)
    return Evaluation(
        replace(found, data=str(data) if isinstance(data, Path | str) else ""),
        part,
        scores,
        tuple(doubts),
    )


def _write_run(scores: Any, data: Any, path: Path | str) -> None:
    """The ranking as a TREC run; a document that a run did not retrieve has no score."""
    import numpy as np

    from owpc_ltr.data.runs import write_scores

    lacking = np.isnan(scores)
    write_scores(scores, data, path, retrieved=~lacking if lacking.any() else None)


@public
def write_run(
    ranker: Model | ReorderingModel | TrecRun | Vector,
    data: RankingDataset,
    path: str | Path,
    *,
    tag: str = RUN_TAG,
    depth: int | None = None,
) -> None:
    """Write a ranking of a dataset (a ranker's, or scores, one per document) as a TREC run.

    At most `depth` documents per query; of a run those that it retrieved. See
    `owpc_ltr.data.runs.write_scores`.
    """
    import numpy as np

    from owpc_ltr.data.runs import TrecRun, write_scores
    from owpc_ltr.models.reordering import dataset_scores

    scores = ranker if isinstance(ranker, np.ndarray) else dataset_scores(ranker, data)
    retrieved = ~np.isnan(scores) if isinstance(ranker, TrecRun) else None
    write_scores(scores, data, path=path, tag=tag, depth=depth, retrieved=retrieved)


def _compared(
    rankers: Mapping[str, Ranking],
    chosen: EvaluationQueries[Any],
    part: Data,
    how: ComparisonPlan,
    *,
    weighted: bool,
) -> tuple[RankerComparison, Vector | None]:
    """The rankers on these queries, and the first one's scores of data in memory."""
    from owpc_ltr.evaluation.comparison import compare_results
    from owpc_ltr.evaluation.data_comparison import by_folds, records_of
    from owpc_ltr.evaluation.measurement import measure_on_data
    from owpc_ltr.evaluation.query_choice import choose_queries, compared_queries, model_data

    for other in [*rankers.values()][1:]:
        model_data(other, part, "all")
    # The ranker's record chose the queries; what any ranker has seen of them is a doubt.
    unseen = chosen.side in {"test", "folds"}
    seen = choose_queries(records_of(rankers), part, "all", by_folds=unseen)
    of = compared_queries(part, seen._replace(side=chosen.side, warnings=chosen.warnings))
    measured = by_folds(rankers, seen)
    results = measure_on_data(measured, part, of, how, weighted=weighted, tell_unjudged=True)
    return compare_results(results, how), next(iter(results.rankers.values())).scores


def _judged(data: Any, documents: Any, memory: Any, max_features: int | None) -> Data:
    """The data, read; in memory where documents are joined to it."""
    from owpc_ltr.data.datasets import dataset_of
    from owpc_ltr.data.partitioned.dataset import in_memory

    data = dataset_of(data, memory=memory, max_features=max_features)
    if documents is not None and _in_parts(data):
        data = in_memory(data, spelled("documents"))
    return data  # type: ignore[no-any-return]


def _in_parts(data: Data) -> bool:
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset

    return isinstance(data, PartitionedDataset)


def _with_fields(data: Any, ranker: Ranking, documents: Any, id_field: str | None) -> Data:
    """The data with the document fields that a reranker needs; a model needs none."""
    from owpc_ltr.data.documents import with_document_fields
    from owpc_ltr.models.reordering import ReorderingModel

    if _in_parts(data):
        return data  # type: ignore[no-any-return]
    fields = ranker.field_names if isinstance(ranker, ReorderingModel) else ()
    return with_document_fields(
        data, fields, None if documents is None else Path(documents), id_field
    )


def _names(model: Any, baseline: Any) -> tuple[str, str]:
    one, other = _name(model), _name(baseline)
    return one, f"{other} 2" if other == one else other


def _name(given: Any) -> str:
    if isinstance(given, Path | str):
        return str(given)
    if isinstance(given, list | tuple) or hasattr(given, "dtype"):
        return "the scores"
    if hasattr(given, "kind"):
        return f"the {given.kind} model"
    return type(given).__name__ if hasattr(given, "predict") else "the run"


def _text_lines(found: Evaluation) -> Iterator[str]:
    from owpc_ltr.evaluation.compared_pair import (
        corrected_over,
        measured_live_by,
        small_gain_lines,
        verdict_lines,
    )
    from owpc_ltr.evaluation.comparison_table import pair_table, ranker_letters
    from owpc_ltr.plain_text import text_table, wrapped_text

    yield from map(wrapped_text, _verdict_lines(found))
    yield wrapped_text(_title(found))
    headers = ["METRIC", "VALUE", *(["OTHER"] if found.baseline_measured else []), "ALL TIED"]
    others = found.baseline_measured or (None,) * len(found.measured)
    rows = [
        (str(one.metric), one.mean, *([] if other is None else [other.mean]), one.all_tied_baseline)
        for one, other in zip(found.measured, others, strict=True)
    ]
    yield text_table(headers, rows)
    notes = [
        "all tied: the baseline of scoring all documents the same",
        *(one.metric.convention for one in found.measured),
    ]
    yield from (wrapped_text(note, "  ", "    ") for note in notes)
    if found.pairs:
        compared = found.pairs[0].comparison.n_queries
        names = found.pairs[0].a, found.pairs[0].b
        yield ""
        yield wrapped_text(f"A {names[0]} against B {names[1]}, on the same {compared:,} queries:")
        yield pair_table(found.pairs, ranker_letters(names))
        told = [*verdict_lines(found.pairs), *_disagreements(found), *small_gain_lines(found.pairs)]
        yield from map(wrapped_text, told)
        if found.result.on_judged_documents:
            yield wrapped_text(measured_live_by(names))
        if found.result.looks:
            yield wrapped_text(corrected_over(len(found.pairs), found.result.looks))
    yield from (wrapped_text(f"warning: {message}") for message in found.warnings)


def _verdict_lines(found: Evaluation) -> list[str]:
    from owpc_ltr.evaluation.compared_pair import verdict_line

    verdict = found.verdict
    if verdict is None:
        return []
    names, judged = (found.ranker, str(found.baseline)), found.result.on_judged_documents
    return [verdict_line(verdict, *names, found.pairs[0].metric, judged=judged)]


def _disagreements(found: Evaluation) -> list[str]:
    from owpc_ltr.evaluation.compared_pair import disagreements

    return disagreements(found.pairs, found.split)


def _title(found: Evaluation) -> str:
    from owpc_ltr.evaluation.comparison_table import queries_in_words

    of = f" of {found.data_name}" if found.data_name else ""
    n_queries = queries_in_words(found.result)
    said = f"{found.ranker} on {n_queries}{of} ({split_in_words(found.split)})"
    return f"{said}, weighted by the importance of queries" if found.weighted else said


def _html_row(pair: ComparedPair) -> tuple[str, ...]:
    one = pair.comparison
    interval = f"[{one.low:+.4f}, {one.high:+.4f}]"
    figures = f"{one.mean_difference:+.4f}", interval, f"{pair.p_holm:.2g}"
    return pair.metric, *figures, str(pair.verdict.outcome)
