"""How often intervals hold the true difference, and how often a difference is claimed wrongly.

    python benchmarks/interval_coverage.py --worlds 1000

Each family of worlds draws the values of two rankers by query, or their differences: with a mean
difference, on which coverage is counted, and without one, on which every "better" and "worse" is
false. `plain` is a comparison on the queries alone; `good` and `useless` add proxy labels of 300
queries, of which n have human labels. An answer "cannot tell" counts as covered; `given` is the
coverage of the other answers. Wanted are 93 % and more, and 2.5 % of false claims at most on either
side: MISSED is what lies further off than two standard errors of so many worlds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.compared_pair import prediction_powered
from owpc_ltr.evaluation.significance import Outcome, Verdict, compare_paired, room_of

QUERIES = 300
SIZES = (10, 30, 50, 100)
METHODS = ("plain", "good", "useless")
RESAMPLES = 1000

_GAIN_OF_TWO = 0.114286
"""How much the better of two values of `_values` is above one of them in the mean."""
_RECIPROCAL = -0.4 / 0.6 * float(np.log(0.4))
"""The mean of the reciprocal ranks of `_known_items`."""
Pair = tuple[Vector, Vector]
"""The values of two rankers."""
Draw = Callable[[np.random.Generator, int, bool], "Vector | Pair"]


class Family(NamedTuple):
    """How differences are drawn, with a gain or without, and their mean with it."""

    draw: Draw
    gain: float


class Counts(NamedTuple):
    """Shares of worlds."""

    covered: float
    given: float
    cannot_tell: float
    better: float
    worse: float
    width: float


class _Answer(NamedTuple):
    low: float
    high: float
    verdict: Verdict


def _normal(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return rng.normal(0.05 * gain, 0.2, n)


def _ties(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return np.where(rng.random(n) < 0.4, rng.normal(0.1 * gain, 0.25, n), 0.0)


def _t3(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return np.asarray(0.05 * gain + 0.1 * rng.standard_t(3, n))


def _squared(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return np.asarray(0.05 * gain + 0.05 * (rng.exponential(1.0, n) ** 2 - 2.0))


def _squared_losses(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return 0.1 * gain - _squared(rng, n, gain)


def _differing(share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int, gain: bool) -> Vector:
        signs = np.where(gain | (rng.random(n) < 0.5), 1.0, -1.0)
        return np.where(rng.random(n) < share, signs * rng.normal(0.4, 0.2, n), 0.0)

    return draw


def _signs(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return np.where(rng.random(n) < 0.5 + 0.1 * gain, 1.0, -1.0)


def _rare_losses(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return np.where(rng.random(n) < 0.05, -0.19 + 0.2 * gain, 0.01)


def _rare_gains(rng: np.random.Generator, n: int, gain: bool) -> Vector:
    return np.where(rng.random(n) < 0.05, 0.19 + 0.2 * gain, -0.01)


def _values(rng: np.random.Generator, n: int) -> Vector:
    """Values of a metric from 0 to 1, .6 in the mean."""
    return rng.beta(3.0, 2.0, n)


def _lists(rng: np.random.Generator, n: int, gain: bool) -> Pair:
    """Two rankers whose values are drawn anew for three of ten queries."""
    b = _values(rng, n)
    better = np.maximum(_values(rng, n), _values(rng, n))
    a = np.where(gain & (rng.random(n) < 0.5), better, _values(rng, n))
    return np.where(rng.random(n) < 0.3, a, b), b


def _total_losses(share: float) -> Draw:
    """Small gains for most queries, and a share for which nothing is left."""

    def draw(rng: np.random.Generator, n: int, gain: bool) -> Pair:
        b = _values(rng, n)
        rise = share / (1.0 - share) * 1.5 + 0.1 * gain
        noise = 0.1 * rng.choice([-1.0, 1.0], n) * np.minimum(b, 1.0 - b)
        a = b + rise * (1.0 - b) + noise * (1.0 - rise)
        return np.where(rng.random(n) < share, 0.0, a), b

    return draw


def _total_gains(rng: np.random.Generator, n: int, gain: bool) -> Pair:
    a, b = _total_losses(0.03)(rng, n, gain)
    return b, a


def _known_items(rng: np.random.Generator, n: int, gain: bool) -> Pair:
    """Reciprocal ranks of one document, drawn anew for four of ten queries."""
    b, other = (1.0 / rng.geometric(0.4, n) for _ in range(2))
    a = np.where(gain & (rng.random(n) < 0.25), 1.0, other)
    return np.where(rng.random(n) < 0.4, a, b), b


def _rare_hits(rng: np.random.Generator, n: int, gain: bool) -> Pair:
    """A document at the first rank in one of ten queries."""
    b, other = (np.where(rng.random(n) < 0.1, 1.0, 0.0) for _ in range(2))
    a = np.where(rng.random(n) < 0.2, other, b)
    return np.where(gain & (rng.random(n) < 0.05), 1.0, a), b


FAMILIES: Mapping[str, Family] = {
    "normal": Family(_normal, 0.05),
    "60 % ties": Family(_ties, 0.04),
    "t3": Family(_t3, 0.05),
    "exp² gains": Family(_squared, 0.05),
    "exp² losses": Family(_squared_losses, 0.05),
    "5 % differ": Family(_differing(0.05), 0.02),
    "2 % differ": Family(_differing(0.02), 0.008),
    "±1": Family(_signs, 0.2),
    "rare losses": Family(_rare_losses, 0.01),
    "rare gains": Family(_rare_gains, 0.01),
    "lists": Family(_lists, 0.3 * 0.5 * _GAIN_OF_TWO),
    "5 % lose all": Family(_total_losses(0.05), 0.95 * 0.1 * 0.4),
    "3 % lose all": Family(_total_losses(0.03), 0.97 * 0.1 * 0.4),
    "3 % gain all": Family(_total_gains, -0.97 * 0.1 * 0.4),
    "known items": Family(_known_items, 0.4 * 0.25 * (1.0 - _RECIPROCAL)),
    "rare hits": Family(_rare_hits, 0.05 * 0.9),
}


def counted(family: Family, method: str, n: int, worlds: int, seed: int = 0) -> Counts:
    """The shares of so many worlds of a family."""
    rng = np.random.default_rng([seed, n, METHODS.index(method)])
    with_gain = [_answer(family, method, n, rng, gain=True) for _ in range(worlds)]
    without = [_answer(family, method, n, rng, gain=False) for _ in range(worlds)]
    told = [one for one in with_gain if one.verdict.outcome is not Outcome.CANNOT_TELL]
    held = sum(one.low - 1e-9 <= family.gain <= one.high + 1e-9 for one in told)

    def share(outcome: Outcome) -> float:
        return float(np.mean([one.verdict.outcome is outcome for one in without]))

    return Counts(
        covered=1.0 - (len(told) - held) / worlds,
        given=held / len(told) if told else float("nan"),
        cannot_tell=1.0 - len(told) / worlds,
        better=share(Outcome.BETTER),
        worse=share(Outcome.WORSE),
        width=float(np.mean([one.high - one.low for one in with_gain])),
    )


def _answer(
    family: Family, method: str, n: int, rng: np.random.Generator, *, gain: bool
) -> _Answer:
    if method == "plain":
        a, b = _pair(family.draw(rng, n, gain))
        seed = int(rng.integers(1 << 31))
        found = compare_paired(a, b, seed=seed, resamples=RESAMPLES)
        return _Answer(found.low, found.high, found.verdict())
    a, b = _pair(family.draw(rng, QUERIES, gain))
    truth = a - b
    proxy = rng.normal(0.1, 0.2, QUERIES)
    if method == "good":
        proxy = np.where(truth == 0.0, 0.0, truth + rng.normal(0.02, 0.05, QUERIES))
    human = np.where(np.arange(QUERIES) < n, truth, np.nan)
    ids = [f"q{number}" for number in range(QUERIES)]
    both = prediction_powered(proxy, human, ids, room=room_of(a[:n], b[:n]))
    return _Answer(both.by_both.low, both.by_both.high, both.verdict())


def _pair(drawn: Vector | Pair) -> Pair:
    """Two rankers' values; of differences alone, the second ranker has .5 everywhere."""
    return drawn if isinstance(drawn, tuple) else (0.5 + drawn, np.full(len(drawn), 0.5))


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of intervals, and false claims.")
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{'family':14s} {'method':8s}   n  covered  given  cannot tell  better  worse  width")
    for name in asked.families:
        for method in METHODS:
            for n in SIZES:
                one = counted(FAMILIES[name], method, n, asked.worlds, asked.seed)
                chance = [2.0 * (p * (1 - p) / asked.worlds) ** 0.5 for p in (0.93, 0.025)]
                bad = one.covered < 0.93 - chance[0]
                bad |= max(one.better, one.worse) > 0.025 + chance[1]
                print(
                    f"{name:14s} {method:8s} {n:3d}  {one.covered:7.3f}  {one.given:5.3f}  "
                    f"{one.cannot_tell:11.2f}  {one.better:6.3f}  {one.worse:5.3f}  "
                    f"{one.width:5.3f}{'  MISSED' if bad else ''}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
