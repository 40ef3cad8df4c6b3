"""A comparison in words: what was measured, what is shown, and what could have been."""

from __future__ import annotations

import math

from owpc_ltr.data import html
from owpc_ltr.evaluation.comparing.figures import ComparedPair, Figures
from owpc_ltr.evaluation.prediction_powered import strength_in_words

UNJUDGED = {
    "zero": "unjudged documents count as irrelevant",
    "skip": "queries with unjudged documents at the top of any ranker's list are left out",
    "condensed": "unjudged documents are taken out of the lists (condensed, Sakai 2007)",
}
_SIDES = {"test": "none of which a ranker was trained on", "all": "all of them"}


def title(found: Figures) -> str:
    """Which rankers, on what."""
    side = _SIDES.get(found.side, f"{found.side} side")
    return f"{len(found.rankers)} rankers on {found.n_queries:,} queries ({side})"


def conventions(found: Figures) -> list[str]:
    """What means are of: weights, unjudged documents, intervals."""
    told = ["low and high are 95 % intervals (BCa bootstrap over queries), each for itself"]
    if found.weighted:
        told.insert(0, "means, differences and tests are weighted by the importance of queries")
    if any(ranker.unjudged is not None for ranker in found.rankers):
        told.append(UNJUDGED[found.unjudged])
    return told


def verdict(found: Figures) -> str:
    """Which differences are shown, once corrected for how many were looked at."""
    count = len(found.pairs)
    of = f"corrected over {count} comparisons (Holm)" if count > 1 else "one comparison"
    shown = [pair for pair in found.pairs if pair.shown]
    if not shown:
        return f"no difference is shown at 5 %, {of}"
    by_pair: dict[tuple[str, str], list[str]] = {}
    for pair in shown:
        better = pair.better or pair.a
        worse = pair.b if better == pair.a else pair.a
        by_pair.setdefault((better, worse), []).append(pair.metric)
    told = [f"{one} over {two} in {', '.join(names)}" for (one, two), names in by_pair.items()]
    return f"shown at 5 %, {of}: {'; '.join(told)}"


def could_be_shown(found: Figures) -> str:
    """How large a difference had to be; no verdict of the same comparison says otherwise."""
    parts = []
    for metric in found.metrics:
        needed = [pair.shown_from for pair in found.pairs if pair.metric == str(metric)]
        parts.append(f"{metric} {_range([one for one in needed if math.isfinite(one)])}")
    return f"smallest differences that would have been shown here: {'; '.join(parts)}"


def closing(found: Figures) -> list[str]:
    """What figures are of, what they show, and what could have been shown."""
    verdicts = [verdict(found), *at_the_border(found), could_be_shown(found)]
    return [*conventions(found), *verdicts]


def powered_words(found: Figures) -> list[str]:
    """What cheap judgments of all queries add to people's: a line for each pair."""
    lines = [
        f"{pair.metric} {pair.a} − {pair.b}: {told.powered.mean:+.4f} [{told.powered.low:+.4f}, "
        f"{told.powered.high:+.4f}] by {told.n_human:,} human-judged and {told.n_queries:,} "
        f"cheaply judged queries; {strength_in_words(told)}"
        for pair in found.powered
        for told in [pair.found]
    ]
    better = [f"{one.better} in {one.metric}" for one in found.powered if one.better]
    if lines:
        count = len(found.powered)
        of = f"corrected over {count} comparisons (Holm)" if count > 1 else "one comparison"
        lines.append(f"better by both judges at 5 %, {of}: {'; '.join(better) or 'none is shown'}")
    return lines


def at_the_border(found: Figures) -> list[str]:
    """Where an interval and the corrected test do not say the same of a difference."""
    differ = [
        f"{pair.a} − {pair.b} in {pair.metric}"
        for pair in found.pairs
        if pair.shown != (pair.comparison.low > 0 or pair.comparison.high < 0)
    ]
    if not differ:
        return []
    return [
        f"interval and test differ for {'; '.join(differ)}: an interval is of its pair alone, and "
        "at the border of what these queries can show; the corrected test decides"
    ]


def headline(found: Figures) -> tuple[str, str]:
    """The best ranker by the first metric, and the one it is held against.

    That is the baseline, or who was named first; the next best where it is itself.
    """
    first = found.metrics[0]
    sign = -1.0 if first.higher_is_better else 1.0
    ordered = sorted(found.rankers, key=lambda one: sign * one.means[str(first)].mean)
    names = [one.name for one in ordered]
    other = found.baseline or found.rankers[0].name
    return names[0], names[1] if other == names[0] else other


def text(found: Figures) -> str:
    """Some lines for a terminal."""
    width = max(len(ranker.name) for ranker in found.rankers)
    metrics = max(len(str(metric)) for metric in found.metrics)
    lines = [title(found)]
    lines += [
        f"{metric!s:<{metrics}}  {ranker.name:<{width}}  {mean.mean:.4f} "
        f"[{mean.low:.4f}, {mean.high:.4f}]"
        for metric in found.metrics
        for ranker in found.rankers
        for mean in [ranker.means[str(metric)]]
    ]
    lines += [
        f"{pair.metric:<{metrics}}  {pair.a} − {pair.b}: {difference_of(pair)}, "
        f"p = {pair.comparison.p_permutation:.2g}, {pair.p_holm:.2g} corrected"
        for pair in found.pairs
    ]
    lines += [*found.notes, *closing(found), *powered_words(found)]
    return "\n".join([*lines, *(f"warning: {one}" for one in found.warnings)])


def html_block(found: Figures) -> str:
    """The same for a notebook."""
    means = [
        (f"{metric} {ranker.name}", ranker.means[str(metric)].mean)
        for metric in found.metrics
        for ranker in found.rankers
    ]
    headers = ["metric", "difference", "mean and 95 % interval", "p", "p corrected", "w/t/l"]
    rows = [
        (
            pair.metric,
            f"{pair.a} − {pair.b}",
            difference_of(pair),
            f"{pair.comparison.p_permutation:.2g}",
            f"{pair.p_holm:.2g}",
            wins_ties_losses(pair),
        )
        for pair in found.pairs
    ]
    told = [*found.notes, *closing(found), *powered_words(found)]
    told += [f"warning: {one}" for one in found.warnings]
    parts = [html.bars(means, "{:.4f}"), html.table(headers, rows), *map(html.line, told)]
    return html.block(title(found), *parts)


def difference_of(pair: ComparedPair) -> str:
    """The mean difference and its interval."""
    one = pair.comparison
    return f"{one.mean_difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


def wins_ties_losses(pair: ComparedPair) -> str:
    """How many queries the first ranker wins, draws and loses."""
    one = pair.comparison
    won, lost = (one.wins, one.losses) if pair.higher_is_better else (one.losses, one.wins)
    return f"{won}/{one.ties}/{lost}"


def _range(sizes: list[float]) -> str:
    """Sizes that differ from pair to pair; rounded as differences are, so that none contradicts."""
    if not sizes:
        return "none, however large"
    low, high = f"{min(sizes):.4f}", f"{max(sizes):.4f}"
    return low if low == high else f"{low} to {high}, by pair"
