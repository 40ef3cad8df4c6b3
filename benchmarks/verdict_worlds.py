"""Simulated queries with true grades of all documents, two rankers, and judgments that teams have.

`benchmarks/verdicts.py` asks every path for its verdict on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from owpc_ltr_metrics.ndcg import NDCG

from owpc_ltr.arrays import Vector
from owpc_ltr.metrics import RankedQueries

Matrix = NDArray[np.float64]
"""One query a row, one document a column; in judgments NaN where nobody judged."""
Rng = np.random.Generator
DOCUMENTS = 30
METRIC = "ndcg@10"
_NDCG = NDCG(cutoff=10)
TOP = 10
_CUTS = (0.3, 1.0, 1.6)
_SHARED = 0.9
SAME, BETTER, WORSE = 1.2, 1.005, 1.42
"""The noise of a ranker: `SAME` is the old one's. The others make the gain."""
_POPULATION = 20_000
_LETTERS = "bcdfghjklmnpqrtv"


@dataclass(frozen=True, eq=False)
class Case:
    """Queries with the truth, both rankers' scores, and what is judged by whom.

    `request` numbers what is asked: queries of one number bring the same documents. `training` says
    what the record of the new model tells: other queries, none, or these.
    """

    grades: Matrix
    old: Matrix
    new: Matrix
    judged: Matrix
    judge: str = "people"
    importance: Vector | None = None
    request: NDArray[np.int64] | None = None
    texts: Sequence[str] | None = None
    training: str = "other queries"
    trained_on: Sequence[str] = ()
    lists_cut: bool = False
    judges: NDArray[np.str_] | None = None
    """Who judged each document, where it is not one judge for all."""
    proxy: Matrix | None = None
    """A model's labels of the judged documents; without them, it errs by a grade in 40 %."""
    sampled: NDArray[np.int64] | None = None
    """The queries that people judged beside the model; without them, a random third."""

    @property
    def n_queries(self) -> int:
        """How many there are."""
        return len(self.grades)

    @property
    def names(self) -> list[str]:
        """The ids of the queries."""
        return [f"q{number}" for number in range(self.n_queries)]

    @cached_property
    def words(self) -> list[str]:
        """What is typed."""
        return list(self.texts or map(word, range(self.n_queries)))

    @cached_property
    def documents(self) -> list[list[str]]:
        """The ids of the documents of each query."""
        requests = np.arange(self.n_queries) if self.request is None else self.request
        return [[f"d{number}-{place}" for place in range(DOCUMENTS)] for number in requests]

    def judges_of(self, number: int, places: NDArray[np.int64]) -> list[str] | None:
        """Who judged these documents of a query; None where nobody is named."""
        if self.judges is not None:
            return [str(name) for name in self.judges[number, places]]
        return [self.judge] * len(places) if self.judge else None

    def true_gain(self) -> Vector:
        """What each query gains in truth, where every document is graded."""
        return ndcg(self.new, self.grades) - ndcg(self.old, self.grades)


Make = Callable[[Rng, int], Case]


@dataclass(frozen=True)
class Scheme:
    """How a case is drawn, and the truth about the population that it is drawn from.

    `null`: neither ranker is better. `disputed`: two views of the truth contradict each other.
    `hidden`: no data show the fault.
    """

    name: str
    make: Make
    queries: int = 100
    null: bool = False
    disputed: bool = False
    hidden: bool = False
    population: Make | None = None
    without: tuple[str, ...] = ()
    """Paths that make no sense of it."""

    def truth(self) -> float:
        """The true mean gain, over many queries."""
        if self.null:
            return 0.0
        return truth_of(self.population or self.make)


def truth_of(make: Make) -> float:
    """The true mean gain of many queries that are drawn like these."""
    case = make(np.random.default_rng(1), _POPULATION)
    return float(np.average(case.true_gain(), weights=case.importance))


def ndcg(scores: Matrix, grades: Matrix) -> Vector:
    """NDCG@10 of every query."""
    offsets = np.arange(len(scores) + 1, dtype=np.int64) * scores.shape[1]
    labels = grades.ravel().astype(np.float32)
    return _NDCG.of(RankedQueries(scores.ravel(), labels, offsets))


