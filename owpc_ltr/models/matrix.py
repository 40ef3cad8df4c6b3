"""What a model is asked to score, as a matrix with its columns in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.frame_kinds import is_frame
from owpc_ltr.data.matrix import float_array
from owpc_ltr.errors import BadInput
from owpc_ltr.protocols import Ranker


def model_matrix(model: Ranker, features: Any) -> NDArray[Any]:
    """The features of a model as float32 or float64, one row a document; arrays of these as given.

    Columns of a data frame are picked by name. Raises BadInput where it lacks one, where a value
    is no number, and where there are more or fewer columns than the model has features.
    """
    names = model.feature_names
    if isinstance(features, np.ndarray) and features.dtype.kind == "f":
        matrix: NDArray[Any] = features
    elif is_frame(features):
        from owpc_ltr.data.frames import numbers_of, table_of

        instead = "give the numbers that the model was trained on"
        return numbers_of(table_of(features), names, np.float64, instead)
    else:
        matrix = float_array(features, "features")
    if matrix.ndim == 1 and len(matrix) == len(names):
        raise BadInput(
            f"the {len(names)} features of one document are a row: give rows × columns, [[…]] or "
            "X[None, :]"
        )
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise BadInput(
            f"the model scores {len(names)} features, the data has "
            f"{matrix.shape[-1] if matrix.ndim else 0}: use the data of the feature set it was "
            "trained on"
        )
    return matrix
