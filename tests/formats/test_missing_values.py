"""Missing values: as the library predicts, or as 0 where an engine has no other way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import ensemble, tree

from owpc_ltr import OwpcLtrWarning, RankingDataset, make_dataset, save_model, train
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import emulate, export_to_plugin
from owpc_ltr.formats.other_trees import from_sklearn
from owpc_ltr.formats.stored_model import serving_profile
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.training.plan import taking_missing_as_zero
from tests.datasets import train_on_all

NAMES = ("title", "votes", "year")
FEATURES = FeatureSet("f", tuple(Feature(n, ("q",), {"match": {n: "{{q}}"}}) for n in NAMES))
OLD = [serving_profile("opensearch", version) for version in ("2.19.0", "2.19.6", "3.1", "3.5")]


def dataset(seed: int, missing: float = 0.3) -> RankingDataset:
    """A missing title means irrelevant; votes below and above 0 count the other way round."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(600, 3))
    rows[:, 0] = np.abs(rows[:, 0])
    labels = np.digitize(rows[:, 0] + 0.4 * rows[:, 1] + 0.2 * rng.normal(size=600), [0.4, 1.0])
    gaps = rng.random(rows.shape) < missing
    labels[gaps[:, 0]] = 0
    rows[gaps] = np.nan
    return make_dataset(rows, labels, np.repeat(np.arange(60), 10), feature_names=NAMES)


DATA, VALIDATION = dataset(1), dataset(2)
TREES: dict[str, Any] = {
    "optimizer": "boosting",
    "settings": {"optimizer.trees": 12, "optimizer.objective": "rank:ndcg"},
    "validation": VALIDATION,
}


@pytest.fixture(scope="module")
def zeros() -> Any:
    return train_on_all(DATA, missing="zero", **TREES)


def test_a_gap_is_scored_as_a_zero_and_the_record_says_so(zeros: Any, tmp_path: Path) -> None:
    filled = DATA.without_missing()
    np.testing.assert_array_equal(zeros.score(DATA.features), zeros.score(filled.features))
    assert zeros.record["missing"] == "zero"
    # It is known by the data as they were given.
    assert zeros.record["fingerprint"] == DATA.fingerprint
    save_model(zeros, tmp_path / "m.json")
    again = load_scoring_model(tmp_path / "m.json")
    np.testing.assert_array_equal(again.score(DATA.features), zeros.score(DATA.features))


def test_it_is_the_model_of_the_filled_data(zeros: Any) -> None:
    """On filled data, and on filled validation queries, the same trees are learned."""
    filled = DATA.without_missing()
    how = {**TREES, "validation": VALIDATION.without_missing()}
    on_filled = train_on_all(filled, **how)
    np.testing.assert_array_equal(zeros.score(filled.features), on_filled.score(filled.features))
    assert zeros.record["table"] == on_filled.record["table"]


def test_engines_before_3_8_score_it_as_here_and_another_is_told_the_command(zeros: Any) -> None:
    native = train_on_all(DATA, **TREES)
    assert "missing" not in native.record
    for profile in OLD:
        seen = emulate(export_to_plugin(zeros, FEATURES, "m", profile), DATA.features, profile)
        assert seen == pytest.approx(zeros.score(DATA.features), abs=1e-5)
        with pytest.raises(Refused, match="train with `train\\(missing='zero'\\)`"):
            export_to_plugin(native, FEATURES, "m", profile)


def test_a_linear_model_is_the_same_either_way() -> None:
    plain, filled = (
        train(DATA, settings={"C": 1.0}, validation=VALIDATION, missing=missing)
        for missing in (None, "zero")
    )
    np.testing.assert_array_equal(plain.score(DATA.features), filled.score(DATA.features))
    known = {key: value for key, value in filled.record.items() if key != "missing"}
    assert without_times(known) == without_times(plain.record)


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in {"certificate", "table"}}


