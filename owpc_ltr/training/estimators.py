"""Rankers as scikit-learn estimators: `fit(X, y, qid=…)`, `predict`, clones, grids, pipelines."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from owpc_ltr.data.options import VALIDATION_SHARE
from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import public
from owpc_ltr.training.options import (
    DEFAULT_LOSS,
    DEFAULT_NORMALISATION,
    DEFAULT_OPTIMIZER,
    Normalisation,
)

try:
    from sklearn.base import BaseEstimator
except ImportError:
    BaseEstimator = object  # The classes can be looked at; only making one needs scikit-learn.

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.utils import Tags

    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.metrics import Metric
    from owpc_ltr.protocols import Loss, Model, Optimizer

_QID = "qid"


class QueryIdsNotHandedOn(BaseException):
    """A search of scikit-learn calls `fit` or `score` without query ids.

    The search takes every Exception for a score of NaN, and then chooses among these.
    """


class Ranker(BaseEstimator):  # type: ignore[misc]
    """Any loss with any optimizer, as an estimator of scikit-learn.

    Without a loss, an optimizer or settings, it chooses the kind of model as `owpc_ltr.train`
    does, among those that run in `runs_in`. Further keywords are settings by name (`trees=200`,
    `loss__p=5` where both have one): `Ranker(loss="lambdarank", optimizer="boosting", trees=200)`.
    With settings alone it is OWPC (Usunier, Buffoni & Gallinari 2009) solved by LaRank:
    `Ranker(generator="inverse", C=1.0)`. Raises TypeError for a keyword that is neither.

    `metric` chooses, and is what `score` gives; left out, it is the one by which `train` chooses.
    Where `C` is left out, it is chosen on a fifth of the queries; a setting that is given is not.
    Query ids are `qid`, or a column of that name in a DataFrame. After `fit`, `model_` is the
    model, with its record; `feature_names_in_` and `n_features_in_` as everywhere.

    In a GridSearchCV take `GroupKFold` and the query ids as groups; either X has the column `qid`,
    or metadata routing hands it on (`set_fit_request(qid=True).set_score_request(qid=True)`).
    """

    def __init__(
        self,
        loss: Loss | type[Loss] | Callable[..., Any] | str | None = None,
        optimizer: Optimizer | type[Optimizer] | str | None = None,
        *,
        runs_in: Literal["engine", "plugin", "client"] = "engine",
        normalise: Normalisation = DEFAULT_NORMALISATION,
        metric: Metric | type[Metric] | str | None = None,
        seed: int = 0,
        threads: int = 1,
        **settings: object,
    ) -> None:
        if BaseEstimator is object:
            raise ImportError(
                f"{type(self).__name__} is an estimator of scikit-learn, which is not installed: "
                "pip install scikit-learn, or use owpc_ltr.train"
            )
        self.loss, self.optimizer = loss, optimizer
        self.runs_in, self.normalise, self.metric = runs_in, normalise, metric
        self.seed, self.threads = seed, threads
        self.settings = settings
        self._check_settings()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter, the settings among them."""
        return {**super().get_params(deep=deep), **self.settings}

    def set_params(self, **params: object) -> Ranker:
        """Change parameters or settings. Raises TypeError for what is neither."""
        names = self._get_param_names()
        super().set_params(**{name: params.pop(name) for name in list(params) if name in names})
        self.settings = {**self.settings, **params}
        self._check_settings(".set_params")
        return self

    @public
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validation: tuple[ArrayLike, ...] | None = None,
    ) -> Ranker:
        """Learn from one row per document: features, labels, query ids, document weights.

        `validation` is (X, y, qid) of other queries; qid may be left out where X has the column.
        `metric` on them chooses C and the number of trees or epochs. Without it a fifth of the
        queries is taken where there is something to choose.
        """
        from owpc_ltr.training.train import train

        data = self._dataset(X, y, qid, sample_weight)
        chosen_on = None if validation is None else self._dataset(*_three(validation), None)
        settings = {name.replace("__", "."): value for name, value in self.settings.items()}
        self.model_: Model = train(
            data,
            loss=self.loss,
            optimizer=self.optimizer,
            settings=settings,
            metric=self.metric,
            runs_in=self.runs_in,
            normalise=self.normalise,
            validation=chosen_on,
            validation_share=VALIDATION_SHARE if self._chooses(settings) else 0.0,
            test_share=0.0,
            seed=self.seed,
            threads=self.threads,
        )
        self.n_features_in_ = data.n_features
        if hasattr(X, "columns"):
            import numpy as np

            self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        return self

    def predict(self, X: ArrayLike) -> Vector:
        """One score per row; documents with higher scores rank first."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.model_.score(_without_ids(X)[0])

    @property
    def feature_importances_(self) -> Vector:
        """Shares of the columns: by weights, by the spans of curves, or by the splits of trees."""
        import numpy as np
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        uses = self.model_.feature_uses()  # type: ignore[attr-defined]
        sizes = np.abs([uses.get(name, 0.0) for name in self.model_.feature_names])
        total = sizes.sum()
        return sizes / total if total else sizes

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The mean of the metric over the queries; the negative of an error."""
        from sklearn.utils.validation import check_is_fitted

        from owpc_ltr.metrics import first_metric

        check_is_fitted(self)
        data = self._dataset(X, y, qid, sample_weight)
        metric = first_metric(self.metric or self.model_.record["select"])
        value = metric.mean(self.model_.score(data.features), data.labels, data.offsets)
        return value if metric.higher_is_better else -value

    def __sklearn_tags__(self) -> Tags:
        """Targets are needed, and missing values (NaN) are fine."""
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def _chooses(self, settings: dict[str, object]) -> bool:
        """Whether `train` has a kind of model or a C to choose."""
        optimizer = self.optimizer or DEFAULT_OPTIMIZER
        if not isinstance(optimizer, str | type):
            return False  # an object has its C
        has_c = "C" in _settings_of("optimizer", optimizer)
        return has_c and not {"C", "optimizer.C"} & {*settings}

    def _check_settings(self, method: str = "") -> None:
        """Raise TypeError for a keyword that is no setting of the loss or of the optimizer."""
        if not self.settings:
            return
        known = {
            "loss": _settings_of("loss", self.loss or DEFAULT_LOSS),
            "optimizer": _settings_of("optimizer", self.optimizer or DEFAULT_OPTIMIZER),
        }
        for name in self.settings:
            kind, _, setting = name.replace("__", ".").rpartition(".")
            owners = known.values() if not kind else [known.get(kind, ())]
            if not any(setting in own for own in owners):
                raise TypeError(
                    f"{type(self).__name__}{method}() got an unexpected keyword argument '{name}': "
                    f"{self._meant(setting, [key for own in known.values() for key in own])}"
                )

    def _meant(self, name: str, settings: list[str]) -> str:
        """What an unknown keyword may be, in words."""
        from owpc_ltr.host.registry import installed
        from owpc_ltr.signatures import closest_parameter
        from owpc_ltr.training.plan import OTHER_NAMES
        from owpc_ltr.training.train import train

        if name == "settings":
            return "each setting is a keyword of its own, as C=1.0"
        ours = OTHER_NAMES.get(name, name)
        if ours in settings:
            return f"it is called '{ours}' here"
        if close := closest_parameter(name, [*self._get_param_names(), *settings]):
            return f"did you mean '{close}'?"
        for kind in ("optimizer", "loss"):
            for plugin in installed().all(kind):
                if ours in _settings_of(kind, plugin.cls):
                    return (
                        f"'{ours}' is a setting of the {kind} '{plugin.name}': give it as `{kind}`"
                    )
        if name in inspect.signature(train).parameters:
            return f"'{name}' is a parameter of owpc_ltr.train alone"
        return f"the settings are {', '.join(settings)}"

    def _dataset(
        self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None, weights: ArrayLike | None
    ) -> RankingDataset:
        from owpc_ltr.data.construction import make_dataset

        features, column = _without_ids(X)
        ids = column if qid is None else qid
        if ids is None:
            if _scored_by_a_search():
                raise QueryIdsNotHandedOn(
                    "scikit-learn hands no query ids on: give X as a DataFrame with a column "
                    "'qid', or give qid to the search's fit, after "
                    "sklearn.set_config(enable_metadata_routing=True), with "
                    "Ranker().set_fit_request(qid=True).set_score_request(qid=True)"
                )
            raise UsageError(
                "query ids are needed: give `qid`, one a row, or X as a DataFrame with a column "
                "'qid'"
            )
        return make_dataset(features, y, ids, document_weights=weights)


