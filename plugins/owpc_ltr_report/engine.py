"""Results of an engine: latency of features, drift of a deployed model, the judgment pool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owpc_ltr.data.judgments.queries import query_text
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.live_results.judge_pool import Pooled
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Block,
    Chart,
    Facts,
    PageVerdict,
    Section,
    Table,
    Text,
    Tile,
    Tiles,
    plain,
    signed,
)
from owpc_ltr_report.charts import bars, lines

_FEATURES_IN_CHART = 30
_ROWS_IN_CHART = 20
_SEARCHES = {"all": "with all features", "none": "without features"}


@dataclass(frozen=True)
class Latency:
    """Milliseconds of features, of windows by size, and of searches with and without features.

    Rows of `features` are (name, milliseconds, low, high), those of `windows` (size, median, 95th
    percentile); `searches` have the last two by name.
    """

    features: tuple[tuple[str, float, float | None, float | None], ...]
    windows: tuple[tuple[float, float, float], ...] = ()
    searches: Mapping[str, tuple[float, float]] | None = None
    about: str = ""


def latency_of(content: Mapping[str, Any], source: str) -> Latency:
    """The content of `profile --json`, or {"feature": milliseconds}. BadInput names the source."""
    try:
        if not isinstance(content.get("features"), list):
            return Latency(tuple((n, _finite(ms), None, None) for n, ms in content.items()))
        index = content.get("index")
        return Latency(
            tuple(
                (str(one["feature"]), _finite(one["milliseconds"]), one.get("low"), one.get("high"))
                for one in content["features"]
            ),
            tuple((float(one["window"]), *_times(one)) for one in content.get("windows", ())),
            {name: _times(one) for name, one in content.get("searches", {}).items()},
            f"index {index}, {content.get('store_kind', '')}" if index else "",
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{source} is not the output of profile --json: {error}") from error


def read_latency(path: Path | str) -> Latency:
    """The latency in a file: the output of `profile --json`, or {"feature": milliseconds}."""
    return latency_of(read_json_object(Path(path)), str(path))


def _times(of: Mapping[str, Any]) -> tuple[float, float]:
    return _finite(of["wall_median_ms"]), _finite(of["wall_p95_ms"])


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not milliseconds")
    return float(value)


def latency_section(latency: Latency) -> Section | None:
    """The cost of features and windows; None where nothing was measured."""
    tiles = [
        Tile(f"a search {_SEARCHES[name]}", f"{median:.2f} ms", f"95th percentile {p95:.2f} ms")
        for name, (median, p95) in (latency.searches or {}).items()
        if name in _SEARCHES
    ]
    blocks: list[Block] = [Tiles(tiles)] if tiles else []
    if latency.features:
        blocks.append(_feature_costs(latency))
    if len(latency.windows) > 1:
        blocks.append(_windows(latency))
    if not blocks:
        return None
    lead = (
        "Milliseconds that each feature adds to a search. Where an interval begins at 0, the cost "
        "is within the noise of the timing."
    )
    about = f" Measured on {latency.about}." if latency.about else ""
    return Section("latency", "Latency", "What does it cost?", lead + about, blocks)


def _feature_costs(latency: Latency) -> Chart:
    ordered = sorted(latency.features, key=lambda row: -row[1])
    first = ordered[:_FEATURES_IN_CHART]
    known = all(low is not None and high is not None for _, _, low, high in first)
    spec = bars(first if known else [row[:2] for row in first], "milliseconds per search")
    most = ", ".join(f"{name} ({plain(cost)} ms)" for name, cost, _, _ in ordered[:3])
    sentence = f"The most expensive of {len(ordered)} are {most}."
    headers = "feature", "milliseconds", "95 % low", "95 % high"
    table = Table("Milliseconds of each feature", headers, ordered)
    return Chart("feature-costs", "The cost of each feature", spec, sentence, table)


def _windows(latency: Latency) -> Chart:
    sizes = [size for size, _, _ in latency.windows]
    series = {
        "median": [(size, median) for size, median, _ in latency.windows],
        "95th percentile": [(size, p95) for size, _, p95 in latency.windows],
    }
    (first, start), (last, end) = series["median"][0], series["median"][-1]
    spec = lines(series, "window (documents)", "milliseconds", log_x=True, zero=True, ticks=sizes)
    sentence = (
        f"The median goes from {plain(start)} ms for {first:g} documents to {plain(end)} "
        f"ms for {last:g}."
    )
    table = Table("Milliseconds by window", ("window", *series), latency.windows)
    return Chart("windows", "The cost of a larger window", spec, sentence, table)


def drift_section(found: Verification) -> Section:
    """The result of `verify`: what has drifted, feature drift, and rank agreement."""
    rows = [("model", found.model), ("index", found.index)]
    if found.parity is not None:
        parity = found.parity
        rows += [
            ("judged queries", plain(parity.queries)),
            ("judged documents", plain(parity.documents)),
            ("largest difference of a score", plain(parity.largest_difference)),
            ("pairs in another order by engine and local scores", plain(parity.swapped)),
        ]
    if found.rankings is not None:
        rows.append(("rank agreement on the judged documents", found.rankings.words))
    warnings = (Text(line, "warning") for line in found.drift)
    blocks: list[Block] = [*warnings, *map(Text, found.notes), Facts(rows)]
    drifted = [(one.feature, one.by) for one in found.features if one.by > 0][:_ROWS_IN_CHART]
    if drifted:
        name, by = drifted[0]
        sentence = f"{name} has the largest: its mean changed by {plain(by)} standard deviations."
        table = Table(
            "Features at the upload and now",
            ("feature", "drift", "mean at the upload", "mean now", "newly missing"),
            [
                (one.feature, one.by, one.mean_before, one.mean_now, f"{one.newly_missing:.1%}")
                for one in found.features
            ],
        )
        spec = bars(drifted, "standard deviations")
        blocks.append(Chart("feature-drift", "Feature drift", spec, sentence, table))
    change = "has drifted" if found.drift else "has not changed"
    lead = f"{found.model} {change} since it was uploaded."
    return Section("drift", "Drift", "Is it unchanged?", lead, blocks)


def drift_verdict(found: Verification) -> PageVerdict:
    """The verdict of a page of a verification alone."""
    known = None if found.rankings is None else found.rankings.ndcg_difference
    ndcg = ""
    if known is not None:
        ndcg = f" NDCG@10 of its judged documents changed by {signed(known)}."
    where = f"{found.model} in {found.index}"
    if found.drift:
        sentence = f"{where} has drifted: {'; '.join(found.drift)}.{ndcg}"
        return PageVerdict("worse", sentence, heading="It has drifted")
    sentence = f"{where} has not changed since it was uploaded.{ndcg}"
    return PageVerdict(NEUTRAL, sentence, heading="It has not changed")


def pool_section(found: Pooled) -> Section:
    """Documents to grade by query, those with the most documents first."""
    counts = [
        (query_text(one.params) or one.query_id, len(one.document_ids)) for one in found.queries
    ]
    rows = sorted(counts, key=lambda row: -row[1])
    tiles = (
        Tile("to grade", f"{found.n_documents:,} documents", f"of {len(rows):,} queries"),
        Tile("left out", f"{found.judged:,}", "already judged"),
        Tile("left out", f"{found.absent:,}", "not in the index"),
    )
    drawn = [(name, float(count)) for name, count in rows[:_ROWS_IN_CHART]]
    sentence = f"The chart has the {len(drawn)} of {len(rows):,} queries with the most documents."
    table = Table("Documents to grade", ("query", "documents"), rows)
    spec = bars(drawn, "documents", digits=",d")
    chart = Chart("pool", "Documents to grade, by query", spec, sentence, table)
    lead = "The top documents of the rankers: their grades decide which ranker is better."
    return Section("pool", "Judging", "What is to be judged?", lead, (Tiles(tiles), chart))


def pool_verdict(found: Pooled) -> PageVerdict:
    """The verdict of a page of a pool alone."""
    sentence = (
        f"{found.n_documents:,} documents of {len(found.queries):,} queries are to be graded "
        "before the rankers that retrieved them can be compared."
    )
    return PageVerdict(NEUTRAL, sentence, heading="To be judged")