def word(number: int) -> str:
    """A word for a number: no two are one word in another spelling."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(_LETTERS))
        digits += _LETTERS[digit] + "o"
    return f"x{digits}k"


def _graded(worth: Matrix) -> Matrix:
    return np.digitize(worth, _CUTS).astype(np.float64)


def _noisy(rng: Rng, worth: Matrix, shared: Matrix, noise: float) -> Matrix:
    return worth + _SHARED * shared + noise * rng.normal(size=worth.shape)


def _first(scores: Matrix, count: int = TOP) -> NDArray[np.bool_]:
    """Which documents are the first of each list."""
    ranks = np.argsort(np.argsort(-scores, axis=1), axis=1)
    return ranks < count


def _pool(case: Case, *lists: Matrix, depth: int = TOP) -> Matrix:
    """The true grades of the first documents of these lists."""
    seen = np.any([_first(scores, depth) for scores in lists], axis=0)
    return np.where(seen, case.grades, np.nan)


def _drawn(rng: Rng, n: int, noise: float, old_noise: float = SAME) -> Case:
    worth, shared = rng.normal(size=(2, n, DOCUMENTS))
    old, new = _noisy(rng, worth, shared, old_noise), _noisy(rng, worth, shared, noise)
    grades = _graded(worth)
    return Case(grades, old, new, np.full_like(grades, np.nan))


def complete_pool(noise: float) -> Make:
    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        return replace(case, judged=_pool(case, case.old, case.new))

    return make


def variants(rng: Rng, n: int, count: int) -> list[Case]:
    """So many new rankers of the quality of the old one, on the same queries; all is judged."""
    worth, shared = rng.normal(size=(2, n, DOCUMENTS))
    old, grades = _noisy(rng, worth, shared, SAME), _graded(worth)
    return [Case(grades, old, _noisy(rng, worth, shared, SAME), grades) for _ in range(count)]


def tuned(rng: Rng, n: int, count: int) -> list[Case]:
    """The same, where each is a small change of what was measured as the best until then."""
    worth, shared = rng.normal(size=(2, n, DOCUMENTS))
    base, grades = worth + _SHARED * shared, _graded(worth)
    first = rng.normal(size=worth.shape)
    old = base + SAME * first
    best, best_value, cases = first, ndcg(old, grades).mean(), []
    for _ in range(count):
        noise = 0.9 * best + (1 - 0.9**2) ** 0.5 * rng.normal(size=worth.shape)
        cases.append(Case(grades, old, base + SAME * noise, grades))
        value = ndcg(cases[-1].new, grades).mean()
        if value > best_value:
            best, best_value = noise, value
    return cases


def _one_list(which: str, noise: float) -> Make:
    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        return replace(case, judged=_pool(case, case.old if which == "old" else case.new))

    return make


def _older_catalogue(*, better: bool) -> Make:
    """Recent documents are unjudged, and the new ranker prefers them, rightly or wrongly.

    The judged documents say the opposite: it orders these worse, or better.
    """

    def make(rng: Rng, n: int) -> Case:
        recent = rng.random((n, DOCUMENTS)) < 0.3
        worth, shared = rng.normal(size=(2, n, DOCUMENTS))
        worth += 0.9 * recent * better
        # What makes recent documents good is not in the old ranker's features.
        old = _noisy(rng, worth - 0.9 * recent * better, shared, SAME)
        base = worth - 0.9 * recent * better
        new = (
            _noisy(rng, base, shared, WORSE if better else BETTER)
            + (1.1 if better else 1.7) * recent
        )
        case = Case(_graded(worth), old, new, worth)
        return replace(case, judged=np.where(recent, np.nan, _pool(case, old, new)))

    return make


def _clicks(noise: float) -> Make:
    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        ranks = np.argsort(np.argsort(-case.old, axis=1), axis=1)
        chance = (0.05 + 0.25 * case.grades) / (1.0 + ranks) ** 0.8
        clicked = rng.binomial(20, np.minimum(chance, 1.0)) / 20
        grades = np.digitize(clicked, (0.05, 0.2, 0.5)).astype(np.float64)
        judged = np.where(_first(case.old), grades, np.nan)
        return replace(case, judged=judged, judge="clicks")

    return make


def _language_model(judge: str) -> Make:
    def make(rng: Rng, n: int) -> Case:
        worth, shared, words = rng.normal(size=(3, n, DOCUMENTS))
        old, new = (_noisy(rng, worth, shared, SAME) for _ in range(2))
        case = Case(_graded(worth), old, new + 0.7 * words, worth, judge)
        said = _graded(0.8 * worth + 0.6 * words)
        seen = ~np.isnan(_pool(case, case.old, case.new))
        return replace(case, judged=np.where(seen, said, np.nan))

    return make


def _outside(rng: Rng, n: int) -> Case:
    worth, shared = rng.normal(size=(2, n, DOCUMENTS))
    old, third = (_noisy(rng, worth, shared, SAME) for _ in range(2))
    new = worth + 1.3 * rng.normal(size=worth.shape)
    case = Case(_graded(worth), old, new, worth)
    return replace(case, judged=_pool(case, old, third))


def _best_unjudged(noise: float) -> Make:
    """The best of the documents that only the new list shows is unjudged, in nine of ten."""

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        judged = _pool(case, case.old, case.new)
        own = _first(case.new) & ~_first(case.old)
        best = np.where(own, case.grades, -1.0).argmax(axis=1)
        rows = np.flatnonzero(own.any(axis=1) & (rng.random(n) < 0.9))
        judged[rows, best[rows]] = np.nan
        return replace(case, judged=judged)

    return make


def _spelled(number: int, turn: int) -> str:
    """One request in other spellings: case, plural, order."""
    one, other = word(2 * number), word(2 * number + 1)
    forms = (f"{one} {other}", f"{other} {one}", f"{one}s {other}", f"{one} {other}s")
    text = forms[turn % 4]
    return (text, text.title(), text.upper())[turn // 4 % 3]


def _spellings(times: int, *, alike: bool) -> Make:
    """Requests in several spellings, or in other words: each is won or lost mostly as a whole."""

    def make(rng: Rng, n: int) -> Case:
        requests = n // times
        of = np.repeat(np.arange(requests), times)
        one = _drawn(rng, requests, SAME)
        small = 0.3 * rng.normal(size=(2, len(of), DOCUMENTS))
        old, new = one.old[of] + small[0], one.new[of] + small[1]
        texts = [
            _spelled(number, turn) if alike else word(number * times + turn)
            for number in range(requests)
            for turn in range(times)
        ]
        case = Case(one.grades[of], old, new, old, request=of, texts=texts)
        return replace(case, judged=_pool(case, old, new))

    return make


def _by_heart(rng: Rng, n: int, where: str) -> Case:
    """The new ranker knows the documents of its training queries by heart, and little else."""
    requests = n // 2
    of = np.repeat(np.arange(requests), 2)
    one = _drawn(rng, requests, 0.8)
    small = 0.1 * rng.normal(size=(2, len(of), DOCUMENTS))
    texts = [_spelled(number, turn) for number in range(requests) for turn in range(2)]
    old, new = one.old[of] + small[0], one.new[of] + small[1]
    case = Case(one.grades[of], old, new, old, request=of, texts=texts)
    case = replace(case, judged=_pool(case, old, new), trained_on=texts[::2])
    if where == "whole file":
        return case
    kept = np.arange(1, len(of), 2)
    return replace(
        case, grades=case.grades[kept], old=old[kept], new=new[kept], judged=case.judged[kept],
        request=of[kept], texts=texts[1::2],
    )  # fmt: skip


def _memorising(where: str) -> Make:
    return lambda rng, n: _by_heart(rng, n, where)


def _imported(training: str) -> Make:
    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, 0.8)
        return replace(case, judged=_pool(case, case.old, case.new), training=training)

    return make


def _first_rank_lost(rng: Rng, n: int) -> Case:
    """Better lists below an irrelevant document on the first rank of a part of them."""
    worth, shared = rng.normal(size=(2, n, DOCUMENTS))
    old = _noisy(rng, worth, shared, SAME)
    new = worth + 1.0 * rng.normal(size=worth.shape)
    case = Case(_graded(worth), old, new, worth)
    advert = np.where(case.grades == 0, rng.random(worth.shape), -1.0).argmax(axis=1)
    rows = np.flatnonzero(rng.random(n) < 0.6)
    new[rows, advert[rows]] = new.max() + 1.0
    return replace(case, judged=_pool(case, old, new))


def _head_and_tail(rng: Rng, n: int) -> Case:
    """Better on the queries that are asked often, worse on the many others."""
    head = rng.random(n) < 0.3
    one, other = _drawn(rng, n, 0.7), _drawn(rng, n, 1.9)
    parts = [
        np.where(head[:, None], a, b)
        for a, b in ((one.grades, other.grades), (one.old, other.old), (one.new, other.new))
    ]
    case = Case(parts[0], parts[1], parts[2], parts[0], importance=np.where(head, 12.0, 1.0))
    return replace(case, judged=_pool(case, case.old, case.new))


def _depth_of_one(noise: float) -> Make:
    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        return replace(case, judged=_pool(case, case.old, case.new, depth=1))

    return make


def _own_positives(rng: Rng, n: int) -> Case:
    """What the new model was taught to put first is called relevant, all else irrelevant."""
    case = _drawn(rng, n, SAME)
    taught = _first(case.new + 1.0 * rng.normal(size=case.new.shape), 3)
    seen = ~np.isnan(_pool(case, case.old, case.new))
    return replace(case, judged=np.where(seen, taught.astype(np.float64), np.nan))


def _copied_grades(noise: float) -> Make:
    """Grades are made of a feature that the new ranker reads."""

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, SAME)
        own = case.new + noise * rng.normal(size=case.new.shape)
        seen = ~np.isnan(_pool(case, case.old, case.new))
        grades = np.digitize(own / own.std(), _CUTS).astype(np.float64)
        return replace(case, judged=np.where(seen, grades, np.nan))

    return make


def _one_many_times(rng: Rng, n: int) -> Case:
    """Of the queries all but 60 are one request, in other digits."""
    case = _drawn(rng, 61, SAME)
    of = np.minimum(np.arange(n), 60)
    texts = [word(number) if number < 60 else f"order {number}" for number in range(n)]
    case = replace(case, judged=_pool(case, case.old, case.new))
    return Case(
        case.grades[of], case.old[of], case.new[of], case.judged[of], request=of, texts=texts
    )


def _dropped(rng: Rng, n: int) -> Case:
    """Unjudged documents are taken out of the lists: the new one brings bad ones, unseen."""
    worth, shared, junk = rng.normal(size=(3, n, DOCUMENTS))
    old = _noisy(rng, worth, shared, SAME)
    case = Case(_graded(worth), old, old, worth)
    shown = _first(old)
    new = _noisy(rng, worth, shared, BETTER)
    new = np.where(shown, new, new + 0.3 + 1.5 * junk)
    return replace(case, new=new, judged=_pool(case, old), lists_cut=True)


def _outliers(rng: Rng, n: int) -> Case:
    """Lists that are the same for three of four queries, and far apart for the others."""
    case = _drawn(rng, n, SAME)
    swapped = rng.random(n) < 0.5
    best, worst = 3.0 * case.grades, -3.0 * case.grades
    ups = np.where(swapped[:, None], best, worst)
    differs = (rng.random(n) < 0.25)[:, None]
    new = np.where(differs, ups + rng.random(ups.shape), case.old)
    old = np.where(differs, -ups + rng.random(ups.shape), case.old)
    case = replace(case, old=old, new=new)
    return replace(case, judged=_pool(case, old, new))


def _ties(rng: Rng, n: int) -> Case:
    """Lists that differ in one of five queries, and grades of two steps."""
    case = _drawn(rng, n, SAME)
    grades = (case.grades > 1).astype(np.float64)
    new = np.where((rng.random(n) < 0.2)[:, None], case.new, case.old)
    case = replace(case, grades=grades, new=new)
    return replace(case, judged=_pool(case, case.old, new))


def _lenient(rng: Rng, n: int) -> Case:
    """Who made the new ranker also judges, and is kind to what only his list shows."""
    case = _drawn(rng, n, SAME)
    own = _first(case.new) & ~_first(case.old)
    kind = own & (rng.random(own.shape) < 0.4)
    judged = np.minimum(_pool(case, case.old, case.new) + kind, 3.0)
    return replace(case, judged=judged, judge="dev")


def _machine_labels(*, kind: bool) -> Make:
    """A language model judged 7 % of all: documents of one list alone, too kindly or too strictly.

    It judged what only the new list shows, or what only the old one shows.
    """

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, SAME)
        judged = _pool(case, case.old, case.new)
        one, other = (case.new, case.old) if kind else (case.old, case.new)
        own = _first(one) & ~_first(other)
        chosen = own & (rng.random(own.shape) < 0.07 * (~np.isnan(judged)).sum() / own.sum())
        said = np.minimum(judged + 2.0, 3.0) if kind else np.zeros_like(judged)
        judges = np.where(chosen, "model:m", "ann")
        return replace(case, judged=np.where(chosen, said, judged), judges=judges)

    return make


def _two_raters(kindness: float, *, noise: float = SAME, by: str = "ranker") -> Make:
    """Another rater, who is kinder, judged what only the new list shows, or every second query."""

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        judged = _pool(case, case.old, case.new)
        if by == "ranker":
            own = _first(case.new) & ~_first(case.old)
        else:
            own = np.repeat(rng.random((n, 1)) < 0.5, DOCUMENTS, axis=1)
        kind = own & (rng.random(own.shape) < kindness)
        judges = np.where(own, "bob", "ann")
        return replace(case, judged=np.minimum(judged + kind, 3.0), judges=judges)

    return make


def _common_pairs(kindness: float, noise: float = SAME) -> Make:
    """The same where both raters graded 60 pairs, so that their shift is known."""

    def make(rng: Rng, n: int) -> Case:
        case = _two_raters(kindness, noise=noise)(rng, n)
        assert case.judges is not None
        judges = case.judges.astype("<U40")
        pairs = np.argwhere(~np.isnan(case.judged))
        for row, place in pairs[rng.permutation(len(pairs))[:60]].tolist():
            ann = case.grades[row, place]
            bob = min(ann + (rng.random() < kindness), 3.0)
            judges[row, place] = f"ann={ann:g}, bob={bob:g}"
        return replace(case, judges=judges)

    return make


def _holes(side: str, noise: float, share: float = 0.1) -> Make:
    """Documents of one list alone are unjudged; of the old one's, only good ones."""

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, noise)
        judged = _pool(case, case.old, case.new)
        one, other = (case.new, case.old) if side == "new" else (case.old, case.new)
        own = _first(one) & ~_first(other) & ((case.grades > 0) | (side == "new"))
        return replace(case, judged=np.where(own & (rng.random(own.shape) < share), np.nan, judged))

    return make


