"""Results of an engine: latency of features, drift of a deployed model, the judgment pool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owpc_ltr.data.judgments.topics import query_text
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.search.judgment_pool import Pooled
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
from owpc_ltr_report.charts import bars, bars_with_intervals, lines

_FEATURES_IN_CHART = 30
_ROWS_IN_CHART = 20
_SEARCHES = {"all": "with all features", "none": "without features"}


@dataclass(frozen=True)
class FeatureLatency:
    """Milliseconds of a feature in the live query; `low` and `high` end their 95 % interval."""

    feature: str
    milliseconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SearchLatency:
    """Median and 95th percentile of a search, in milliseconds."""

    name: str
    median: float
    p95: float


@dataclass(frozen=True)
class Latency:
    """The latency of features, of windows by size, and of searches with and without features."""

    features: tuple[FeatureLatency, ...]
    windows: tuple[SearchLatency, ...] = ()
    searches: tuple[SearchLatency, ...] = ()
    about: str = ""

    @property
    def milliseconds(self) -> dict[str, float]:
        """The cost of each feature."""
        return {one.feature: one.milliseconds for one in self.features}


def latency_of(content: Mapping[str, Any], source: str) -> Latency:
    """The content of `profile --json`, or {"feature": milliseconds}. BadInput names the source."""
    try:
        if not isinstance(content.get("features"), list):
            return Latency(tuple(FeatureLatency(n, _finite(ms)) for n, ms in content.items()))
        index = content.get("index")
        return Latency(
            tuple(
                FeatureLatency(
                    str(one["feature"]), _finite(one["milliseconds"]), one.get("low"),
                    one.get("high"),
                )
                for one in content["features"]
            ),
            tuple(_search(str(one["window"]), one) for one in content.get("windows", ())),
            tuple(_search(name, one) for name, one in content.get("searches", {}).items()),
            f"index {index}, {content.get('store_kind', '')}" if index else "",
        )  # fmt: skip
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{source} is not the output of profile --json: {error}") from error


def read_latency(path: Path | str) -> Latency:
    """The latency in a file: the output of `profile --json`, or {"feature": milliseconds}."""
    return latency_of(read_json_object(Path(path)), str(path))


def _search(name: str, times: Mapping[str, Any]) -> SearchLatency:
    return SearchLatency(name, _finite(times["wall_median_ms"]), _finite(times["wall_p95_ms"]))


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not milliseconds")
    return float(value)


def latency_section(latency: Latency) -> Section | None:
    """The cost of features and windows; None where nothing was measured."""
    blocks: list[Block] = []
    tiles = tuple(
        Tile(
            f"a search {_SEARCHES[one.name]}",
            f"{one.median:.2f} ms",
            f"95th percentile {one.p95:.2f} ms",
        )
        for one in latency.searches
        if one.name in _SEARCHES
    )
    if tiles:
        blocks.append(Tiles(tiles))
    if latency.features:
        blocks.append(_feature_costs(latency.features))
    if len(latency.windows) > 1:
        blocks.append(_windows(latency))
    if not blocks:
        return None
    lead = (
        "Milliseconds that each feature adds to a search. Where an interval begins at 0, the cost "
        "is within the noise of the timing."
    )
    about = f" Measured on {latency.about}." if latency.about else ""
    return Section("latency", "Latency", "What does it cost?", lead + about, tuple(blocks))


def _feature_costs(features: tuple[FeatureLatency, ...]) -> Chart:
    ordered = sorted(features, key=lambda one: -one.milliseconds)
    first = ordered[:_FEATURES_IN_CHART]
    title = "milliseconds per search"
    known = [
        (one.feature, one.milliseconds, one.low, one.high)
        for one in first
        if one.low is not None and one.high is not None
    ]
    if len(known) == len(first):
        spec = bars_with_intervals(known, title)
    else:
        spec = bars([(one.feature, one.milliseconds) for one in first], title)
    most = ", ".join(f"{one.feature} ({plain(one.milliseconds)} ms)" for one in ordered[:3])
    return Chart(
        "feature-costs",
        "The cost of each feature",
        spec,
        f"The most expensive of {len(features)} are {most}.",
        Table(
            "Milliseconds of each feature",
            ("feature", "milliseconds", "95 % low", "95 % high"),
            tuple((one.feature, one.milliseconds, one.low, one.high) for one in ordered),
        ),
    )


def _windows(latency: Latency) -> Chart:
    sizes = [(float(one.name), one.median, one.p95) for one in latency.windows]
    first, last = sizes[0], sizes[-1]
    series = {
        "median": [(size, median) for size, median, _ in sizes],
        "95th percentile": [(size, p95) for size, _, p95 in sizes],
    }
    ticks = [size for size, _, _ in sizes]
    return Chart(
        "windows",
        "The cost of a larger window",
        lines(series, "window (documents)", "milliseconds", log_x=True, zero=True, ticks=ticks),
        f"The median goes from {plain(first[1])} ms for {first[0]:g} documents to {plain(last[1])} "
        f"ms for {last[0]:g}.",
        Table("Milliseconds by window", ("window", *series), tuple(sizes)),
    )


def drift_section(found: Verification) -> Section:
    """The result of `verify`: what has drifted, feature drift, and rank agreement."""
    blocks: list[Block] = [Text(line, "warning") for line in found.drift]
    blocks += [Text(line) for line in found.notes]
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
    blocks.append(Facts(tuple(rows)))
    drifted = [one for one in found.features if one.by > 0][:_ROWS_IN_CHART]
    if drifted:
        table = Table(
            "Features at the upload and now",
            ("feature", "drift", "mean at the upload", "mean now", "newly missing"),
            tuple(
                (one.feature, one.by, one.mean_before, one.mean_now, f"{one.newly_missing:.1%}")
                for one in found.features
            ),
        )
        blocks.append(
            Chart(
                "feature-drift",
                "Feature drift",
                bars([(one.feature, one.by) for one in drifted], "standard deviations"),
                f"{drifted[0].feature} has the largest: its mean changed by "
                f"{plain(drifted[0].by)} standard deviations.",
                table,
            )
        )
    change = "has drifted" if found.drift else "has not changed"
    lead = f"{found.model} {change} since it was uploaded."
    return Section("drift", "Drift", "Is it unchanged?", lead, tuple(blocks))


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
    counts = (
        (query_text(query.params) or query.query_id, len(query.document_ids))
        for query in found.queries
    )
    rows = sorted(counts, key=lambda row: -row[1])
    tiles = Tiles(
        (
            Tile("to grade", f"{found.n_documents:,} documents", f"of {len(rows):,} queries"),
            Tile("left out", f"{found.judged:,}", "already judged"),
            Tile("left out", f"{found.absent:,}", "not in the index"),
        )
    )
    drawn = [(name, float(count)) for name, count in rows[:_ROWS_IN_CHART]]
    chart = Chart(
        "pool",
        "Documents to grade, by query",
        bars(drawn, "documents", digits=",d"),
        f"The chart has the {len(drawn)} of {len(rows):,} queries with the most documents.",
        Table("Documents to grade", ("query", "documents"), tuple(rows)),
    )
    lead = "The top documents of the rankers: their grades decide which ranker is better."
    return Section("pool", "Judging", "What is to be judged?", lead, (tiles, chart))


def pool_verdict(found: Pooled) -> PageVerdict:
    """The verdict of a page of a pool alone."""
    sentence = (
        f"{found.n_documents:,} documents of {len(found.queries):,} queries are to be graded "
        "before the rankers that retrieved them can be compared."
    )
    return PageVerdict(NEUTRAL, sentence, heading="To be judged")
