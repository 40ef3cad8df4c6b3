"""Array types: what vectors, labels, matrices and document fields are; what is a data frame."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""Numbers in float64, one-dimensional: scores, gradients, weights of a linear model."""


IntVector = NDArray[np.int64]
"""Whole numbers, one-dimensional: numbers of documents, offsets of queries."""


Labels = NDArray[np.float32]
"""Relevance grades (0 is irrelevant) or document weights, one a document."""


Matrix = NDArray[np.float32]
"""Features: one row a document, one column a feature; NaN where the engine had no value."""


Digests = NDArray[np.uint64]
"""Hashes, one-dimensional."""


def scrambled(numbers: Digests) -> Digests:
    """Numbers scrambled, different ones staying different (SplitMix64; Steele et al. 2014)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


Fields = Mapping[str, Sequence[Any]]
"""Fields of documents by name (site, text, vector): one value a document, None where it lacks."""


def is_frame(values: object) -> bool:
    """Whether the values are a table with named columns."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.Series):
        return False
    return (
        is_pandas(values)
        or hasattr(values, "column_names")
        or (hasattr(values, "__arrow_c_stream__") and hasattr(values, "columns"))
    )


def pandas_for(what: str) -> Any:
    """The module pandas. Raises ImportError, naming what needs it, where it is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            f"{what} needs pandas, which is not installed: pip install pandas"
        ) from error
    return pd


def is_pandas(values: object) -> bool:
    """Whether the values are a data frame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.DataFrame)
