"""Decimal text to float32, correctly rounded, compiled.

A token's digits, up to 19 of them, are an integer that a float64 power of ten scales: three
roundings, so the float64 is within 2⁻⁵⁰ of the truth. Where everything that near rounds to one
float32, that is the answer; else (one token in about 10⁷, and the subnormal ones) the token is
left to `nearest_float32`, which is exact.

numba's cache of a caller looks at the caller's own file: after a change here, or in `strings.py`,
touch `kernel.py`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numba import njit

from owpc_ltr.interfaces import Vector

READ, BAD, TOO_LARGE, UNSURE = 0, 1, 2, 3
"""How reading a token went; `UNSURE` leaves the value to `nearest_float32`."""

_UNCERTAINTY = 2.0**-50
_LARGEST_POWER = 300
_DIGITS = 19


def powers_of_ten() -> Vector:
    """10⁻³⁰⁰ … 10³⁰⁰, each the nearest float64."""
    exponents = range(-_LARGEST_POWER, _LARGEST_POWER + 1)
    return np.array([float(f"1e{exponent}") for exponent in exponents])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def byte_at(text: Any, at: int) -> Any:
    """The byte at `at`, which is not negative: an unsigned index needs no look from the end."""
    return text[np.uint64(at)]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def read_decimal(text: Any, at: int, powers: Any) -> tuple[float, int, int]:
    """The number at `text[at]`: its float32 value (as float64), where it ends, how it went.

    Signs, a point and an exponent are read; nothing else is (no inf, hex, underscores, blanks).
    The byte after the number is the caller's to judge; there must be one that is no digit.
    """
    negative = byte_at(text, at) == 45
    if negative or byte_at(text, at) == 43:
        at += 1
    begin = at
    mantissa = np.uint64(0)
    digit = np.uint8(byte_at(text, at) - 48)
    while digit < 10:
        mantissa = mantissa * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.uint8(byte_at(text, at) - 48)
    length = at - begin
    exponent = 0
    if byte_at(text, at) == 46:
        at += 1
        point = at
        digit = np.uint8(byte_at(text, at) - 48)
        while digit < 10:
            mantissa = mantissa * np.uint64(10) + np.uint64(digit)
            at += 1
            digit = np.uint8(byte_at(text, at) - 48)
        exponent = point - at
        length -= exponent
    if length == 0:
        return 0.0, at, BAD
    if length > _DIGITS:
        mantissa, exponent = _leading_digits(text, begin, at)
    if byte_at(text, at) | 32 == 101:
        shift, at = _read_exponent(text, at + 1)
        if at < 0:
            return 0.0, -at, BAD
        exponent += shift
    value, status = _scaled(mantissa, exponent, powers)
    return -value if negative else value, at, status


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _scaled(mantissa: Any, exponent: int, powers: Any) -> tuple[float, int]:
    value = np.float64(mantissa)
    if mantissa == 0 or (exponent == 0 and mantissa < 2**24):
        return value, READ
    if abs(exponent) > _LARGEST_POWER:
        return 0.0, UNSURE
    value *= powers[_LARGEST_POWER + exponent]
    low = np.float32(value * (1 - _UNCERTAINTY))
    high = np.float32(value * (1 + _UNCERTAINTY))
    if low != high:
        return 0.0, UNSURE
    if np.isinf(low):
        return 0.0, TOO_LARGE
    return np.float64(low), READ


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _leading_digits(text: Any, begin: int, end: int) -> tuple[Any, int]:
    """The first 19 significant digits, and the power of ten that they count."""
    mantissa = np.uint64(0)
    digits: Any = 0
    exponent = 0
    fraction = False
    for at in range(begin, end):
        if byte_at(text, at) == 46:
            fraction = True
            continue
        if digits < _DIGITS:
            mantissa = mantissa * np.uint64(10) + np.uint64(byte_at(text, at) - 48)
            digits += mantissa > 0
            exponent -= fraction
        else:
            exponent += not fraction
    return mantissa, exponent


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _read_exponent(text: Any, at: int) -> tuple[int, int]:
    """The exponent at `at` and where it ends (negative where there is none)."""
    negative = byte_at(text, at) == 45
    if negative or byte_at(text, at) == 43:
        at += 1
    begin = at
    exponent: Any = 0
    digit = np.uint8(byte_at(text, at) - 48)
    while digit < 10:
        exponent = min(exponent * 10 + np.int64(digit), 1_000_000)
        at += 1
        digit = np.uint8(byte_at(text, at) - 48)
    if at == begin:
        return 0, -at
    return -exponent if negative else exponent, at


def nearest_float32(token: str) -> float:
    """The float32 nearest to a decimal token, ties to even; infinite beyond the largest.

    >>> nearest_float32("0.1"), nearest_float32("1e39"), nearest_float32("1e-50")
    (0.10000000149011612, inf, 0.0)
    """
    rough = float(token)
    if rough == 0 or np.isinf(rough):
        return rough
    with np.errstate(over="ignore", under="ignore"):
        guess = np.float32(rough)
        exact = Decimal(token)
        for side in (np.float32(-np.inf), np.float32(np.inf)):
            other = np.nextafter(guess, side)
            # 2¹²⁸ stands for infinity: the tie below it decides which tokens overflow.
            ends = [
                2.0**128 * float(np.sign(x)) if np.isinf(x) else float(x) for x in (guess, other)
            ]
            middle = Decimal((ends[0] + ends[1]) / 2)
            beyond = exact > middle if side > 0 else exact < middle
            if beyond or (exact == middle and guess.view(np.uint32) & 1):
                return float(other)
    return float(guess)
