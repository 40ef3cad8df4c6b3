"""What the compiled reader keeps of a line's strings: query id, document id, comment."""

from __future__ import annotations

from typing import Any

from owpc_ltr.compiling import compiled
from owpc_ltr.data.letor.codes import (
    COMMENT_BYTES,
    ID_BYTES,
    LINE,
    QUERIES,
    QUERY_BYTES,
    QUERY_LENGTH,
    ROW,
    ROW_OF_QUERY,
    TOTAL_COMMENT_BYTES,
    TOTAL_ID_BYTES,
)

_TAB, _BLANK, _EQUALS = 9, 32, 61


@compiled
def begin_query(
    text: Any, name: int, length: int, state: Any, query: Any, queries: Any, begun: Any
) -> None:
    """Make `text[name : name + length]` the current query, which begins with this line."""
    used = state[QUERY_BYTES]
    for offset in range(length):
        query[offset] = text[name + offset]
        queries[used + offset] = text[name + offset]
    state[QUERY_LENGTH] = length
    state[QUERY_BYTES] = used + length
    number = state[QUERIES]
    begun[number, 0] = state[ROW]
    begun[number, 1] = state[LINE] + 1
    begun[number, 2] = used + length
    state[QUERIES] = number + 1
    state[ROW_OF_QUERY] = 0


@compiled
def keep_comment(
    text: Any, begin: int, end: int, state: Any, comment_ends: Any, comments: Any
) -> None:
    """Keep the comment `text[begin:end]` of this line."""
    used = state[COMMENT_BYTES]
    for offset in range(end - begin):
        comments[used + offset] = text[begin + offset]
    used += end - begin
    state[COMMENT_BYTES] = used
    comment_ends[state[ROW]] = state[TOTAL_COMMENT_BYTES] + used


@compiled
def keep_id(text: Any, begin: int, end: int, state: Any, id_ends: Any, ids: Any) -> None:
    """Keep the id of `docid = X …` or `X …`; the row number in the query where there is none."""
    used = state[ID_BYTES]
    at, stop = find_id(text, begin, end)
    if at < stop:
        while at < stop:
            ids[used] = text[at]
            used += 1
            at += 1
    else:
        number = state[ROW_OF_QUERY]
        power = 1
        while power * 10 <= number:
            power *= 10
        while power > 0:
            ids[used] = 48 + number // power % 10
            used += 1
            power //= 10
    state[ID_BYTES] = used
    id_ends[state[ROW]] = state[TOTAL_ID_BYTES] + used


@compiled
def find_id(text: Any, begin: int, end: int) -> Any:
    """Where the document id lies in the comment `text[begin:end]`; empty where there is none."""
    begin, stop = _word(text, begin, end)
    if stop - begin >= 5 and (
        text[begin] == 100
        and text[begin + 1] == 111
        and text[begin + 2] == 99
        and text[begin + 3] == 105
        and text[begin + 4] == 100
    ):
        after, _ = _word(text, begin + 5, end)
        if after < end and text[after] == _EQUALS:
            return _word(text, after + 1, end)
    return begin, stop


@compiled
def _word(text: Any, at: int, end: int) -> tuple[int, int]:
    while at < end and (text[at] == _BLANK or text[at] == _TAB):
        at += 1
    begin = at
    while at < end and text[at] != _BLANK and text[at] != _TAB:
        at += 1
    return begin, at
