"""Parts in half the memory: each value as 16 bits, which keep three of its digits.

A column is divided by a power of two first, so that its largest value is one that 16 bits hold.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset

_TOP = 15
"""Of the powers of two that 16 bits hold the highest."""


@dataclass(frozen=True)
class HalvedPart:
    """A part whose values were rounded to 11 binary digits; NaN stays missing."""

    values: NDArray[np.float16]
    scales: NDArray[np.float32]
    rest: dict[str, Any]

    @classmethod
    def of(cls, part: RankingDataset) -> HalvedPart:
        """The part, rounded. What is 2^29 times smaller than its column's largest loses digits."""
        largest = np.fmax.reduce(np.abs(part.features), axis=0, initial=0.0)
        _, exponents = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
        scales = np.ldexp(np.float32(1.0), exponents - _TOP)
        rest = {one.name: getattr(part, one.name) for one in fields(part) if one.name != "features"}
        return cls((part.features / scales).astype(np.float16), scales, rest)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.values.nbytes

    def whole(self) -> RankingDataset:
        """The part with its rounded values, as 32 bits."""
        features = self.values.astype(np.float32)
        features *= self.scales
        return RankingDataset(features, **self.rest)
