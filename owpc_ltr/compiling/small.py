"""Inputs that NumPy is done with before compiled code is loaded, let alone made."""

from __future__ import annotations

_CELLS = 1 << 21
"""NumPy takes some 10 ns for each of them; the import of numba takes 0.4 s."""


def is_small(cells: int) -> bool:
    """Whether so many numbers are not worth compiled code, where NumPy's result is the same."""
    return cells <= _CELLS
