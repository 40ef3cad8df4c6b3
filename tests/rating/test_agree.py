"""Agreement: identities, what planted biases look like, and how often intervals hold the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_rating.agree import RaterPair, agreement, judge_agree
from owpc_ltr_rating.ratings import Rating, ratings_bytes
from sklearn.metrics import cohen_kappa_score

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.errors import Refused
from tests.commands import commands_in

GRADES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=60)


def of(pairs: Any, per_query: int = 3, seed: int = 0) -> RaterPair:
    common = {
        (f"q{n // per_query}", f"d{n}"): (float(a), float(b)) for n, (a, b) in enumerate(pairs)
    }
    return agreement(("one", "other"), common, {}, seed)


@given(GRADES)
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    a, b = zip(*pairs, strict=True)
    measured = of(pairs)
    if len({*a, *b}) == 1:
        assert np.isnan(measured.kappa)
        return
    wanted = cohen_kappa_score(a, b, weights="quadratic", labels=[0, 1, 2, 3, 4])
    assert measured.kappa == pytest.approx(wanted, abs=1e-9)


@given(GRADES, st.integers(-2, 2))
def test_sides_and_scales_do_not_matter(pairs: list[tuple[int, int]], more: int) -> None:
    there, back = of(pairs), of([(b, a) for a, b in pairs])
    np.testing.assert_allclose(back.kappa, there.kappa, atol=1e-9)
    assert back.shift == pytest.approx(-there.shift)
    moved = of([(2 * a + more, 2 * b + more) for a, b in pairs])
    np.testing.assert_allclose(moved.kappa, there.kappa, atol=1e-6)
    assert moved.shift == pytest.approx(2 * there.shift)
    assert sum(there.table.values()) == there.pairs == len(pairs)


def world(rng: np.random.Generator, queries: int, kind: str) -> list[tuple[int, int]]:
    """Grades whose raters share something by query, as real ones do."""
    size = 6 * queries
    if kind == "rare":
        truth = (rng.random(size) < 0.05) * 3.0
    elif kind == "query":
        truth = np.repeat(rng.normal(1.5, 1.2, queries), 6)
    else:
        truth = rng.normal(1.5, 1.2, size)
    bias = np.repeat(rng.normal(0.4, 0.5, queries), 6)
    a = truth + rng.normal(0, 0.6, size)
    b = truth + bias + rng.normal(0, 0.8, size)
    return [*zip(*(np.clip(np.rint(x), 0, 3).astype(int).tolist() for x in (a, b)), strict=True)]


ALSO = [
    pytest.param(*case, marks=pytest.mark.thorough)
    for case in (("plain", 12), ("rare", 12), ("plain", 40), ("query", 40))
]


@pytest.mark.parametrize(("kind", "queries"), [("query", 12), ("rare", 40), *ALSO])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str, queries: int) -> None:
    rng = np.random.default_rng(3)
    truth = of(world(rng, 4_000, kind), 6)
    held = np.zeros(2)
    for seed in range(100):
        measured = of(world(rng, queries, kind), 6, seed)
        for place, (value, ends) in enumerate(
            ((truth.kappa, measured.kappa_interval), (truth.shift, measured.shift_interval))
        ):
            held[place] += ends[0] <= value <= ends[1]
    assert held.min() >= 100 * (0.82 if queries == 12 else 0.88)


def test_pairs_of_one_query_do_not_make_an_interval() -> None:
    """The liar draws pairs: with a bias of each query its interval is too narrow."""
    rng = np.random.default_rng(4)
    pairs = [pair for query in range(30) for pair in [world(rng, 1, "plain")[0]] * 10 if query >= 0]
    honest, liar = of(pairs, 10).shift_interval, of(pairs, 1).shift_interval
    assert honest[1] - honest[0] > 2 * (liar[1] - liar[0])


def test_few_queries_have_no_interval_and_equal_grades_no_kappa() -> None:
    measured = of([(1, 1)] * 20)
    assert np.isnan([measured.kappa, *measured.kappa_interval]).all()
    assert json.loads(json.dumps(measured.as_dict()))["kappa"] is None
    assert (measured.equal, measured.worst) == (1.0, ())


def rating_file(
    path: Path, rater: str, grades: dict[str, float], twice: float | None = None
) -> Path:
    ratings = [
        Rating("5ee7", rater, f"q{n}", f"text {n}", document, grade)
        for n, (document, grade) in enumerate(grades.items())
    ]
    again = [Rating("5ee7", rater, "q0", "text 0", "d0", twice, repeat=True)]
    path.write_bytes(ratings_bytes([*ratings, *(again if twice is not None else [])]))
    return path


def test_raters_are_compared_pair_by_pair_and_with_themselves(tmp_path: Path) -> None:
    truth = {f"d{n}": float(n % 4) for n in range(40)}
    ann = rating_file(tmp_path / "a.jsonl", "ann", truth, twice=0)
    bob = rating_file(tmp_path / "b.jsonl", "bob", dict(list(truth.items())[:8]), twice=3)
    model = rating_file(
        tmp_path / "m.jsonl", "model:m", {d: min(3, g + 1) for d, g in truth.items()}
    )
    raters = judge_agree([ann, bob, model])
    assert [each.raters for each in raters.agreements] == [
        ("ann", "bob"),
        ("ann", "model:m"),
        ("bob", "model:m"),
    ]
    planted = raters.agreements[1]
    assert (planted.shift, planted.pairs, planted.equal) == (-0.75, 40, 0.25)
    assert planted.shift_interval[1] < 0
    assert raters.agreements[0].kappa == 1.0
    assert raters.themselves == {"ann": (1, 1), "bob": (1, 0)}
    for shown in (str(raters), raters._repr_html_()):
        assert "ann graded 1 pairs twice, 1 of them alike" in shown
        assert "kappa" in shown.lower()


def test_raters_without_a_common_pair_cannot_be_compared(tmp_path: Path) -> None:
    ann = rating_file(tmp_path / "a.jsonl", "ann", {"d0": 1})
    bob = rating_file(tmp_path / "b.jsonl", "bob", {"d1": 1})
    with pytest.raises(Refused, match="no two raters graded the same pair"):
        judge_agree([ann, bob])


def test_other_scales_are_warned_of(tmp_path: Path) -> None:
    ann = rating_file(tmp_path / "a.jsonl", "ann", {"d0": 4, "d1": 0})
    bob = rating_file(tmp_path / "b.jsonl", "bob", {"d0": 3, "d1": 0})
    with pytest.warns(OwpcLtrWarning, match="different scales \\(ann 0 to 4, bob 0 to 3\\)"):
        judge_agree([ann, bob])


def test_a_rater_without_common_pairs_is_named(tmp_path: Path) -> None:
    ann = rating_file(tmp_path / "a.jsonl", "ann", {"d0": 1, "d1": 0})
    bob = rating_file(tmp_path / "b.jsonl", "bob", {"d0": 1, "d1": 0})
    eve = rating_file(tmp_path / "e.jsonl", "eve", {"e0": 1, "e1": 0})
    with pytest.warns(OwpcLtrWarning, match="^eve graded no pair that another rater graded"):
        judge_agree([ann, bob, eve])


def test_the_table_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("COLUMNS", "80")
    truth = {f"document-with-a-long-id-{n}": float(n % 4) for n in range(40)}
    rating_file(Path("a.jsonl"), "ann-with-a-long-name@example.org", truth)
    rating_file(
        Path("m.jsonl"), "model:provider/a-model-with-a-long-name-70b", dict.fromkeys(truth, 2.0)
    )
    code, out, _ = run("judge", "agree", "a.jsonl", "m.jsonl")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    result = json.loads(run("judge", "agree", "a.jsonl", "m.jsonl", "--json")[1])
    assert result["agreements"][0]["pairs"] == 40
