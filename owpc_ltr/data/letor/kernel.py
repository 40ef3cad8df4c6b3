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
    CONTROL,
    DONE,
    EMPTY_QUERY,
    FULL,
    HASH_IN_QUERY,
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
    QUERY_LENGTH,
    ROW,
    ROW_OF_QUERY,
    UNSURE_TOKENS,
    WIDER,
    WIDTH,
)
from owpc_ltr.data.letor.decimals import BAD, READ, UNSURE, byte_at, read_decimal
from owpc_ltr.data.letor.decimals import TOO_LARGE as OVERFLOW
from owpc_ltr.data.letor.strings import begin_query, keep_comment, keep_id

_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _COLON = 9, 10, 13, 32, 35, 58


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
        if _is_bare(text, at):
            at = _next_line(text, at)
            state[LINE] += 1
            state[POSITION] = at
            continue
        row = state[ROW]
        if row == len(labels):
            return FULL
        pending = state[UNSURE_TOKENS]
        error, at, pending = _read_label(text, at, row, labels, unsure, pending, powers)
        if error:
            return _fail(state, at, error)
        at = _skip_blanks(text, at)
        name = at + 4
        error, at = _skip_query(text, at)
        if error:
            return _fail(state, at if error == CONTROL else name - 4, error)
        length = at - name
        error, at, last, pending = _read_features(text, at, row, features, unsure, pending, powers)
        if error:
            return _fail(state, begin if error == WIDER else at, error)
        error, comment, comment_end, at = _skip_comment(text, name, at)
        if error:
            return _fail(state, comment, error)
        # The line is good: only now is anything of it kept.
        if length != state[QUERY_LENGTH] or not _equal(text, name, query, length):
            begin_query(text, name, length, state, query, queries, begun)
        state[ROW_OF_QUERY] += 1
        keep_comment(text, comment, comment_end, state, comment_ends, comments)
        keep_id(text, comment, comment_end, state, id_ends, ids)
        _count_row(state, last, pending, at)
    return DONE


@compiled
def _is_bare(text: Any, at: int) -> bool:
    """Whether a line holds no document: it is empty, or a comment."""
    byte = byte_at(text, at)
    return byte in (_HASH, _NEWLINE) or (byte == _RETURN and byte_at(text, at + 1) == _NEWLINE)


@compiled
def _next_line(text: Any, at: int) -> int:
    while byte_at(text, at) != _NEWLINE:
        at += 1
    return at + 1


@compiled
def _read_label(
    text: Any, at: int, row: int, labels: Any, unsure: Any, pending: int, powers: Any
) -> tuple[int, int, int]:
    """The error (0: none), where the label ends (or the bad one begins), the unsure tokens."""
    token = at
    label, at, status = read_decimal(text, token, powers)
    if status == BAD or not _ends_token(byte_at(text, at)):
        return BAD_LABEL, token, pending
    if status == OVERFLOW:
        return LARGE_LABEL, token, pending
    if byte_at(text, token) == 45 and (label != 0 or status == UNSURE):
        return NEGATIVE_LABEL, token, pending
    if status == UNSURE:
        _note(unsure, pending, row, -1, token, at)
        pending += 1
    labels[row] = abs(label)
    return 0, at, pending


@compiled
def _read_features(
    text: Any, at: int, row: int, features: Any, unsure: Any, pending: int, powers: Any
) -> tuple[int, int, int, int]:
    """The error, where the features end (or the bad one begins), the last one, the unsure."""
    width = features.shape[1]
    last = 0
    while True:
        before = at
        at = _skip_blanks(text, at)
        byte = byte_at(text, at)
        if byte in (_NEWLINE, _HASH, _RETURN):
            break
        token = at
        index, at = _read_index(text, token)
        if token in (before, at) or byte_at(text, at) != _COLON:
            return BAD_FEATURE, token, last, pending
        if index <= last or index > LARGEST_INDEX:
            return _misplaced(index, last), token, last, pending
        if index > width:
            return WIDER, token, last, pending
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
                _note(unsure, pending, row, index - 1, begin, at)
                pending += 1
        features[row, index - 1] = value
    for column in range(last, width):
        features[row, column] = 0
    return 0, at, last, pending


@compiled
def _skip_comment(text: Any, name: int, at: int) -> tuple[int, int, int, int]:
    """The error, where the comment begins (or the bad byte is) and ends, and the next line."""
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
        return CONTROL, end, end, at
    # Where every string begins with a character, all are UTF-8 when their join is.
    if byte_at(text, name) & 0xC0 == 0x80:
        return NOT_UTF8, name, end, at
    if byte_at(text, begin) & 0xC0 == 0x80:
        return NOT_UTF8, begin, end, at
    return 0, begin, end, at + 1


@compiled
def _skip_blanks(text: Any, at: int) -> int:
    while byte_at(text, at) == _BLANK or byte_at(text, at) == _TAB:
        at += 1
    return at


@compiled
def _ends_token(byte: int) -> bool:
    return byte in (_BLANK, _TAB, _NEWLINE, _RETURN, _HASH)


@compiled
def _count_row(state: Any, last: int, pending: int, at: int) -> None:
    state[WIDTH] = max(state[WIDTH], last)
    state[UNSURE_TOKENS] = pending
    state[ROW] += 1
    state[LINE] += 1
    state[POSITION] = at


@compiled
def _fail(state: Any, token: int, error: int) -> int:
    state[POSITION] = token
    return error


@compiled
def _note(unsure: Any, count: int, row: int, column: int, begin: int, end: int) -> None:
    unsure[count, 0] = row
    unsure[count, 1] = column
    unsure[count, 2] = begin
    unsure[count, 3] = end


@compiled
def _skip_query(text: Any, at: int) -> tuple[int, int]:
    """The error (0: none) of the `qid:` token at `at`, and where the token ends."""
    # `and` stops at the first byte that differs, so before passing a line end.
    if not (
        byte_at(text, at) == 113
        and byte_at(text, at + 1) == 105
        and byte_at(text, at + 2) == 100
        and byte_at(text, at + 3) == _COLON
    ):
        return NO_QUERY, at
    at += 4
    begin = at
    while byte_at(text, at) > _BLANK and byte_at(text, at) != _HASH:
        at += 1
    if byte_at(text, at) == _HASH:
        return HASH_IN_QUERY, at
    if not _ends_token(byte_at(text, at)):
        return CONTROL, at
    if at == begin:
        return EMPTY_QUERY, at
    if at - begin > LONGEST_QUERY:
        return LONG_QUERY, at
    return 0, at


@compiled
def _equal(text: Any, at: int, query: Any, length: int) -> bool:
    for offset in range(length):  # noqa: SIM110 - compiled
        if byte_at(text, at + offset) != query[offset]:
            return False
    return True


@compiled
def _read_index(text: Any, at: int) -> Any:
    index: Any = 0
    digit = np.uint8(byte_at(text, at) - 48)
    while digit < 10:
        index = min(index * 10 + np.int64(digit), LARGEST_INDEX + 1)
        at += 1
        digit = np.uint8(byte_at(text, at) - 48)
    return index, at


@compiled
def _misplaced(index: int, last: int) -> int:
    if index == 0:
        return INDEX_ZERO
    if index > last:
        return LARGE_INDEX
    return INDEX_TWICE if index == last else INDEX_FALLS


@compiled
def _is_null(text: Any, at: int) -> Any:
    return (
        byte_at(text, at) == 78
        and byte_at(text, at + 1) == 85
        and byte_at(text, at + 2) == 76
        and byte_at(text, at + 3) == 76
        and _ends_token(byte_at(text, at + 4))
    )
