"""Judgments from clicks: the log, examination, click models, evidence and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from owpc_ltr_clicks.judgments import ClickJudgments
from owpc_ltr_clicks.model_selection import GROUPS, ChosenModel, examination_interval

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr_report.page import (
    Chart,
    Row,
    Section,
    Spec,
    Table,
    configured,
    drawing,
    lines,
    shortened,
    signed,
)

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
        "effective": judgments.effective, "own_shares": own_shares,
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
