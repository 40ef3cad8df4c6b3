"""`compare`: any rankers side by side on the same queries, and whether chance explains it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, MaxFeatureNumber, Memory
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import (
    METRICS,
    RESAMPLES,
    WORST_QUERIES,
    AcceptLoss,
    Baseline,
    Documents,
    IdField,
    LatexTable,
    Looks,
    Metrics,
    PerQueryTable,
    ProxyLabels,
    Resamples,
    Segments,
    SmallestGain,
    Split,
    Unjudged,
    Unweighted,
    Worst,
)
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import Argument, Progress, Reads, Seed, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.partitioned import PartitionedDataset
    from owpc_ltr.evaluation.comparison_result import RankerComparison
    from owpc_ltr.evaluation.data_comparison import ComparisonRequest
    from owpc_ltr.evaluation.measurement import Resampling
    from owpc_ltr.metrics import Metric

    OneData = RankingDataset | PartitionedDataset | Judgments | Path | str

_TABLES = (".csv", ".parquet")
_UNJUDGED = ("zero", "skip", "condensed")


@job
def compare(
    rankers: Annotated[
        Sequence[Any] | Mapping[str, Any],
        Reads(
            "Files of models, rerankers or TREC runs, or feature:NAME.",
            cli=list[str],
            absent=None,
        ),
        Argument.RANKER,
    ] = (),
    data: Annotated[
        OneData | Sequence[OneData] | None,
        Reads(
            "Judged queries: a dataset; for runs also judgments (TSV, qrels …).",
            cli=Path,
            flag="--data",
            project="data",
        ),
        Argument.DATA,
    ] = None,
    *,
    metrics: Metrics = METRICS,
    baseline: Baseline = None,
    split: Split = "auto",
    unjudged: Unjudged = "zero",
    unweighted: Unweighted = False,
    smallest_gain: SmallestGain = 0.0,
    segments: Segments = None,
    accept_loss: AcceptLoss = (),
    worst: Worst = WORST_QUERIES,
    looks: Looks = False,
    proxy_labels: ProxyLabels = None,
    columns: Columns = None,
    documents: Documents = None,
    id_field: IdField = None,
    per_query: PerQueryTable = None,
    report: ReportPage = None,
    latex: LatexTable = None,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    resamples: Resamples = RESAMPLES,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> RankerComparison:
    """Compare rankers on the same judged queries.

    Each mean has its 95 % interval. Each pair has its difference with an interval, p of a
    permutation test and of a t-test, p corrected over all pairs and metrics (Holm), and how many
    queries are won, drawn and lost. Queries that a ranker was trained on are left out. Means and
    tests weigh queries by their importance.

    With proxy labels, each pair also has a prediction-powered interval: right for human labels even
    if the proxy labels are useless, and narrower where these agree with them.

    With `looks`, nothing is compared: the comparisons are listed that count against the next one
    on the queries of `data`, or on all.

    Python: `rankers` and `data` are also models, runs (`read_run`) and what was read before; a
    mapping gives rankers names of one's own. `data` may be a list of test data, one for each fold:
    a ranker is then a list of one model for each fold, or one that ranks in all of them (a feature,
    a run); their test queries are pooled, with one test over all. A query in two folds is refused,
    and so is a model that has seen a query of its own fold. With `looks` the result is
    CountedComparisons.
    Raises UsageError for what there is not, Refused where too few queries are left, BadInput for
    data of other features or queries.
    """
    from owpc_ltr.data.datasets import dataset_of
    from owpc_ltr.evaluation.counted_comparisons import counted_comparisons
    from owpc_ltr.evaluation.judged_data import Data, judged_dataset, read_data, read_lists
    from owpc_ltr.evaluation.measurement import Resampling

    check_table(per_query)
    if looks and rankers:
        raise UsageError("`looks` lists comparisons and makes none: leave out the rankers")
    if looks and data is None:
        return counted_comparisons(None)  # type: ignore[return-value]
    if data is None:
        raise UsageError("no judged queries are given: give `data`")
    named = {} if looks else named_rankers(rankers)
    request = comparison_request(
        named,
        metrics,
        plugins,
        unjudged=unjudged,
        unweighted=unweighted,
        smallest_gain=smallest_gain,
        segments=segments,
        accept_loss=accept_loss,
        baseline=baseline,
        split=split,
        drawing=Resampling(seed, resamples, progress),
        documents=documents,
        id_field=id_field,
    )
    judged, proxy_labels = read_lists(columns, data, proxy_labels)
    if isinstance(judged, Path | str):
        judged = read_data(judged, memory=memory, max_feature_number=max_feature_number)
    judged = dataset_of(judged)
    if looks:
        return counted_comparisons(judged_dataset((), judged))  # type: ignore[return-value]
    folds = not isinstance(judged, Data)
    _check_folds(named, folds=folds, labels=proxy_labels is not None)
    if folds:
        from owpc_ltr.evaluation.data_comparison import compare_over_folds

        comparison = compare_over_folds(request, judged)
    elif proxy_labels is not None:
        from owpc_ltr.evaluation.data_comparison import compare_with_proxy_labels

        comparison = compare_with_proxy_labels(request, judged, proxy_labels)
    else:
        from owpc_ltr.evaluation.data_comparison import compare_on_data

        comparison = compare_on_data(request, judged)
    data_name = str(data) if isinstance(data, Path | str) else ""
    comparison = replace(comparison, data_name=data_name, n_worst=worst)
    write_comparison(comparison, per_query, latex)
    write_report(comparison, report, plugins)
    return comparison


def comparison_request(
    rankers: Mapping[str, Any],
    metrics: Sequence[Metric | type[Metric] | str] | str,
    plugins: Sequence[Path | str],
    *,
    unjudged: Unjudged = "zero",
    unweighted: bool = False,
    smallest_gain: float = 0.0,
    segments: Sequence[str] | str | None = None,
    accept_loss: Sequence[str] | str = (),
    baseline: str | None,
    drawing: Resampling,
    **more: Any,
) -> ComparisonRequest:
    """The request of a comparison; `more` are its further fields.

    Raises UsageError for a baseline that is none of the rankers, and for what unjudged documents
    cannot be taken for.
    """
    from owpc_ltr.evaluation.data_comparison import ComparisonRequest
    from owpc_ltr.evaluation.measurement import ComparisonPlan
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metrics

    if baseline is not None and baseline not in rankers:
        raise UsageError(
            f"the baseline '{baseline}' is not one of the rankers: choose among "
            f"{', '.join(rankers)}"
        )
    if unjudged not in _UNJUDGED:
        raise UsageError(
            f"unjudged documents cannot be taken for '{unjudged}': choose among "
            f"{', '.join(_UNJUDGED)}"
        )
    files = tuple(map(Path, plugins))
    parsed = parse_metrics(metrics, load(files))
    kinds = segments.split(",") if isinstance(segments, str) else segments or ()
    plan = ComparisonPlan(
        parsed,
        unjudged,
        baseline,
        drawing,
        smallest_gain,
        segments=tuple(kind.strip() for kind in kinds),
        accept_loss=(accept_loss,) if isinstance(accept_loss, str) else tuple(accept_loss),
    )
    return ComparisonRequest(rankers, plan, weighted=not unweighted, plugins=files, **more)


def named_rankers(rankers: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The rankers by name: a mapping's, or as files and texts are spelled; others by their kind.

    Raises UsageError for fewer than two, and for one that is named twice.
    """
    if isinstance(rankers, Mapping):
        named = {str(name): ranker for name, ranker in rankers.items()}
    else:
        named = {}
        several = isinstance(rankers, Iterable) and not isinstance(rankers, str)
        for ranker in rankers if several else [rankers]:
            named[_new_name(ranker, named)] = ranker
    if len(named) < 2:
        raise UsageError(
            f"a comparison needs 2 rankers, and there is {len(named)}: name another model, run "
            "or feature:NAME"
        )
    return named


