"""Whole numbers as text, six bits a character, which a script reads without unpacking lists.

The characters are the 64 of ASCII from `0` on: a number is read by subtracting 48.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput

_FIRST = 48
PLACE, VALUE = 4, 5
"""Characters of a place in a text or table, and of a value."""
LARGEST_VALUE = (1 << 6 * VALUE) - 1


def digits_of(numbers: Sequence[int] | NDArray[np.int64], width: int) -> str:
    """Each number in `width` characters, the highest first.

    >>> digits_of([0, 64, 4095], 2)
    '0010oo'
    """
    whole = np.asarray(numbers, dtype=np.int64).reshape(-1, 1)
    shifts = 6 * np.arange(width - 1, -1, -1)
    return ((whole >> shifts & 63) + _FIRST).astype(np.uint8).tobytes().decode("ascii")


def numbers_of(text: object, width: int, where: str) -> NDArray[np.int64]:
    """The numbers that `digits_of` wrote. Raises BadInput for any other text."""
    if not isinstance(text, str) or len(text) % width or not text.isascii():
        raise BadInput(f"{where} is no text of numbers of {width} characters each")
    digits = np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int64) - _FIRST
    if ((digits < 0) | (digits > 63)).any():
        raise BadInput(f"{where} has characters that are no digits")
    shifts = 6 * np.arange(width - 1, -1, -1)
    return np.asarray((digits.reshape(-1, width) << shifts).sum(axis=1), dtype=np.int64)
