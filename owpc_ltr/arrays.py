"""Array types: what vectors, labels, matrices and document fields are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""Numbers in float64, one-dimensional: scores, gradients, weights of a linear model."""


Labels = NDArray[np.float32]
"""Relevance grades (0 is irrelevant) or document weights, one a document."""


Matrix = NDArray[np.float32]
"""Features: one row a document, one column a feature; NaN where the engine had no value."""


Fields = Mapping[str, Sequence[Any]]
"""Fields of documents by name (site, text, vector): one value a document, None where it lacks."""
