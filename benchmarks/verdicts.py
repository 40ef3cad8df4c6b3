"""How often each path to a verdict is right, wrong or silent, in worlds whose truth is known.

    python benchmarks/verdicts.py --worlds 200

A scheme draws queries with a true grade of every document, an old and a new ranker, and judgments
as teams have them. Every path is asked about the same worlds: `evaluate`, `compare` and the
`report` on judged documents, `compare` of `runs`, `live` results, `fuse`, and `proxy`: people's
labels of a third of the queries, a model's of all. `plain` is the live difference by test and
interval alone, without any other rule. A verdict is false where it claims the wrong sign, or any
difference where neither ranker is better, or where two views of the truth contradict each other
(`disputed`). At most 2.5 % of false claims are wanted on either side: MISSED is what lies further
off than two standard errors, `hidden` what no data show. The power is given beside that of a
paired t-test at 5 % and at 2.5 %.

    python benchmarks/verdicts.py --node [URL]

asks about one world of each scheme by searches of an OpenSearch node, which is started unless its
address is given; see `benchmarks/verdict_node.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
from verdict_node import answers_of, cluster_of, team_of
from verdict_paths import (
    PATHS,
    REFUSED,
    Answer,
    Team,
    ask,
    fewer_resamples,
    no_earlier_comparisons,
    repeated,
)
from verdict_worlds import (
    BETTER,
    NOT_PROXY,
    SAME,
    SCHEMES,
    Make,
    Scheme,
    complete_pool,
    correlated,
    rated_again,
    truth_of,
    tuned,
    variants,
)

from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.significance import LEVEL, compare_paired

OF_A_TASK = 10
"""Worlds of one task."""
LIMIT = 0.025
"""False claims that are wanted on either side at most."""
POWER_QUERIES = (60, 150, 300, 1000)
POWER: Mapping[str, tuple[Make, tuple[str, ...]]] = {
    "unlike rankers": (complete_pool(BETTER), ("report", "fuse", "proxy", "plain")),
    "versions": (correlated(BETTER), ("report", "fuse", "proxy", "plain")),
    "proxy labels": (correlated(BETTER), NOT_PROXY),
}
"""How rankers are drawn of which one is better, and the paths that are not asked."""
OUTCOMES = ("better", "worse", "no significant difference", "cannot tell", REFUSED)
VARIANTS = 20
STEP, MOST = 25, 300
RULES: Mapping[str, Callable[[int], float]] = {
    "none": lambda _: 1.0,
    "(1+k)": lambda k: 1.0 + k,
    "(1+k)^1.5": lambda k: (1.0 + k) ** 1.5,
    "(1+k)^2": lambda k: (1.0 + k) ** 2,
    "(1+k)(2+k)": lambda k: (1.0 + k) * (2.0 + k),
}
"""What p of a comparison is multiplied by after k earlier ones."""
REPEATS = {"20 variants": variants, "20 tuned variants": tuned, "20 ratings": rated_again}
SEQUENCES = (*REPEATS, "25 more queries")


def answered(name: str, paths: tuple[str, ...], worlds: range, resamples: int) -> dict[str, Any]:
    """Every path's answers about these worlds."""
    scheme = next(one for one in SCHEMES if one.name.split()[0] == name.split(maxsplit=1)[0])
    return _answers(scheme, paths, worlds, resamples)


def _answers(
    scheme: Scheme, paths: tuple[str, ...], worlds: range, resamples: int
) -> dict[str, list[Answer]]:
    paths = tuple(path for path in paths if path not in scheme.without)
    found: dict[str, list[Answer]] = {path: [] for path in paths}
    with warnings.catch_warnings(), fewer_resamples(resamples):
        warnings.simplefilter("ignore")
        for number in worlds:
            rng = np.random.default_rng([number, *scheme.name.encode()])
            team = Team(scheme.make(rng, scheme.queries), rng, resamples)
            for path in paths:
                found[path].append(ask(path, team))
    return found


def powers(
    kind: str, queries: int, paths: tuple[str, ...], worlds: range, resamples: int
) -> dict[str, list[Answer]]:
    """Answers about a ranker that is truly better, with complete judgments; those of t-tests."""
    make, without = POWER[kind]
    scheme = Scheme(f"power of {queries}, {kind}", make, queries, without=without)
    found = _answers(scheme, paths, worlds, resamples)
    tests = {"t-test 5 %": LEVEL, "t-test 2.5 %": LEVEL / 2}
    for number in worlds:
        rng = np.random.default_rng([number, *scheme.name.encode()])
        gain = scheme.make(rng, queries).true_gain()[:: 3 if kind == "proxy labels" else 1]
        one = compare_paired(gain, 0.0 * gain, seed=0, resamples=1)
        for name, level in tests.items():
            better = one.p_t < level and one.mean_difference > 0
            outcome = "better" if better else "no significant difference"
            found.setdefault(name, []).append(Answer(outcome))
    return found