def _settings_of(kind: str, plugin: object) -> list[str]:
    """The names of the settings of a plugin; an object and a function are given with theirs."""
    from owpc_ltr.host.registry import class_of

    cls: Any = class_of(kind, plugin if isinstance(plugin, str | type) else type(plugin))
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return [field.name for field in fields if field.init]


def _scored_by_a_search() -> bool:
    """Whether the caller is the loop of scikit-learn that turns exceptions into scores of NaN."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        if caller.f_globals.get("__name__") == "sklearn.model_selection._validation":
            return True
        frame = caller
    return False


def _three(
    validation: tuple[ArrayLike, ...],
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """X, y and qid of validation queries."""
    if not isinstance(validation, tuple) or len(validation) not in {2, 3}:
        raise UsageError("`validation` is a tuple: (X, y, qid), or (X, y) with a column 'qid' in X")
    features, labels, *ids = validation
    return features, labels, ids[0] if ids else None


def _without_ids(X: ArrayLike) -> tuple[Any, Any]:
    """The features, and the column of query ids that a data frame has beside them."""
    frame: Any = X
    columns = list(getattr(frame, "column_names", getattr(frame, "columns", ())))
    if _QID not in columns:
        return X, None
    names = [name for name in columns if name != _QID]
    # A list of names selects columns in pandas alone.
    return frame.select(names) if hasattr(frame, "select") else frame[names], frame[_QID]
