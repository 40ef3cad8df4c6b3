"""Figures in words: as people read them, with a sign where one is meant."""

from __future__ import annotations

import math


def amount(value: float, digits: int = 4) -> str:
    """A figure between 0 and 1, or any other.

    >>> amount(0.89717), amount(float("nan"))
    ('0.8972', '–')
    """
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float, digits: int = 4) -> str:
    """A difference, with its sign; the minus is a minus.

    >>> signed(0.0183), signed(-0.002), signed(-0.00001)
    ('+0.0183', '−0.0020', '−0.0000')
    """
    return f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float, high: float, *, plus: bool = True) -> str:
    """Both ends of an interval.

    >>> interval(-0.01, 0.02), interval(0.5, 0.6, plus=False)
    ('−0.0100 to +0.0200', '0.5000 to 0.6000')
    """
    return f"{signed(low)} to {signed(high)}" if plus else f"{amount(low)} to {amount(high)}"


def p_words(p: float) -> str:
    """A value of p as papers write it.

    >>> p_words(0.0001), p_words(0.0312), p_words(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def plain(value: object) -> str:
    """A value of any kind in few characters.

    >>> plain(0.1 + 0.2), plain(1234567), plain(None), plain(True)
    ('0.3', '1,234,567', '–', 'yes')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "−")
    return str(value)