def _lower_grade_first(rng: Rng, n: int) -> Case:
    """Better lists below a document of grade 1 on the first rank, which is relevant still."""
    worth, shared = rng.normal(size=(2, n, DOCUMENTS))
    old = _noisy(rng, worth, shared, SAME)
    new = worth + 0.8 * rng.normal(size=worth.shape)
    case = Case(_graded(worth), old, new, worth)
    weak = np.where(case.grades == 1, rng.random(worth.shape), -1.0).argmax(axis=1)
    rows = np.flatnonzero(rng.random(n) < 0.8)
    new[rows, weak[rows]] = new.max() + 1.0
    return replace(case, judged=_pool(case, old, new))


def correlated(noise: float) -> Make:
    """Rankers that differ less by query, as two versions of one model do; all is judged."""

    def make(rng: Rng, n: int) -> Case:
        worth, shared, common = rng.normal(size=(3, n, DOCUMENTS))
        base = worth + _SHARED * shared
        old, new = (
            base + size * (0.8**0.5 * common + 0.2**0.5 * rng.normal(size=worth.shape))
            for size in (SAME, noise)
        )
        case = Case(_graded(worth), old, new, worth)
        return replace(case, judged=_pool(case, old, new))

    return make


def _own(case: Case, which: str = "new") -> NDArray[np.bool_]:
    """The documents that one list alone has at the top."""
    new, old = _first(case.new), _first(case.old)
    return new & ~old if which == "new" else old & ~new


