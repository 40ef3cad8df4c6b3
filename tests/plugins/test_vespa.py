"""Vespa's rank profile scores as the model, by the part of the language that is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from owpc_ltr_exports.vespa import Vespa, evaluate, read_profile, single_thresholds

from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import HIGHEST, LEAF, Forest, TreeModel
from owpc_ltr.protocols import Model
from tests.commands import Run

SINGLES = st.floats(-HIGHEST, HIGHEST, width=32, allow_subnormal=True)
DOUBLES = st.floats(-HIGHEST, HIGHEST)


def scored(model: Model, rows: object, target: Vespa | None = None) -> list[float]:
    target = target or Vespa()
    made = target.export(model, "m", "8")
    scores: list[float] = target.scores(made, model.feature_names, np.asarray(rows)).tolist()
    return scores


def stump(threshold: float, default_left: bool, link: str = "identity") -> TreeModel:
    """1 below the threshold, 2 from there on."""
    forest = Forest(
        np.zeros(1, np.int32),
        np.array([0, LEAF, LEAF], np.int32),
        np.array([threshold, 0, 0], np.float32),
        np.array([1, 0, 0], np.int32),
        np.array([default_left, False, False]),
        np.array([0.0, 1.0, 2.0]),
    )
    return TreeModel(("x",), forest, link=link)


@given(SINGLES, st.booleans(), st.lists(DOUBLES, max_size=8))
def test_a_split_goes_where_the_model_goes_on_and_beside_its_threshold(
    threshold: float, default_left: bool, others: list[float]
) -> None:
    """Of float64 values too: the model rounds them to float32 before it compares."""
    model, t = stump(threshold, default_left), np.float32(threshold)
    with np.errstate(over="ignore"):
        singles = [np.nextafter(t, np.float32(end)) for end in (-np.inf, np.inf)]
    middles = [(float(single) + float(t)) / 2 for single in singles]
    beside = [np.nextafter(value, end) for value in middles for end in (-np.inf, np.inf)]
    near = [float(t), np.nan, *map(float, singles), *middles, *map(float, beside), *others]
    rows = np.array([value for value in near if not np.isinf(value)])[:, None]
    with np.errstate(over="ignore"):
        wanted = model.score(rows)
    assert scored(model, rows) == wanted.tolist()


@given(arrays(np.float32, st.integers(1, 9), elements=SINGLES))
def test_a_threshold_in_float64_is_the_same_in_float32(thresholds: Matrix) -> None:
    """An engine that rounds it, as forests are evaluated, compares with the model's own."""
    assert np.array_equal(single_thresholds(thresholds).astype(np.float32), thresholds)


@given(
    arrays(np.float32, 3, elements=st.floats(-1e6, 1e6, width=32)),
    st.floats(-1e3, 1e3),
    st.floats(1e-3, 1e3),
    arrays(np.float32, (4, 3), elements=st.floats(-1e6, 1e6, width=32) | st.just(np.nan)),
)
def test_a_weighted_sum_is_the_models(
    weights: Matrix,
    shift: float,
    scale: float,
    rows: Matrix,
) -> None:
    model = LinearModel(
        ("z", "a", "m"), weights.astype(float), {"a": Normaliser("standard", shift, scale)}
    )
    folded, intercept = model.folded()
    size = np.abs(np.nan_to_num(rows) * folded).sum(axis=1).max() + abs(intercept)
    assert scored(model, rows) == pytest.approx(model.score(rows), rel=1e-12, abs=1e-12 * size)


def test_a_logistic_output_is_the_sigmoid_of_the_sum() -> None:
    assert scored(stump(0, default_left=False, link="logistic"), [[-1.0], [1.0]]) == pytest.approx(
        [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-2))], rel=1e-14
    )


def test_the_deepest_tree_that_a_model_may_have_is_written_and_read() -> None:
    """A chain to the left, 64 splits deep: one more below every threshold that a value is."""
    splits = np.arange(64)
    feature = np.full(129, LEAF, np.int32)
    left = np.zeros(129, np.int32)
    threshold = np.zeros(129, np.float32)
    inner = 2 * splits  # a split's children are the two nodes after its own pair
    nodes = np.concatenate([[0], inner[1:] - 1])
    feature[nodes], left[nodes], threshold[nodes] = 0, inner + 1, -splits
    forest = Forest(np.zeros(1, np.int32), feature, threshold, left, np.zeros(129, bool),
                    np.where(feature == LEAF, np.arange(129.0), 0.0))  # fmt: skip
    model = TreeModel(("x",), forest)
    rows = np.arange(-70.5, 3, dtype=np.float32)[:, None]
    assert len(set(model.score(rows))) == 65
    assert scored(model, rows) == model.score(rows).tolist()


