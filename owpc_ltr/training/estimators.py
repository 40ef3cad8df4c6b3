"""Rankers as scikit-learn estimators: `fit(X, y, qid=…)`, `predict`, clones, grids, pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.data.options import VALIDATION_SHARE
from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import public
from owpc_ltr.training.options import (
    DEFAULT_LOSS,
    DEFAULT_METRIC,
    DEFAULT_NORMALISATION,
    DEFAULT_OPTIMIZER,
    Normalisation,
)

try:
    from sklearn.base import BaseEstimator
except ImportError:
    BaseEstimator = object  # The classes can be looked at; only making one needs scikit-learn.

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.protocols import Model

_QID = "qid"


class Ranker(BaseEstimator):  # type: ignore[misc]
    """Any loss with any optimizer, as an estimator of scikit-learn.

    Further keywords are their settings by name (`trees=200`, `loss__p=5` where both have one):
    `Ranker(loss="lambdarank", optimizer="boosting", trees=200)`. By default it is OWPC (Usunier,
    Buffoni & Gallinari 2009) solved by LaRank: `Ranker(generator="inverse", C=1.0)`. `metric` is
    what `score` gives.
    Where `C` is left out, it is chosen as by `owpc_ltr.train`, on a fifth of the queries by
    `metric`; a setting that is given is not. Query ids are `qid`, or a column of that name in a
    DataFrame. After `fit`, `model_` is the model, with its record; `feature_names_in_` and
    `n_features_in_` as everywhere.

    In a GridSearchCV take `GroupKFold` and the query ids as groups; either X has the column `qid`,
    or metadata routing hands it on (`set_fit_request(qid=True).set_score_request(qid=True)`).
    """

    def __init__(
        self,
        loss: Any = DEFAULT_LOSS,
        optimizer: Any = DEFAULT_OPTIMIZER,
        *,
        normalise: Normalisation = DEFAULT_NORMALISATION,
        metric: Any = DEFAULT_METRIC,
        seed: int = 0,
        threads: int = 1,
        **settings: Any,
    ) -> None:
        if BaseEstimator is object:
            raise ImportError(
                f"{type(self).__name__} is an estimator of scikit-learn, which is not installed: "
                "pip install scikit-learn, or use owpc_ltr.train"
            )
        self.loss, self.optimizer = loss, optimizer
        self.normalise, self.metric = normalise, metric
        self.seed, self.threads = seed, threads
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter, the settings among them."""
        return {**super().get_params(deep=deep), **self.settings}

    def set_params(self, **params: Any) -> Ranker:
        """Change parameters or settings."""
        names = self._get_param_names()
        super().set_params(**{name: params.pop(name) for name in list(params) if name in names})
        self.settings = {**self.settings, **params}
        return self

    @public
    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, ...] | None = None,
    ) -> Ranker:
        """Learn from one row per document: features, labels, query ids, document weights.

        `validation` is (X, y, qid) of other queries; qid may be left out where X has the column.
        `metric` on them chooses C and the number of trees or epochs. Without it a fifth of the
        queries is taken where C has to be chosen.
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

    def predict(self, X: Any) -> Vector:
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

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> float:
        """The mean of `metric` over the queries; the negative of an error."""
        from owpc_ltr.metrics import first_metric

        data = self._dataset(X, y, qid, sample_weight)
        metric = first_metric(self.metric)
        value = metric.mean(self.model_.score(data.features), data.labels, data.offsets)
        return value if metric.higher_is_better else -value

    def __sklearn_tags__(self) -> Any:
        """Targets are needed, and missing values (NaN) are fine."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def _chooses(self, settings: dict[str, Any]) -> bool:
        """Whether `train` has a C to choose."""
        from owpc_ltr.host.registry import class_of

        if not isinstance(self.optimizer, str | type):
            return False  # an object has its C
        has_c = hasattr(class_of("optimizer", self.optimizer), "C")
        return has_c and not {"C", "optimizer.C"} & {*settings}

    def _dataset(self, X: Any, y: Any, qid: Any, weights: Any) -> RankingDataset:
        from owpc_ltr.data.construction import make_dataset

        features, column = _without_ids(X)
        ids = column if qid is None else qid
        if ids is None:
            raise UsageError(
                "query ids are needed: give qid, one a row, or X as a DataFrame with a column "
                "'qid' (in a GridSearchCV that column, or metadata routing, hands them on)"
            )
        return make_dataset(features, y, ids, document_weights=weights)


def _three(validation: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """X, y and qid of validation queries."""
    if not isinstance(validation, tuple) or len(validation) not in {2, 3}:
        raise UsageError("`validation` is a tuple: (X, y, qid), or (X, y) with a column 'qid' in X")
    features, labels, *ids = validation
    return features, labels, ids[0] if ids else None


def _without_ids(X: Any) -> tuple[Any, Any]:
    """The features, and the column of query ids that a DataFrame has beside them."""
    if not hasattr(X, "columns") or _QID not in list(X.columns):
        return X, None
    names = [name for name in X.columns if name != _QID]
    return X[names], X[_QID]