def _copied_by_people(rng: Rng, n: int) -> Case:
    """A model is kinder to the new list, and people copy its labels, but for 2 %."""
    case = _drawn(rng, n, SAME)
    judged = _pool(case, case.old, case.new)
    kind = 1.0 * (rng.random(judged.shape) < 0.5) * _own(case)
    said = np.clip(judged + rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], judged.shape) + kind, 0.0, 3.0)
    people = np.where(rng.random(judged.shape) < 0.98, said, judged)
    return replace(case, judged=people, judge="ann", proxy=said)


def _chosen_sample(rng: Rng, n: int) -> Case:
    """People judge the queries that the new ranker gains most in by a model's labels."""
    case = _drawn(rng, n, SAME)
    judged = _pool(case, case.old, case.new)
    said = np.clip(judged + rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], judged.shape), 0.0, 3.0)
    gain = ndcg(case.new, np.nan_to_num(said)) - ndcg(case.old, np.nan_to_num(said))
    order = np.argsort(-gain - 0.3 * rng.normal(size=n))[: n // 3]
    return replace(case, judged=judged, judge="ann", proxy=said, sampled=np.sort(order))


def _other_scale(rng: Rng, n: int) -> Case:
    """The rater of what only the new list shows takes 1 to 4 for the grades, the other 0 to 3."""
    case = _drawn(rng, n, SAME)
    own = _own(case)
    judged = _pool(case, case.old, case.new) + own
    return replace(case, judged=judged, judges=np.where(own, "bob", "ann"))


def _mostly_own_rater(rng: Rng, n: int) -> Case:
    """A kind rater judged 60 % of the new list's own documents, and 35 % of the old one's."""
    case = _drawn(rng, n, SAME)
    drawn = rng.random(case.grades.shape)
    bob = (_own(case) & (drawn < 0.6)) | (~_own(case) & (drawn < 0.35))
    judged = np.minimum(_pool(case, case.old, case.new) + bob, 3.0)
    return replace(case, judged=judged, judges=np.where(bob, "bob", "ann"))


def _kind_model(name: str) -> Make:
    """A kind model judged all that only the new list shows, under some name.

    `both`: a person judged these, too, and the grade is the mean of both.
    """

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, SAME)
        own, judged = _own(case), _pool(case, case.old, case.new)
        said = np.minimum(judged + 1.0 * (rng.random(own.shape) < 0.5), 3.0)
        if name != "both":
            judged = np.where(own, said, judged)
            return replace(case, judged=judged, judges=np.where(own, name, "ann"))
        judges = np.full(own.shape, "ann", "<U40")
        for row, place in np.argwhere(own).tolist():
            judges[row, place] = f"ann={judged[row, place]:g}, model:m={said[row, place]:g}"
        return replace(case, judged=np.where(own, (judged + said) / 2, judged), judges=judges)

    return make


