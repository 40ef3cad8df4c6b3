"""What a report says of judgments from clicks: events, examination, click models, evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import WARNING, Block, ChartData, FactList, Row, Table, Tiles
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.host.report_parts import (
    ReportPart,
    ReportSection,
    ReportVerdict,
    capital,
    configured,
    plain,
    signed,
)
from owpc_ltr.text import cut
from owpc_ltr_clicks.judgments import ClickJudgments
from owpc_ltr_clicks.model_selection import GROUPS, ChosenModel, examination_interval

_LONGEST_QUERY = 90

_RANKS_IN_CHART = 30

_QUERIES_IN_TABLE = 10

_BINS = (1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000)


def report_part() -> ReportPart:
    """The part for `ClickJudgments`."""
    how = "judgments from clicks (owpc-ltr judge clicks --report)"
    return ReportPart(ClickJudgments, click_sections, click_verdict, how)


def click_verdict(judgments: ClickJudgments) -> ReportVerdict:
    """Whether there are warnings, and how well the model predicts."""
    chosen, counts = judgments.chosen, judgments.behaviour.counts
    models, warned = chosen.held_out, judgments.warnings
    own = next(score for score in models if score.model == chosen.name)
    values = f"log likelihood {own.session_log_likelihood:.4f}, perplexity {own.perplexity:.4f}"
    identified = sum(score.identified for score in models) or len(models)
    by = f"the only model asked for ({values} of the sessions of held-out people)"
    if len(models) > 1:
        some = f" the log identifies {identified}, of which" if identified < len(models) else ""
        by = (
            f"of {len(models)} click models{some} it predicts the sessions of held-out people best "
            f"({values})"
        )
    first = f"{capital(warned[0])}. " if warned else ""
    sentence = (
        f"{first}{counts.n_pairs:,} documents of {judgments.n_queries:,} queries got judgments, by "
        f"{chosen.name}: {by}."
    )
    log, seen = judgments.behaviour.event_counts, counts.shown.sum()
    tiles = Tiles(
        [
            ("events", f"{log.used:,} used", f"of {log.read:,}"),
            ("log", f"{int(seen):,} impressions", f"{int(counts.clicked.sum()):,} clicks"),
            ("judged", f"{counts.n_pairs:,} documents", f"of {judgments.n_queries:,} queries"),
        ]
    )
    advice = (
        "A better model of clicks is not necessarily a better ranking: have people judge a sample "
        "of the queries, and compare on those."
    )
    more = [*(f"{capital(warning)}." for warning in warned[1:]), advice]
    mood, title = ("worse", "Read the warnings first") if warned else ("neutral", "No warnings")
    return ReportVerdict(mood, title, sentence, "Judgments from clicks", (tiles, *more))


def click_sections(judgments: ClickJudgments) -> list[ReportSection]:
    """All sections on judgments from clicks."""
    chosen = judgments.chosen
    return [
        ReportSection(
            "events",
            "Events",
            "How much of the log was used?",
            "Every event was used or is counted under the reason why it was not.",
            [*_events(judgments)],
        ),
        ReportSection(
            "examination",
            "Examination",
            "How far down do users look?",
            "Users click on what they examine, and they examine high ranks more often. Clicks "
            "become judgments by removing this bias; 100 % is the rank that they examine most.",
            [_examination(judgments.behaviour.counts, chosen)],
        ),
        ReportSection(
            "click-models",
            "Click models",
            "Which model predicts clicks best?",
            "One person in five is held out of the fits. The likelihood is that of all clicks in a "
            "list together, each given the clicks above it. A perplexity of 1 is certainty, one of "
            "2 a coin toss.",
            [_models(chosen)],
        ),
        ReportSection(
            "evidence",
            "Evidence",
            "What are the judgments based on?",
            "The more impressions, the surer a grade. A weight is the share of a grade that is due "
            "to a document's own clicks; the rest is common to all documents.",
            [*_evidence(judgments)],
        ),
        ReportSection(
            "settings",
            "Settings",
            "How were they made?",
            "What reproduces the judgments. No user and no session is on this page.",
            [_settings(judgments)],
        ),
    ]


def _events(judgments: ClickJudgments) -> Iterator[Block]:
    log = judgments.behaviour.event_counts
    content = log.as_dict()
    yield from (f"{WARNING}{message}" for message in judgments.warnings)
    reasons = list(content["unusable"].items())
    if reasons:
        sentence = (
            f"{log.read - log.used:,} of {log.read:,} events were not used, most of them for "
            f"this reason: {reasons[0][0]}."
        )
        rows, total = [("used", log.used), *reasons], max(log.used + sum(n for _, n in reasons), 1)
        cells = [(name, n, f"{n / total:.2%}") for name, n in rows]
        table = Table(("what", "events", "share"), cells, "Events by use")
        yield ChartData(
            "unused-events",
            "Unused events",
            sentence,
            table,
            kind="bars",
            rows=reasons,
            words={"title": "events", "digits": ","},
        )
    else:
        yield "Every event was used."
    yield FactList(
        [
            ("events read", plain(log.read)),
            ("used", f"{log.used:,} ({log.used / (log.read or 1):.1%})"),
            ("clicks without an impression", plain(log.implied)),
            ("positions begin with", plain(log.first_position)),
        ]
    )
    others = [(name or "(none)", n) for name, n in content["other_actions"].items()]
    if others:
        yield Table(["action", "events"], others, "Other actions, which are left out")


def _examination(counts: ClickCounts, chosen: ChosenModel) -> ChartData:
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
            rank,
            f"{value:.1%}",
            *("–" if ends is None else f"{end:.1%}" for end in (lowest, highest)),
            int(impressions[rank - 1]),
            f"{rates[rank - 1]:.2%}",
        )
        for rank, value, lowest, highest in rows
    ]
    caption = "Examination probability by rank"
    table, title = Table(headers, cells, caption), f"{caption}, by {chosen.name}"
    return ChartData(
        "examination",
        title,
        sentence,
        table,
        kind="share_by_rank",
        rows=rows[:_RANKS_IN_CHART],
        words={"y": "examination probability"},
    )


def _models(chosen: ChosenModel) -> Table:
    """Likelihood of sessions and perplexity of each model."""
    models = sorted(chosen.held_out, key=lambda score: -score.session_log_likelihood)
    rows = [
        (
            score.model,
            signed(score.session_log_likelihood),
            f"{score.perplexity:.4f}",
            "judges"
            if score.model == chosen.name
            else ""
            if score.identified
            else "examination not identified",
        )
        for score in models
    ]
    caption = f"Sessions of held-out people, {plain(models[0].lists)} lists"
    return Table(["model", "log likelihood of a session", "perplexity", ""], rows, caption)


def _evidence(judgments: ClickJudgments) -> Iterator[Block]:
    """Impressions by document, grades, weights, and the queries with most and least evidence."""
    counts = judgments.behaviour.counts
    seen = counts.by_pair(counts.shown)
    sizes = np.bincount(counts.pair_query, minlength=len(counts.queries))
    yield FactList(
        [
            ("queries", plain(len(sizes))),
            (
                "documents per query",
                f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}",
            ),
            (
                "impressions per document",
                f"{seen.min():,.0f} to {seen.max():,.0f}, median {np.median(seen):g}",
            ),
            ("documents with clicks", f"{np.mean(counts.by_pair(counts.clicked) > 0):.1%}"),
        ]
    )
    grades: Vector = judgments.table["grade"].to_numpy()
    of_grades = _tenths(grades)
    if not (grades != np.floor(grades)).any():
        by_grade = np.bincount(grades.astype(np.int64)).tolist()
        of_grades = [(f"{grade}", count) for grade, count in enumerate(by_grade)]
    yield _documents("impressions", "Impressions per document", "impressions", _binned(seen))
    yield _documents("click-grades", "Grades", "grade", of_grades)
    if "weight" in judgments.table.column_names:
        weights: Vector = judgments.table["weight"].to_numpy()
        binned = _tenths(weights) if weights.max(initial=0.0) <= 1 else _binned(weights)
        yield _documents("click-weights", "Weights", "weight", binned)
    queries, n = _queries(judgments, seen, sizes), _QUERIES_IN_TABLE
    headers = ["query", "people", "documents", "impressions", "clicks", "examinations per document"]
    for which, rows in (("most", queries[:n]), ("least", queries[n:][::-1][:n])):
        if rows:
            yield Table(headers, rows, f"Queries with the {which} evidence")


def _documents(name: str, title: str, measure: str, rows: list[tuple[str, int]]) -> ChartData:
    """Numbers of documents by a label."""
    total = max(sum(count for _, count in rows), 1)
    label, most = max(rows, key=lambda row: row[1])
    value = f"{label} {measure}" if measure == "impressions" else f"{measure} {label}"
    sentence = f"Of {total:,} documents most, {most / total:.1%}, have {value}."
    cells = [(label, count, f"{count / total:.1%}") for label, count in rows]
    table = Table((measure, "documents", "share"), cells, title)
    words = {"x": measure, "y": "documents"}
    return ChartData(name, title, sentence, table, kind="columns", rows=rows, words=words)


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


def _queries(judgments: ClickJudgments, seen: Vector, sizes: NDArray[np.int64]) -> list[Row]:
    """Queries by the mean number of examinations of their documents."""
    counts = judgments.behaviour.counts
    query_of = counts.pair_query
    examined = np.bincount(query_of, judgments.chosen.fit.trials, len(sizes)) / sizes
    impressions = np.bincount(query_of, seen, len(sizes))
    clicks = np.bincount(query_of, counts.by_pair(counts.clicked), len(sizes))
    return [
        (
            cut(counts.queries[query].as_py(), _LONGEST_QUERY),
            int(counts.people[query]),
            int(sizes[query]),
            int(impressions[query]),
            int(clicks[query]),
            round(float(examined[query]), 1),
        )
        for query in np.argsort(-examined, kind="stable").tolist()
    ]


def _settings(judgments: ClickJudgments) -> FactList:
    """The log and the click model with its settings, cleaning, grades and weights."""
    model, (alpha, beta) = judgments.chosen.model, judgments.chosen.fit.prior
    model_fields: tuple[Field[Any], ...] = fields(model) if is_dataclass(model) else ()
    settings = {setting.name: getattr(model, setting.name) for setting in model_fields}
    options = judgments.behaviour.options
    return FactList(
        [
            *judgments.settings,
            ("click model", configured(judgments.chosen.name, settings)),
            (
                "prior",
                f"a document attracts {alpha / (alpha + beta):.3f} of those who examine it, with "
                f"the weight of {alpha + beta:.1f} examinations",
            ),
            ("actions", ", ".join(f"{name}={value:g}" for name, value in options.actions.items())),
            ("largest number of clicks per session", plain(options.max_clicks_per_session or None)),
            (
                "largest number of sessions per client",
                plain(options.max_sessions_per_client or None),
            ),
            ("least number of people per query", plain(options.min_people)),
            ("from", options.since or "the beginning"),
            ("until", options.until or "the end"),
        ]
    )
