"""Judgments from clicks: the log, examination, click models, evidence and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Block,
    Cell,
    Chart,
    Facts,
    PageVerdict,
    Section,
    Table,
    Text,
    Tile,
    capital,
    plain,
    shortened,
    signed,
)
from owpc_ltr_report.charts import bars, columns, lines, share_by_rank

if TYPE_CHECKING:
    from owpc_ltr_clicks.grading import EffectiveSample
    from owpc_ltr_clicks.judgments import ClickJudgments
    from owpc_ltr_clicks.model_selection import ChosenModel

_RANKS_IN_CHART = 30
_QUERIES_IN_TABLE = 10
_BINS = (1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000)
_WEIGHTS = (0.1, 0.25, 0.5, 0.75, 0.9)
_ADVICE = (
    "A better model of clicks is not necessarily a better ranking: have people judge a sample of "
    "the queries, and compare on those."
)
_EXAMINATION = "Examination probability by rank"


def click_sections(found: ClickJudgments, effective: EffectiveSample | None) -> list[Section]:
    """All sections on judgments from clicks; `effective` counts weighted clicks."""
    return [
        _events_section(found),
        _examination_section(found.behaviour.counts, found.chosen),
        _models_section(found.chosen),
        _evidence_section(found, effective),
        _settings_section(found),
    ]


def click_verdict(found: ClickJudgments, effective: EffectiveSample | None) -> PageVerdict:
    """The number of judgments and the click model; warnings come first."""
    warnings = [*found.warnings, *(() if effective is None else effective.warnings)]
    counts, log = found.behaviour.counts, found.behaviour.event_counts
    judged = f"{counts.n_pairs:,} documents", f"of {found.n_queries:,} queries"
    sentence = f"{' '.join(judged)} got judgments, by {found.chosen.name}: {_reason(found)}."
    impressions, clicks = int(counts.shown.sum()), int(counts.clicked.sum())
    tiles = (
        Tile("events", f"{log.used:,} used", f"of {log.read:,}"),
        Tile("log", f"{impressions:,} impressions", f"{clicks:,} clicks"),
        Tile("judged", *judged),
    )
    if not warnings:
        return PageVerdict(NEUTRAL, sentence, (_ADVICE,), tiles, "No warnings")
    first, *rest = (f"{capital(warning)}." for warning in warnings)
    heading = "Read the warnings first"
    return PageVerdict("worse", f"{first} {sentence}", (*rest, _ADVICE), tiles, heading)


def _reason(found: ClickJudgments) -> str:
    models = found.chosen.held_out
    own = next(one for one in models if one.model == found.chosen.name)
    values = f"log likelihood {own.session_log_likelihood:.4f}, perplexity {own.perplexity:.4f}"
    if len(models) == 1:
        return f"the only model asked for ({values} of the sessions of held-out people)"
    identified = sum(one.identified for one in models) or len(models)
    among = f"{len(models)} click models"
    if identified < len(models):
        among += f" the log identifies {identified}, of which"
    return f"of {among} it predicts the sessions of held-out people best ({values})"


def _events_section(found: ClickJudgments) -> Section:
    log = found.behaviour.event_counts
    content = log.as_dict()
    blocks: list[Block] = [Text(warning, "warning") for warning in found.warnings]
    reasons = list(content["unusable"].items())
    if reasons:
        sentence = (
            f"{log.read - log.used:,} of {log.read:,} events were not used, most of them for "
            f"this reason: {reasons[0][0]}."
        )
        table = _counted("Events by use", "what", "events", [("used", log.used), *reasons], 2)
        spec = bars([(reason, float(n)) for reason, n in reasons], "events", digits=",")
        blocks.append(Chart("unused-events", "Unused events", spec, sentence, table))
    else:
        blocks.append(Text("Every event was used.", "good"))
    how = "given" if log.first_position_given else "found"
    rows = (
        ("events read", f"{log.read:,}"),
        ("used", f"{log.used:,} ({log.used / max(log.read, 1):.1%})"),
        ("clicks without an impression", f"{log.implied:,}"),
        ("positions begin with", f"{log.first_position} ({how})"),
    )
    blocks.append(Facts(rows))
    if log.others:
        others = [(name or "(none)", n) for name, n in content["other_actions"].items()]
        blocks.append(Table("Other actions, which are left out", ("action", "events"), others))
    lead = "Every event was used or is counted under the reason why it was not."
    return Section("events", "Events", "How much of the log was used?", lead, blocks)


def _counted(
    caption: str, of: str, what: str, rows: list[tuple[str, int]], digits: int = 1
) -> Table:
    """Counts by a label, with their share of all."""
    total = max(sum(count for _, count in rows), 1)
    cells = [(label, count, f"{count / total:.{digits}%}") for label, count in rows]
    return Table(caption, (of, what, "share"), cells)


def _examination_section(counts: ClickCounts, chosen: ChosenModel) -> Section:
    blocks = [_examination(counts, chosen)]
    if len(chosen.held_out) > 1:
        blocks.append(_examination_by_model(chosen))
    lead = (
        "Users click on what they examine, and they examine high ranks more often. Clicks become "
        "judgments by removing this bias; 100 % is the rank that they examine most."
    )
    title = "How far down do users look?"
    return Section("examination", "Examination", title, lead, blocks)


def _examination(counts: ClickCounts, chosen: ChosenModel) -> Chart:
    from owpc_ltr_clicks.model_selection import GROUPS, examination_interval

    values = chosen.fit.examination
    impressions, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    ends = examination_interval(chosen.model, counts, values)
    low, high = (values, values) if ends is None else ends
    rates = np.divide(clicks, impressions, out=np.zeros_like(impressions), where=impressions > 0)
    ranks = range(1, min(len(values), len(impressions)) + 1)
    rows = list(zip(ranks, values.tolist(), low.tolist(), high.tolist(), strict=False))
    half = next((rank for rank, value, _, _ in rows if value < 0.5), None)
    falls = "At every rank users look more than half as often as at the first."
    if half is not None:
        falls = f"From rank {half} on users look less than half as often as where they look most."
    certainty = "There are too few clicks for an interval."
    if ends is not None:
        certainty = f"The band is the 95 % interval, by fits to {GROUPS} groups of queries."
    headers = ("rank", "examination", "95 % low", "95 % high", "impressions", "click rate")
    cells = [
        (
            rank, f"{value:.1%}",
            *(("–", "–") if ends is None else (f"{lowest:.1%}", f"{highest:.1%}")),
            int(impressions[rank - 1]), f"{rates[rank - 1]:.2%}",
        )
        for rank, value, lowest, highest in rows
    ]  # fmt: skip
    spec = share_by_rank(rows[:_RANKS_IN_CHART], "examination probability")
    table = Table(_EXAMINATION, headers, cells)
    title = f"{_EXAMINATION}, by {chosen.name}"
    return Chart("examination", title, spec, f"{falls} {certainty}", table)


def _examination_by_model(chosen: ChosenModel) -> Chart:
    """The estimates of all models, fitted without held-out people."""
    found = {one.model: one.examination for one in chosen.held_out}
    rows = [
        (rank + 1, *(f"{one[rank]:.1%}" if rank < len(one) else None for one in found.values()))
        for rank in range(max(map(len, found.values())))
    ]
    series = {name: _by_rank(values) for name, values in found.items()}
    spec = lines(series, "rank", "examination probability", marks=False, zero=True)
    sentence = (
        "Each model's own estimate, from four of five people. A click-through rate takes every "
        "rank for examined."
    )
    table = Table(f"{_EXAMINATION}, by model", ("rank", *found), rows)
    title = f"{_EXAMINATION}, by every model"
    return Chart("examination-by-model", title, spec, sentence, table)


def _by_rank(values: Vector) -> list[tuple[float, float]]:
    return [(float(n), float(value)) for n, value in enumerate(values[:_RANKS_IN_CHART], 1)]


def _models_section(chosen: ChosenModel) -> Section:
    """Likelihood of sessions and perplexity of each model, over all and by rank."""
    models = sorted(chosen.held_out, key=lambda one: -one.session_log_likelihood)
    rows = [
        (
            one.model, signed(one.session_log_likelihood), f"{one.perplexity:.4f}",
            "judges" if one.model == chosen.name
            else "" if one.identified else "examination not identified",
        )
        for one in models
    ]  # fmt: skip
    caption = f"Sessions of held-out people, {models[0].lists:,} lists"
    of_models = Table(caption, ("model", "log likelihood of a session", "perplexity", ""), rows)
    title = "Perplexity by rank"
    series = {one.model: _by_rank(one.by_rank) for one in models}
    by_rank: list[tuple[Cell, ...]] = [
        (rank, *(f"{value:.4f}" for value in values))
        for rank, values in enumerate(zip(*(one.by_rank for one in models), strict=False), 1)
    ]
    sentence = (
        "The nearer to 1, the better the clicks at a rank are predicted. Ranks with few clicks are "
        "easy to predict: compare models at one rank."
    )
    spec = lines(series, "rank", "perplexity", marks=False)
    chart = Chart("perplexity", title, spec, sentence, Table(title, ("rank", *series), by_rank))
    lead = (
        "One person in five is held out of the fits. The likelihood is that of all clicks in a "
        "list together, each given the clicks above it. A perplexity of 1 is certainty, one of 2 "
        "a coin toss."
    )
    title = "Which model predicts clicks best?"
    return Section("click-models", "Click models", title, lead, (of_models, chart))


def _evidence_section(found: ClickJudgments, effective: EffectiveSample | None) -> Section:
    """Impressions by document, grades, weights, and the queries with most and least evidence."""
    counts = found.behaviour.counts
    seen = counts.by_pair(counts.shown)
    sizes = np.bincount(counts.pair_query, minlength=len(counts.queries))
    clicked = np.mean(counts.by_pair(counts.clicked) > 0)
    middle = np.median(seen)
    rows = [
        ("queries", f"{len(sizes):,}"),
        ("documents per query", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}"),
        ("impressions per document", f"{seen.min():,.0f} to {seen.max():,.0f}, median {middle:g}"),
        ("documents with clicks", f"{clicked:.1%}"),
    ]
    if effective is not None:
        worth = (
            f"{effective.clicks:,}, worth {effective.effective:,.0f} equal ones; "
            f"{effective.clipped:,} were clipped"
        )
        rows.append(("weighted clicks", worth))
    grades: Vector = found.table["grade"].to_numpy()
    whole = not (grades != np.floor(grades)).any()
    by_grade = enumerate(np.bincount(grades.astype(np.int64)).tolist())
    of_grades = [(f"{n}", count) for n, count in by_grade] if whole else _tenths(grades)
    blocks: list[Block] = [
        Facts(rows),
        _documents("impressions", "Impressions per document", "impressions", _binned(seen)),
        _documents("click-grades", "Grades", "grade", of_grades),
    ]
    if "weight" in found.table.column_names:
        weights: Vector = found.table["weight"].to_numpy()
        shares = bool(weights.max(initial=0.0) <= 1.0)
        binned = _tenths(weights) if shares else _binned(weights)
        blocks.append(_documents("click-weights", "Weights", "weight", binned))
        if shares:
            caption = "Documents by the least share of their grade that is due to their own clicks"
            above = [(at, weights >= at) for at in _WEIGHTS]
            cells = [(f"{at:g}", int(one.sum()), f"{np.mean(one):.1%}") for at, one in above]
            blocks.append(Table(caption, ("weight at least", "documents", "share"), cells))
    lead = (
        "The more impressions, the surer a grade. A weight is the share of a grade that is due to "
        "a document's own clicks; the rest is common to all documents."
    )
    title = "What are the judgments based on?"
    return Section("evidence", "Evidence", title, lead, [*blocks, *_queries(found, seen, sizes)])


def _documents(name: str, title: str, of: str, rows: list[tuple[str, int]]) -> Chart:
    """Numbers of documents by a label."""
    total = max(sum(count for _, count in rows), 1)
    label, most = max(rows, key=lambda row: row[1])
    value = f"{label} {of}" if of == "impressions" else f"{of} {label}"
    sentence = f"Of {total:,} documents most, {most / total:.1%}, have {value}."
    spec = columns([(label, float(count)) for label, count in rows], of, "documents")
    return Chart(name, title, spec, sentence, _counted(title, of, "documents", rows))


def _binned(values: Vector) -> list[tuple[str, int]]:
    """Counts by size, from the first bin with a count to the last."""
    counts = np.histogram(values, np.array([0.0, *_BINS, np.inf]))[0]
    there = np.flatnonzero(counts)
    first, last = (int(there[0]), int(there[-1])) if len(there) else (0, 0)
    between = (f"{a:,}" if b - a == 1 else f"{a:,}–{b - 1:,}" for a, b in pairwise(_BINS))
    labels = ["below 1", *between, f"{_BINS[-1]:,}+"]
    return [(labels[place], int(counts[place])) for place in range(first, last + 1)]


def _tenths(values: Vector) -> list[tuple[str, int]]:
    counts = np.histogram(values, np.linspace(0.0, 1.0, 11))[0]
    return [(f"{n / 10:.1f}–{(n + 1) / 10:.1f}", int(count)) for n, count in enumerate(counts)]


def _queries(found: ClickJudgments, seen: Vector, sizes: NDArray[np.int64]) -> Iterator[Table]:
    """Queries by the mean number of examinations of their documents."""
    counts = found.behaviour.counts
    of = counts.pair_query
    examined = np.bincount(of, found.chosen.fit.trials, len(sizes)) / sizes
    impressions = np.bincount(of, seen, len(sizes))
    clicks = np.bincount(of, counts.by_pair(counts.clicked), len(sizes))
    order = np.argsort(-examined, kind="stable")
    headers = (
        "query", "people", "documents", "impressions", "clicks", "examinations per document",
    )  # fmt: skip
    most, least = order[:_QUERIES_IN_TABLE], order[_QUERIES_IN_TABLE:][::-1][:_QUERIES_IN_TABLE]
    for which, queries in (("most", most), ("least", least)):
        rows = [
            (
                shortened(counts.queries[query].as_py()), int(counts.people[query]),
                int(sizes[query]), int(impressions[query]), int(clicks[query]),
                round(float(examined[query]), 1),
            )
            for query in queries.tolist()
        ]  # fmt: skip
        if rows:
            yield Table(f"Queries with the {which} evidence", headers, rows)


def _settings_section(found: ClickJudgments) -> Section:
    """The log and the click model with its settings, cleaning, grades and weights."""
    options, chosen = found.behaviour.options, found.chosen
    model = chosen.model
    names: list[str] = [one.name for one in fields(model)] if is_dataclass(model) else []
    settings = ", ".join(f"{name}={plain(getattr(model, name))}" for name in names)
    alpha, beta = chosen.fit.prior
    prior = (
        f"a document attracts {alpha / (alpha + beta):.3f} of those who examine it, with the "
        f"weight of {alpha + beta:.1f} examinations"
    )
    rows = (
        *found.settings,
        ("click model", f"{chosen.name} ({settings})" if settings else chosen.name),
        ("prior", prior),
        ("actions", ", ".join(f"{name}={value:g}" for name, value in options.actions.items())),
        ("impressions", ", ".join(options.impressions)),
        ("lowest rank", plain(options.depth)),
        ("largest number of clicks per session", plain(options.max_clicks_per_session or None)),
        ("largest number of sessions per client", plain(options.max_sessions_per_client or None)),
        ("least number of people per query", plain(options.min_people)),
        ("case of queries", "kept" if options.keep_case else "folded"),
        ("from", options.since or "the beginning"),
        ("until", options.until or "the end"),
    )
    lead = "What reproduces the judgments. No user and no session is on this page."
    return Section("settings", "Settings", "How were they made?", lead, (Facts(rows),))
