"""The base made positive, and scores mapped back to the base's own units.

Equation 14 multiplies the base score b(x_i), which has a sense only for b > 0. Where base scores
may be negative, an increasing positive function of the query's standardised scores
z = (s − mean) / deviation stands for them:

- `exp`: b = e^z. Multiplying b by e^g adds g standard deviations to the score.
- `softplus`: b = log(1 + e^z), nearly linear above the mean: a factor moves high scores more.
- `as-is`: b = s, the paper's; refused where a score is not positive.

A list of equal scores has deviation 1. The result is mapped back by the inverse function, so that
the factor 1 gives the base score itself, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr_rerankers.exchangeable.sums import exact_sum

Positive = Literal["exp", "softplus", "as-is"]

_EXP, _SOFTPLUS, _AS_IS = range(3)
_LOW = -30.0  # below, softplus(z) is e^z to the last bit


@dataclass(frozen=True, eq=False)
class PositiveBase:
    """The base scores of some lists, log b of each, and the way back."""

    scores: Vector
    logarithms: Vector
    spreads: Vector
    kind: int

    def times_exp(self, gains: Vector) -> Vector:
        """The scores of b · e^gain, in the base's units; where the gain is 0, the base's own.

        Raises Refused where a score is too large for a number.
        """
        changed = np.empty_like(self.scores)
        _map_back(self.kind, self.scores, self.logarithms, self.spreads, gains, changed)
        if not np.isfinite(changed).all():
            raise Refused(
                f"a reranked score overflows (gain {np.abs(gains).max():.3g}): use bounded "
                "kernels, kernel_sums=mean, or a larger penalty"
            )
        return changed


def positive_base(kind: Positive, scores: Vector, offsets: NDArray[np.int64]) -> PositiveBase:
    """The positive function of these base scores, list by list.

    Raises BadInput for a base score that is not a finite number, or not positive as it is.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise BadInput(
            f"a base score is {scores[~np.isfinite(scores)][0]}: nothing can be reranked"
        )
    code = get_args(Positive).index(kind)
    if code == _AS_IS and not (scores > 0).all():
        raise BadInput(
            f"the base score {scores[scores <= 0][0]} is not positive: use "
            "reranker.positive=exp or softplus"
        )
    logarithms, spreads = np.empty_like(scores), np.empty_like(scores)
    _make_positive(code, scores, offsets, logarithms, spreads)
    return PositiveBase(scores, logarithms, spreads, code)


@compiled
def _make_positive(kind: int, scores: Any, offsets: Any, logarithms: Any, spreads: Any) -> None:
    for query in range(len(offsets) - 1):
        own = scores[offsets[query] : offsets[query + 1]]
        mean, spread = _mean_and_deviation(own)
        for i in range(len(own)):
            row = offsets[query] + i
            spreads[row] = spread
            if kind == _AS_IS:
                logarithms[row] = math.log(own[i])
                continue
            z = (own[i] - mean) / spread
            logarithms[row] = z if kind == _EXP or z < _LOW else math.log(_softplus(z))


@compiled
def _map_back(
    kind: int, scores: Any, logarithms: Any, spreads: Any, gains: Any, changed: Any
) -> None:
    for i in range(len(scores)):
        if gains[i] == 0.0:
            changed[i] = scores[i]
        elif kind == _EXP:
            changed[i] = scores[i] + spreads[i] * gains[i]
        elif kind == _SOFTPLUS:
            # The mean is not needed: only the way from the old z to the new one.
            step = _softplus_inverse(logarithms[i] + gains[i]) - _softplus_inverse(logarithms[i])
            changed[i] = scores[i] + spreads[i] * step
        else:
            changed[i] = scores[i] * math.exp(gains[i])


@compiled
def _mean_and_deviation(values: Any) -> tuple[float, float]:
    """Mean and standard deviation of a list, in any order; the deviation of equal values is 1."""
    count = len(values)
    if values.min() == values.max():
        return values[0], 1.0
    mean = exact_sum(values) / count
    away = values - mean
    largest = 0.0
    for step in away:
        largest = max(largest, abs(step))
    away /= largest
    return mean, largest * math.sqrt(exact_sum(away * away) / count)


@compiled
def _softplus(z: float) -> float:
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


@compiled
def _softplus_inverse(logarithm: float) -> float:
    """The z of log softplus(z)."""
    if logarithm < _LOW:
        return logarithm
    if logarithm > 709.0:
        return np.inf
    value = math.exp(logarithm)
    return value + math.log(-math.expm1(-value))
