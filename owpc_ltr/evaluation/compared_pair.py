"""A pair of rankers, compared by one metric: its figures in tables, and the verdict in words.

Prediction-powered intervals: proxy labels of all queries, human labels of a sample of them. The
mean by human labels of all queries is the mean by those of the sample, moved by λ times how far the
sample lies from all queries by the proxy labels (PPI++: Angelopoulos, Duchi & Zrnic 2023; in
surveys, the difference estimator of double sampling: Cochran 1977, ch. 12). It is right for human
labels even if the proxy labels are useless: these decide only how wide it is.

The best λ is the slope of human on proxy differences. One that is fitted on the very queries that
it moves makes intervals too narrow; here each tenth of the sample gets the slope of the others
(cross-fitting).

The sample is a simple random one of all queries; weighted means are ratios of sums (Hájek 1971).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import hashes_of
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.significance import (
    FEWEST_DIFFERENCES,
    LEVEL,
    ROUNDING,
    Comparison,
    Outcome,
    ResultWarning,
    Verdict,
    decide,
    floor_of,
    mean_of,
    reaches,
    standard_error,
    student_p,
)
from owpc_ltr.text import ShortRepr

_SALT = "prediction-powered"
FOLDS = 10


@dataclass(frozen=True, eq=False)
class SampledQueries:
    """Every query's `proxy` value, and the `human` one of those `judged` (their numbers).

    `turn` is a random place among the judged queries, by their ids.
    """

    proxy: Vector
    human: Vector
    judged: NDArray[np.int64]
    weights: Vector
    turn: NDArray[np.int64]

    @cached_property
    def worth(self) -> Vector:
        """How much each judged query counts in a mean over all."""
        worth: Vector = self.weights[self.judged]
        return worth

    @cached_property
    def centred_proxy(self) -> Vector:
        """The proxy values less their mean over all queries."""
        return self.proxy - mean_of(self.proxy, self.weights)

    @cached_property
    def whole(self) -> Vector:
        """What each query's proxy value adds to the error of their mean over all."""
        terms: Vector = self.weights * self.centred_proxy / self.weights.mean()
        return terms

    @property
    def third_of_all(self) -> float:
        """The third moment of the proxy values' mean over all."""
        n = len(self.proxy)
        return float((self.whole**3).sum()) / (n * max((n - 1.0) * (n - 2.0), 1.0))

    def mean(self, values: Vector) -> float:
        """What the judged queries say of the mean over all."""
        return float(self.worth @ values / self.worth.sum())

    def scaled(self, deviations: Vector) -> Vector:
        """Deviations from a mean as they add up to its error."""
        terms: Vector = deviations * self.worth / self.worth.mean()
        return terms

    def variance_of_mean(self, deviations: Vector) -> float:
        """The variance of the mean of deviations, by the choice of the sample alone.

        It is 0 where all queries are judged.
        """
        n = len(self.judged)
        return float(deviations.var(ddof=1)) / n * (1.0 - n / len(self.proxy))

    def third_of_mean(self, deviations: Vector) -> float:
        """The third moment of the mean of scaled deviations."""
        n = len(self.judged)
        cubes = float(((deviations - deviations.mean()) ** 3).sum())
        # As the variance of few is too small, so is the third moment (Joanes & Gill 1998).
        return cubes / (n * max((n - 1.0) * (n - 2.0), 1.0))


