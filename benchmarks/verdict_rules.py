"""What the rules of verdicts stop, and what they cost, by live lists of simulated queries.

    python benchmarks/verdict_rules.py --worlds 30

The schemes are those of `verdict_worlds.py`. For each: how often the new ranker is called better,
worse, or cannot be told, and which checks doubt it. A claim is false where neither ranker is
better, where it has the wrong sign, or where two views of the truth contradict each other: 2.5 %
are wanted at most. Then the power, with complete human judgments and a true gain of about .03: of
two unlike rankers and of two versions of one; and the same by prediction-powered intervals, where
people graded a third of the queries. In `same judge`, they copied the model's labels but for 2 %,
and neither ranker is better.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from owpc_ltr_metrics.ndcg import NDCG
from verdict_worlds import (
    BETTER,
    DOCUMENTS,
    METRIC,
    SAME,
    SCHEMES,
    TOP,
    Case,
    Make,
    Matrix,
    Rng,
    complete_pool,
    correlated,
)

import owpc_ltr as ltr
from owpc_ltr.data.judgments.grouping import JudgedQuery, Judgments
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.evaluation.query_choice import ChosenQueries
from owpc_ltr.evaluation.results import ComparisonPlan, Resampling
from owpc_ltr.evaluation.significance import Verdict

NEW, OLD = "new", "old"
QUERIES = (60, 150, 300, 1000)
LIMIT = 0.025
_COPIED = 0.98


class Counts(NamedTuple):
    """Shares of worlds by outcome, and how often each check was given."""

    better: float
    worse: float
    cannot_tell: float
    checks: Mapping[str, int]


def queries_of(case: Case) -> list[JudgedQuery]:
    """The judged queries of a case."""
    found = []
    for number, grades in enumerate(case.judged):
        known = np.flatnonzero(~np.isnan(grades))
        text = case.words[number]
        found.append(JudgedQuery(
            case.names[number],
            {"keywords": text, "query": text},
            [case.documents[number][place] for place in known.tolist()],
            grades[known].astype(np.float32),
            importance=None if case.importance is None else float(case.importance[number]),
            judged_by=case.judges_of(number, known),
        ))  # fmt: skip
    return found


def _listed(case: Case, scores: Matrix) -> list[list[str]]:
    orders = np.argsort(-scores, axis=1).tolist()
    return [
        [documents[place] for place in order]
        for documents, order in zip(case.documents, orders, strict=True)
    ]


def live(case: Case, resamples: int) -> Verdict:
    """The verdict on the new ranker by live lists."""
    queries = queries_of(case)
    lists = {name: _listed(case, scores) for name, scores in ((NEW, case.new), (OLD, case.old))}
    plan = ComparisonPlan((NDCG(cutoff=TOP),), baseline=OLD, drawing=Resampling(0, resamples))
    chosen = ChosenQueries(np.arange(len(queries)), "all")
    with no_ledger():
        found = LiveResults(lists, queries, chosen, plan, "q", depth=DOCUMENTS).compared()
    return found.pairs[0].verdict


def no_ledger() -> warnings.catch_warnings[None]:
    """A world is new: it knows of no other; see OWPC_LTR_COMPARISONS."""
    os.environ["OWPC_LTR_COMPARISONS"] = os.devnull
    return warnings.catch_warnings()


def _run(case: Case, name: str) -> TrecRun:
    ranked = _listed(case, case.new if name == NEW else case.old)
    ids = np.repeat(case.names, DOCUMENTS).tolist()
    scores = np.tile(1.0 / np.arange(1.0, DOCUMENTS + 1), len(ranked))
    documents = [document for of_query in ranked for document in of_query]
    return TrecRun(pa.array(ids), pa.array(documents), scores, name, name)


def by_proxy(case: Case, rng: Rng, resamples: int, *, copied: bool = False) -> Verdict:
    """The verdict by people's labels of a third of the queries, and a model's of all.

    The model errs by a grade in a fifth of the documents; `copied`: it is kinder to the new list,
    and the people agree with it.
    """
    shown = ~np.isnan(case.judged)
    moved = rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], case.grades.shape)
    if copied:
        moved = moved + 1.0 * (rng.random(moved.shape) < 0.5) * _own(case)
    said = np.clip(case.grades + moved, 0.0, 3.0)
    people = said if copied else case.grades
    if copied:
        people = np.where(rng.random(people.shape) < _COPIED, people, case.grades)
    model = replace(case, judged=np.where(shown, said, np.nan), judge="model:m")
    human = queries_of(replace(case, judged=np.where(shown, people, np.nan), judge="ann"))
    sampled = np.sort(rng.permutation(case.n_queries)[: case.n_queries // 3])
    with no_ledger(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ltr.compare(
            {NEW: _run(case, NEW), OLD: _run(case, OLD)},
            data=Judgments([human[number] for number in sampled]),
            proxy_labels=Judgments(queries_of(model)), metrics=METRIC, baseline=OLD,
            resamples=resamples,
        )  # fmt: skip
    return found.pairs[0].verdict


def _own(case: Case) -> Matrix:
    """1 where only the new list shows a document at the top."""
    ranks = [np.argsort(np.argsort(-scores, axis=1), axis=1) for scores in (case.new, case.old)]
    return ((ranks[0] < TOP) & (ranks[1] >= TOP)).astype(np.float64)


def counted(verdicts: Iterator[Verdict]) -> Counts:
    """The shares of outcomes."""
    found = list(verdicts)
    checks = Counter(check for one in found for check in {w.check for w in one.warnings})
    shares = [
        float(np.mean([str(one.outcome) == outcome for one in found]))
        for outcome in ("better", "worse", "cannot tell")
    ]
    return Counts(shares[0], shares[1], shares[2], checks)


def of_scheme(name: str, worlds: int, resamples: int = 500, queries: int | None = None) -> Counts:
    """The verdicts on worlds of a scheme, which is named by its number."""
    scheme = next(one for one in SCHEMES if one.name.split()[0] == name)
    return counted(_live_of(scheme.make, name, queries or scheme.queries, worlds, resamples))


def _live_of(make: Make, name: str, queries: int, worlds: int, resamples: int) -> Iterator[Verdict]:
    for number in range(worlds):
        rng = np.random.default_rng([number, *name.encode()])
        yield live(make(rng, queries), resamples)


def power(make: Make, queries: int, worlds: int, resamples: int = 500) -> Counts:
    """The verdicts on a ranker that is better."""
    return counted(_live_of(make, f"power {queries}", queries, worlds, resamples))


def proxy_power(make: Make, queries: int, worlds: int, *, copied: bool = False) -> Counts:
    """The same by prediction-powered intervals."""

    def verdicts() -> Iterator[Verdict]:
        for number in range(worlds):
            rng = np.random.default_rng([number, queries, copied])
            yield by_proxy(make(rng, queries), rng, 200, copied=copied)

    return counted(verdicts())


def row(name: str, found: Counts, false: str = "") -> None:
    """A line of the tables."""
    checks = ", ".join(f"{check} {number}" for check, number in found.checks.items())
    print(
        f"{name:34s} {100 * found.better:6.1f} {100 * found.worse:6.1f} "
        f"{100 * found.cannot_tell:7.1f}  {false:8s} {checks}".rstrip(), flush=True,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="What the rules of verdicts stop, and cost.")
    parser.add_argument("--worlds", type=int, default=30)
    parser.add_argument("--schemes", nargs="+", help="their numbers, as 24a")
    parser.add_argument("--no-power", action="store_true")
    asked = parser.parse_args()
    print(f"{'% of worlds':34s} {'better':>6s} {'worse':>6s} {'cannot':>7s}  checks")
    for scheme in SCHEMES:
        if asked.schemes and scheme.name.split()[0] not in asked.schemes:
            continue
        found = of_scheme(scheme.name.split()[0], asked.worlds)
        wrong = (
            found.better if scheme.null or scheme.disputed or scheme.truth() < 0 else found.worse
        )
        row(scheme.name, found, "FALSE" if wrong > LIMIT else "")
    row("same judge, 300 queries", proxy_power(complete_pool(SAME), 300, asked.worlds, copied=True))
    if asked.no_power:
        return
    makes: Mapping[str, Callable[[Rng, int], Case]] = {
        "unlike rankers": complete_pool(BETTER), "versions": correlated(BETTER),
    }  # fmt: skip
    for kind, make in makes.items():
        for queries in QUERIES:
            row(f"power, {kind}, {queries:,} queries", power(make, queries, asked.worlds))
    for queries in QUERIES[1:]:
        found = proxy_power(correlated(BETTER), queries, asked.worlds)
        row(f"power, proxy labels, {queries:,} queries", found)


if __name__ == "__main__":
    main()
