"""How fast metrics are, beside the libraries that researchers use.

    python benchmarks/metrics.py [--queries 10000] [--documents 120]

Rows a second, best of three calls, one thread. pytrec_eval is given its dictionaries ready made,
which favours it; each ratio is against ours on what the peer computes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.metrics import RankedQueries, parse_metric

NAMES = ("ndcg@10", "map", "mrr")
OTHER_NAMES = ("ndcg", "precision@10", "err@10", "err", "pairwise-error")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of metrics.")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    n = arguments.queries * arguments.documents
    scores = rng.standard_normal(n)
    labels = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=n).astype(np.float32)
    offsets = np.arange(arguments.queries + 1) * arguments.documents
    print(f"{arguments.queries:,} queries × {arguments.documents} documents, million rows/s")
    together = compare_three(scores, labels, offsets)
    alone = compare_each(scores, labels, offsets)
    print(f"import to first value, fresh process: {first_value_seconds():.2f} s")
    data = scores, labels, offsets
    peer("pytrec_eval", " + ".join(NAMES), pytrec_eval_seconds, together, data)
    peer("scikit-learn", "ndcg@10", scikit_learn_seconds, alone["ndcg@10"], data)


def compare_three(scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]) -> float:
    """Our rate on the three metrics together, for untied scores."""
    metrics = [parse_metric(name) for name in NAMES]

    def rate_of(given: NDArray[Any]) -> float:
        def values() -> list[NDArray[Any]]:
            queries = RankedQueries(given, labels, offsets)
            return [metric.of(queries) for metric in metrics]

        return len(given) / best(values) / 1e6

    rate, tied_rate = rate_of(scores), rate_of(np.round(scores, 1))
    print(f"  owpc-ltr      {' + '.join(NAMES):24s} {rate:6.1f}   (many ties: {tied_rate:.1f})")
    return rate


def compare_each(
    scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]
) -> dict[str, float]:
    """Our rate on each metric asked alone, for untied scores."""
    alone = {}
    for name in (*NAMES, *OTHER_NAMES):
        metric = parse_metric(name)
        seconds = [
            best(lambda m=metric, s=ranked: m.per_query(s, labels, offsets))  # type: ignore[misc]
            for ranked in (scores, np.round(scores, 1), np.zeros(len(scores)))
        ]
        untied, ties, constant = (len(scores) / second / 1e6 for second in seconds)
        print(
            f"  owpc-ltr      {name:24s} {untied:6.1f}   "
            f"(many ties: {ties:.1f}, all tied: {constant:.1f})"
        )
        alone[name] = untied
    return alone


def peer(
    name: str, what: str, seconds_of: Callable[..., float], ours: float, data: tuple[Any, ...]
) -> None:
    try:
        rate = len(data[0]) / seconds_of(*data) / 1e6
    except ImportError:
        print(f"  {name:13s} not installed")
        return
    print(f"  {name:13s} {what:24s} {rate:6.1f}   ours is {ours / rate:.1f} times as fast")


def pytrec_eval_seconds(scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]) -> float:
    import pytrec_eval

    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for query in range(len(offsets) - 1):
        rows = range(offsets[query], offsets[query + 1])
        ids = [f"d{row}" for row in rows]
        qrels[f"q{query}"] = dict(zip(ids, labels[rows].astype(int).tolist(), strict=True))
        run[f"q{query}"] = dict(zip(ids, scores[rows].tolist(), strict=True))
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map", "recip_rank"})
    return best(lambda: evaluator.evaluate(run))


def scikit_learn_seconds(
    scores: NDArray[Any], labels: NDArray[Any], offsets: NDArray[Any]
) -> float:
    """Only rectangles fit scikit-learn, and only NDCG with linear gain."""
    from sklearn.metrics import ndcg_score

    shape = (len(offsets) - 1, -1)
    true, predicted = labels.reshape(shape), scores.reshape(shape)
    return best(lambda: ndcg_score(true, predicted, k=10))


def first_value_seconds() -> float:
    program = (
        "import numpy as np; from owpc_ltr.metrics import parse_metric; "
        "parse_metric('map').mean(np.arange(3.0), np.ones(3, np.float32), np.array([0, 3]))"
    )
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - our own text
    return time.perf_counter() - started


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of three calls."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