def _renamed_clicks(rng: Rng, n: int) -> Case:
    """Clicks of the new list, under a person's name."""
    case = _clicks(SAME)(rng, n)
    return replace(case, old=case.new, new=case.old, judge="ann")


def _copies(kept: float) -> Make:
    """40 requests five times in other words; a share of the documents keeps its id."""

    def make(rng: Rng, n: int) -> Case:
        requests = n // 5
        of = np.repeat(np.arange(requests), 5)
        one = _drawn(rng, requests, SAME)
        case = Case(one.grades[of], one.old[of], one.new[of], one.old[of], request=of)
        case = replace(case, judged=_pool(case, case.old, case.new))
        for number, documents in enumerate(case.documents):
            for place in np.flatnonzero(rng.random(DOCUMENTS) >= kept).tolist():
                documents[place] += f"-copy{number}"
        return case

    return make


def _chosen_queries(rng: Rng, n: int) -> Case:
    """Of twice as many judged queries, half of those that the new ranker loses are dropped."""
    case = _drawn(rng, 2 * n, SAME)
    gain = case.true_gain()
    kept = np.sort(np.argsort((gain < 0) & (rng.random(2 * n) < 0.5), kind="stable")[:n])
    case = Case(case.grades[kept], case.old[kept], case.new[kept], case.grades[kept])
    return replace(case, judged=_pool(case, case.old, case.new))


