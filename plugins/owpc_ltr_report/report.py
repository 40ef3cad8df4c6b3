"""`report`: one HTML page of results, on which rankers are measured and explained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

# The page needs both: without the extra, nothing is computed first.
import jinja2  # noqa: F401
import vl_convert  # noqa: F401

from owpc_ltr.data.options import MaxFeatureNumber, Memory
from owpc_ltr.evaluation.options import METRICS, IdField, Metrics, Split
from owpc_ltr.files.output import write_output
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Progress, Reads, Seed, Writes, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr_report.page import Page


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
            project="model",
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
        JudgedTable | Path | str | None,
        Reads(
            "Judged queries to measure the rankers on: Parquet, LETOR text, or a folder.",
            project="data",
        ),
        Argument.DATA,
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
        Argument.RANKER,
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
        Path | str | None, Reads("The cost of features, as profile prints it as JSON.")
    ] = None,
    heading: Annotated[str | None, Help("The heading of the page.")] = None,
    documents: Annotated[
        Path | str | None,
        Reads("The file that was indexed, for titles of documents and fields of rerankers."),
    ] = None,
    id_field: IdField = None,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    seed: Seed = 0,
    progress: Progress = silent,
    plugins: Plugins = (),
) -> Page:
    """Write a self-contained HTML page about rankers.

    Is the first ranker better, by how much, how sure is that, where does it lose, and why? Sections
    without data are left out, and the page says how to get them. With `documents`, queries show the
    titles of documents.

    Python: `results` is one result or several, of any kind: evaluations, comparisons, rankers or
    their files (by name in a mapping), datasets, bounds, and what `verify`,
    `profile`, `inspect`, `judge_clicks`, `fuse` and `keep` return. With `data`, rankers
    are measured on it as by `compare`. `charts` of the page has its charts by name.
    Raises UsageError for an object of another kind, BadInput for a file that is no model.
    """
    from owpc_ltr.data.datasets import open_or_read
    from owpc_ltr_report.checks import read_latency
    from owpc_ltr_report.material import Material, page_of
    from owpc_ltr_report.measurement import measure

    material, new = list(results) if isinstance(results, list | tuple) else [results], None
    if data is not None:
        if isinstance(data, Path | str):
            data = open_or_read(data, memory=memory, max_feature_number=max_feature_number)
        how: dict[str, Any] = {
            "metrics": metrics,
            "split": split,
            "documents": documents,
            "id_field": id_field,
            "seed": seed,
            "plugins": plugins,
        }
        material, new = measure(material, data, baseline, examples, progress=progress, how=how)
    elif baseline is not None:
        material.append(baseline)
    if feature_cost is not None:
        material.append(read_latency(feature_cost))
    progress("drawing the page", None)
    page = page_of(Material(material, plugins, new), heading)
    if out is not None:
        write_output(out, page.html().encode())
    return page
