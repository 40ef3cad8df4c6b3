"""scikit-learn's ensembles where values are missing: as they predict, or as 0 where they do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import ensemble, tree

from owpc_ltr.errors import BadInput, OwpcLtrWarning
from owpc_ltr.formats.sklearn_trees import from_sklearn

NAMES = ("title", "pop", "n")
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
    model = from_sklearn(FITTED[which], NAMES, "as-trained")
    assert model.score(rows) == pytest.approx(predicted(FITTED[which], rows), abs=1e-9)


@given(ROWS, st.sampled_from(sorted(REFUSING)))
def test_what_takes_none_scores_them_as_zero(rows: Any, which: str) -> None:
    estimator = ON_ZEROS[which]
    if np.isnan(rows).any():
        with pytest.raises(ValueError, match="NaN"):
            predicted(estimator, rows)
    wanted = predicted(estimator, np.nan_to_num(rows))
    assert from_sklearn(estimator, NAMES).score(rows) == pytest.approx(wanted, abs=1e-9)


@given(ROWS, st.sampled_from(sorted(ON_ZEROS)))
def test_what_was_fitted_with_zeros_scores_missing_values_as_zeros_when_told(
    rows: Any, which: str
) -> None:
    estimator = ON_ZEROS[which]
    wanted = predicted(estimator, np.nan_to_num(rows))
    assert from_sklearn(estimator, NAMES, "zero").score(rows) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("which", sorted(TAKING))
def test_the_remedy_is_offered_where_no_missing_value_was_seen(which: str) -> None:
    rows = sample(0.3)[0]
    with pytest.warns(OwpcLtrWarning, match='say missing="zero" if it was fitted with 0'):
        model = from_sklearn(ON_ZEROS[which], NAMES)
    # It is needed: without it documents score differently.
    wanted = predicted(ON_ZEROS[which], np.nan_to_num(rows))
    assert (np.abs(model.score(rows) - wanted) > 1e-6).any()


@pytest.mark.parametrize("which", sorted(TAKING))
def test_nothing_is_said_where_the_way_of_missing_values_was_learned(which: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_sklearn(FITTED[which, 0.3], NAMES)


def test_another_word_for_missing_values_is_refused() -> None:
    with pytest.raises(BadInput, match="as-trained or zero, not 'nan'"):
        from_sklearn(FITTED["tree", 0], NAMES, "nan")  # type: ignore[arg-type]
