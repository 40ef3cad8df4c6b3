"""Several tests at once: Holm's step-down correction, which needs nothing to be independent.

Of m tests at 5 % each, one in twenty finds something where there is nothing. Corrected, the chance
that any of them does is at most 5 % (Holm 1979).
"""

from __future__ import annotations

import numpy as np

from owpc_ltr.arrays import Vector


def holm(p_values: Vector) -> Vector:
    """The corrected p of each test: m − k + 1 times the k-th smallest, never falling, at most 1."""
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected
