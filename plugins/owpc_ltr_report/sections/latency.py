"""The latency: what features cost in the live query, and what windows do."""

from __future__ import annotations

from owpc_ltr_report.blocks import Block, Chart, Section, Table, Tile, Tiles
from owpc_ltr_report.charts.bars import bars, bars_with_intervals
from owpc_ltr_report.charts.lines import lines
from owpc_ltr_report.figures import plain
from owpc_ltr_report.latency import FeatureTime, Latency

_DRAWN = 30
_SEARCHES = {"all": "with all features", "none": "without any"}


def latency_section(latency: Latency) -> Section | None:
    """What was timed; None of nothing."""
    blocks: list[Block] = []
    tiles = tuple(
        Tile(
            f"a search {_SEARCHES[one.name]}",
            f"{one.median:.2f} ms",
            f"95 % within {one.slow:.2f} ms",
        )
        for one in latency.searches
        if one.name in _SEARCHES
    )
    if tiles:
        blocks.append(Tiles(tiles))
    if latency.features:
        blocks.append(_features(latency.features))
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


def _features(features: tuple[FeatureTime, ...]) -> Chart:
    ordered = sorted(features, key=lambda one: -one.milliseconds)
    shown = ordered[:_DRAWN]
    title = "milliseconds a search"
    known = [(one.feature, one.milliseconds, *ends) for one in shown if (ends := _ends(one))]
    if len(known) == len(shown):
        spec = bars_with_intervals(known, title)
    else:
        spec = bars([(one.feature, one.milliseconds) for one in shown], title)
    dearest = ", ".join(f"{one.feature} ({plain(one.milliseconds)} ms)" for one in ordered[:3])
    return Chart(
        "feature-costs",
        "What each feature costs",
        spec,
        f"The dearest of {len(features)} are {dearest}.",
        Table(
            "Milliseconds of each feature",
            ("feature", "milliseconds", "95 % low", "95 % high"),
            tuple((one.feature, one.milliseconds, one.low, one.high) for one in ordered),
        ),
    )


def _ends(one: FeatureTime) -> tuple[float, float] | None:
    return None if one.low is None or one.high is None else (one.low, one.high)


def _windows(latency: Latency) -> Chart:
    sized = [(float(one.name), one.median, one.slow) for one in latency.windows]
    first, last = sized[0], sized[-1]
    return Chart(
        "windows",
        "What a larger window costs",
        lines(
            {
                "half of the searches within": [(size, median) for size, median, _ in sized],
                "95 % of the searches within": [(size, slow) for size, _, slow in sized],
            },
            "window (documents)", "milliseconds", log_x=True, zero=True,
            ticks=[size for size, _, _ in sized],
        ),
        f"From {plain(first[1])} ms for {first[0]:g} documents to {plain(last[1])} ms for "
        f"{last[0]:g}, in the middle.",
        Table("Milliseconds by window", ("window", "median", "95 % within"), tuple(sized)),
    )  # fmt: skip
