"""Top-heavy weights against constant ones on a part of LETOR 3.0 NP2004, with paired tests.

    python benchmarks/np2004.py S4.txt.xz  # prints Markdown

One relevant document among about a thousand a query: what OWPC was made for. With 15 queries, each
is tested in one of five folds, C chosen on another fold; average precisions are pooled.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.evaluation.measurement import Measured, values_of
from owpc_ltr.evaluation.significance import Comparison, Outcome, compare_paired
from owpc_ltr.host import registry as registries
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from owpc_ltr.training.cross_validation import Fold, cut_folds
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import model_plan

GENERATORS = [
    {"generator": "constant"},
    {"generator": "logarithmic"},
    {"generator": "inverse"},
    *({"generator": "exponential", "p": p} for p in ("5", "10", "20")),
    *({"generator": "top", "p": p} for p in ("5", "10", "20")),
]


def main() -> None:
    """Measure every generator, print a page of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    data = read_dataset(parser.parse_args().data)
    folds = cut_folds(data, 5)
    measured = [_pooled(folds, settings) for settings in GENERATORS]
    sys.stdout.write("\n".join(_page(data.n_queries, data.n_documents, measured)) + "\n")


def _pooled(folds: list[Fold[RankingDataset]], settings: dict[str, str]) -> Measured:
    """The average precision of every query, from the fold that tests it."""
    registry = registries.load()
    metric = parse_metric("map")
    values, baselines = [], []
    for fold in folds:
        plan = model_plan(
            registry.find("loss", "owpc"),
            registry.find("optimizer", "larank"),
            {f"loss.{name}": value for name, value in settings.items()},
            normalise="none",
        )
        model = train_plan(fold.training, plan, Run(), fold.validation).model
        scores = model.score(fold.test.features)
        values += values_of(scores, fold.test, [metric])
        baselines += values_of(np.zeros(len(scores)), fold.test, [metric])
    pooled, tied = np.concatenate(values), np.concatenate(baselines)
    return Measured(metric, metric.average(pooled), pooled, metric.average(tied))


def _compared(one: Measured, other: Measured) -> Comparison:
    return compare_paired(one.per_query, other.per_query, seed=0)


def _page(queries: int, documents: int, measured: list[Measured]) -> Iterator[str]:
    constant = measured[0]
    yield "## Top-heavy weights on NP2004\n"
    yield (
        f"{queries} queries of LETOR 3.0 NP2004, {documents} documents, one relevant document a "
        "query; five folds of three test queries, C chosen on another fold by MAP, average "
        "precisions pooled. Scoring all documents equally gives "
        f"{constant.all_tied_baseline:.4f}.\n"
    )
    yield "Made by `benchmarks/np2004.py`.\n"
    yield "| weights | MAP | against constant | 95 % interval | p | wins, losses |"
    yield "|---|---|---|---|---|---|"
    better = []
    for settings, one in zip(GENERATORS, measured, strict=True):
        name = " ".join(f"{key}={value}" for key, value in settings.items())
        if one is constant:
            yield f"| `{name}` | {one.mean:.4f} | | | | |"
            continue
        found = _compared(one, constant)
        better += [name] if found.verdict().outcome is Outcome.BETTER else []
        yield (
            f"| `{name}` | {one.mean:.4f} | {found.mean_difference:+.4f} | "
            f"[{found.low:+.4f}, {found.high:+.4f}] | {found.p_permutation:.3f} | "
            f"{found.wins}, {found.losses} |"
        )
    widest = max(_compared(one, constant).detectable for one in measured[1:])
    verdict = f"Better: {', '.join(better)}." if better else "None is better."
    yield (
        f"\n{verdict} With {queries} queries the minimum detectable difference (80 % power) is "
        f"{widest:.2f} MAP, for the pair that differs most. This sample shows that the solver "
        "works here; it is too small to show which weights are best."
    )


if __name__ == "__main__":
    main()
