"""Sections on data: sizes and warnings, latency, drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.blocks import WARNING, FactList, Table, Tiles
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.host.report_parts import plain
from owpc_ltr.inspection.result import Inspection
from owpc_ltr_report.comparison import query_selection
from owpc_ltr_report.page import Chart, PageBlock, Section, drawing, finite, lines, section_of

_FEATURES_IN_CHART = 30

_GRADES_IN_CHART = 12

_TIMES = "median_ms", "p95_ms"

_ROWS_IN_CHART = 20


@dataclass(frozen=True)
class Latency:
    """Milliseconds of features, of windows by size, and of searches with and without features.

    Rows of `features` are (name, milliseconds, low, high), those of `windows` (size, median, 95th
    percentile); `searches` have the last two by name.
    """

    features: Sequence[tuple[str, float, float | None, float | None]]
    windows: Sequence[tuple[float, float, float]] = ()
    searches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    about: str = ""


def latency_of(content: Mapping[str, Any], source: str) -> Latency:
    """What profile prints as JSON, or {"feature": milliseconds}. BadInput names the source."""
    try:
        if not isinstance(content.get("features"), list):
            return Latency([(name, *_times(content, name), None, None) for name in content])
        index = content.get("index")
        return Latency(
            [
                (str(row["feature"]), *_times(row, "milliseconds"), row.get("low"), row.get("high"))
                for row in content["features"]
            ],
            [(float(row["window"]), *_times(row, *_TIMES)) for row in content.get("windows", ())],
            {name: _times(row, *_TIMES) for name, row in content.get("searches", {}).items()},
            f"index {index}, {content.get('store_kind', '')}" if index else "",
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{source} is not the JSON that profile prints: {error}") from error


def read_latency(path: Path | str) -> Latency:
    """The latency in a file: what profile prints as JSON, or {"feature": milliseconds}."""
    return latency_of(read_json_object(Path(path)), str(path))


def _times(entry: Mapping[str, Any], *names: str) -> Any:
    """The milliseconds of these names. Raises ValueError for a value that is none."""
    values = [entry[name] for name in names]
    for value in values:
        if finite(value) is None:
            raise ValueError(f"{value!r} is not milliseconds")
    return tuple(map(float, values))


def latency_section(latency: Latency) -> Section | None:
    """The cost of features and windows; None where nothing was measured."""
    charts = []
    if latency.features:
        ordered = sorted(latency.features, key=lambda row: -row[1])
        first = ordered[:_FEATURES_IN_CHART]
        have_intervals = all(None not in row for row in first)
        rows = first if have_intervals else [row[:2] for row in first]
        spec = drawing("bars", rows, title="milliseconds per search")
        most = ", ".join(f"{name} ({plain(cost)} ms)" for name, cost, _, _ in ordered[:3])
        sentence = f"The most expensive of {len(ordered)} are {most}."
        headers = "feature", "milliseconds", "95 % low", "95 % high"
        table = Table(headers, ordered, "Milliseconds of each feature")
        charts.append(Chart("feature-costs", "The cost of each feature", spec, sentence, table))
    if len(latency.windows) > 1:
        series = {
            "median": [(size, median) for size, median, _ in latency.windows],
            "95th percentile": [(size, high) for size, _, high in latency.windows],
        }
        axes, sizes = ("window (documents)", "milliseconds"), [row[0] for row in latency.windows]
        spec = lines(series, *axes, log_x=True, zero=True, ticks=sizes)
        smallest, largest = latency.windows[0], latency.windows[-1]
        sentence = (
            f"The median goes from {plain(smallest[1])} ms for {smallest[0]:g} documents to "
            f"{plain(largest[1])} ms for {largest[0]:g}."
        )
        table = Table(("window", *series), latency.windows, "Milliseconds by window")
        charts.append(Chart("windows", "The cost of a larger window", spec, sentence, table))
    names = {"all": "a search with all features", "none": "a search without features"}
    tiles = [
        (names[name], f"{median:.2f} ms", f"95th percentile {p95:.2f} ms")
        for name, (median, p95) in latency.searches.items()
        if name in names
    ]
    if not charts and not tiles:
        return None
    measured = f" Measured on {latency.about}." if latency.about else ""
    lead = (
        "Milliseconds that each feature adds to a search. Where an interval begins at 0, the cost "
        f"is within the noise of the timing.{measured}"
    )
    blocks: list[PageBlock] = [*([Tiles(tiles)] if tiles else []), *charts]
    return section_of("latency", "What does it cost?", lead, blocks)


def drift_section(verification: Verification) -> Section:
    """The result of `verify`: what has drifted, feature drift, and rank agreement."""
    charts = []
    features = verification.features
    drifted = [(row.feature, row.by) for row in features if row.by > 0][:_ROWS_IN_CHART]
    if drifted:
        name, by = drifted[0]
        sentence = f"{name} has the largest: its mean changed by {plain(by)} standard deviations."
        headers = "feature", "drift", "mean at the upload", "mean now", "newly missing"
        rows = [
            (row.feature, row.by, row.mean_before, row.mean_now, f"{row.newly_missing:.1%}")
            for row in features
        ]
        table = Table(headers, rows, "Features at the upload and now")
        spec = drawing("bars", drifted, title="standard deviations")
        charts.append(Chart("feature-drift", "Feature drift", spec, sentence, table))
    parity, rankings = verification.parity, verification.rankings
    known = [("model", verification.model), ("index", verification.index)]
    if parity is not None:
        known += [
            ("judged queries", plain(parity.queries)),
            ("judged documents", plain(parity.documents)),
            ("largest difference of a score", plain(parity.largest_difference)),
            ("pairs in another order by engine and local scores", plain(parity.swapped)),
        ]
    if rankings is not None:
        known.append(("rank agreement on the judged documents", rankings.words))
    if verification.switch:
        known.append(("switched to it", verification.switch))
    changed = "has drifted" if verification.drift else "has not changed"
    lead = f"{verification.model} {changed} since it was uploaded."
    warnings = [f"{WARNING}{what}" for what in verification.drift]
    blocks: list[PageBlock] = [*warnings, *verification.notes, FactList(known), *charts]
    return section_of("drift", "Is it unchanged?", lead, blocks)


def data_section(
    data: RankingDataset | PartitionedDataset, measured: RankerComparison | None
) -> Section:
    """The sizes of the data, and the number of documents by grade."""
    facts = [
        ("queries", plain(data.n_queries)),
        ("documents", plain(data.n_documents)),
        ("features", plain(data.n_features)),
    ]
    blocks: list[PageBlock] = [FactList(facts)]
    if isinstance(data, RankingDataset):
        low, median, high = np.percentile(np.diff(data.offsets), [0, 50, 100]).tolist()
        facts += [
            ("documents per query", f"{low:.0f} to {high:.0f}, median {median:.0f}"),
            ("missing values", f"{data.missing_share:.2%}"),
        ]
        n, counts, title = data.n_documents, data.label_counts, "Documents by grade"
        rows = [(f"grade {g:g}", count, f"{count / n:.1%}") for g, count in counts.items()]
        table = Table(("grade", "documents", "share"), rows[: 10 * _GRADES_IN_CHART], title)
        if len(rows) > _GRADES_IN_CHART:
            blocks.append(table)
        else:
            share = sum(count for grade, count in counts.items() if grade > 0) / max(n, 1)
            sentence = f"{share:.1%} of the judged documents are relevant (graded above 0)."
            spec = drawing("bars", [row[:2] for row in rows], title="documents", digits=",")
            blocks.append(Chart("grades", title, spec, sentence, table))
        blocks += data.notes
    title, lead = "What are the data?", "Nothing on this page is measured on these data."
    if measured is not None:
        title = "What was it measured on?"
        lead = f"The figures of this page are of {query_selection(measured)}."
    return section_of("data", title, lead, blocks)


def inspection_section(inspection: Inspection) -> Section:
    """The findings, the worst first."""
    rows = [(entry.severity, (entry.message, entry.advice)) for entry in inspection.findings]
    lead, n = "No finding that affects figures or models.", len(inspection.warnings)
    if n:
        lead = f"{n} warning{'s' if n > 1 else ''} that may affect figures or models."
    table = Table(("severity", "finding, and what to do"), rows, "Findings, the worst first")
    blocks = [table if rows else "No check found anything."]
    return section_of("inspection", "Can the data be trusted?", lead, blocks)