def sampled_queries(
    proxy: Vector,
    human: Vector,
    query_ids: Sequence[str],
    weights: Vector | None = None,
) -> SampledQueries:
    """The queries, those of weight 0 left out. Raises BadInput, or Refused for too few."""
    proxy, human = np.asarray(proxy, np.float64), np.asarray(human, np.float64)
    for what, values in (("human values", human), ("ids", query_ids), ("weights", weights)):
        if values is not None and len(values) != len(proxy):
            raise BadInput(
                f"there are {len(values)} {what} for {len(proxy)} queries: give one a query"
            )
    malformed = ~np.isfinite(proxy) | np.isinf(human)
    if malformed.any():
        place = int(malformed.argmax())
        raise BadInput(
            f"query {query_ids[place]} has the differences {proxy[place]} (proxy) and "
            f"{human[place]} (human): both are numbers, the human one NaN where nobody judged"
        )
    if weights is not None and not (np.isfinite(weights) & (weights >= 0)).all():
        raise BadInput("a query's weight is negative or no number: weights are 0 or more")
    ids = np.asarray(query_ids, dtype=np.str_)
    weights = np.ones(len(proxy)) if weights is None else np.asarray(weights, np.float64)
    counted = weights > 0
    proxy, human, weights, ids = proxy[counted], human[counted], weights[counted], ids[counted]
    if (weights == weights[:1]).all():
        weights = np.ones(len(proxy))
    # Equal rankings summed in another order are equal.
    proxy, human = (
        np.where(np.abs(differences) <= ROUNDING, 0.0, differences)
        for differences in (proxy, human)
    )
    judged = np.flatnonzero(~np.isnan(human))
    if len(judged) < 2:
        raise Refused(
            f"{len(judged)} of the compared queries have human labels, and an interval needs 2 at "
            "least: label more (`judge_pool(sample=N)`)"
        )
    turn = np.argsort(np.argsort(hashes_of(ids[judged].tolist(), _SALT), kind="stable"))
    return SampledQueries(
        proxy=proxy,
        human=human[judged],
        judged=judged,
        weights=weights,
        turn=turn,
    )


def p_of_random(sample: SampledQueries) -> float:
    """How often a random sample has means so far from those of all queries.

    Of the proxy differences and of their sizes, twice the smaller p (Bonferroni).
    """
    p = 1.0
    for values in (sample.proxy, np.abs(sample.proxy)):
        # Importance says nothing of who was drawn: each query counts once.
        sampled = values[sample.judged]
        apart = float(sampled.mean() - values.mean())
        variance = sample.variance_of_mean(sampled)
        if variance > 0.0 and math.isfinite(apart):
            p = min(p, student_p(apart / math.sqrt(variance), len(sampled) - 1))
    return min(1.0, 2.0 * p)


FEWEST = 30
"""With fewer human-labelled queries nothing is claimed, and proxy labels are not used: λ is 0.

Of 30, the rule of three leaves room for a mean difference of .06 where the mean is .6, which is
more than most rankers differ by; and fewer tell neither how skewed they are nor how good the proxy
labels are.
"""


@dataclass(frozen=True)
class Estimate:
    """A mean difference with its 95 % interval, and its two-sided p."""

    mean: float
    low: float
    high: float
    p: float

    def reversed(self) -> Estimate:
        """The same with the other ranker first."""
        return Estimate(-self.mean, -self.high, -self.low, self.p)


@dataclass(frozen=True, repr=False)
class PredictionPowered(ShortRepr):
    """The mean difference by human labels of a sample, made sharper by proxy labels of all queries.

    `by_human` is what the human labels say alone. `by_proxy` is what the proxy labels say alone,
    and biased. `strength` is λ; 0 where the proxy labels do not help. `n_worth` human-labelled
    queries alone would have had as narrow an interval. `n_more` further ones are needed for a
    difference, if the mean and the spread stay as they are: 0 where there is one, None where not
    even all queries are enough. `p_random` is how often a random sample lies as far from all
    queries by the proxy labels. `p_holm` is p by both, corrected over all pairs of a result
    (Holm 1979); by itself a pair is not corrected. `agreement` is that of human and proxy labels on
    the queries of the sample. `warnings` are the sample's own.
    """

    n_queries: int
    n_human: int
    by_both: Estimate
    by_human: Estimate
    by_proxy: Estimate
    strength: float
    n_worth: float
    n_more: int | None
    p_random: float
    agreement: Agreement
    p_holm: float
    warnings: tuple[ResultWarning, ...] = ()

    @property
    def decided(self) -> bool:
        """Whether there is a difference by this pair alone, without correction."""
        return self.verdict().outcome in {Outcome.BETTER, Outcome.WORSE}

    def verdict(self) -> Verdict:
        """The verdict on the first ranker by this pair alone, where higher values are better."""
        return decide(self.by_both.low, self.by_both.high, self.by_both.p, self.warnings)

    def reversed(self) -> PredictionPowered:
        """The same figures with the other ranker first."""
        parts = ("by_both", "by_human", "by_proxy")
        return replace(self, **{part: getattr(self, part).reversed() for part in parts})

    def as_dict(self) -> dict[str, Any]:
        """Every figure as JSON; warnings stand with the verdict."""
        figures = asdict(self)
        del figures["warnings"], figures["p_holm"]
        return {**figures, "decided": self.decided}


