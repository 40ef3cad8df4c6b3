"""The compiled reader of LETOR lines: a block of whole lines → rows.

The block's last byte is a line end, and no scan passes one: every loop over a token stops at a
byte that the token cannot hold, so no loop checks for the end of the block.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from owpc_ltr.compiling import compiled

# What `state` holds, between calls and blocks.
(
    POSITION,  # where in the block reading goes on: after WRONG and WIDER, at the line's begin
    ROW,
    LINE,  # lines read so far, over all blocks
    ROW_OF_QUERY,
    QUERY_LENGTH,  # bytes of the current query id, which `query` holds
    WIDTH,  # the largest feature index so far
    ID_BYTES,  # used in this block's `ids`
    COMMENT_BYTES,
    QUERY_BYTES,
    QUERIES,  # begun in this block
    UNSURE_TOKENS,  # in this block
    TOTAL_ID_BYTES,  # before this block
    TOTAL_COMMENT_BYTES,
    STATE_SIZE,
) = range(14)

DONE, FULL, WIDER, WRONG = 0, 1, 2, 3
"""Why `read_lines` stopped: end of the block, no row left, no column left, a line is not LETOR."""

READ, BAD, UNSURE = 0, 1, 2
"""How reading a number went; `UNSURE` leaves the value to `nearest_float32`."""

LARGEST_INDEX = 1_000_000
LONGEST_QUERY = 4096

_UNCERTAINTY = 2.0**-50
LARGEST_POWER = 300
_DIGITS = 19
_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _MINUS, _COLON, _EQUALS = 9, 10, 13, 32, 35, 45, 58, 61
_PLUS, _POINT, _ZERO, _E = 43, 46, 48, 101


@compiled
def read_lines(
    text: Any,
    state: Any,
    query: Any,
    features: Any,
    labels: Any,
    id_ends: Any,
    comment_ends: Any,
    ids: Any,
    comments: Any,
    queries: Any,
    begun: Any,
    unsure: Any,
    powers: Any,
) -> Any:
    """Read lines from `state[POSITION]` on; DONE, FULL, WIDER (both can go on), or WRONG.

    Rows go to `features`, `labels` and the two ends; `ids`, `comments` and `queries` take the
    bytes of this block's strings. `begun` has for each query that begins here its row, its line
    and where its id ends in `queries`; `unsure` has row, column (-1: the label), begin and end.
    """
    stop = len(text)
    at = state[POSITION]
    while at < stop:
        at = _skip_blanks(text, at)
        byte = _byte(text, at)
        if (byte == _HASH) | (byte == _NEWLINE) or (
            byte == _RETURN and _byte(text, at + 1) == _NEWLINE
        ):
            while _byte(text, at) != _NEWLINE:
                at += 1
            at += 1
            state[LINE] += 1
            state[POSITION] = at
            continue
        row, pending = state[ROW], state[UNSURE_TOKENS]
        if row == len(labels):
            return FULL
        label, end, status = read_decimal(text, at, powers)
        if status == BAD or (byte == _MINUS and (label != 0 or status == UNSURE)):
            return WRONG
        if status == UNSURE:
            unsure[pending, 0], unsure[pending, 1] = row, -1
            unsure[pending, 2], unsure[pending, 3] = at, end
            pending += 1
        labels[row] = abs(label)
        name, at = _find_query(text, end)
        if name < 0:
            return WRONG
        length = at - name
        at, last, pending = _read_features(text, at, row, features, unsure, pending, powers)
        if at < 0:
            return -at
        comment, end, at = _find_comment(text, at)
        if at < 0:
            return WRONG
        # The line is good: only now is anything of it kept.
        same = length == state[QUERY_LENGTH]
        for offset in range(length if same else 0):
            same &= _byte(text, name + offset) == query[offset]
        if not same:
            number = state[QUERIES]
            _copy(text, name, name + length, query, np.int64(0))
            used = _copy(text, name, name + length, queries, state[QUERY_BYTES])
            begun[number, 0], begun[number, 1], begun[number, 2] = row, state[LINE] + 1, used
            state[QUERIES], state[QUERY_BYTES] = number + 1, used
            state[QUERY_LENGTH], state[ROW_OF_QUERY] = length, 0
        state[ROW_OF_QUERY] += 1
        used = _copy(text, comment, end, comments, state[COMMENT_BYTES])
        state[COMMENT_BYTES], comment_ends[row] = used, state[TOTAL_COMMENT_BYTES] + used
        used = _keep_id(text, comment, end, state, ids)
        state[ID_BYTES], id_ends[row] = used, state[TOTAL_ID_BYTES] + used
        state[WIDTH] = max(state[WIDTH], last)
        state[UNSURE_TOKENS] = pending
        state[ROW] = row + 1
        state[LINE] += 1
        state[POSITION] = at
    return DONE


@compiled
def _find_query(text: Any, at: int) -> tuple[int, int]:
    """Where the id of the `qid:` token behind `at` begins (-1: there is none) and ends."""
    at = _skip_blanks(text, at)
    # `and` stops at the first byte that differs, so before passing a line end.
    if not (
        _byte(text, at) == 113
        and _byte(text, at + 1) == 105
        and _byte(text, at + 2) == 100
        and _byte(text, at + 3) == _COLON
    ):
        return -1, at
    begin = at + 4
    at = begin
    while _byte(text, at) > _BLANK and _byte(text, at) != _HASH:
        at += 1
    # Where every string begins with a character, all are UTF-8 when their join is.
    cut = _byte(text, begin) & 0xC0 == 0x80
    if cut or not 0 < at - begin <= LONGEST_QUERY or _byte(text, at) == _HASH:
        return -1, at
    return begin, at


@compiled
def _find_comment(text: Any, at: int) -> tuple[int, int, int]:
    """Where the comment at `at` begins and ends, and the next line (-1: it is no comment)."""
    begin = at
    if _byte(text, at) == _HASH:
        begin += 1
        at = begin
        while _byte(text, at) >= _BLANK or _byte(text, at) == _TAB:
            at += 1
    end = at
    if _byte(text, at) == _RETURN:
        at += 1
    if _byte(text, at) != _NEWLINE or _byte(text, begin) & 0xC0 == 0x80:
        return begin, end, -1
    return begin, end, at + 1


@compiled
def _read_features(
    text: Any, at: int, row: int, features: Any, unsure: Any, pending: int, powers: Any
) -> tuple[int, int, int]:
    """Where the features end (or -WRONG, -WIDER), the last one, how many tokens are unsure."""
    width = features.shape[1]
    last = 0
    while True:
        at = _skip_blanks(text, at)
        byte = _byte(text, at)
        if (byte == _NEWLINE) | (byte == _HASH) | (byte == _RETURN):
            break
        token = at
        index: Any = 0
        digit = np.uint8(byte - _ZERO)
        while digit < 10:
            index = min(index * 10 + np.int64(digit), LARGEST_INDEX + 1)
            at += 1
            digit = np.uint8(_byte(text, at) - _ZERO)
        if token == at or _byte(text, at) != _COLON:
            return -WRONG, 0, 0
        if index <= last or index > LARGEST_INDEX:
            return -WRONG, 0, 0
        if index > width:
            return -WIDER, 0, 0
        for column in range(last, index - 1):
            features[row, column] = 0
        last = index
        begin = at + 1
        value, at, status = read_decimal(text, begin, powers)
        if status == BAD:
            if not _is_null(text, begin):
                return -WRONG, 0, 0
            value, at = np.nan, begin + 4
        elif status == UNSURE:
            unsure[pending, 0], unsure[pending, 1] = row, index - 1
            unsure[pending, 2], unsure[pending, 3] = begin, at
            pending += 1
        features[row, index - 1] = value
    for column in range(last, width):
        features[row, column] = 0
    return at, last, pending


@compiled
def read_decimal(text: Any, at: int, powers: Any) -> tuple[float, int, int]:
    """The number at `text[at]`: its float32 value (as float64), where it ends, how it went.

    Signs, a point and an exponent are read; nothing else is (no inf, hex, underscores, blanks).
    The token must end with the number.

    Up to 19 digits are an integer that a float64 power of ten scales: three roundings, so the
    float64 is within 2⁻⁵⁰ of the truth. If everything that near rounds to one float32, that is
    the answer. One token in about 10⁷, those of more digits, and far exponents are UNSURE.
    """
    negative = _byte(text, at) == _MINUS
    if negative or _byte(text, at) == _PLUS:
        at += 1
    begin = at
    mantissa, at = _read_digits(text, at, np.uint64(0))
    digits, exponent = at - begin, 0
    if _byte(text, at) == _POINT:
        point = at + 1
        mantissa, at = _read_digits(text, point, mantissa)
        exponent = point - at
        digits -= exponent
    status = READ if digits > 0 else BAD
    if _byte(text, at) | 32 == _E and status == READ:
        falls = _byte(text, at + 1) == _MINUS
        at += 2 if falls or _byte(text, at + 1) == _PLUS else 1
        shift, after = _read_digits(text, at, np.uint64(0))
        # Ten digits hold any exponent of sense, and cannot overflow.
        far: Any = np.int64(shift) if after - at <= 10 else 10**10
        exponent += -far if falls else far
        if after == at:
            status = BAD
        at = after
    if not _ends_token(_byte(text, at)):
        status = BAD
    if digits > _DIGITS:
        # Zeros before the first other digit, and the point, do not count.
        while _byte(text, begin) == _ZERO or _byte(text, begin) == _POINT:
            begin, digits = begin + 1, digits - 1
        if digits >= _DIGITS and status == READ:
            status = UNSURE
    value = np.float64(mantissa)
    if status == READ:
        if abs(exponent) <= LARGEST_POWER:
            value *= powers[LARGEST_POWER + exponent]
            nearest = np.float32(value * (1 - _UNCERTAINTY))
            if nearest != np.float32(value * (1 + _UNCERTAINTY)) or np.isinf(nearest):
                status = UNSURE
            value = np.float64(nearest)
        elif mantissa > 0:
            status = UNSURE
    return -value if negative else value, at, status


@compiled
def _read_digits(text: Any, at: int, number: Any) -> tuple[Any, int]:
    """What a number becomes by the digits that follow it, and where they end."""
    digit = np.uint8(_byte(text, at) - _ZERO)
    while digit < 10:
        number = number * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.uint8(_byte(text, at) - _ZERO)
    return number, at


@compiled
def _is_null(text: Any, at: int) -> Any:
    return (
        _byte(text, at) == 78
        and _byte(text, at + 1) == 85
        and _byte(text, at + 2) == 76
        and _byte(text, at + 3) == 76
        and _ends_token(_byte(text, at + 4))
    )


@compiled
def _keep_id(text: Any, begin: int, end: int, state: Any, ids: Any) -> Any:
    """Keep the id of `docid = X …` or `X …`; the row number in the query where there is none.

    Returns how many bytes of `ids` are used then.
    """
    used = state[ID_BYTES]
    begin, stop = _word(text, begin, end)
    if stop - begin >= 5 and (
        _byte(text, begin) == 100
        and _byte(text, begin + 1) == 111
        and _byte(text, begin + 2) == 99
        and _byte(text, begin + 3) == 105
        and _byte(text, begin + 4) == 100
    ):
        after, _ = _word(text, begin + 5, end)
        if after < end and _byte(text, after) == _EQUALS:
            begin, stop = _word(text, after + 1, end)
    if begin < stop:
        return _copy(text, begin, stop, ids, used)
    number = state[ROW_OF_QUERY]
    power = 1
    while power * 10 <= number:
        power *= 10
    while power > 0:
        ids[used] = _ZERO + number // power % 10
        used += 1
        power //= 10
    return used


@compiled
def _word(text: Any, at: int, end: int) -> tuple[int, int]:
    while at < end and (_byte(text, at) == _BLANK or _byte(text, at) == _TAB):
        at += 1
    begin = at
    while at < end and _byte(text, at) != _BLANK and _byte(text, at) != _TAB:
        at += 1
    return begin, at


@compiled
def _skip_blanks(text: Any, at: int) -> int:
    byte = _byte(text, at)
    while (byte == _BLANK) | (byte == _TAB):
        at += 1
        byte = _byte(text, at)
    return at


@compiled
def _ends_token(byte: int) -> Any:
    return byte == _BLANK or (
        (byte == _NEWLINE) | (byte == _TAB) | (byte == _RETURN) | (byte == _HASH)
    )


@compiled
def _copy(text: Any, begin: int, end: int, target: Any, used: int) -> int:
    """Append `text[begin:end]` to what is used of the target; how much is used then."""
    for offset in range(end - begin):
        target[used + offset] = text[begin + offset]
    return used + end - begin


@compiled
def _byte(text: Any, at: int) -> Any:
    """The byte at `at`, which is not negative: an unsigned index is never counted from the end."""
    return text[np.uint64(at)]


def nearest_float32(token: str) -> float:
    """The float32 nearest to a decimal token, ties to even; infinite beyond the largest.

    >>> nearest_float32("0.1"), nearest_float32("1e39"), nearest_float32("1e-50")
    (0.10000000149011612, inf, 0.0)
    """
    value = np.float64(token)
    if value == 0 or np.isinf(value):
        return float(value)
    # Rounded to odd, a float64 can be rounded again: it lies amid two float32 only if the decimal
    # does (Boldo and Melquiond 2008).
    exact = Decimal(token)
    if exact != Decimal(float(value)) and not value.view(np.int64) & 1:
        value = np.nextafter(value, np.inf if exact > Decimal(float(value)) else -np.inf)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(value))
