"""Training with 0 in the place of missing values, for engines that score them so."""

from __future__ import annotations

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model

ZERO = "zero"
_LOOKED_AT = 1000


def check_missing(missing: str | None) -> None:
    """Refuse another word than `zero`; None leaves missing values to the optimizer."""
    if missing not in {None, ZERO}:
        raise UsageError(f"missing values can be taken as zero, not as '{missing}'")


def taking_missing_as_zero(model: Model, data: RankingDataset) -> Model:
    """The model, fitted to filled values, for data as they are; it scores a gap as it does a 0.

    Raises Refused, on the evidence of `data`, for a kind of model that cannot.
    """
    if isinstance(model, TreeModel):
        model = model.with_missing_as_zero()
    gaps = np.isnan(data.features[:_LOOKED_AT]).any(axis=1)
    features = data.features[:_LOOKED_AT][gaps]
    filled = np.nan_to_num(features)
    if gaps.any() and not np.array_equal(model.score(features), model.score(filled)):
        raise Refused(
            f"a {model.kind} model scores a missing value otherwise than 0: train it without "
            "--missing zero, or use --optimizer boosting or larank"
        )
    return model
