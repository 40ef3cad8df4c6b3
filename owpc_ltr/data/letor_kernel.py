"""The compiled reader of LETOR lines: a block of whole lines → rows; what is wrong with a line.

The block's last byte is a line end, and no scan passes one: every loop over a token stops at a
byte that the token cannot hold, so no loop checks for the end of the block.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import IntVector, Labels, Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.data.options import ROLES, judgment_list
from owpc_ltr.files.input import shown

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
    FIRST_INDEX,  # 1, or 0 where the features of the file are numbered from 0
    STATE_SIZE,
) = range(15)
COUNTERS_OF_BLOCK = POSITION, ID_BYTES, COMMENT_BYTES, QUERY_BYTES, QUERIES, UNSURE_TOKENS

DONE, FULL, WIDER, WRONG = 0, 1, 2, 3
"""Why `read_lines` stopped: end of the block, no row left, no column left, a line is not LETOR."""

READ, BAD, UNSURE = 0, 1, 2
"""Results of reading a number; `UNSURE` leaves the value to `nearest_float32`."""

LARGEST_INDEX = 1_000_000
LARGEST_DOUBLE = 1.797e308
"""From here on a value is the largest that a double holds: it stands for a missing one."""
LONGEST_QUERY = 4096

_Bytes = NDArray[np.uint8]
_UNCERTAINTY = 2.0**-50
LARGEST_POWER = 300
_DIGITS = 19
_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _MINUS, _COLON, _EQUALS = 9, 10, 13, 32, 35, 45, 58, 61
_PLUS, _POINT, _ZERO, _E = 43, 46, 48, 101


@compiled
def read_lines(
    text: _Bytes,
    state: IntVector,
    query: _Bytes,
    rows: tuple[Matrix, Labels, IntVector, IntVector],
    buffers: tuple[_Bytes, _Bytes, _Bytes, NDArray[np.int64], NDArray[np.int64]],
    powers: Vector,
) -> Any:
    """Read lines from `state[POSITION]` on; DONE, FULL, WIDER (both can go on), or WRONG.

    `rows` are features, labels, and the ends of ids and comments. `buffers` are `ids`, `comments`
    and `queries` for the bytes of this block's strings; `begun` with the row, the line and the end
    in `queries` of each query that begins here; `unsure` with row, column (-1: the label), begin
    and end of each such token.
    """
    features, labels, id_ends, comment_ends = rows
    ids, comments, queries, begun, unsure = buffers
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
        at, last, pending = _read_features(
            text, at, row, features, unsure, pending, powers, 1 - state[FIRST_INDEX]
        )
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
def _find_query(text: _Bytes, at: int) -> tuple[int, int]:
    """The start (-1: there is none) and end of the id in the `qid:` token behind `at`."""
    at = _skip_blanks(text, at)
    if not _has_bytes(text, at, 113, 105, 100, _COLON):
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
def _find_comment(text: _Bytes, at: int) -> tuple[int, int, int]:
    """The start and end of the comment at `at`, and the next line (-1: it is no comment)."""
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
    text: Any, at: int, row: int, features: Any, unsure: Any, pending: int, powers: Any, shift: int
) -> tuple[int, int, int]:
    """The end of the features (or -WRONG, -WIDER), the last column, the number of unsure tokens.

    A feature stands in the column of its index, from 1, moved by `shift`.
    """
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
        index += shift
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
            if not (
                _has_bytes(text, begin, 78, 85, 76, 76) and _ends_token(_byte(text, begin + 4))
            ):
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
def read_decimal(text: _Bytes, at: int, powers: Vector) -> tuple[float, int, int]:
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
def _read_digits(text: _Bytes, at: int, number: np.uint64) -> tuple[Any, int]:
    """The number with the digits that follow it, and their end."""
    digit = np.uint8(_byte(text, at) - _ZERO)
    while digit < 10:
        number = number * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.uint8(_byte(text, at) - _ZERO)
    return number, at


@compiled
def _has_bytes(text: _Bytes, at: int, first: int, second: int, third: int, fourth: int) -> Any:
    """Whether four bytes stand at `at`."""
    # `and` stops at the first byte that differs, so before passing a line end.
    return (
        _byte(text, at) == first
        and _byte(text, at + 1) == second
        and _byte(text, at + 2) == third
        and _byte(text, at + 3) == fourth
    )


@compiled
def _keep_id(text: _Bytes, begin: int, end: int, state: IntVector, ids: _Bytes) -> Any:
    """Keep the id of `docid = X …` or `X …`; the row number in the query where there is none.

    Returns how many bytes of `ids` are used then.
    """
    used = state[ID_BYTES]
    begin, stop = _word(text, begin, end)
    docid = _has_bytes(text, begin, 100, 111, 99, 105) and _byte(text, begin + 4) == 100
    if stop - begin >= 5 and docid:
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
def _word(text: _Bytes, at: int, end: int) -> tuple[int, int]:
    while at < end and (_byte(text, at) == _BLANK or _byte(text, at) == _TAB):
        at += 1
    begin = at
    while at < end and _byte(text, at) != _BLANK and _byte(text, at) != _TAB:
        at += 1
    return begin, at


@compiled
def _skip_blanks(text: _Bytes, at: int) -> int:
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
def _copy(text: _Bytes, begin: int, end: int, target: _Bytes, used: int) -> int:
    """Append `text[begin:end]` to what is used of the target; how much is used then."""
    for offset in range(end - begin):
        target[used + offset] = text[begin + offset]
    return used + end - begin


@compiled
def _byte(text: _Bytes, at: int) -> Any:
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


def feature_value(token: str) -> float:
    """The float32 nearest to a token; NaN for the largest number of a double, which means missing.

    >>> feature_value("0.5"), feature_value("1.79769313486231e308"), feature_value("1e39")
    (0.5, nan, inf)
    """
    return np.nan if LARGEST_DOUBLE <= abs(float(token)) < np.inf else nearest_float32(token)


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?=[ \t\r\n#])")
_TOKEN = re.compile(rb"[^ \t\r\n]*")
_ID = re.compile(rb"[^\x00-\x20#]*")
_FEATURE = re.compile(rb"(\d+):(NULL(?=[ \t\r\n#]))?")
_COMMENT = re.compile(rb"#?([^\x00-\x08\x0a-\x1f]*)\r?")


def is_judgment(line: bytes) -> bool:
    """Whether a line is the header of a judgment list, or a judgment of JSON lines or qrels."""
    text = line.decode("utf-8", "replace").strip().lower()
    if text.startswith("{"):
        return any(f'"{name}"' in text for name in ROLES["doc_id"])
    fields = [field.strip(' "') for field in re.split(r"[\t,;]", text)]
    tokens = text.split()
    qrels = len(tokens) == 4 and tokens[1] in {"0", "q0"}
    return qrels or any(field in ROLES["doc_id"] for field in fields)


def numbers_from_0(line: bytes) -> bool:
    """Whether a line that was refused has a feature of index 0, as its first."""
    return re.match(rb"[^#]*?[ \t]qid:[^ \t#]+[ \t]+0+:", line) is not None


def fault_of(line: bytes) -> str:  # noqa: PLR0911 - one for each fault
    """The fault of a line that compiled code has refused, in words."""
    if is_judgment(line):
        return judgment_list()
    at = _after_blanks(line, 0)
    label, token = _NUMBER.match(line, at), _token(line, at)
    if label is None and b"qid:" not in line and re.search(rb"[,;\t]|^[{[]", line):
        return judgment_list(
            "this is neither Parquet nor LETOR text ('label qid:ID 1:value …'); if it is a "
            "judgment list,"
        )
    if label is None:
        return f"the label {token} is not a number: a line is 'label qid:ID 1:value …  # comment'"
    if np.isinf(nearest_float32(label.group().decode())):
        return f"the label {token} is beyond float32"
    if line[at : at + 1] == b"-" and re.search(rb"[1-9]", label.group(1)):
        return (
            f"the label {token} is negative: 0 is irrelevant; leave unjudged documents out, or "
            "shift all labels"
        )
    name = _after_blanks(line, label.end()) + 4
    token = _token(line, name - 4)
    if line[name - 4 : name] != b"qid:":
        return f"{token} is in the place of qid:ID: give each line its query, right after the label"
    at = name + len(_ID.findall(line, name)[0])
    if line[at] == ord("#"):
        return (
            f"the query id {token} has a '#', which begins a comment: put a blank before it, or "
            "rename the query"
        )
    if line[at] not in b" \t\r\n":
        return _control(line, at)
    if at == name:
        return "the query id after 'qid:' is empty"
    if at - name > LONGEST_QUERY:
        return f"a query id is longer than {LONGEST_QUERY} bytes"
    last = -1
    while line[at := _after_blanks(line, at)] not in b"\n#\r":
        token, feature = _token(line, at), _FEATURE.match(line, at)
        if feature is None:
            return f"{token} is not a feature: write index:value"
        index = int(feature.group(1)[-20:])
        if index == last:
            return f"the feature {token} repeats the index before it"
        if index < last:
            return f"the feature {token} has a smaller index than the one before it: sort them"
        if index > LARGEST_INDEX:
            return (
                f"the feature {token} is beyond index {LARGEST_INDEX:,}: number the "
                "features from 1 on"
            )
        last, value = index, _NUMBER.match(line, feature.end())
        if value is None and feature.group(2) is None:
            return f"the feature {token} has no decimal number for a value; a missing value is NULL"
        if value and np.isinf(feature_value(value.group().decode())):
            return f"the feature {token} has a value beyond float32"
        at = value.end() if value else feature.end()
    comment = _COMMENT.match(line, at)
    end = comment.end() if comment else at
    if line[end] != ord("\n"):
        return _control(line, comment.end(1) if comment else at)
    bad = name if line[name] & 0xC0 == 0x80 else comment.start(1) if comment else at
    return f"{_token(line, bad)} is not UTF-8: save the file as UTF-8"


def feature_beyond(line: bytes, largest: int, n_features: int) -> str:
    """The complaint about the first feature of a line that is beyond those asked for."""
    features = re.finditer(rb"[ \t](\d+):", line)
    beyond = next(feature.start(1) for feature in features if int(feature.group(1)) > largest)
    return (
        f"the feature {_token(line, beyond)} is beyond the {n_features} features that were asked "
        "for"
    )


def _control(line: bytes, at: int) -> str:
    return (
        f"a control character, byte 0x{line[at]:02x}: is it a text file with lines that end in LF "
        "or CRLF?"
    )


def _token(line: bytes, at: int) -> str:
    """The token at `at`, as an error shows it."""
    match = _TOKEN.match(line, at)
    return shown(match.group()) if match and match.group() else "the end of the line"


def _after_blanks(line: bytes, at: int) -> int:
    while line[at] in b" \t":
        at += 1
    return at
