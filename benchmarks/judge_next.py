"""What `judge next` is worth: queries drawn as it draws them, beside queries drawn at random.

    python benchmarks/judge_next.py M.parquet linear.json feature:best_fields --queries 1000
    python benchmarks/judge_next.py OHSUMED.txt feature:11 feature:45 --n 30 50

Each resample draws as many queries as there are, with replacement, and a cheap judge's labels of
all (see cheap_judgments.py). People judge `--n` of them: at random; all as `judge next` draws them;
or half at random, and half as it draws them then. The figures are those of `compare --cheap`, with
the strata where queries were drawn by them. Told are λ, the share of the 95 % intervals that hold
the truth by both judges and by people alone (of the same queries), the width beside that of people
alone who judge as many at random, and its square: the share of the judgments that these would need.
Last, one who draws the same queries and forgets the strata: his intervals miss the truth.

    python benchmarks/judge_next.py M.parquet linear.json feature:best_fields --queries 1000 \
        --n 100 --judges 0.5/10 1/15 2/20 3/20 5/25 10/40 20/50

is the share of the judgments by the quality of the cheap judge: r is the correlation of the two
judges' differences over all queries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from cheap_judgments import JUDGES, parser_of, studied_of

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.active_sampling import draw_next, strata_by_size
from owpc_ltr.evaluation.prediction_powered import PredictionPowered, prediction_powered

WAYS = ("at random", "judge next", "half and half", "strata forgotten")


def main() -> None:
    parser = parser_of("Queries drawn by judge next, and at random.", [50, 100, 200, 400])
    parser.add_argument(
        "--judges",
        type=errors,
        nargs="+",
        default=JUDGES,
        help="False positives and false negatives in percent, as 1/15.",
    )
    asked = parser.parse_args()
    studied = studied_of(asked)
    human = studied.human
    print("judge         r     n  queries drawn       λ  coverage  human  width  judgments")
    for false_positives, false_negatives in asked.judges:
        rng = np.random.default_rng(asked.seed)
        cheap = studied.cheap(false_positives, false_negatives, rng)
        r = np.corrcoef(cheap.ravel(), np.tile(human, len(cheap)))[0, 1]
        errs = f"{100 * false_positives:3g}%/{100 * false_negatives:2g}%"
        for n in asked.n:
            for told in compared(
                human, cheap, studied.width, n, resamples=asked.resamples, rng=rng
            ):
                print(f"{errs:<9} {r:5.2f} {n:5d}  {told}", flush=True)


def errors(text: str) -> tuple[float, float]:
    """How often a judge errs, told as 1/15."""
    false_positives, false_negatives = map(float, text.split("/"))
    return false_positives / 100, false_negatives / 100


def compared(
    human: Vector, cheap: Vector, width: int, n: int, resamples: int, rng: np.random.Generator
) -> Iterator[str]:
    """The figures of one judge and sample size, a line for each way to draw."""
    ids = [f"q{number}" for number in range(width)]
    found: dict[str, list[PredictionPowered]] = {way: [] for way in WAYS}
    for seed in range(resamples):
        queries = rng.integers(0, len(human), width)
        machine = cheap[rng.integers(0, len(cheap), width), queries]
        for way, one in zip(WAYS, ways(machine, human[queries], ids, n, seed), strict=True):
            found[way].append(one)
    truth = float(human.mean())
    alone = mean_width(found[WAYS[0]], "by_human")
    for way, told in found.items():
        both, people = (covered(told, kind, truth) for kind in ("by_both", "by_human"))
        ratio = mean_width(told, "by_both") / alone
        strength = np.mean([one.strength for one in told])
        yield f"{way:<16} {strength:5.2f} {both:9.1%} {people:6.1%} {ratio:6.2f} {ratio**2:10.2f}"


def ways(
    machine: Vector, people: Vector, ids: list[str], n: int, seed: int
) -> Iterator[PredictionPowered]:
    """The same queries, of which n are judged by people, in each of `WAYS`."""
    # The queries are in random order: the first are a random sample.
    place = np.arange(len(ids))
    yield prediction_powered(machine, np.where(place < n, people, np.nan), ids)
    strata = strata_by_size(machine).astype(str)
    drawn = draw_next(machine, strata, place < 0, ids, n=n, seed=seed).queries
    alone = np.where(np.isin(place, drawn), people, np.nan)
    yield prediction_powered(machine, alone, ids, strata=strata.tolist())
    first = place < n // 2
    more = draw_next(machine, strata, first, ids, n=n - n // 2, seed=seed).queries
    both = np.where(first | np.isin(place, more), people, np.nan)
    yield prediction_powered(machine, both, ids, strata=strata.tolist())
    yield prediction_powered(machine, alone, ids)


def mean_width(found: list[PredictionPowered], kind: str) -> float:
    """How wide the intervals are."""
    ends = [getattr(one, kind) for one in found]
    return float(np.mean([one.high - one.low for one in ends]))


def covered(found: list[PredictionPowered], kind: str, truth: float) -> float:
    """The share of the intervals that hold the truth."""
    ends = [getattr(one, kind) for one in found]
    return float(np.mean([one.low <= truth <= one.high for one in ends]))


if __name__ == "__main__":
    main()