def _new_name(ranker: object, taken: Mapping[str, Any]) -> str:
    name = ranker_name(ranker)
    if isinstance(ranker, str | Path) and name in taken:
        raise UsageError(f"'{ranker}' is named twice: name each ranker once")
    names = itertools.chain([name], (f"{name} {number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def ranker_name(ranker: object) -> str:
    """What a ranker without a name is called: as its file is, or by its kind."""
    if isinstance(ranker, Path | str):
        return str(ranker)
    if isinstance(ranker, list | tuple) and not all(isinstance(value, Real) for value in ranker):
        return "the models"
    if isinstance(ranker, list | tuple) or hasattr(ranker, "dtype"):
        return "the scores"
    if hasattr(ranker, "kind"):
        return f"the {ranker.kind} model"
    return type(ranker).__name__ if hasattr(ranker, "predict") else "the run"


def _check_folds(named: Mapping[str, Any], *, folds: bool, labels: bool) -> None:
    """Refuse options that do not fit together."""
    if folds and labels:
        raise UsageError("folds are compared by their own labels: leave out proxy labels")
    lists = [name for name, ranker in named.items() if isinstance(ranker, list | tuple)]
    if lists and not folds:
        raise UsageError(
            f"'{lists[0]}' is a list of models, which is compared over folds: give a list of test "
            "data, too"
        )


def write_comparison(
    comparison: RankerComparison, per_query: Path | str | None, latex: Path | str | None
) -> None:
    """Write the values of every query, and the LaTeX table, where files are named."""
    from owpc_ltr.files.output import write_output

    if per_query is not None:
        write_output(per_query, _table_bytes(comparison, Path(per_query)))
    if latex is not None:
        write_output(latex, comparison.to_latex().encode())


def check_table(path: Path | str | None) -> None:
    """Refuse, before the work, a file of per-query values that is neither CSV nor Parquet."""
    if path is not None and Path(path).suffix.lower() not in _TABLES:
        raise UsageError(
            f"cannot write {path}: the values of queries are written as {' or '.join(_TABLES)}"
        )


def _table_bytes(comparison: RankerComparison, path: Path) -> bytes:
    """A row a query, as CSV or Parquet: its id, text, importance, and each value."""
    import io

    from pyarrow import parquet

    from owpc_ltr.files.tables import sheet_bytes
    from owpc_ltr.text import printable

    if path.suffix.lower() == ".csv":
        table = comparison.per_query
        rows = [table.column_names, *zip(*table.to_pydict().values(), strict=True)]
        return sheet_bytes(
            [printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
        )
    buffer = io.BytesIO()
    parquet.write_table(comparison.per_query, buffer)
    return buffer.getvalue()
