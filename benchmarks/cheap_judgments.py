"""How honest and how sharp prediction-powered intervals are, on real queries and simulated judges.

    python benchmarks/cheap_judgments.py M.parquet linear.json feature:best_fields --queries 1000
    python benchmarks/cheap_judgments.py OHSUMED.txt feature:11 feature:45 --n 30 50

The truth is the mean difference of two rankers over all queries of the data. Each resample draws as
many queries as there are, with replacement, a cheap judge's labels of all, and a random sample of
`--n` that people judge. Told are the shares of the 95 % intervals that hold the truth, by cheap and
human judgments, by people alone and by the cheap judge alone; the width beside that of people
alone; and the share of the judgments that people would have to make for the same width: half or
less is what cheap judgments are for. Judges are told by their false positives and false negatives.
Beside it, two who do it otherwise: λ fitted on the queries that it moves, which holds the truth too
seldom, and cheap and human values unpaired, whose width gains nothing.

Above each judge stands how much of people's spread his difference tells, and how much a regression
on his differences by five metrics and on either ranker's value would, were it fitted on half of all
queries: what there is to be gained by more than one λ, before its coefficients cost anything.
"""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import owpc_ltr as ltr
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.compared_pair import PredictionPowered, prediction_powered
from owpc_ltr.evaluation.data_comparison import ranker_of
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.models.combined import dataset_scores

JUDGES = ((0.01, 0.15), (0.05, 0.25), (0.2, 0.5))
OTHERS = ("ndcg@1", "ndcg@3", "mrr", "map")
"""Metrics whose cheap differences might tell more of people's."""
DRAWN_JUDGES = 20
"""How often each judge judges everything; a resample takes one of these for each query."""


def main() -> None:
    parser = parser_of("Coverage of prediction-powered intervals.", [50, 100, 200])
    asked = parser.parse_args()
    studied = studied_of(asked)
    data, metric, scores = studied.data, studied.metric, studied.scores
    human, width = studied.human, studied.width
    print("judge       n    λ   coverage  human  cheap  fitted  width  unpaired  judgments")
    for false_positives, false_negatives in JUDGES:
        rng = np.random.default_rng(asked.seed)
        cheap = studied.cheap(false_positives, false_negatives, rng)
        own = np.random.default_rng(asked.seed + 1)
        labels = judge(data, false_positives, false_negatives, own)
        one, more = controls(metric, scores, data, labels)
        print(f"  of people's spread one difference tells {explained(human, one):.2f}, "
              f"with others {explained(human, more):.2f}")  # fmt: skip
        for n in asked.n:
            told = resampled(human, cheap, width, n, resamples=asked.resamples, rng=rng)
            print(f"{false_positives:3.0%}/{false_negatives:3.0%} {n:5d} {told}", flush=True)


class Studied(NamedTuple):
    """Two rankers on some data: `human` is their true difference by query."""

    data: RankingDataset
    metric: Metric
    scores: list[Vector]
    human: Vector
    width: int

    def cheap(
        self, false_positives: float, false_negatives: float, rng: np.random.Generator
    ) -> Vector:
        """The differences by some judges that err alike, one row a judge."""
        return np.array([
            difference(
                self.metric, self.scores, self.data,
                judge(self.data, false_positives, false_negatives, rng),
            )
            for _ in range(DRAWN_JUDGES)
        ])  # fmt: skip


def parser_of(description: str, n: list[int]) -> argparse.ArgumentParser:
    """What is asked of a study of two rankers, with so many human-judged queries by default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data")
    parser.add_argument("rankers", nargs=2)
    parser.add_argument("--metric", default="ndcg@10")
    parser.add_argument("--n", type=int, nargs="+", default=n)
    parser.add_argument("--queries", type=int, help="Of so many in a resample; default: all.")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def studied_of(asked: argparse.Namespace) -> Studied:
    """What was asked for, read and told of in a line."""
    data = ltr.read_dataset(asked.data)
    metric = parse_metric(asked.metric)
    scores = [dataset_scores(ranker_of(one, data), data) for one in asked.rankers]
    human = difference(metric, scores, data, data.labels)
    width = asked.queries or data.n_queries
    print(f"{data.n_queries} queries, {width} a resample; true {metric} difference "
          f"{human.mean():+.4f}, {np.mean(human == 0):.0%} ties")  # fmt: skip
    return Studied(data, metric, scores, human, width)


def judge(
    data: RankingDataset, false_positives: float, false_negatives: float, rng: np.random.Generator
) -> Labels:
    """Labels of a judge who errs so often, independently."""
    drawn = rng.random(data.n_documents)
    relevant = data.labels > 0
    labels = np.where(relevant & (drawn < false_negatives), 0, data.labels)
    return np.where(~relevant & (drawn < false_positives), 1, labels).astype(np.float32)


def difference(
    metric: Metric, scores: list[Vector], data: RankingDataset, labels: Labels
) -> Vector:
    """Each query's difference of the two rankers by these labels."""
    one, other = (metric.per_query(each, labels, data.offsets) for each in scores)
    found: Vector = one - other
    return found