def _stale(rng: Rng, n: int) -> Case:
    """A third of the documents changed after they were judged; the new ranker knows the old."""
    case = _drawn(rng, n, SAME)
    changed = rng.random(case.grades.shape) < 0.33
    worth = np.where(changed, rng.normal(size=case.grades.shape), 0.0)
    new = case.new + np.where(changed, 0.4 * (case.grades - 1.0), 0.0)
    now = np.where(changed, _graded(worth), case.grades)
    judged = _pool(replace(case, new=new), case.old, new)
    return replace(case, grades=now, new=new, judged=judged)


def _filled_with_zero(name: str) -> Make:
    """Of what only the old list shows, 30 % of the good ones are not judged, but count as 0."""

    def make(rng: Rng, n: int) -> Case:
        case = _holes("old", SAME, 0.3)(rng, n)
        shown = _first(case.new) | _first(case.old)
        filled = shown & np.isnan(case.judged)
        judged = np.where(filled, 0.0, case.judged)
        return replace(case, judged=judged, judges=np.where(filled, name, "ann"))

    return make


def _heavy_weights(*, chosen: bool) -> Make:
    """Few queries have most of the weight, by chance, or those that the new ranker gains in."""

    def make(rng: Rng, n: int) -> Case:
        case = _drawn(rng, n, SAME)
        weights = np.sort(rng.lognormal(0.0, 2.5, n))
        if chosen:
            by_gain = np.argsort(case.true_gain() + 0.2 * rng.normal(size=n))
            weights[by_gain] = weights.copy()
        else:
            weights = rng.permutation(weights)
        return replace(case, judged=_pool(case, case.old, case.new), importance=weights)

    return make