def sequences(kind: str, worlds: range, resamples: int) -> list[list[ComparedPair]]:
    """The comparisons of each world one after the other, which know of the earlier ones."""
    found = []
    for number in worlds:
        rng = np.random.default_rng([number, SEQUENCES.index(kind)])
        if kind == "25 more queries":
            case = complete_pool(SAME)(rng, MOST)
            cases = [(case, slice(0, count)) for count in range(STEP, MOST + 1, STEP)]
        else:
            cases = [(one, slice(None)) for one in REPEATS[kind](rng, 100, VARIANTS)]
        with no_earlier_comparisons():
            found.append([repeated(case, part, resamples) for case, part in cases])
    return found


def _share(answers: Sequence[Answer], outcome: str) -> float:
    return float(np.mean([one.outcome == outcome for one in answers]))


def _false_sides(scheme: Scheme, truth: float) -> tuple[str, ...]:
    """Which claims are false."""
    if scheme.null or scheme.disputed:
        return ("better", "worse")
    return ("worse",) if truth > 0 else ("better",)


def _bad(share: float, worlds: int) -> bool:
    return bool(share > LIMIT + 2.0 * (LIMIT * (1 - LIMIT) / worlds) ** 0.5)


def _told(scheme: Scheme, truth: float) -> str:
    return f"{'disputed' if scheme.disputed else f'{truth:+.4f}':>8s}"


def heading() -> None:
    """What `rows` have."""
    print("% of worlds, by scheme and path")
    print(f"{'scheme':32s} {'truth':>8s}  path       better  worse   none  cannot  refused")


def rows(scheme: Scheme, answers: Mapping[str, list[Answer]], truth: float) -> None:
    """The shares of all outcomes beside the truth, and which claims are false."""
    for path, of_path in answers.items():
        shares = {one: _share(of_path, one) for one in OUTCOMES}
        sides = [side for side in _false_sides(scheme, truth) if shares[side]]
        false = ", ".join(f"{shares[side]:.1%} false '{side}'" for side in sides)
        missed = path != "plain" and any(_bad(shares[side], len(of_path)) for side in sides)
        cells = "  ".join(f"{100 * shares[one]:6.1f}" for one in OUTCOMES)
        line = f"{scheme.name:32s} {_told(scheme, truth)}  {path:9s} {cells}  {false}"
        note = "  hidden" if scheme.hidden else "  MISSED"
        print(f"{line}{note if missed else ''}".rstrip(), flush=True)


def null_table(answers: Mapping[str, Mapping[str, list[Answer]]]) -> None:
    """False claims on either side, where neither ranker is better."""
    print("\nneither is better: % of false better / worse")
    print(f"{'scheme':32s} " + " ".join(f"{path:>11s}" for path in PATHS))
    for scheme in SCHEMES:
        if not scheme.null or scheme.name not in answers:
            continue
        cells = [
            f"{100 * _share(of, 'better'):.1f}/{100 * _share(of, 'worse'):.1f}" if of else "-"
            for of in (answers[scheme.name].get(path, []) for path in PATHS)
        ]
        print(f"{scheme.name:32s} " + " ".join(f"{cell:>11s}" for cell in cells))


def reasons_table(answers: Mapping[str, Mapping[str, list[Answer]]]) -> None:
    """Which checks make verdicts `cannot tell`, by scheme, over judged documents and live."""
    print("\nwhy it cannot be told (% of worlds)")
    for scheme in SCHEMES:
        for path in ("compare", "live"):
            of = answers.get(scheme.name, {}).get(path, [])
            counts = Counter(check for one in of for check in set(one.checks))
            if counts:
                told = ", ".join(f"{name} {n / len(of):.0%}" for name, n in counts.most_common(5))
                print(f"{scheme.name:32s} {path:9s} {told}")


def power_table(found: Mapping[tuple[str, int], Mapping[str, list[Answer]]]) -> None:
    """How often a better ranker is called so."""
    print("\npower: a ranker that is better, complete judgments, % 'better'")
    for (kind, queries), of_paths in found.items():
        if queries == POWER_QUERIES[0]:
            print(f"{kind}, {truth_of(POWER[kind][0]):+.4f}")
        cells = [f"{path} {100 * _share(of, 'better'):.1f}" for path, of in of_paths.items()]
        print(f"{queries:6,d} queries  " + "  ".join(cells))
        doubts = Counter(check for of in of_paths.values() for one in of for check in one.checks)
        if doubts:
            print(f"{'':14s}doubts, all paths together: {dict(doubts)}")