def test_a_feature_that_is_missing_or_zero_says_nothing_when_filled() -> None:
    gaps = np.where(np.isnan(DATA.features[:, [2]]), np.nan, 0).astype(np.float32)
    rows = np.column_stack([DATA.features[:, :2], gaps])
    data = replace(DATA, features=np.ascontiguousarray(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_on_all(data, settings={"C": 1.0})
    with pytest.warns(OwpcLtrWarning, match="in all documents: year"):
        train_on_all(data, settings={"C": 1.0}, missing="zero")


def test_a_model_that_scores_gaps_otherwise_is_refused() -> None:
    class Counting:
        """A liar: it counts the gaps."""

        kind = "counting"
        feature_names = NAMES
        record: dict[str, Any] = {}  # noqa: RUF012

        def score(self, features: Any) -> Any:
            return np.isnan(features).sum(axis=1).astype(float)

    with pytest.raises(Refused, match="a counting model does not score a missing value as 0"):
        taking_missing_as_zero(Counting(), DATA)  # type: ignore[arg-type]


def test_another_word_is_refused_before_any_work() -> None:
    with pytest.raises(UsageError, match="as zero, not as 'mean'"):
        train_on_all(DATA, missing="mean")
    with pytest.raises(BadInput, match="as-trained or zero, not 'nan'"):
        from_sklearn(FITTED["tree", 0], NAMES_SKLEARN, "nan")  # type: ignore[arg-type]


NAMES_SKLEARN = ("title", "pop", "n")
ROWS = arrays(np.float32, (12, 3), elements=st.sampled_from([np.nan, 0.0, -1.5, -0.1, 0.2, 2.0]))
TAKING: dict[str, Callable[[], Any]] = {
    "tree": lambda: tree.DecisionTreeRegressor(max_depth=6, random_state=1),
    "forest": lambda: ensemble.RandomForestRegressor(5, max_depth=4, random_state=1),
    "extra": lambda: ensemble.ExtraTreesRegressor(5, max_depth=4, random_state=1),
    "monotonic": lambda: ensemble.RandomForestRegressor(
        5, max_depth=4, monotonic_cst=[1, 0, 0], random_state=1
    ),
    "histogram": lambda: ensemble.HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5),
}
REFUSING: dict[str, Callable[[], Any]] = {
    "regressor": lambda: ensemble.GradientBoostingRegressor(n_estimators=6, random_state=1),
    "classifier": lambda: ensemble.GradientBoostingClassifier(n_estimators=6, random_state=1),
}


def sample(missing: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    rows = rng.uniform(0.1, 3, size=(300, 3)).astype(np.float32)
    labels = rows[:, 0] + 0.5 * rows[:, 1] + rng.normal(size=300)
    labels = (labels > 2).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, labels


def predicted(estimator: Any, rows: Any) -> Any:
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(rows)[:, 1]
    return estimator.predict(rows)


FITTED = {
    (name, share): make().fit(*sample(share)) for name, make in TAKING.items() for share in (0, 0.3)
}
ON_ZEROS = {
    name: make().fit(np.nan_to_num(sample(0.3)[0]), sample(0.3)[1])
    for name, make in {**TAKING, **REFUSING}.items()
}


@given(ROWS, st.sampled_from(sorted(FITTED)))
def test_what_takes_missing_values_scores_them_as_it_predicts(
    rows: Any, which: tuple[str, float]
) -> None:
    model = from_sklearn(FITTED[which], NAMES_SKLEARN, "as-trained")
    assert model.score(rows) == pytest.approx(predicted(FITTED[which], rows), abs=1e-9)


@given(ROWS, st.sampled_from(sorted(REFUSING)))
def test_what_takes_none_scores_them_as_zero(rows: Any, which: str) -> None:
    estimator = ON_ZEROS[which]
    if np.isnan(rows).any():
        with pytest.raises(ValueError, match="NaN"):
            predicted(estimator, rows)
    wanted = predicted(estimator, np.nan_to_num(rows))
    assert from_sklearn(estimator, NAMES_SKLEARN).score(rows) == pytest.approx(wanted, abs=1e-9)


@given(ROWS, st.sampled_from(sorted(ON_ZEROS)))
def test_what_was_fitted_with_zeros_scores_missing_values_as_zeros_when_told(
    rows: Any, which: str
) -> None:
    estimator = ON_ZEROS[which]
    wanted = predicted(estimator, np.nan_to_num(rows))
    assert from_sklearn(estimator, NAMES_SKLEARN, "zero").score(rows) == pytest.approx(
        wanted, abs=1e-9
    )


@pytest.mark.parametrize("which", sorted(TAKING))
def test_the_remedy_is_offered_where_no_missing_value_was_seen(which: str) -> None:
    rows = sample(0.3)[0]
    with pytest.warns(OwpcLtrWarning, match='say missing="zero" if it was fitted with 0'):
        model = from_sklearn(ON_ZEROS[which], NAMES_SKLEARN)
    # It is needed: without it documents score differently.
    wanted = predicted(ON_ZEROS[which], np.nan_to_num(rows))
    assert (np.abs(model.score(rows) - wanted) > 1e-6).any()


@pytest.mark.parametrize("which", sorted(TAKING))
def test_nothing_is_said_where_the_way_of_missing_values_was_learned(which: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_sklearn(FITTED[which, 0.3], NAMES_SKLEARN)
