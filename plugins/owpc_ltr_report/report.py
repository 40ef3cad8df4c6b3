"""`report`: one HTML page of results, on which rankers are measured and explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

# The page needs both: without the extra, nothing is computed first.
import jinja2  # noqa: F401
import vl_convert  # noqa: F401

from owpc_ltr.data.options import MaxFeatures, Memory
from owpc_ltr.evaluation.options import METRICS, IdField, Metrics, Split
from owpc_ltr.signatures import (
    NO_MODEL,
    Help,
    Plugins,
    Progress,
    Reads,
    Seed,
    Writes,
    job,
    silent,
)

if TYPE_CHECKING:
    from owpc_ltr_papers.risk_bounds import Bound

    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.evaluation.comparison_table import RankerComparison
    from owpc_ltr.inspection.result import Inspection
    from owpc_ltr_report.material import Material
    from owpc_ltr_report.page import Page
    from owpc_ltr_report.queries import Contribute, Example

    Data = RankingDataset | PartitionedDataset


@job
def report(
    results: Annotated[
        Any,
        Reads(
            "Files of models or rerankers, the new one first; or feature:NAME.",
            metavar="RANKERS",
            cli=list[str],
            absent=NO_MODEL,
            unless="feature:",
        ),
    ],
    *,
    out: Annotated[
        Path | str | None,
        Writes(
            "The page (HTML).",
            required=True,
            standard_output="the page is a file to open in a browser: name it, not -",
        ),
    ] = None,
    data: Annotated[
        Data | Path | str | None,
        Reads("Judged queries to measure the rankers on: Parquet, LETOR text, or a folder."),
    ] = None,
    baseline: Annotated[
        Path | str | None,
        Reads(
            "What the first ranker should beat: another MODEL.json, a TREC run, feature:NAME; "
            "default: the last of several rankers.",
            metavar="RANKER",
            cli=str,
            absent=NO_MODEL,
            unless="feature:",
        ),
    ] = None,
    metrics: Metrics = METRICS,
    split: Split = "auto",
    examples: Annotated[
        int,
        Help(
            "How many queries to show with the largest losses, and as many with the largest gains.",
            min=0,
        ),
    ] = 3,
    feature_cost: Annotated[
        Path | str | None, Reads("The cost of features, as profile --json prints it.")
    ] = None,
    heading: Annotated[str | None, Help("The heading of the page.")] = None,
    documents: Annotated[
        Path | str | None,
        Reads("The file that was indexed, for titles of documents and fields of rerankers."),
    ] = None,
    id_field: IdField = None,
    max_features: MaxFeatures = None,
    memory: Memory = None,
    seed: Seed = 0,
    progress: Progress = silent,
    plugins: Plugins = (),
) -> Page:
    """Write a self-contained HTML page about rankers.

    Is the first ranker better, by how much, how sure is that, where does it lose, and why? Sections
    without data are left out, and the page says how to get them. With --documents, queries show the
    titles of documents.

    Python: `results` is one result or several, of any kind: evaluations, comparisons, rankers or
    their files (by name in a mapping), datasets, costs, bounds, and what `select`, `verify`,
    `profile`, `explain`, `inspect` and `judge_clicks` return. With `data`, rankers are measured on
    it as by `compare`. `charts` of the page has its charts by name.
    Raises UsageError for an object of another kind, BadInput for a file that is no model.
    """
    from owpc_ltr.files.output import write_output
    from owpc_ltr_report.engine import read_latency
    from owpc_ltr_report.material import material_of
    from owpc_ltr_report.page import page_of

    found, new = list(results) if isinstance(results, list | tuple) else [results], None
    if data is not None:
        if isinstance(data, Path | str):
            from owpc_ltr.data.datasets import open_or_read

            data = open_or_read(data, memory=memory, max_features=max_features)
        how: dict[str, Any] = {
            "metrics": metrics, "split": split, "documents": documents,
            "id_field": id_field, "seed": seed, "plugins": plugins,
        }  # fmt: skip
        found, new = _measured(found, data, baseline, examples, progress, how)
    elif baseline is not None:
        found.append(baseline)
    if feature_cost is not None:
        found.append(read_latency(feature_cost))
    material = material_of(found, plugins, new)
    page = page_of(material, heading or _heading(material))
    if out is not None:
        write_output(out, page.html().encode())
    return page


def _heading(of: Material) -> str:
    from owpc_ltr_report.comparison import short_name

    names = [one.name for one in of.rankers]
    if of.comparison is not None:
        new, baseline = of.comparison.rankers[0].name, of.comparison.baseline
        heading = f"{new} against {baseline}" if baseline else f"How {new} ranks"
    elif of.verification is not None:
        heading = f"{of.verification.model} in {of.verification.index}"
    elif of.selection is not None:
        heading = f"Selection over {len(of.selection.folds)} folds"
    elif of.explanations and not names:
        heading = f"Why “{of.explanations[0].query}” ranks as it does"
    elif of.inspection is not None and not names:
        heading = f"Data checks of {', '.join(map(short_name, of.inspection.data.names))}"
    elif of.pool is not None:
        heading = "What is to be judged"
    elif of.clicks is not None:
        heading = "Judgments from clicks"
    else:
        heading = f"Report on {', '.join(names)}" if names else "Report"
    return heading


def _measured(
    results: Sequence[Any],
    data: Data,
    baseline: Path | str | None,
    examples: int,
    progress: Progress,
    how: dict[str, Any],
) -> tuple[list[Any], str | None]:
    """The results with the rankers among them measured on the data, and the new one compared.

    Several rankers are compared; one without a baseline is evaluated. `how` are the parameters that
    `compare` and `evaluate` share.
    """
    from owpc_ltr.evaluation.evaluate import evaluate
    from owpc_ltr.evaluation.measurement import ranker_of
    from owpc_ltr_report.comparison import short_names

    rankers, others = _rankers_among(results)
    if baseline is not None:
        rankers.setdefault(str(baseline), baseline)
    names = short_names(list(rankers))
    files = [Path(plugin) for plugin in how["plugins"]]
    loaded = {names[name]: ranker_of(one, data, files) for name, one in rankers.items()}
    if not loaded:
        return [*others, data], None
    new = None
    if len(loaded) == 1:
        (ranker,) = rankers.values()
        found = [*others, *_models(loaded), evaluate(ranker, data, **how)]
    else:
        of = names[str(baseline)] if baseline is not None else list(loaded)[-1]
        new = next(name for name in loaded if name != of)
        how |= {"baseline": of, "progress": progress}
        found = [*others, *_compared(loaded, new, data, examples, how)]
    first = next(iter(loaded.values()))
    return [*found, *_checked(found), *_bounds(first, data, how["plugins"])], new


def _rankers_among(results: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Files and models by name, and the other results."""
    rankers: dict[str, Any] = {}
    others = []
    for one in results:
        if isinstance(one, Path | str):
            rankers.setdefault(str(one), one)
        elif isinstance(one, Mapping):
            rankers |= {str(name): each for name, each in one.items()}
        elif hasattr(one, "feature_names") and hasattr(one, "record"):
            rankers[f"the {one.kind} model"] = one
        else:
            others.append(one)
    return rankers, others


