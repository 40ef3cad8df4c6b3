"""Decimal text to float32, correctly rounded, compiled.

A token's digits, up to 19 of them, are an integer that a float64 power of ten scales: three
roundings, so the float64 is within 2⁻⁵⁰ of the truth. Where everything that near rounds to one
float32, that is the answer; else (one token in about 10⁷, those of more digits, and far exponents)
the token is left to `nearest_float32`, which reads it by Python's own means.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled

READ, BAD, TOO_LARGE, UNSURE = 0, 1, 2, 3
"""How reading a token went; `UNSURE` leaves the value to `nearest_float32`."""

_UNCERTAINTY = 2.0**-50
_LARGEST_POWER = 300
_DIGITS = 19
_MINUS, _PLUS, _POINT, _ZERO, _E = 45, 43, 46, 48, 101


def powers_of_ten() -> Vector:
    """10⁻³⁰⁰ … 10³⁰⁰, each the nearest float64."""
    exponents = range(-_LARGEST_POWER, _LARGEST_POWER + 1)
    return np.array([float(f"1e{exponent}") for exponent in exponents])


@compiled
def byte_at(text: Any, at: int) -> Any:
    """The byte at `at`, which is not negative: an unsigned index needs no look from the end."""
    return text[np.uint64(at)]


@compiled
def read_decimal(text: Any, at: int, powers: Any) -> tuple[float, int, int]:
    """The number at `text[at]`: its float32 value (as float64), where it ends, how it went.

    Signs, a point and an exponent are read; nothing else is (no inf, hex, underscores, blanks).
    The byte after the number is the caller's to judge; there must be one that is no digit.
    """
    negative = byte_at(text, at) == _MINUS
    if negative or byte_at(text, at) == _PLUS:
        at += 1
    begin = at
    mantissa, at = _read_digits(text, at, np.uint64(0))
    digits, exponent = at - begin, 0
    if byte_at(text, at) == _POINT:
        point = at + 1
        mantissa, at = _read_digits(text, point, mantissa)
        exponent = point - at
        digits -= exponent
    status = READ if digits > 0 else BAD
    if status == READ and byte_at(text, at) | 32 == _E:
        falls = byte_at(text, at + 1) == _MINUS
        at += 2 if falls or byte_at(text, at + 1) == _PLUS else 1
        shift, after = _read_digits(text, at, np.uint64(0))
        # Ten digits hold any exponent of sense, and cannot overflow.
        far: Any = np.int64(shift) if after - at <= 10 else 10**10
        exponent += -far if falls else far
        if after == at:
            status = BAD
        at = after
    if digits > _DIGITS:
        # Zeros before the first other digit, and the point, do not count.
        while byte_at(text, begin) == _ZERO or byte_at(text, begin) == _POINT:
            begin, digits = begin + 1, digits - 1
        if digits >= _DIGITS and status == READ:
            status = UNSURE
    value = np.float64(mantissa)
    if status == READ and mantissa > 0 and not (exponent == 0 and mantissa < 2**24):
        if abs(exponent) <= _LARGEST_POWER:
            value *= powers[_LARGEST_POWER + exponent]
            nearest = np.float32(value * (1 - _UNCERTAINTY))
            if nearest != np.float32(value * (1 + _UNCERTAINTY)):
                status = UNSURE
            elif np.isinf(nearest):
                status = TOO_LARGE
            value = np.float64(nearest)
        else:
            status = UNSURE
    return -value if negative else value, at, status


@compiled
def _read_digits(text: Any, at: int, number: Any) -> tuple[Any, int]:
    """What a number becomes by the digits that follow it, and where they end."""
    digit = np.uint8(byte_at(text, at) - _ZERO)
    while digit < 10:
        number = number * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.uint8(byte_at(text, at) - _ZERO)
    return number, at


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