def controls(
    metric: Metric, scores: list[Vector], data: RankingDataset, labels: Labels
) -> tuple[list[Vector], list[Vector]]:
    """What a cheap judge says of each query: the difference alone, and with all else."""
    own = difference(metric, scores, data, labels)
    others = [difference(parse_metric(name), scores, data, labels) for name in OTHERS]
    values = [metric.per_query(each, labels, data.offsets) for each in scores]
    return [own], [own, *others, values[0], values[0] * values[1]]


def explained(human: Vector, told: list[Vector]) -> float:
    """The share of the spread that a regression tells, of queries that it has not seen."""
    columns = np.stack([np.ones(len(human)), *told], axis=1)
    half = np.random.default_rng(1).random(len(human)) < 0.5
    shares = []
    for part in (half, ~half):
        weights = np.linalg.lstsq(columns[part], human[part], rcond=None)[0]
        left = human[~part] - columns[~part] @ weights
        shares.append(1.0 - left.var() / human[~part].var())
    return float(np.mean(shares))


def resampled(
    human: Vector, cheap: Vector, width: int, n: int, resamples: int, rng: np.random.Generator
) -> str:
    """The figures of one judge and sample size."""
    queries = rng.integers(0, len(human), (resamples, width))
    of = rng.integers(0, len(cheap), (resamples, width))
    # The queries are in random order: the first are a random sample.
    people, machine = human[queries], cheap[of, queries]
    sampled = np.where(np.arange(width) < n, people, np.nan)
    ids = [f"q{number}" for number in range(width)]
    found = [prediction_powered(c, h, ids) for c, h in zip(machine, sampled, strict=True)]
    truth = float(human.mean())
    judges = {kind: np.array([_ends(one, kind) for one in found]) for kind in _KINDS}
    judges["fitted"], judges["unpaired"] = liars(machine, people[:, :n], rng)
    covered = {
        kind: float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))
        for kind, ends in judges.items()
    }
    widths = {kind: float(np.mean(ends[:, 1] - ends[:, 0])) for kind, ends in judges.items()}
    strength = np.mean([one.strength for one in found])
    share = np.median([n / one.n_worth for one in found])
    return (
        f"{strength:5.2f}  {covered['by_both']:8.1%}  {covered['by_human']:5.1%}  "
        f"{covered['by_proxy']:5.1%}  {covered['fitted']:6.1%}  "
        f"{widths['by_both'] / widths['by_human']:5.2f}  "
        f"{widths['unpaired'] / widths['by_human']:8.2f}  {share:9.2f}"
    )


_KINDS = ("by_both", "by_human", "by_proxy")


def _ends(found: PredictionPowered, kind: str) -> tuple[float, float]:
    one = getattr(found, kind)
    return one.low, one.high


def liars(machine: Vector, people: Vector, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Intervals with λ fitted on the queries that it moves, and with another query's cheap value.

    The first takes the smallest residuals that a line can leave, the second adds up two spreads.
    """
    n, width = people.shape[1], machine.shape[1]
    ends = []
    for shuffled in (False, True):
        own = rng.permuted(machine[:, :n], axis=1) if shuffled else machine[:, :n]
        centre = machine.mean(axis=1)
        x = own - own.mean(axis=1, keepdims=True)
        y = people - people.mean(axis=1, keepdims=True)
        slope = np.ones(len(x)) if shuffled else (x * y).sum(axis=1) / (x * x).sum(axis=1)
        residual = people - slope[:, None] * own
        mean = residual.mean(axis=1) + slope * centre
        variance = residual.var(axis=1) / n + slope**2 * machine.var(axis=1) / width
        reach = 1.96 * np.sqrt(variance)
        ends.append(np.stack([mean - reach, mean + reach], axis=1))
    return ends[0], ends[1]


if __name__ == "__main__":
    main()