@dataclass(frozen=True)
class _Variance:
    """What the variance of a mean is made of, its degrees of freedom, and the mean's skewness.

    `judging` falls as people judge more of the queries, `queries` only with more queries.
    """

    judging: float
    queries: float
    degrees: float
    skewness: float = 0.0

    @property
    def total(self) -> float:
        return self.judging + self.queries

    def of(self, mean: float, floor: float = 0.0, least: float = 0.0) -> Estimate:
        """The mean with its interval, and p by the same measure.

        The interval reaches `floor` to either side, at least, and p is not below `least`.
        """
        error = math.sqrt(self.total)
        down, up = (max(floor, reach * error) for reach in reaches(self.degrees, self.skewness))
        if down == 0.0:
            return Estimate(mean, mean, mean, float(mean == 0.0))
        plain, _ = reaches(self.degrees, 0.0)
        errors = plain * abs(mean) / (down if mean > 0 else up)
        return Estimate(mean, mean - down, mean + up, max(least, student_p(errors, self.degrees)))


def prediction_powered(
    proxy: Vector,
    human: Vector,
    query_ids: Sequence[str],
    weights: Vector | None = None,
    room: float | None = None,
) -> PredictionPowered:
    """The interval of two rankers' mean difference, from each query's difference by either judge.

    `human` is NaN where the query has no human labels; those that have are a random sample of
    all. With `weights`, means are weighted. `room` is how far values of an unseen query may be
    apart (`room_of`); by default 1, or the largest difference. The same queries give the same
    numbers, in whatever order.
    Raises BadInput for what cannot be, Refused for too few.
    """
    sample = sampled_queries(proxy, human, query_ids, weights)
    n, n_all = len(sample.human), len(sample.proxy)
    slopes = crossfitted_slopes(sample) if n >= FEWEST else np.zeros(n)
    mean, variance = _mean(sample, slopes)
    alone, alone_variance = _mean(sample, np.zeros(n))
    error = standard_error(sample.proxy, sample.weights)
    skewness = sample.third_of_all / error**3 if error else 0.0
    of_proxy = _Variance(0.0, error**2, n_all - 1, skewness)
    room = max(1.0, float(np.abs(sample.human).max())) if room is None else room
    floor = floor_of(sample.human, sample.worth, room)
    # With so many differences, no permutation of their signs has a smaller p.
    least = min(1.0, 2.0 ** (1 - np.count_nonzero(sample.human)))
    by_both = variance.of(mean, floor, least)
    few = ResultWarning(
        "few-human-labels",
        f"{n} human-labelled queries are too few: at least {FEWEST} are needed",
        "label more (`judge_pool(sample=N)`)",
    )
    return PredictionPowered(
        n_queries=n_all,
        n_human=n,
        by_both=by_both,
        by_human=alone_variance.of(alone, floor, least),
        by_proxy=of_proxy.of(mean_of(sample.proxy, sample.weights)),
        strength=sample.mean(slopes),
        n_worth=n * alone_variance.total / variance.total if variance.total else float(n_all),
        n_more=_more(sample, mean, variance, floor),
        p_random=p_of_random(sample),
        agreement=agreement_of(sample),
        p_holm=by_both.p,
        warnings=(few,) if n < FEWEST else (),
    )


