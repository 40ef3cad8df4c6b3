"""Checks of grades and queries, and trials that must say no where there is nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.checks import warnings_after_log, warnings_before_training
from owpc_ltr.inspection.trials import (
    canary,
    canary_findings,
    default_learner,
    gain_of_twice,
    learning_curve,
    resampled_means,
    shuffled_labels,
    with_contrast,
)
from owpc_ltr.protocols import Run
from tests.planted import FAULTS, clean, duplicate, grade_typo, shuffled, with_column


def checks(data: RankingDataset) -> list[str]:
    return [one.check for one in ltr.inspect(data, training=False).warnings]


def graded(levels: dict[float, int]) -> RankingDataset:
    data = clean(200)
    labels = np.resize(np.repeat([*levels], [*levels.values()]), data.n_documents)
    return replace(data, labels=labels.astype(np.float32))


@pytest.mark.parametrize(
    ("levels", "typos"),
    [
        ({0: 600, 1: 300, 2: 99, 10: 1}, ["grade 10"]),
        ({0: 600, 1: 300, 2: 99, 10: 1, 11: 1}, ["grade 10", "grade 11"]),
        ({0: 600, 1: 399, 0.1: 1}, ["grade 0.1"]),
        ({0: 600, 1: 300, 2: 90, 3: 10}, []),
        ({0: 600, 1: 300, 3: 60, 7: 20, 15: 3}, []),
        ({0: 600, 1: 300, 10: 100}, []),
        ({0: 600, 0.5: 300, 1: 90}, []),
        ({n / 40: 10 for n in range(41)} | {9: 1}, []),
        ({0: 600, 1: 300}, []),
    ],
)
def test_a_grade_is_a_slip_where_it_is_rare_and_far_or_between(
    levels: dict[float, int], typos: list[str]
) -> None:
    told = ltr.inspect(graded(levels), training=False).warnings
    assert [one.subject for one in told if one.check == "grade-typo"] == typos


def test_few_queries_without_contrast_are_noted_and_many_warned_of() -> None:
    data = clean(200)
    labels = data.labels.copy()
    labels[: data.offsets[20]] = 0
    few = ltr.inspect(replace(data, labels=labels), training=False)
    assert few.warnings == ()
    assert few.data.without_contrast >= 20
    labels[: data.offsets[150]] = 0
    assert "no-contrast" in checks(replace(data, labels=labels))


def test_a_query_in_two_files_is_told_whatever_else_it_holds() -> None:
    one, other = clean(100, 1), clean(100, 2)
    files = {"train.txt": one, "test.txt": replace(other, query_params=None)}
    told = ltr.inspect(files, training=False).warnings
    assert [finding.check for finding in told] == ["split-leak"]
    assert "100" not in told[0].subject
    assert told[0].message.startswith("200 queries with the same id are in two files")


def test_the_same_set_in_two_files_is_told() -> None:
    data = clean(100)
    again = replace(data, query_ids=pa.array([f"x{n}" for n in range(100)], pa.string()))
    for part in (data, replace(data, query_params=None)):
        files = {"train.txt": part, "test.txt": replace(again, query_params=part.query_params)}
        told = ltr.inspect(files, training=False).warnings
        assert [finding.subject for finding in told] == ["200 queries"]


def test_other_queries_with_the_same_features_are_but_noted() -> None:
    """`dune imdb` and `dune netflix` find the same; their texts say that they are two."""
    data = clean(100)
    again = np.flatnonzero(HashSplit().sides(data) == "train")[:20]
    names = [one for n in range(200) if HashSplit().sides_of([one := f"n{n}"])[0] == "test"][:20]
    other = replace(
        data.select(again),
        query_ids=pa.array(names, pa.string()),
        query_params=pa.array([json.dumps({"keywords": f"else{n}"}) for n in range(20)]),
    )
    from owpc_ltr.data.joining import join_datasets

    both = ltr.inspect(join_datasets([data, other], ["a", "b"]), training=False)
    assert both.warnings == ()
    assert [one.subject for one in both.findings if one.check == "split-leak"] == ["40 queries"]


def test_texts_that_all_queries_share_are_no_text() -> None:
    data = clean(100)
    alike = pa.array(['{"user":"anna"}'] * 100, pa.string())
    assert checks(replace(data, query_params=alike)) == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_column_that_is_the_grade_is_told_as_such(turned: bool) -> None:
    data = clean()
    copy = (5 - data.labels if turned else data.labels) * 3
    told = ltr.inspect(with_column(data, "clicks", copy.astype(np.float32)), training=False)
    assert [(one.check, one.subject) for one in told.warnings] == [("leak", "clicks")]
    assert "is the grade in other words" in told.warnings[0].message


def test_a_strong_honest_feature_is_no_leak() -> None:
    data = clean(400)
    noise = np.random.default_rng(1).normal(size=data.n_documents)
    strong = with_column(data, "bm25", (data.labels + 0.5 * noise).astype(np.float32))
    found = ltr.inspect(strong, training=False)
    assert found.warnings == ()
    assert {row.name: row.alone for row in found.features}["bm25"] > 0.85


class Remembers:
    """A model that knows the label of every row that it was shown, whosever it is."""

    def __init__(self, data: RankingDataset) -> None:
        rows = (row.tobytes() for row in data.features)
        self.known = dict(zip(rows, data.labels.tolist(), strict=True))

    def score(self, features: Matrix) -> Vector:
        return np.array([self.known.get(row.tobytes(), 0.0) for row in features])


def test_the_canary_sings_where_held_out_labels_were_seen() -> None:
    data = clean(100)
    seen = shuffled_labels(with_contrast(data, thresholds.TRIAL_QUERIES, 0), 0)
    found = canary(data, lambda _: Remembers(seen))  # type: ignore[arg-type,return-value]
    assert found is not None
    assert "canary" in [one.check for one in canary_findings(found)]


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_learned_of_shuffled_labels(seed: int) -> None:
    data = clean(120, seed)
    found = canary(data, default_learner(), seed)
    assert found is not None
    assert list(canary_findings(found)) == []
    lost = canary(shuffled(data), default_learner(), seed)
    assert lost is not None
    assert [one.check for one in canary_findings(lost)] == ["shuffled-labels"]


def test_of_few_queries_labels_are_not_judged() -> None:
    assert canary(clean(19), default_learner()) is None
    found = canary(shuffled(clean(24)), default_learner())
    assert found is not None
    assert [one.severity for one in canary_findings(found)] in ([], ["note"])


def test_shuffling_keeps_each_querys_grades() -> None:
    data = clean(50)
    again = shuffled_labels(data, 3)
    assert (again.labels != data.labels).any()
    for one, other in zip(data, again, strict=True):
        assert sorted(one.labels) == sorted(other.labels)


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0, 2.0])
def test_a_power_law_is_continued_exactly(power: float) -> None:
    sizes = np.array([100, 200, 400, 800])
    curve = 0.8 - 3.0 * sizes**-power
    true = 3.0 * (800.0**-power - 1600.0**-power)
    assert gain_of_twice(sizes, curve[None])[0] == pytest.approx(true, rel=1e-6)
    assert gain_of_twice(sizes, np.full((1, 4), 0.5))[0] == 0


def test_the_interval_of_twice_as_many_holds_what_comes() -> None:
    """Curves as they are measured: queries differ widely, and the same ones at every size."""
    sizes = np.array([50, 100, 200, 400])
    true = 0.7 - 1.5 * sizes**-0.5
    gain = 1.5 * (400**-0.5 - 800**-0.5)
    held = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        queries = rng.normal(0, 0.25, 200)
        values = true[:, None] + queries + rng.normal(0, 0.05, (4, 200))
        curves = resampled_means(values, 0.0, sizes, rng)
        low, high = np.quantile(gain_of_twice(sizes, curves), (0.025, 0.975))
        held += bool(low <= gain <= high)
    assert held >= 25


def test_a_curve_names_its_queries_and_says_what_more_would_give() -> None:
    curve = learning_curve(clean(120), default_learner(), Run())
    assert curve is not None
    sizes = [point.queries for point in curve.points]
    assert sizes == sorted(sizes)
    assert [round(size / sizes[-1], 2) for size in sizes] == pytest.approx(
        [0.125, 0.25, 0.5, 1.0], abs=0.02
    )
    for point in curve.points:
        assert point.low <= point.mean <= point.high
    assert curve.twice.low <= curve.twice.mean <= curve.twice.high
    assert f"twice as many as {sizes[-1]}" in curve.told
    assert learning_curve(clean(60), default_learner(), Run()) is None


def test_training_and_logging_tell_what_is_wrong_once() -> None:
    assert warnings_before_training(clean()) == []
    assert warnings_after_log(clean()) == []
    (line,) = warnings_before_training(grade_typo(clean()))
    assert warnings_after_log(grade_typo(clean())) == [line]
    assert line.startswith("the grade 10 stands 2 times")
    (line,) = warnings_before_training(duplicate(clean()))
    assert "stands again as again" in line
    (line,) = warnings_before_training(FAULTS["leak"][0](clean()))
    assert line.startswith("'clicks' is the grade")


def test_of_a_few_queries_nothing_is_told_in_passing() -> None:
    few = make_dataset(np.ones((9, 2)), np.arange(9) % 2, np.repeat([1, 2, 3], 3))
    assert warnings_before_training(few) == []
    assert warnings_after_log(few) == []
