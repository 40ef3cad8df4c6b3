"""Sections on data: sizes and warnings, clicks, latency, drift, the judgment pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from owpc_ltr_clicks.judgments import ClickJudgments
from owpc_ltr_clicks.model_selection import GROUPS, ChosenModel, examination_interval

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.live_results.judge_pool import Pooled
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.inspection.result import Inspection
from owpc_ltr_report.comparison import query_selection
from owpc_ltr_report.page import (
    Chart,
    Row,
    Section,
    Spec,
    Table,
    configured,
    drawing,
    finite,
    lines,
    plain,
    shortened,
    signed,
)

_FEATURES_IN_CHART = 30

_GRADES_IN_CHART = 12

_WALL = "wall_median_ms", "wall_p95_ms"

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
    """The content of `profile --json`, or {"feature": milliseconds}. BadInput names the source."""
    try:
        if not isinstance(content.get("features"), list):
            return Latency([(name, *_times(content, name), None, None) for name in content])
        index = content.get("index")
        return Latency(
            [
                (str(row["feature"]), *_times(row, "milliseconds"), row.get("low"), row.get("high"))
                for row in content["features"]
            ],
            [(float(row["window"]), *_times(row, *_WALL)) for row in content.get("windows", ())],
            {name: _times(row, *_WALL) for name, row in content.get("searches", {}).items()},
            f"index {index}, {content.get('store_kind', '')}" if index else "",
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{source} is not the output of profile --json: {error}") from error


def read_latency(path: Path | str) -> Latency:
    """The latency in a file: the output of `profile --json`, or {"feature": milliseconds}."""
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
        table = Table("Milliseconds of each feature", headers, ordered)
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
        table = Table("Milliseconds by window", ("window", *series), latency.windows)
        charts.append(Chart("windows", "The cost of a larger window", spec, sentence, table))
    names = {"all": "a search with all features", "none": "a search without features"}
    tiles = [
        (names[name], f"{median:.2f} ms", f"95th percentile {p95:.2f} ms")
        for name, (median, p95) in latency.searches.items()
        if name in names
    ]
    words = {"tiles_of": tiles, "about": latency.about}
    return Section("latency", charts, words) if charts or tiles else None


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
        table = Table("Features at the upload and now", headers, rows)
        spec = drawing("bars", drifted, title="standard deviations")
        charts.append(Chart("feature-drift", "Feature drift", spec, sentence, table))
    return Section("drift", charts, {"found": verification})


def pool_section(pool: Pooled) -> Section:
    """Documents to grade by query, those with the most documents first."""
    counts = [
        (query_text(query.params) or query.query_id, len(query.doc_ids)) for query in pool.queries
    ]
    rows = sorted(counts, key=lambda row: -row[1])
    drawn = rows[:_ROWS_IN_CHART]
    sentence = f"The chart has the {len(drawn)} of {len(rows):,} queries with the most documents."
    table = Table("Documents to grade", ("query", "documents"), rows)
    spec = drawing("bars", drawn, title="documents", digits=",d")
    chart = Chart("pool", "Documents to grade, by query", spec, sentence, table)
    return Section("pool", [chart], {"found": pool})


def data_section(
    data: RankingDataset | PartitionedDataset, measured: RankerComparison | None
) -> Section:
    """The sizes of the data, and the number of documents by grade."""
    charts, grades, sizes = [], None, None
    if isinstance(data, RankingDataset):
        sizes = np.percentile(np.diff(data.offsets), [0, 50, 100]).tolist()
        n, counts, title = data.n_documents, data.label_counts, "Documents by grade"
        rows = [(f"grade {g:g}", count, f"{count / n:.1%}") for g, count in counts.items()]
        grades = rows[: 10 * _GRADES_IN_CHART]
        if len(rows) <= _GRADES_IN_CHART:
            share = sum(count for grade, count in counts.items() if grade > 0) / max(n, 1)
            sentence = f"{share:.1%} of the judged documents are relevant (graded above 0)."
            spec = drawing("bars", [row[:2] for row in rows], title="documents", digits=",")
            table = Table(title, ("grade", "documents", "share"), grades)
            charts = [Chart("grades", title, spec, sentence, table)]
    measured_on = None if measured is None else query_selection(measured)
    words = {"data": data, "sizes": sizes, "grades": grades, "measured_on": measured_on}
    return Section("data", charts, words)


def inspection_section(inspection: Inspection) -> Section:
    """The findings, the worst first; the learning curve and the test with shuffled labels."""
    charts, curve = [], inspection.learning_curve
    warnings = [
        (entry.severity, (entry.message, entry.advice) if entry.advice else entry.message)
        for entry in inspection.findings
    ]
    if curve is not None and len(curve.points) > 1:
        points = [(point.queries, point.mean, point.low, point.high) for point in curve.points]
        caption = f"{curve.metric} on {curve.held_out:,} held-out queries"
        table = Table(caption, ("training queries", "mean", "95 % low", "95 % high"), points)
        spec = drawing("learning_curve", points, x="queries to train on", y=curve.metric)
        title = "Are there enough judgments?"
        charts = [Chart("learning-curve", title, spec, curve.told, table)]
    n_warnings = len(inspection.warnings)
    words = {"findings": warnings, "canary": inspection.canary, "n_warnings": n_warnings}
    return Section("inspection", charts, words)


_RANKS_IN_CHART = 30

_QUERIES_IN_TABLE = 10

_BINS = (1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000)

_WEIGHTS = (0.1, 0.25, 0.5, 0.75, 0.9)

_EXAMINATION = "Examination probability by rank"


def click_sections(judgments: ClickJudgments) -> list[Section]:
    """All sections on judgments from clicks."""
    counts, chosen = judgments.behaviour.counts, judgments.chosen
    by_model = [_examination_by_model(chosen)] if len(chosen.held_out) > 1 else []
    examination = Section("examination", [_examination(counts, chosen), *by_model])
    events, evidence = _events_section(judgments), _evidence_section(judgments)
    return [events, examination, _models_section(chosen), evidence, _settings_section(judgments)]


def _events_section(judgments: ClickJudgments) -> Section:
    log, charts = judgments.behaviour.event_counts, []
    content = log.as_dict()
    reasons = list(content["unusable"].items())
    if reasons:
        sentence = (
            f"{log.read - log.used:,} of {log.read:,} events were not used, most of them for "
            f"this reason: {reasons[0][0]}."
        )
        rows, total = [("used", log.used), *reasons], max(log.used + sum(n for _, n in reasons), 1)
        cells = [(name, n, f"{n / total:.2%}") for name, n in rows]
        table = Table("Events by use", ("what", "events", "share"), cells)
        spec = drawing("bars", reasons, title="events", digits=",")
        charts = [Chart("unused-events", "Unused events", spec, sentence, table)]
    other_actions = [(name or "(none)", n) for name, n in content["other_actions"].items()]
    words = {"told": judgments.warnings, "log": log, "others": other_actions}
    return Section("events", charts, words)


def _examination(counts: ClickCounts, chosen: ChosenModel) -> Chart:
    values = chosen.fit.examination
    impressions, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    ends = examination_interval(chosen.model, counts, values)
    low, high = (values, values) if ends is None else ends
    rates = np.divide(clicks, impressions, out=np.zeros_like(impressions), where=impressions > 0)
    ranks = range(1, min(len(values), len(impressions)) + 1)
    rows = list(zip(ranks, values.tolist(), low.tolist(), high.tolist(), strict=False))
    sentence = "At every rank users look more than half as often as at the first."
    if half := next((rank for rank, value, _, _ in rows if value < 0.5), None):
        sentence = (
            f"From rank {half} on users look less than half as often as where they look most."
        )
    if ends is None:
        sentence += " There are too few clicks for an interval."
    else:
        sentence += f" The band is the 95 % interval, by fits to {GROUPS} groups of queries."
    headers = ("rank", "examination", "95 % low", "95 % high", "impressions", "click rate")
    cells = [
        (
            rank, f"{value:.1%}",
            *("–" if ends is None else f"{end:.1%}" for end in (lowest, highest)),
            int(impressions[rank - 1]), f"{rates[rank - 1]:.2%}",
        )
        for rank, value, lowest, highest in rows
    ]  # fmt: skip
    spec = drawing("share_by_rank", rows[:_RANKS_IN_CHART], y="examination probability")
    table, title = Table(_EXAMINATION, headers, cells), f"{_EXAMINATION}, by {chosen.name}"
    return Chart("examination", title, spec, sentence, table)


def _examination_by_model(chosen: ChosenModel) -> Chart:
    """The estimates of all models, fitted without held-out people."""
    by_model = {score.model: score.examination for score in chosen.held_out}
    spec, rows = _by_rank(by_model, "examination probability", ".1%", zero=True)
    sentence = (
        "Each model's own estimate, from four of five people. A click-through rate takes every "
        "rank for examined."
    )
    table = Table(f"{_EXAMINATION}, by model", ("rank", *by_model), rows)
    return Chart("examination-by-model", f"{_EXAMINATION}, by every model", spec, sentence, table)


def _by_rank(
    by_model: Mapping[str, Vector], y: str, digits: str, **how: bool
) -> tuple[Spec, list[Row]]:
    """A line for the first ranks of each model, and the cells of all ranks."""
    rows: list[Row] = [
        (rank, *(None if value is None else f"{value:{digits}}" for value in values))
        for rank, values in enumerate(zip_longest(*by_model.values()), 1)
    ]
    points = {
        name: [(float(rank), at) for rank, at in enumerate(values[:_RANKS_IN_CHART].tolist(), 1)]
        for name, values in by_model.items()
    }
    return lines(points, "rank", y, marks=False, **how), rows


def _models_section(chosen: ChosenModel) -> Section:
    """Likelihood of sessions and perplexity of each model, over all and by rank."""
    models = sorted(chosen.held_out, key=lambda score: -score.session_log_likelihood)
    rows = [
        (
            score.model, signed(score.session_log_likelihood), f"{score.perplexity:.4f}",
            "judges" if score.model == chosen.name
            else "" if score.identified else "examination not identified",
        )
        for score in models
    ]  # fmt: skip
    values = {score.model: score.perplexity_by_rank for score in models}
    spec, by_rank = _by_rank(values, "perplexity", ".4f")
    sentence = (
        "The nearer to 1, the better the clicks at a rank are predicted. Ranks with few clicks are "
        "easy to predict: compare models at one rank."
    )
    title, headers = "Perplexity by rank", ("rank", *(score.model for score in models))
    chart = Chart("perplexity", title, spec, sentence, Table(title, headers, by_rank))
    return Section("click-models", [chart], {"of_models": rows, "lists": models[0].lists})


def _evidence_section(judgments: ClickJudgments) -> Section:
    """Impressions by document, grades, weights, and the queries with most and least evidence."""
    counts = judgments.behaviour.counts
    seen = counts.by_pair(counts.shown)
    sizes = np.bincount(counts.pair_query, minlength=len(counts.queries))
    grades: Vector = judgments.table["grade"].to_numpy()
    of_grades = _tenths(grades)
    if not (grades != np.floor(grades)).any():
        by_grade = np.bincount(grades.astype(np.int64)).tolist()
        of_grades = [(f"{grade}", count) for grade, count in enumerate(by_grade)]
    charts = [
        _documents("impressions", "Impressions per document", "impressions", _binned(seen)),
        _documents("click-grades", "Grades", "grade", of_grades),
    ]
    own_shares = []
    if "weight" in judgments.table.column_names:
        weights: Vector = judgments.table["weight"].to_numpy()
        shares = bool(weights.max(initial=0.0) <= 1.0)
        binned = _tenths(weights) if shares else _binned(weights)
        charts.append(_documents("click-weights", "Weights", "weight", binned))
        if shares:
            above = [(at, weights >= at) for at in _WEIGHTS]
            own_shares = [(f"{at:g}", int(has.sum()), f"{np.mean(has):.1%}") for at, has in above]
    queries, n = _queries(judgments, seen, sizes), _QUERIES_IN_TABLE
    words = {
        "queries": sizes, "middle_of_queries": np.median(sizes), "seen": seen,
        "middle_of_seen": np.median(seen), "clicked": np.mean(counts.by_pair(counts.clicked) > 0),
        "own_shares": own_shares,
        "most": queries[:n], "least": queries[n:][::-1][:n],
    }  # fmt: skip
    return Section("evidence", charts, words)


def _documents(name: str, title: str, measure: str, rows: list[tuple[str, int]]) -> Chart:
    """Numbers of documents by a label."""
    total = max(sum(count for _, count in rows), 1)
    label, most = max(rows, key=lambda row: row[1])
    value = f"{label} {measure}" if measure == "impressions" else f"{measure} {label}"
    sentence = f"Of {total:,} documents most, {most / total:.1%}, have {value}."
    cells = [(label, count, f"{count / total:.1%}") for label, count in rows]
    table = Table(title, (measure, "documents", "share"), cells)
    return Chart(name, title, drawing("columns", rows, x=measure, y="documents"), sentence, table)


def _binned(values: Vector) -> list[tuple[str, int]]:
    """Counts by size, from the first bin with a count to the last."""
    counts = np.histogram(values, np.array([0.0, *_BINS, np.inf]))[0]
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1])) if len(filled) else (0, 0)
    between = (f"{a:,}" if b - a == 1 else f"{a:,}–{b - 1:,}" for a, b in pairwise(_BINS))
    labels = ["below 1", *between, f"{_BINS[-1]:,}+"]
    return [(labels[place], int(counts[place])) for place in range(first, last + 1)]


def _tenths(values: Vector) -> list[tuple[str, int]]:
    counts = np.histogram(values, np.linspace(0.0, 1.0, 11))[0]
    return [(f"{n / 10:.1f}–{(n + 1) / 10:.1f}", int(count)) for n, count in enumerate(counts)]


def _queries(judgments: ClickJudgments, seen: Vector, sizes: Any) -> list[Row]:
    """Queries by the mean number of examinations of their documents."""
    counts = judgments.behaviour.counts
    query_of = counts.pair_query
    examined = np.bincount(query_of, judgments.chosen.fit.trials, len(sizes)) / sizes
    impressions = np.bincount(query_of, seen, len(sizes))
    clicks = np.bincount(query_of, counts.by_pair(counts.clicked), len(sizes))
    return [
        (
            shortened(counts.queries[query].as_py()), int(counts.people[query]), int(sizes[query]),
            int(impressions[query]), int(clicks[query]), round(float(examined[query]), 1),
        )
        for query in np.argsort(-examined, kind="stable").tolist()
    ]  # fmt: skip


def _settings_section(judgments: ClickJudgments) -> Section:
    """The log and the click model with its settings, cleaning, grades and weights."""
    model = judgments.chosen.model
    model_fields: tuple[Field[Any], ...] = fields(model) if is_dataclass(model) else ()
    settings = {setting.name: getattr(model, setting.name) for setting in model_fields}
    words = {"found": judgments, "model": configured(judgments.chosen.name, settings)}
    return Section("settings", [], words)