def _mean(sample: SampledQueries, slopes: Vector) -> tuple[float, _Variance]:
    """The mean with these slopes, one a human-judged query, and its variance.

    Double sampling: the variance of the sample's residuals given the queries, plus that of what
    people would say of all queries, which are themselves a sample of those to come.
    """
    n, n_all = len(sample.human), len(sample.proxy)
    residuals = sample.human - slopes * sample.centred_proxy[sample.judged]
    mean = sample.mean(residuals)
    errors = sample.scaled(residuals - mean)
    strength = sample.mean(slopes)
    judging = sample.variance_of_mean(errors)
    whole = sample.whole
    spread = float(errors @ errors) / (n - 1)
    shared = float(errors @ whole[sample.judged]) / (n - 1)
    # A shared part below 0 would make the interval narrower by chance.
    by_human = judging + (spread + 2.0 * strength * max(shared, 0.0)) / n_all
    by_proxy = strength**2 * float(whole @ whole) / (n_all - 1) / n_all
    total = by_human + by_proxy
    if total == 0.0:
        return mean, _Variance(0.0, 0.0, n - 1)
    inverse = (by_human / total) ** 2 / (n - 1) + (by_proxy / total) ** 2 / (n_all - 1)
    third = sample.third_of_mean(errors) + strength**3 * sample.third_of_all
    return mean, _Variance(judging, total - judging, 1.0 / inverse, third / total**1.5)


def _more(sample: SampledQueries, mean: float, variance: _Variance, floor: float) -> int | None:
    """How many more queries need human labels, if these are as all others are."""
    n, n_all, differ = len(sample.human), len(sample.proxy), np.count_nonzero(sample.human)
    if mean == 0.0 or not differ:
        return None
    down, up = reaches(variance.degrees, variance.skewness)
    allowed = (mean / (down if mean > 0 else up)) ** 2
    by_variance = n
    if variance.total >= allowed:
        if variance.judging == 0.0 or variance.queries >= allowed:
            return None
        of_one = variance.judging / (1.0 / n - 1.0 / n_all)
        by_queries = 1.0 / (1.0 / n_all + (allowed - variance.queries) / of_one)
        by_variance = min(n_all, math.floor(by_queries) + 1)
    # The floor falls as 1 / n.
    enough = max(
        by_variance,
        FEWEST,
        math.ceil(n * FEWEST_DIFFERENCES / differ),
        math.floor(n * floor / abs(mean)) + 1,
    )
    return max(0, enough - n) if enough <= n_all else None


def crossfitted_slopes(sample: SampledQueries) -> Vector:
    """One slope for each judged query, from the judged ones of other folds.

    A slope is taken back by as much as it may be chance (the positive part of 1 − 1/t²; James &
    Stein 1961): proxy labels that tell nothing get 0, and so do those that say the opposite, and
    all where every query is judged.
    """
    if len(sample.judged) == len(sample.proxy):
        return np.zeros(len(sample.judged))
    human, proxy = (
        sample.scaled(values - sample.mean(values))
        for values in (sample.human, sample.proxy[sample.judged])
    )
    fold = sample.turn % FOLDS

    def of_others(values: Vector) -> Vector:
        """By fold, the sum of the values of queries in other folds."""
        by_fold = np.bincount(fold, values, FOLDS)
        others: Vector = by_fold.sum() - by_fold
        return others

    counts = of_others(np.ones(len(human)))

    def products(first: Vector, second: Vector) -> Vector:
        """By fold, the sum of products of deviations from the means of other folds."""
        others: Vector = of_others(first * second) - of_others(first) * of_others(second) / counts
        return others

    both, of_proxy, of_human = (
        products(*pair) for pair in ((human, proxy), (proxy, proxy), (human, human))
    )
    flat = of_proxy <= 1e-12 * (proxy @ proxy)
    slopes = np.divide(both, of_proxy, where=~flat, out=np.zeros(FOLDS))
    free = counts - 2
    explained = slopes * both
    chance = np.maximum(of_human - explained, 0.0) / np.maximum(free, 1)
    shrinkage = 1.0 - np.divide(chance, explained, where=explained > 0, out=np.ones(FOLDS))
    slopes = np.maximum(slopes, 0.0) * np.maximum(shrinkage, 0.0) * (free > 0)
    of_queries: Vector = slopes[fold]
    return of_queries