def test_the_profile_is_text_that_vespa_reads() -> None:
    """Its grammar has no comment and no blank line before the profile, and names as they are."""
    model = LinearModel(("title-match", "year"), np.array([0.5, -2.0]))
    text = Vespa(phase="second-phase").export(model, "my-model", "8.500.1").text
    assert text.startswith("rank-profile my-model inherits default {\n  #")
    assert text.endswith(
        "  function feature_title_match() {\n"
        '    expression: fill_in("title-match")\n'
        "  }\n"
        "  function feature_year() {\n"
        '    expression: fill_in("year")\n'
        "  }\n"
        "  second-phase {\n"
        "    expression {\n"
        "      0.5 * if (isNan(feature_title_match), 0.0, feature_title_match) +\n"
        "      -2.0 * if (isNan(feature_year), 0.0, feature_year)\n"
        "    }\n"
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a-b", "a_b"), "would both be the function feature_a_b"),
        (('a"b',), "cannot be named in a rank profile"),
        (("a\nb",), "cannot be named"),
        (("a}",), "cannot be named"),
    ],
)
def test_a_feature_that_cannot_be_a_function_is_refused(
    names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        Vespa().export(LinearModel(names, np.ones(len(names))), "m", "8")


@pytest.mark.parametrize("name", ["1st", "m.1", "m@1", "default", "unranked", "first-phase", "é"])
def test_a_name_that_no_rank_profile_has_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Vespa().export(stump(0, default_left=False), name, "8")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "too early"),
        ("x +", "too early"),
        ("x 1", "after its end"),
        ("y", "a function of its own"),
        ("if (x > 1, 1, 2)", "not a term"),
        ("if (x <= 1, 1, 2)", "not a term"),
        ("if (x < x, 1, 2)", "where a number goes"),
        ("if (x < 1, 1)", r"where , goes"),
        ("if (!(x < 1), 1, 2)", r"where >= goes"),
        ("if (x < 1, 1, 2, 0.5)", r"where \) goes"),
        ("1.5x", "not a term"),
        ("1 - x", "after its end"),
        ("sigmoid(" * 300 + "x" + ")" * 300, "nested deeper"),
    ],
)
def test_the_reader_takes_nothing_but_what_is_written(expression: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        evaluate(expression, {"x": np.zeros(2)}, 2)


def test_products_bind_closer_than_sums() -> None:
    values = {"x": np.array([2.0, np.nan])}
    assert evaluate("1 + 2 * x + -3 * 4", values, 2)[0] == -7
    assert evaluate("if (!(x >= 3), 1, 2)", values, 2).tolist() == [1, 1]
    assert evaluate("if (x < 3, 1, 2)", values, 2).tolist() == [1, 2]
    assert evaluate("if (isNan(x), 0, x)", values, 2).tolist() == [2, 0]
    assert evaluate("2.5e-1", values, 2).tolist() == [0.25, 0.25]


def test_a_profile_that_was_changed_is_not_read() -> None:
    text = Vespa().export(LinearModel(("a", "b"), np.ones(2)), "m", "8").text
    assert read_profile(text)[0] == {"feature_a": "a", "feature_b": "b"}
    for old, new in (
        ("rank-profile", "profile"),
        ("first-phase", "third-phase"),
        ("feature_b()", "feature_a()"),
        ("}\n}\n", "}\n"),
        ('fill_in("a")', "bm25(a)"),
    ):
        with pytest.raises(BadInput):
            read_profile(text.replace(old, new, 1))


def test_the_command_writes_the_profile_of_the_phase_that_is_set(run: Run) -> None:
    from owpc_ltr import save_model

    save_model(stump(0.5, default_left=True), Path("m.json"))
    words = ("export", "m.json", "--for", "vespa", "--version", "8", "--out", "m.profile")
    code, out, err = run(*words, "--set", "target.phase=second-phase", "--name", "best")
    assert (code, err) == (0, "")
    assert "rank-profile for vespa 8; send it by copying it to schemas/SCHEMA/best.profile" in out
    assert "  second-phase {\n" in Path("m.profile").read_text()
    code, _, err = run(*words, "--set", "target.phase=third-phase")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = run(*words, "--name", "a.b")
    assert (code, err.count("\n")) == (2, 1)