def _models(rankers: dict[str, Any], scores: Vector | None = None) -> list[Any]:
    """The rankers with a record or curves, the first with its scores; no features, no runs.

    A feature that ranks alone is a linear model without a training.
    """
    from owpc_ltr_report.material import ReportRanker

    return [
        ReportRanker(name, ranker, scores if number == 0 else None)
        for number, (name, ranker) in enumerate(rankers.items())
        if hasattr(ranker, "record") and "base" not in ranker.record
    ]


def _compared(
    rankers: dict[str, Any], new: str, data: Data, examples: int, how: dict[str, Any]
) -> list[Any]:
    """The comparison, its queries, the models, and examples."""
    from dataclasses import replace

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.documents import with_document_fields
    from owpc_ltr.evaluation.compare import compare
    from owpc_ltr.models.model_file import warnings_of
    from owpc_ltr.models.reordering import ReorderingModel, dataset_scores

    found = compare(rankers, data=data, **how)
    baseline = how["baseline"]
    warnings = [f"in training: {one}" for one in warnings_of(getattr(rankers[new], "record", {}))]
    found = replace(found, warnings=(*warnings, *found.warnings))
    chosen = _queries_of(found, data)
    if not isinstance(chosen, RankingDataset):
        return [found, chosen, *_models(rankers)]
    pair = rankers[baseline], rankers[new]
    if how["documents"] is not None:
        names = [
            name for one in pair if isinstance(one, ReorderingModel) for name in one.field_names
        ]
        documents = Path(how["documents"])
        chosen = with_document_fields(chosen, ("title", *names), documents, how["id_field"])
    scores = dataset_scores(pair[0], chosen), dataset_scores(pair[1], chosen)
    shown = _examples(found, chosen, scores, (baseline, new), pair[1], examples)
    return [found, chosen, *_models(rankers, scores[1]), *shown]