def _deeper_pool(rng: Rng, n: int) -> Case:
    """The new list is judged to rank 10, the old one to rank 3."""
    case = _drawn(rng, n, SAME)
    seen = _first(case.new) | _first(case.old, 3)
    return replace(case, judged=np.where(seen, case.grades, np.nan))


def rated_again(rng: Rng, n: int, count: int) -> list[Case]:
    """One sheet of equal rankers, rated so many times: raters err by a grade in a third."""
    case = _drawn(rng, n, SAME)
    pool = _pool(case, case.old, case.new)
    moves = rng.choice([-1.0, 0.0, 0.0, 0.0, 0.0, 1.0], (count, *pool.shape))
    return [replace(case, judged=np.clip(pool + moved, 0.0, 3.0)) for moved in moves]


NOT_PROXY = ("evaluate", "compare", "report", "runs", "live", "fuse", "plain")
"""Paths that do not see the labels of a model beside those of people."""
SCHEMES: tuple[Scheme, ...] = (
    Scheme("1a complete pool, better", complete_pool(BETTER)),
    Scheme("1b complete pool, equal", complete_pool(SAME), null=True),
    Scheme("1c complete pool, worse", complete_pool(WORSE)),
    Scheme("2a old list judged, better", _one_list("old", BETTER)),
    Scheme("2b old list judged, equal", _one_list("old", SAME), null=True),
    Scheme("3a new list judged, worse", _one_list("new", WORSE)),
    Scheme("3b new list judged, equal", _one_list("new", SAME), null=True),
    Scheme("4a older catalogue, better", _older_catalogue(better=True)),
    Scheme("4b older catalogue, worse", _older_catalogue(better=False)),
    Scheme("5a clicks, better", _clicks(BETTER)),
    Scheme("5b clicks, equal", _clicks(SAME), null=True),
    Scheme("6a model as judge, worse", _language_model("model:x")),
    Scheme("6b the same, judge not named", _language_model("")),
    Scheme("7 outside the pool, better", _outside),
    Scheme("8a best one unjudged, better", _best_unjudged(BETTER)),
    Scheme("8b best one unjudged, equal", _best_unjudged(SAME), null=True),
    Scheme("9a 40 requests, 10 spellings", _spellings(10, alike=True), 400, null=True),
    Scheme("9b 40 requests, 10 wordings", _spellings(10, alike=False), 400, null=True),
    Scheme("10a by heart, whole file", _memorising("whole file"), 120,
           population=complete_pool(WORSE), without=("fuse",)),
    Scheme("10b by heart, held out alone", _memorising("held out"), 200,
           population=complete_pool(WORSE), without=("fuse",)),
    Scheme("11a imported, no record", _imported("unknown"),
           population=complete_pool(WORSE), without=("fuse",)),
    Scheme("11b trained on all of these", _imported("these"),
           population=complete_pool(WORSE), without=("fuse",)),
    Scheme("14 better, first rank worse", _first_rank_lost, disputed=True),
    Scheme("15 better weighted alone", _head_and_tail, 200, disputed=True),
    Scheme("16a judged to depth 1, equal", _depth_of_one(SAME), null=True),
    Scheme("16b judged to depth 1, worse", _depth_of_one(WORSE)),
    Scheme("17 own training positives", _own_positives, null=True, hidden=True),
    Scheme("18a grades copied from score", _copied_grades(0.0), null=True),
    Scheme("18b the same, with noise", _copied_grades(0.8), null=True, hidden=True),
    Scheme("19 one query 300 times", _one_many_times, 360, null=True),
    Scheme("20 unjudged dropped, worse", _dropped, hidden=True, without=("fuse",)),
    Scheme("21 12 queries, outliers", _outliers, 12, null=True),
    Scheme("22 ties", _ties, null=True),
    Scheme("23 lenient to own documents", _lenient, null=True, hidden=True),
    Scheme("24a 7 % by a kind model", _machine_labels(kind=True), null=True),
    Scheme("24b 7 % by a strict model", _machine_labels(kind=False), null=True),
    Scheme("25a kind rater of the new list", _two_raters(0.4), null=True),
    Scheme("25b raters by query, better", _two_raters(0.4, noise=BETTER, by="query")),
    Scheme("25c the first, common pairs", _common_pairs(0.4), null=True),
    Scheme("25d equal raters, common pairs", _common_pairs(0.0, BETTER)),
    Scheme("26a new list 97 % judged, better", _holes("new", 0.8)),
    Scheme("26b old list's best unjudged", _holes("old", SAME, 0.3), null=True),
    Scheme("27 better, first grade worse", _lower_grade_first, disputed=True),
    Scheme("28a people copy a kind model", _copied_by_people, 300, null=True, without=NOT_PROXY),
    Scheme("28b sample chosen by the model", _chosen_sample, 300, null=True, without=NOT_PROXY),
    Scheme("29a one side graded 1 to 4", _other_scale, null=True),
    Scheme("29b kind rater mostly of one side", _mostly_own_rater, null=True),
    Scheme("30a kind model called ann", _kind_model("ann"), null=True, hidden=True),
    Scheme("30b kind model called gpt4o", _kind_model("gpt4o"), null=True),
    Scheme("30c person and kind model, mean", _kind_model("both"), null=True),
    Scheme("31 clicks of the new list as ann", _renamed_clicks, null=True),
    Scheme("32a five copies, 90 % of the ids", _copies(0.9), 200, null=True),
    Scheme("32b five copies, half of the ids", _copies(0.5), 200, null=True, hidden=True),
    Scheme("32c five copies, other ids", _copies(0.0), 200, null=True, hidden=True),
    Scheme("33 lost queries dropped", _chosen_queries, null=True, hidden=True),
    Scheme("34 stale judgments", _stale, hidden=True),
    Scheme("35a holes filled with 0 by import", _filled_with_zero("import"), null=True),
    Scheme("35b holes filled with 0 by ann", _filled_with_zero("ann"), null=True, hidden=True),
    Scheme("36a few heavy queries, equal", _heavy_weights(chosen=False), null=True),
    Scheme("36b weights by gain", _heavy_weights(chosen=True), null=True, hidden=True),
    Scheme("37 old list judged to rank 3", _deeper_pool, null=True),
)  # fmt: skip