def sequence_table(found: Mapping[str, list[list[ComparedPair]]]) -> None:
    """How often any comparison of a world claims a difference, by what p is multiplied by."""
    print("\nrepeated comparisons of equal rankers: % of worlds with any 'better' / any 'worse'")
    for kind, worlds in found.items():
        now = [
            float(np.mean([any(str(p.verdict.outcome) == side for p in one) for one in worlds]))
            for side in ("better", "worse")
        ]
        print(f"{kind:18s} installed  {100 * now[0]:5.1f} / {100 * now[1]:5.1f}")
        for name, rule in RULES.items():
            cells = [float(np.mean([_any(one, rule, sign) for one in worlds])) for sign in (1, -1)]
            print(f"{'':18s} {name:10s} {100 * cells[0]:5.1f} / {100 * cells[1]:5.1f}")


def _any(pairs: Sequence[ComparedPair], rule: Callable[[int], float], sign: int) -> bool:
    """Whether any comparison has a significant difference of a sign."""
    for looks, pair in enumerate(pairs):
        one = pair.comparison
        beyond = one.low > 0 if sign > 0 else one.high < 0
        if beyond and one.p_permutation * rule(looks) < LEVEL:
            return True
    return False


def _words(answer: Answer) -> str:
    return " ".join((answer.outcome, *sorted({*answer.checks})))


def node_table(schemes: Sequence[Scheme], url: str) -> None:
    """The verdicts on one world of each scheme by the searches of a node."""
    print("300 queries, unless a scheme says how many: each takes about 10 seconds on two cores")
    print(f"{'scheme':32s} {'truth':>8s}  queries  path       verdict on the node")
    with cluster_of(url) as cluster:
        for scheme in schemes:
            begin, team, truth = time.monotonic(), team_of(scheme), scheme.truth()
            start = f"{scheme.name:32s} {_told(scheme, truth)}  {team.case.n_queries:7d}"
            for path, found, simulated in answers_of(team, cluster):
                false = "  FALSE" if found.outcome in _false_sides(scheme, truth) else ""
                other = "" if found == simulated else f"  (simulated: {_words(simulated)})"
                print(f"{start}  {path:9s}  {_words(found)}{false}{other}", flush=True)
            print(f"{'':30s} {time.monotonic() - begin:.0f} seconds", flush=True)


def _in_parts(worlds: int) -> Iterator[range]:
    for first in range(0, worlds, OF_A_TASK):
        yield range(first, min(worlds, first + OF_A_TASK))


def _merged(parts: Iterable[Mapping[str, list[Answer]]]) -> dict[str, list[Answer]]:
    merged: dict[str, list[Answer]] = {}
    for part in parts:
        for path, of_path in part.items():
            merged.setdefault(path, []).extend(of_path)
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(description="Verdicts in worlds whose truth is known.")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=500)
    parser.add_argument("--paths", nargs="+", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--schemes", nargs="+", help="the first characters of their names")
    parser.add_argument("--no-repeats", action="store_true", help="leave out repeated comparisons")
    parser.add_argument("--no-power", action="store_true", help="leave out the power")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--node", nargs="?", const="", metavar="URL", help="search a node instead")
    asked = parser.parse_args()
    start, paths = time.monotonic(), tuple(asked.paths)
    chosen = [
        one for one in SCHEMES
        if asked.schemes is None or one.name.split()[0] in asked.schemes
    ]  # fmt: skip
    if asked.node is not None:
        node_table(chosen, asked.node)
        return
    parts = list(_in_parts(asked.worlds))
    wanted: dict[tuple[str, Any], Callable[..., Any]] = {
        ("scheme", one.name): partial(answered, one.name, paths, resamples=asked.resamples)
        for one in chosen
    }
    if not asked.no_power:
        for kind in POWER:
            for count in POWER_QUERIES:
                job = partial(powers, kind, count, paths, resamples=asked.resamples)
                wanted["power", (kind, count)] = job
    if not asked.no_repeats:
        for kind in SEQUENCES:
            wanted["sequence", kind] = partial(sequences, kind, resamples=10_000)
    done: dict[tuple[str, Any], list[Any]] = {}
    heading()
    with ProcessPoolExecutor(asked.workers, get_context("spawn")) as pool:
        running = {
            key: [pool.submit(job, worlds=part) for part in parts] for key, job in wanted.items()
        }
        for number, (key, futures) in enumerate(running.items(), 1):
            done[key] = [future.result() for future in futures]
            if key[0] == "scheme":
                scheme = next(one for one in chosen if one.name == key[1])
                rows(scheme, _merged(done[key]), scheme.truth())
            if sys.stderr.isatty():
                print(f"\r{number} of {len(wanted)}", end="\r", file=sys.stderr, flush=True)
    answers = {key: _merged(of) for (kind, key), of in done.items() if kind == "scheme"}
    if answers:
        null_table(answers)
        reasons_table(answers)
    power = {key: _merged(of) for (kind, key), of in done.items() if kind == "power"}
    if power:
        power_table(power)
    repeats = {
        key: [world for part in of for world in part]
        for (kind, key), of in done.items()
        if kind == "sequence"
    }
    if repeats:
        sequence_table(repeats)
    print(f"\n{asked.worlds} worlds each, {time.monotonic() - start:,.0f} seconds")


if __name__ == "__main__":
    main()
