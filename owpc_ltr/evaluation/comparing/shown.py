"""A comparison in words: what was measured, what is shown, and what could have been."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.data import html
from owpc_ltr.evaluation.comparing.figures import ComparedPair, Figures, PoweredPair
from owpc_ltr.evaluation.prediction_powered import strength_in_words
from owpc_ltr.evaluation.verdict import Verdict

UNJUDGED = {
    "zero": "unjudged documents count as irrelevant",
    "skip": "queries with unjudged documents at the top of any ranker's list are left out",
    "condensed": "unjudged documents are taken out of the lists (condensed, Sakai 2007)",
}
SYMMETRY = (
    "p is of a permutation test, whose null hypothesis is that differences are symmetric about 0"
)
_SIDES = {"test": "none of which a ranker was trained on", "all": "all of them"}


def title(found: Figures) -> str:
    """Which rankers, on what."""
    side = _SIDES.get(found.side, f"{found.side} side")
    return f"{len(found.rankers)} rankers on {found.n_queries:,} queries ({side})"


def conventions(found: Figures) -> list[str]:
    """What means are of: weights, unjudged documents, intervals."""
    told = [
        "low and high are 95 % intervals (BCa bootstrap over queries; of differences, widened for "
        "skewness and to ± 3 / queries at least), each for itself",
        SYMMETRY,
    ]
    if found.weighted:
        told.insert(0, "means, differences and tests are weighted by the importance of queries")
    if any(ranker.unjudged is not None for ranker in found.rankers):
        told.append(UNJUDGED[found.unjudged])
        told.append("judged documents that a list lacks count as not retrieved (trec_eval -c)")
    return told


def opening(found: Figures) -> str:
    """The verdict on the pair that stands for the comparison, which is its first line."""
    a, b = found.headline
    return opening_of(found.verdict(a, b), a, b, str(found.metrics[0]))


def opening_of(verdict: Verdict, a: str, b: str, metric: str) -> str:
    """The verdict on ranker a against b, by the metric that decides."""
    pair = f"{a} against {b} by {metric}"
    if verdict.doubts:
        return f"{verdict.outcome}: {'; '.join(one.line for one in verdict.doubts)} ({pair})"
    return f"{verdict.outcome}: {pair}"


def verdicts(pairs: Sequence[ComparedPair | PoweredPair]) -> list[str]:
    """The verdict on each pair of rankers, a line each: metrics of one outcome stand together."""
    told: dict[str, dict[str, list[str]]] = {}
    for pair, words in zip(pairs, outcomes_of(pairs), strict=True):
        outcomes = told.setdefault(f"{pair.a} against {pair.b}", {})
        outcomes.setdefault(words, []).append(pair.metric)
    lines: dict[str, list[str]] = {}
    for names, outcomes in told.items():
        line = "; ".join(f"by {_listed(metrics)} {words}" for words, metrics in outcomes.items())
        lines.setdefault(line, []).append(names)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def outcomes_of(pairs: Sequence[ComparedPair | PoweredPair]) -> list[str]:
    """The outcome of each pair, with its reason where that differs from pair to pair.

    A reason that is the same for all stands in the first line of the comparison.
    """
    shared = len({pair.verdict.reason for pair in pairs}) == 1
    return [str(pair.verdict.outcome if shared else pair.verdict) for pair in pairs]


def corrected(count: int) -> str:
    """Over how many comparisons p is corrected."""
    return f"p corrected over {count} comparisons (Holm)" if count > 1 else "one comparison"


def detectable(found: Figures) -> str:
    """How large a true difference would probably be found."""
    parts = []
    for metric in found.metrics:
        sizes = [p.comparison.detectable for p in found.pairs if p.metric == str(metric)]
        parts.append(f"{metric} {_range(sizes)}")
    return f"minimum detectable difference (80 % power, each pair alone): {'; '.join(parts)}"


def closing(found: Figures) -> list[str]:
    """What figures are of, the verdict on each pair, and what could have been found."""
    by = "by human labels alone, " if found.powered else ""
    told = [f"{by}{corrected(len(found.pairs))}:", *verdicts(found.pairs)]
    return [*conventions(found), *told, *at_the_border(found.pairs), detectable(found)]


def powered_words(found: Figures) -> list[str]:
    """What proxy labels of all queries add to human ones: a line for each pair."""
    if not found.powered:
        return []
    lines = [
        f"{pair.metric} {pair.a} − {pair.b}: {told.powered.mean:+.4f} [{told.powered.low:+.4f}, "
        f"{told.powered.high:+.4f}] by {told.n_human:,} human-labelled and {told.n_queries:,} "
        f"proxy-labelled queries; {strength_in_words(told)}"
        for pair in found.powered
        for told in [pair.found]
    ]
    by = f"by human and proxy labels, {corrected(len(found.powered))}:"
    return [*lines, by, *verdicts(found.powered)]


def at_the_border(pairs: Sequence[ComparedPair]) -> list[str]:
    """Where an interval and the corrected test do not say the same of a difference."""
    differ = [f"{pair.a} − {pair.b} in {pair.metric}" for pair in pairs if pair.at_the_border]
    if not differ:
        return []
    return [
        f"interval and test disagree for {'; '.join(differ)}: the interval is of its pair alone, "
        "the test is corrected for all comparisons and assumes symmetric differences; a difference "
        "is claimed only by both"
    ]


def text(found: Figures) -> str:
    """Some lines for a terminal."""
    width = max(len(ranker.name) for ranker in found.rankers)
    metrics = max(len(str(metric)) for metric in found.metrics)
    lines = [opening(found), title(found)]
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
    return html.block(title(found), html.line(opening(found)), *parts)


def difference_of(pair: ComparedPair) -> str:
    """The mean difference and its interval."""
    one = pair.comparison
    return f"{one.mean_difference:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"


def wins_ties_losses(pair: ComparedPair) -> str:
    """How many queries the first ranker wins, draws and loses."""
    return f"{pair.gained}/{pair.comparison.ties}/{pair.lost}"


def _range(sizes: list[float]) -> str:
    """Sizes that differ from pair to pair."""
    low, high = f"{min(sizes):.4f}", f"{max(sizes):.4f}"
    return low if low == high else f"{low} to {high}, by pair"


def _listed(names: Sequence[str]) -> str:
    """As in "map, mrr and ndcg@10"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