def _queries_of(found: RankerComparison, data: Data) -> Data:
    """The queries of the data that a comparison is of."""
    import numpy as np

    if found.n_queries == data.n_queries:
        return data
    place = {query: number for number, query in enumerate(data.query_ids.to_pylist())}
    return data.select(np.array([place[one] for one in found.query_ids.to_pylist()]))


def _examples(
    found: RankerComparison,
    data: RankingDataset,
    scores: tuple[Vector, Vector],
    names: tuple[str, str],
    ranker: Any,
    count: int,
) -> list[Example]:
    """The queries that lose most and gain most by the first metric, with their documents.

    `scores` and `names` are those of the baseline and of the new ranker.
    """
    from owpc_ltr_report.queries import Example, example_documents, extremes

    metric = found.metrics[0]
    before, after = (found.ranker(name).measured[0].per_query for name in names)
    sign = 1.0 if metric.higher_is_better else -1.0
    losses, gains = extremes(sign * (after - before), count)
    texts = [] if found.query_texts is None else found.query_texts.to_pylist()
    contribute = _contribute(ranker)
    return [
        Example(
            (texts[query] if texts else "") or str(data.query_ids[query].as_py()),
            str(metric),
            float(before[query]),
            float(after[query]),
            int(data.offsets[query + 1] - data.offsets[query]),
            example_documents(data, query, scores, contribute),
        )
        for query in (*losses, *gains)
    ]


def _contribute(ranker: Any) -> Contribute | None:
    """The contributions of features to a ranker's scores; None for a kind without them."""
    import numpy as np

    from owpc_ltr.errors import Refused
    from owpc_ltr.explanations.contributions import contributions

    names = getattr(ranker, "feature_names", ())
    try:
        contributions(ranker, np.zeros((1, len(names)), np.float32))
    except Refused:
        return None
    return lambda features: contributions(ranker, features).amounts


def _checked(found: Sequence[Any]) -> list[Inspection]:
    """The data checks of the queries that rankers are measured on, without training."""
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.evaluate import Evaluation
    from owpc_ltr.inspection.inspect import inspect

    for one in found:
        data = one.data if isinstance(one, Evaluation) else one
        if isinstance(data, RankingDataset):
            return [inspect(data, training=False)]
    return []


def _bounds(ranker: Any, data: Data, plugins: Sequence[Path | str]) -> list[Bound]:
    """The risk bounds of a linear model on the queries that it was trained on."""
    from owpc_ltr_papers.bounds import bounds

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.errors import OwpcLtrError
    from owpc_ltr.evaluation.held_out import model_data
    from owpc_ltr.models.linear import LinearModel

    if not isinstance(ranker, LinearModel) or not ranker.record.get("loss"):
        return []
    try:
        trained = model_data(ranker, data, "train").data
    except OwpcLtrError:
        # The model was trained on other data.
        return []
    if not isinstance(trained, RankingDataset):
        return []
    return list(bounds(ranker, trained, plugins=plugins).bounds)
