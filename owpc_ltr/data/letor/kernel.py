"""The compiled reader of LETOR lines: a block of whole lines → rows.

The block's last byte is a line end, and no scan passes one: every loop over a token stops at a
byte that the token cannot hold, so nothing needs to ask where the block ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from owpc_ltr.compiling import compiled
from owpc_ltr.data.letor.codes import (
    BAD_FEATURE,
    BAD_LABEL,
    BAD_VALUE,
    COMMENT_BYTES,
    CONTROL,
    DONE,
    EMPTY_QUERY,
    FULL,
    HASH_IN_QUERY,
    ID_BYTES,
    INDEX_FALLS,
    INDEX_TWICE,
    INDEX_ZERO,
    LARGE_INDEX,
    LARGE_LABEL,
    LARGE_VALUE,
    LARGEST_INDEX,
    LINE,
    LONG_QUERY,
    LONGEST_QUERY,
    NEGATIVE_LABEL,
    NO_QUERY,
    NOT_UTF8,
    POSITION,
    QUERIES,
    QUERY_BYTES,
    QUERY_LENGTH,
    ROW,
    ROW_OF_QUERY,
    TOTAL_COMMENT_BYTES,
    TOTAL_ID_BYTES,
    UNSURE_TOKENS,
    WIDER,
    WIDTH,
)
from owpc_ltr.data.letor.decimals import BAD, READ, UNSURE, byte_at, read_decimal
from owpc_ltr.data.letor.decimals import TOO_LARGE as OVERFLOW

_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _MINUS, _COLON, _EQUALS = 9, 10, 13, 32, 35, 45, 58, 61


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
    """Read lines from `state[POSITION]` on; DONE, FULL, WIDER (both can go on), or an error.

    Rows go to `features`, `labels` and the two ends; `ids`, `comments` and `queries` take the
    bytes of this block's strings. `begun` has for each query that begins here its row, its line
    and where its id ends in `queries`; `unsure` has row, column (-1: the label), begin and end.
    """
    stop = len(text)
    at = state[POSITION]
    while at < stop:
        begin = at
        at = _skip_blanks(text, at)
        byte = byte_at(text, at)
        if (byte == _HASH) | (byte == _NEWLINE) or _ends_line(text, at):
            while byte_at(text, at) != _NEWLINE:
                at += 1
            at += 1
            state[LINE] += 1
            state[POSITION] = at
            continue
        row, pending = state[ROW], state[UNSURE_TOKENS]
        if row == len(labels):
            return FULL
        error, at, pending = _read_label(text, at, row, labels, unsure, pending, powers)
        name, length, last, comment, comment_end, after = 0, 0, 0, 0, 0, 0
        if not error:
            name = _skip_blanks(text, at) + 4
            error, at = _skip_query(text, name - 4)
            length = at - name
        if not error:
            error, at, last, pending = _read_features(
                text, at, row, features, unsure, pending, powers
            )
            at = begin if error == WIDER else at
        if not error:
            error, at, comment, comment_end, after = _skip_comment(text, name, at)
        if error:
            state[POSITION] = at
            return error
        # The line is good: only now is anything of it kept.
        same = length == state[QUERY_LENGTH]
        for offset in range(length if same else 0):
            same &= byte_at(text, name + offset) == query[offset]
        if not same:
            _begin_query(text, name, length, state, query, queries, begun)
        state[ROW_OF_QUERY] += 1
        used = _copy(text, comment, comment_end, comments, state[COMMENT_BYTES])
        state[COMMENT_BYTES], comment_ends[row] = used, state[TOTAL_COMMENT_BYTES] + used
        used = _keep_id(text, comment, comment_end, state, ids)
        state[ID_BYTES], id_ends[row] = used, state[TOTAL_ID_BYTES] + used
        state[WIDTH] = max(state[WIDTH], last)
        state[UNSURE_TOKENS] = pending
        state[ROW] = row + 1
        state[LINE] += 1
        at = state[POSITION] = after
    return DONE


@compiled
def _read_label(
    text: Any, at: int, row: int, labels: Any, unsure: Any, pending: int, powers: Any
) -> tuple[int, int, int]:
    """The error (0: none), where the label ends (or the bad one begins), the unsure tokens."""
    label, end, status = read_decimal(text, at, powers)
    error = 0
    if status == BAD or not _ends_token(byte_at(text, end)):
        error = BAD_LABEL
    elif status == OVERFLOW:
        error = LARGE_LABEL
    elif byte_at(text, at) == _MINUS and (label != 0 or status == UNSURE):
        error = NEGATIVE_LABEL
    if error:
        return error, at, pending
    if status == UNSURE:
        unsure[pending, 0], unsure[pending, 1] = row, -1
        unsure[pending, 2], unsure[pending, 3] = at, end
        pending += 1
    labels[row] = abs(label)
    return 0, end, pending


@compiled
def _read_features(
    text: Any, at: int, row: int, features: Any, unsure: Any, pending: int, powers: Any
) -> tuple[int, int, int, int]:
    """The error, where the features end (or the bad one begins), the last one, the unsure."""
    width = features.shape[1]
    last, error = 0, 0
    while True:
        before = at
        at = _skip_blanks(text, at)
        byte = byte_at(text, at)
        if (byte == _NEWLINE) | (byte == _HASH) | (byte == _RETURN):
            break
        token = at
        index: Any = 0
        digit = np.uint8(byte - 48)
        while digit < 10:
            index = min(index * 10 + np.int64(digit), LARGEST_INDEX + 1)
            at += 1
            digit = np.uint8(byte_at(text, at) - 48)
        if (token == before) | (token == at) | (byte_at(text, at) != _COLON):
            error = BAD_FEATURE
        elif index <= last:
            error = INDEX_TWICE if index == last else INDEX_FALLS
            error = error if index else INDEX_ZERO
        elif index > LARGEST_INDEX:
            error = LARGE_INDEX
        elif index > width:
            error = WIDER
        if error:
            return error, token, last, pending
        for column in range(last, index - 1):
            features[row, column] = 0
        last = index
        begin = at + 1
        value, at, status = read_decimal(text, begin, powers)
        if status != READ or not _ends_token(byte_at(text, at)):
            if _is_null(text, begin):
                value, at = np.nan, begin + 4
            elif status == BAD or not _ends_token(byte_at(text, at)):
                return BAD_VALUE, token, last, pending
            elif status == OVERFLOW:
                return LARGE_VALUE, token, last, pending
            else:
                unsure[pending, 0], unsure[pending, 1] = row, index - 1
                unsure[pending, 2], unsure[pending, 3] = begin, at
                pending += 1
        features[row, index - 1] = value
    for column in range(last, width):
        features[row, column] = 0
    return 0, at, last, pending


@compiled
def _skip_comment(text: Any, name: int, at: int) -> tuple[int, int, int, int, int]:
    """The error, the bad byte, where the comment begins and ends, and the next line."""
    begin = at
    if byte_at(text, at) == _HASH:
        begin += 1
        at = begin
        while byte_at(text, at) >= _BLANK or byte_at(text, at) == _TAB:
            at += 1
    end = at
    if byte_at(text, at) == _RETURN:
        at += 1
    if byte_at(text, at) != _NEWLINE:
        return CONTROL, end, begin, end, at
    # Where every string begins with a character, all are UTF-8 when their join is.
    if byte_at(text, name) & 0xC0 == 0x80:
        return NOT_UTF8, name, begin, end, at
    if byte_at(text, begin) & 0xC0 == 0x80:
        return NOT_UTF8, begin, begin, end, at
    return 0, end, begin, end, at + 1


@compiled
def _skip_blanks(text: Any, at: int) -> int:
    while byte_at(text, at) == _BLANK or byte_at(text, at) == _TAB:
        at += 1
    return at


@compiled
def _ends_token(byte: int) -> Any:
    return (
        (byte == _BLANK) | (byte == _TAB) | (byte == _NEWLINE) | (byte == _RETURN) | (byte == _HASH)
    )


@compiled
def _ends_line(text: Any, at: int) -> Any:
    return byte_at(text, at) == _RETURN and byte_at(text, at + 1) == _NEWLINE


@compiled
def _skip_query(text: Any, at: int) -> tuple[int, int]:
    """The error (0: none) of the `qid:` token at `at`, and where it ends, or the bad byte."""
    # `and` stops at the first byte that differs, so before passing a line end.
    if not (
        byte_at(text, at) == 113
        and byte_at(text, at + 1) == 105
        and byte_at(text, at + 2) == 100
        and byte_at(text, at + 3) == _COLON
    ):
        return NO_QUERY, at
    token, begin = at, at + 4
    at = begin
    while byte_at(text, at) > _BLANK and byte_at(text, at) != _HASH:
        at += 1
    if byte_at(text, at) == _HASH:
        return HASH_IN_QUERY, token
    if not _ends_token(byte_at(text, at)):
        return CONTROL, at
    if at == begin:
        return EMPTY_QUERY, token
    if at - begin > LONGEST_QUERY:
        return LONG_QUERY, token
    return 0, at


@compiled
def _is_null(text: Any, at: int) -> Any:
    return (
        byte_at(text, at) == 78
        and byte_at(text, at + 1) == 85
        and byte_at(text, at + 2) == 76
        and byte_at(text, at + 3) == 76
        and _ends_token(byte_at(text, at + 4))
    )


@compiled
def _begin_query(
    text: Any, name: int, length: int, state: Any, query: Any, queries: Any, begun: Any
) -> None:
    """Make `text[name : name + length]` the current query, which begins with this line."""
    _copy(text, name, name + length, query, 0)
    used = _copy(text, name, name + length, queries, state[QUERY_BYTES])
    number = state[QUERIES]
    begun[number, 0] = state[ROW]
    begun[number, 1] = state[LINE] + 1
    begun[number, 2] = used
    state[QUERIES], state[QUERY_BYTES] = number + 1, used
    state[QUERY_LENGTH], state[ROW_OF_QUERY] = length, 0


@compiled
def _keep_id(text: Any, begin: int, end: int, state: Any, ids: Any) -> Any:
    """Keep the id of `docid = X …` or `X …`; the row number in the query where there is none.

    Returns how many bytes of `ids` are used then.
    """
    used = state[ID_BYTES]
    begin, stop = _word(text, begin, end)
    if stop - begin >= 5 and (
        byte_at(text, begin) == 100
        and byte_at(text, begin + 1) == 111
        and byte_at(text, begin + 2) == 99
        and byte_at(text, begin + 3) == 105
        and byte_at(text, begin + 4) == 100
    ):
        after, _ = _word(text, begin + 5, end)
        if after < end and byte_at(text, after) == _EQUALS:
            begin, stop = _word(text, after + 1, end)
    if begin < stop:
        return _copy(text, begin, stop, ids, used)
    number = state[ROW_OF_QUERY]
    power = 1
    while power * 10 <= number:
        power *= 10
    while power > 0:
        ids[used] = 48 + number // power % 10
        used += 1
        power //= 10
    return used


@compiled
def _word(text: Any, at: int, end: int) -> tuple[int, int]:
    while at < end and (byte_at(text, at) == _BLANK or byte_at(text, at) == _TAB):
        at += 1
    begin = at
    while at < end and byte_at(text, at) != _BLANK and byte_at(text, at) != _TAB:
        at += 1
    return begin, at


@compiled
def _copy(text: Any, begin: int, end: int, target: Any, used: int) -> int:
    """Append `text[begin:end]` to what is used of the target; how much is used then."""
    for offset in range(end - begin):
        target[used + offset] = text[begin + offset]
    return used + end - begin
