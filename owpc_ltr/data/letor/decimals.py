"""Decimal text to float32, correctly rounded, compiled.

A token's digits, up to 19 of them, are an integer that a float64 power of ten scales: three
roundings, so the float64 is within 2⁻⁵⁰ of the truth. Where everything that near rounds to one
float32, that is the answer; else (one token in about 10⁷, and the subnormal ones) the token is
left to `nearest_float32`, which is exact.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.compiling import compiled, intrinsic

READ, BAD, TOO_LARGE, UNSURE = 0, 1, 2, 3
"""How reading a token went; `UNSURE` leaves the value to `nearest_float32`."""

_UNCERTAINTY = 2.0**-50
_LARGEST_POWER = 300
_DIGITS = 19
_TENS = np.array([10**n for n in range(9)], np.uint64)


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
        count = 8
        while count == 8 and at + 8 <= len(text):
            digits, count = _eight_digits(text, at)
            mantissa = mantissa * _TENS[count] + digits
            at += count
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


@compiled
def _eight_digits(text: Any, at: int) -> tuple[Any, int]:
    """What the digits at the start of 8 bytes are worth as an integer, and how many they are.

    All at once: bytes are told from digits, moved up to fill the word from its end, and added in
    pairs, fours and eights (Lemire, Software: Practice and Experience 2021).
    """
    word = _word_at(text, at) ^ np.uint64(0x3030303030303030)
    seven = np.uint64(0x7F7F7F7F7F7F7F7F)
    others = ((word & seven) + np.uint64(0x7676767676767676) | word) & ~seven
    count: Any = 8
    if others:
        count = np.int64(_trailing_zeros(others) >> np.uint64(3))
        if count == 0:
            return np.uint64(0), count
        word <<= np.uint64(64 - 8 * count)
    word = word * np.uint64(10 * 2**8 + 1) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 2**16 + 1) >> np.uint64(16)
    word = (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10000 * 2**32 + 1) >> np.uint64(32)
    return word, count


@intrinsic
def _word_at(_typing: Any, text: Any, _at: Any) -> Any:
    """The 8 bytes from a place on, the first one lowest, as every machine with numba has them."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        word = ir.IntType(64)
        return builder.load(builder.bitcast(place, word.as_pointer()), align=1)

    return types.uint64(text, types.intp), codegen


@intrinsic
def _trailing_zeros(_typing: Any, _word: Any) -> Any:
    """How many bits are 0 below the lowest 1 of a word that is not 0."""
    from llvmlite import ir
    from numba import types

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@compiled
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


@compiled
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


@compiled
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
