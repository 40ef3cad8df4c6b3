"""How often intervals hold the true difference, and how often a difference is claimed wrongly.

    python benchmarks/interval_coverage.py --worlds 1000

Each family of worlds draws the differences of two rankers by query: with a mean difference, on
which coverage is counted, and without one, on which every "better" and "worse" is false. `plain` is
a comparison on the queries alone; `good` and `useless` add proxy labels of 300 queries, of which n
have human labels. An answer "cannot tell" counts as covered; `given` is the coverage of the other
answers. Wanted are 93 % and more, and 2.5 % of false claims at most on either side: MISSED is what
lies further off than two standard errors of so many worlds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.prediction_powered import prediction_powered
from owpc_ltr.evaluation.significance import Outcome, Verdict, compare_paired

QUERIES = 300
SIZES = (10, 30, 50, 100)
METHODS = ("plain", "good", "useless")
RESAMPLES = 1000

Draw = Callable[[np.random.Generator, int, bool], Vector]


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
        values = family.draw(rng, n, gain)
        seed = int(rng.integers(1 << 31))
        found = compare_paired(values, np.zeros(n), seed=seed, resamples=RESAMPLES)
        return _Answer(found.low, found.high, found.verdict())
    truth = family.draw(rng, QUERIES, gain)
    proxy = rng.normal(0.1, 0.2, QUERIES)
    if method == "good":
        proxy = np.where(truth == 0.0, 0.0, truth + rng.normal(0.02, 0.05, QUERIES))
    human = np.where(np.arange(QUERIES) < n, truth, np.nan)
    both = prediction_powered(proxy, human, [f"q{number}" for number in range(QUERIES)])
    return _Answer(both.by_both.low, both.by_both.high, both.verdict())


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