@dataclass(frozen=True)
class Agreement:
    """Of the human-labelled queries, what proxy labels says of the two rankers.

    `correlation` is that of the two judges' differences, each query weighed as in means; None where
    one of them sees no difference, or the same in all. People prefer a ranker in `differ` queries;
    in `same` of these proxy labels prefers the same one, in `opposite` the other.
    """

    correlation: float | None
    differ: int
    same: int
    opposite: int


def agreement_of(sample: SampledQueries) -> Agreement:
    """The agreement on a sample."""
    proxy, human = sample.proxy[sample.judged], sample.human
    signs = np.sign(proxy) * np.sign(human)
    of_proxy, of_human = proxy - sample.mean(proxy), human - sample.mean(human)
    spread = sample.mean(of_proxy**2) * sample.mean(of_human**2)
    # Equal values less their mean may be next to nothing.
    least = 1e-24 * sample.mean(proxy**2) * sample.mean(human**2)
    correlation = None
    if spread > least:
        ratio = sample.mean(of_proxy * of_human) / math.sqrt(spread)
        correlation = min(1.0, max(-1.0, ratio))
    counts = (int(mask.sum()) for mask in (human != 0, signs > 0, signs < 0))
    return Agreement(correlation, *counts)


@dataclass(frozen=True, repr=False)
class ComparedSegment(ShortRepr):
    """A pair on a part of the queries, by its name; without a comparison where these are too few.

    `p_holm` is corrected over all segments of the pair. A loss that is `accepted` is no reason.
    """

    name: str
    n_queries: int
    comparison: Comparison | None = None
    p_holm: float = math.nan
    accepted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; None where the queries are too few."""
        names = ("mean_difference", "low", "high")
        return {
            "segment": self.name,
            "n_queries": self.n_queries,
            **{name: getattr(self.comparison, name, None) for name in names},
            "p_holm": self.comparison and self.p_holm,
            "accepted": self.accepted,
        }


@dataclass(frozen=True, repr=False)
class ComparedPair(ShortRepr):
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all pairs and metrics of the result (Holm
    1979). `warnings` are those about the judgments; the sample's own are the comparison's. Where
    there are human labels of a sample and proxy labels of all queries, the comparison is by the
    human labels alone, and the prediction-powered figures decide. Where documents are unjudged,
    `left_out` is the comparison without them, `as_judged` that in which they are as good as judged
    ones at their rank. Ranker a is better only by more than the `smallest_gain`. `segments` are
    those of the first metric, where there is a difference, or segments were asked for.
    """

    a: str
    b: str
    metric: str
    comparison: Comparison
    p_holm: float
    higher_is_better: bool = True
    warnings: tuple[ResultWarning, ...] = ()
    prediction_powered: PredictionPowered | None = None
    left_out: Comparison | None = None
    as_judged: Comparison | None = None
    smallest_gain: float = 0.0
    segments: tuple[ComparedSegment, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        both = self.prediction_powered
        figures: Comparison | Estimate = self.comparison if both is None else both.by_both
        p, own = (self.p_holm, self.comparison) if both is None else (both.p_holm, both)
        return decide(
            figures.low,
            figures.high,
            p,
            (*self.warnings, *own.warnings),
            higher_is_better=self.higher_is_better,
            smallest_gain=self.smallest_gain,
        )

    @property
    def lost_segments(self) -> list[ComparedSegment]:
        """The segments that the better one in the mean loses significantly."""
        both = self.prediction_powered
        mean = self.comparison.mean_difference if both is None else both.by_both.mean
        return [
            each
            for each in self.segments
            if each.comparison is not None and each.p_holm < LEVEL
            if (each.comparison.low > 0 if mean < 0 else each.comparison.high < 0)
        ]

    @property
    def better(self) -> str | None:
        """The better ranker; None without a difference, or where it cannot be told."""
        return {Outcome.BETTER: self.a, Outcome.WORSE: self.b}.get(self.verdict.outcome)

    @property
    def by_human_labels(self) -> ComparedPair:
        """The same pair by human labels alone; a pair without proxy labels itself."""
        both = self.prediction_powered
        if both is None:
            return self
        return replace(self, warnings=(*self.warnings, *both.warnings), prediction_powered=None)

    @property
    def gained(self) -> int:
        """How many queries a ranks better than b."""
        return self.comparison.wins if self.higher_is_better else self.comparison.losses

    @property
    def lost(self) -> int:
        """How many queries a ranks worse than b."""
        return self.comparison.losses if self.higher_is_better else self.comparison.wins

    def reversed(self) -> ComparedPair:
        """The same pair with ranker b first."""
        parts = ("comparison", "left_out", "as_judged", "prediction_powered")
        figures = {part: getattr(self, part) for part in parts}
        turned: dict[str, Any] = {
            part: comparison and comparison.reversed() for part, comparison in figures.items()
        }
        turned["segments"] = tuple(
            replace(each, comparison=each.comparison and each.comparison.reversed())
            for each in self.segments
        )
        return replace(self, a=self.b, b=self.a, **turned)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON: of the comparison, or the prediction-powered ones."""
        both = self.prediction_powered
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            **(self.comparison.as_dict() if both is None else both.as_dict()),
            "p_holm": self.p_holm if both is None else both.p_holm,
            "verdict": self.verdict.as_dict(),
            "better": self.better,
            "segments": [each.as_dict() for each in self.segments],
        }


JUDGED = "on judged documents"

"""What a verdict is of, where rankers were shown nothing else."""


ONCE = "each query counts once"
"""What a verdict is of, where nothing tells how often queries are asked."""


def verdict_line(
    verdict: Verdict,
    a: str,
    b: str,
    metric: str,
    *,
    judged: bool = False,
    weighted: bool = False,
    smallest_gain: float = 0.0,
) -> str:
    """The verdict on ranker a against b, by the metric that decides.

    `judged`: the rankers were shown judged documents alone, which users may never see. `weighted`:
    queries count as often as they are asked.
    """
    pair = f"{a} against {b} by {metric}"
    if verdict.warnings:
        return (
            f"{verdict.outcome}: {'; '.join(warning.line for warning in verdict.warnings)} ({pair})"
        )
    words = outcome_in_words(verdict, smallest_gain)
    if verdict.outcome is Outcome.NO_DIFFERENCE:
        return f"{words}: {pair}"
    once = "" if weighted else f", {ONCE}"
    return f"{words}{f' {JUDGED}' if judged else ''}: {pair}{once}"


def outcome_in_words(verdict: Verdict, smallest_gain: float) -> str:
    """The outcome; a significant gain that may be smaller than the smallest is no "difference"."""
    if verdict.outcome is Outcome.NO_DIFFERENCE and smallest_gain:
        return f"no significant gain above {smallest_gain:g}"
    return str(verdict.outcome)


def measured_live_by(names: Sequence[str]) -> str:
    """The call that measures live results."""
    # Names of more than one word are of objects, and nothing that is typed.
    rankers = "rankers" if any(" " in name for name in names) else list(names)
    call = f"cluster.compare_live({rankers}, judgments=…, query_template=…)"
    return f"measure what users get: `{call}`"


def verdict_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """The verdict on each pair of rankers, a line each: metrics of one outcome stand together."""
    by_names: dict[str, dict[str, list[str]]] = {}
    for pair, words in zip(pairs, outcomes_of(pairs), strict=True):
        outcomes = by_names.setdefault(f"{pair.a} against {pair.b}", {})
        outcomes.setdefault(words, []).append(pair.metric)
    lines: dict[str, list[str]] = {}
    for names, outcomes in by_names.items():
        line = "; ".join(f"by {_listed(metrics)} {words}" for words, metrics in outcomes.items())
        lines.setdefault(line, []).append(names)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def outcomes_of(pairs: Sequence[ComparedPair]) -> list[str]:
    """The outcome of each pair, with its reason where that differs from pair to pair.

    A reason that is the same for all stands in the first line of the comparison.
    """
    shared = len({pair.verdict.reason for pair in pairs}) == 1
    return [
        outcome_in_words(pair.verdict, pair.smallest_gain) if shared else str(pair.verdict)
        for pair in pairs
    ]


def disagreements(pairs: Sequence[ComparedPair], split: str = "all") -> list[str]:
    """A line for each pair whose interval and corrected test disagree, with the reason.

    `split` says which queries they are.
    """
    return [
        f"interval and test disagree for {pair.a} − {pair.b} in {pair.metric}, and a difference "
        f"needs both: {why}"
        for pair in pairs
        if (why := disagreement(pair.comparison, pair.p_holm, split))
    ]


SMALL_GAIN = 0.002

"""A gain below it is real, and no user sees it."""


def small_gain_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """A line for each pair whose difference is significant, and too small to matter."""
    return [
        f"{pair.a} against {pair.b}: a difference of {pair.comparison.mean_difference:+.4f} in "
        f"{pair.metric} is below {SMALL_GAIN}, which users hardly see"
        for pair in pairs
        if pair.better is not None and abs(pair.comparison.mean_difference) < SMALL_GAIN
    ]


def disagreement(pair: Comparison, p: float, split: str = "all") -> str:
    """Why interval and test, whose p is corrected, disagree; empty where they agree."""
    if (p < LEVEL) != pair.includes_zero:
        return ""
    if pair.only_floor:
        return _floor_line(pair, split)
    if pair.includes_zero and pair.p_t < LEVEL:
        return "the test assumes symmetric differences, the interval allows for skewed ones"
    if pair.includes_zero:
        return (
            f"the differences vary too much for the interval, as for a t-test (p = {pair.p_t:.4f})"
        )
    if pair.p_permutation < LEVEL:
        return (
            f"the interval is of its pair alone, p = {pair.p_permutation:.4f} is {p:.4f} when "
            "corrected for all comparisons: compare fewer rankers or metrics"
        )
    return f"p of the permutation test is {pair.p_permutation:.4f} even without correction"


def _floor_line(pair: Comparison, split: str) -> str:
    """What so few queries cannot show, how many could, and how to get these."""
    n, mean = pair.n_queries, pair.mean_difference
    floor = mean - pair.low if mean > 0 else pair.high - mean
    # Rounded: 15.999… queries are 16, which are still too few.
    enough = int(round(n * floor / abs(mean), 9)) + 1
    more = ""
    if split == "test":
        more = ", or count the training queries, too: `train(data, folds=5)`"
    return (
        f"{n:,} queries cannot show a difference below {floor:.4f} ({n * floor:.3g} / queries): at "
        f"{mean:+.4f} it takes {enough:,} or more: judge more queries{more}"
    )


def corrected_over(count: int, split: str = "", earlier: str = "") -> str:
    """Over how many comparisons p is corrected, and for which `earlier` ones."""
    parts = [f"over {count} comparisons (Holm)"] if count > 1 else []
    parts += [f"for {earlier}"] if earlier else []
    words = f"p corrected {' and '.join(parts)}" if parts else "one comparison"
    doubled = "; p is doubled, as models of folds stand for the model" if split == "folds" else ""
    return f"{words}{doubled}"


def _listed(names: Sequence[str]) -> str:
    """As in "map, mrr and ndcg@10"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def strength_in_words(figures: PredictionPowered) -> str:
    """How much proxy labels help, and how many more human labels would be enough."""
    strength = "λ = 0: the proxy labels do not help"
    if figures.strength:
        worth = f"{figures.n_worth:,.0f} human-labelled queries"
        strength = f"λ = {figures.strength:.2f}, worth {worth}"
    if figures.n_more is None:
        more = "human labels of all these queries would not be enough at this spread"
    elif figures.n_more == 0:
        more = "no more human labels are needed"
    else:
        more = f"some {figures.n_more:,} more human-labelled queries would be enough at this spread"
    return f"{strength}; {more}"
