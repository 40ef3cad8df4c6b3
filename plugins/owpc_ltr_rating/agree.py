"""`judge agree`: how far raters agree, beyond what their grades' frequencies give by chance.

Quadratic-weighted kappa (Cohen, 1968): 1 − E(a − b)² / E(a − b′)², where b′ is the grade of another
pair. The bootstrap draws queries, because grades of one query depend on one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.options import Columns
from owpc_ltr.errors import Refused, give_warnings
from owpc_ltr.files.output import finite_json
from owpc_ltr.signatures import Reads, Seed, job
from owpc_ltr_rating.ratings import Key, all_votes, query_texts, rater_warnings, read_votes

RESAMPLES = 1000
FEWEST_QUERIES = 10
"""Queries below which no interval is given."""
_WORST = 5


@dataclass(frozen=True)
class RaterPair:
    """How far two raters agree on the pairs that both graded.

    `shift` is the mean of the first rater's grade less the second's. The intervals are 95 % ones,
    NaN for fewer than 10 queries; kappa is NaN where all grades are the same.
    """

    raters: tuple[str, str]
    pairs: int
    queries: int
    kappa: float
    kappa_interval: tuple[float, float]
    equal: float
    shift: float
    shift_interval: tuple[float, float]
    table: Mapping[tuple[float, float], int]
    """How often the first rater gave one grade, and the second another."""
    worst: tuple[tuple[str, str, float, float], ...]
    """Where they differ most: query, document, and both grades."""

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        table = [[a, b, number] for (a, b), number in sorted(self.table.items())]
        figures: dict[str, Any] = finite_json({**vars(self), "table": table})
        return figures


@dataclass(frozen=True, repr=False)
class RaterAgreement(BlockResult):
    """The agreement of every two raters with common pairs, and of raters with themselves.

    `themselves` has, by rater, how many pairs were graded twice, and how many of them alike.
    """

    agreements: tuple[RaterPair, ...]
    themselves: Mapping[str, tuple[int, int]]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "agreements": [pair.as_dict() for pair in self.agreements],
            "self_agreement": {
                rater: {"pairs": n, "equal": equal} for rater, (n, equal) in self.themselves.items()
            },
        }

    def _blocks(self) -> Iterator[Block]:
        yield Table(
            ["RATERS", "PAIRS", "QUERIES", "KAPPA", "95 %", "EQUAL", "SHIFT", "95 %"],
            [
                (
                    " / ".join(pair.raters),
                    pair.pairs,
                    pair.queries,
                    f"{pair.kappa:.2f}",
                    _ends(pair.kappa_interval),
                    f"{pair.equal:.0%}",
                    f"{pair.shift:+.2f}",
                    _ends(pair.shift_interval),
                )
                for pair in self.agreements
            ],
        )
        for rater, (n, equal) in self.themselves.items():
            yield f"{rater} graded {n:,} pairs twice, {equal:,} of them alike"
        most = max(self.agreements, key=lambda pair: pair.pairs)
        yield from ("", _confusion(most), "")
        if most.worst:
            worst = [(query, document, f"{x:g}", f"{y:g}") for query, document, x, y in most.worst]
            yield from (Table(["DIFFERS MOST", "DOCUMENT", *most.raters], worst), "")
        yield (
            "Kappa is quadratic-weighted: 0 is chance, 1 the same grades; the shift is the first "
            "rater's mean grade less the second's. Intervals are from a bootstrap over queries."
        )


@job
def judge_agree(
    lists: Annotated[
        Sequence[Path | str],
        Reads(
            "Judgment lists of any format: raters are those that they name (judged_by), else the "
            "file is one.",
            metavar="LIST",
            cli=list[Path],
        ),
    ],
    *,
    columns: Columns = None,
    seed: Seed = 0,
) -> RaterAgreement:
    """Measure how far raters agree.

    For every two raters with common pairs: quadratic-weighted kappa, how often they give the same
    grade, and the shift of one against the other, with intervals over queries. Pairs that the
    rating page showed twice tell how far a rater agrees with themselves.

    Raises Refused where no two raters graded the same pair.
    """
    read = read_votes(lists, columns)
    give_warnings([f"{votes.path}: {note}" for votes in read for note in votes.notes])
    texts = query_texts(read)
    agreements = []
    raters = all_votes(read)
    for (a, of_a), (b, of_b) in combinations(raters.items(), 2):
        common = {key: (grade, of_b[key]) for key, grade in of_a.items() if key in of_b}
        if common:
            agreements.append(agreement((a, b), common, texts, seed))
    if not agreements:
        raise Refused(
            "no two raters graded the same pair of query and document: give lists with common "
            "pairs (`judge_page(overlap=…)` shares some)"
        )
    give_warnings(rater_warnings(raters, 1))
    twice: dict[str, tuple[int, int]] = {}
    for votes in read:
        for rater, _, before, after in votes.repeats:
            n, equal = twice.get(rater, (0, 0))
            twice[rater] = n + 1, equal + (before == after)
    return RaterAgreement(tuple(agreements), twice)


def agreement(
    raters: tuple[str, str],
    common: Mapping[Key, tuple[float, float]],
    texts: Mapping[str, str],
    seed: int = 0,
) -> RaterPair:
    """The agreement of two raters on their common pairs."""
    a, b = np.array(list(common.values()), np.float64).T
    names, queries = np.unique([query_id for query_id, _ in common], return_inverse=True)
    terms = np.stack([np.ones_like(a), a, b, a * a, b * b, a * b, a == b]).astype(np.float64)
    sums = np.stack([np.bincount(queries, term, len(names)) for term in terms])
    kappa, shift, equal = (float(value[0]) for value in _statistics(sums.sum(1, keepdims=True)))
    kappa_ends = shift_ends = (np.nan, np.nan)
    if len(names) >= FEWEST_QUERIES:
        generator = np.random.default_rng(seed)
        drawn = generator.multinomial(len(names), [1 / len(names)] * len(names), RESAMPLES)
        kappas, shifts, _ = _statistics(sums @ drawn.T)
        kappa_ends, shift_ends = (_interval(values, len(names)) for values in (kappas, shifts))
    keys = list(common)
    order = np.argsort(-np.abs(a - b), kind="stable")[:_WORST].tolist()
    worst = tuple(
        (texts.get(keys[row][0], keys[row][0]), keys[row][1], float(a[row]), float(b[row]))
        for row in order
        if a[row] != b[row]
    )
    return RaterPair(
        raters,
        pairs=len(a),
        queries=len(names),
        kappa=kappa,
        kappa_interval=kappa_ends,
        equal=equal,
        shift=shift,
        shift_interval=shift_ends,
        table=dict(Counter(zip(a.tolist(), b.tolist(), strict=True))),
        worst=worst,
    )


def _statistics(sums: NDArray[Any]) -> tuple[Vector, Vector, Vector]:
    """Kappa, shift and share of equal grades of sums of 1, a, b, a², b², ab and a = b."""
    n, a, b, aa, bb, ab, equal = sums
    apart = (aa + bb - 2 * ab) / n
    by_chance = aa / n + bb / n - 2 * (a / n) * (b / n)
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = np.where(by_chance > 1e-12, 1 - apart / by_chance, np.nan)
    return kappa, (a - b) / n, equal / n


def _interval(values: Vector, n: int) -> tuple[float, float]:
    """The 95 % interval of resampled values of n queries.

    Percentiles of a bootstrap are too narrow for few queries; expanded ones (Hesterberg 2015) have
    the width of Student's interval.
    """
    from scipy.special import ndtr, stdtrit

    defined = values[~np.isnan(values)]
    if len(defined) < len(values) / 2:
        return np.nan, np.nan
    tail = float(ndtr((n / (n - 1)) ** 0.5 * stdtrit(n - 1, 0.025)))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def _ends(interval: tuple[float, float]) -> str:
    return "" if np.isnan(interval[0]) else f"[{interval[0]:.2f}, {interval[1]:.2f}]"


def _confusion(pair: RaterPair) -> Table:
    rows_of, columns_of = (sorted(set(grades)) for grades in zip(*pair.table, strict=True))
    header = [f"{pair.raters[0]} ↓ {pair.raters[1]} →", *(f"{grade:g}" for grade in columns_of)]
    rows = [[f"{a:g}", *(pair.table.get((a, b), 0) for b in columns_of)] for a in rows_of]
    return Table(header, rows)
