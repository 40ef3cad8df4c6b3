"""A comparison in words: what was measured, what is shown, and what could have been."""

from __future__ import annotations

import math

from owpc_ltr.data import html
from owpc_ltr.evaluation.comparing.figures import ComparedPair, Figures

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
    told = ["intervals are 95 % (BCa bootstrap over queries), each for itself"]
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
    lines += [*conventions(found), verdict(found), could_be_shown(found), *found.notes]
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
    told = [*conventions(found), verdict(found), could_be_shown(found), *found.notes]
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
