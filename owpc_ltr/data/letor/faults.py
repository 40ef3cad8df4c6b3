"""What is wrong with LETOR text that the compiled reader has refused, in words."""

from __future__ import annotations

import re

import numpy as np

from owpc_ltr.data.letor import kernel
from owpc_ltr.data.options import ROLES, judgment_list
from owpc_ltr.files.input import shown

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


def fault_of(line: bytes) -> str:  # noqa: PLR0911 - one for each fault
    """What is wrong with a line that compiled code has refused, in words."""
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
    if np.isinf(kernel.nearest_float32(label.group().decode())):
        return f"the label {token} is beyond float32"
    if line[at : at + 1] == b"-" and re.search(rb"[1-9]", label.group(1)):
        return (
            f"the label {token} is negative: 0 is irrelevant; leave unjudged documents out, or "
            "shift all labels"
        )
    name = _after_blanks(line, label.end()) + 4
    token = _token(line, name - 4)
    if line[name - 4 : name] != b"qid:":
        return f"{token} stands where qid:ID must: give each line its query, right after the label"
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
    if at - name > kernel.LONGEST_QUERY:
        return f"a query id is longer than {kernel.LONGEST_QUERY} bytes"
    last = 0
    while line[at := _after_blanks(line, at)] not in b"\n#\r":
        token, feature = _token(line, at), _FEATURE.match(line, at)
        if feature is None:
            return f"{token} is not a feature: write index:value"
        index = int(feature.group(1)[-20:])
        if index == 0:
            return f"the feature {token} has index 0: indices begin at 1"
        if index == last:
            return f"the feature {token} repeats the index before it"
        if index < last:
            return f"the feature {token} has a smaller index than the one before it: sort them"
        if index > kernel.LARGEST_INDEX:
            return (
                f"the feature {token} is beyond index {kernel.LARGEST_INDEX:,}: number the "
                "features from 1 on"
            )
        last, value = index, _NUMBER.match(line, feature.end())
        if value is None and feature.group(2) is None:
            return f"the feature {token} has no decimal number for a value; a missing value is NULL"
        if value and np.isinf(kernel.nearest_float32(value.group().decode())):
            return f"the feature {token} has a value beyond float32"
        at = value.end() if value else feature.end()
    comment = _COMMENT.match(line, at)
    end = comment.end() if comment else at
    if line[end] != ord("\n"):
        return _control(line, comment.end(1) if comment else at)
    bad = name if line[name] & 0xC0 == 0x80 else comment.start(1) if comment else at
    return f"{_token(line, bad)} is not UTF-8: save the file as UTF-8"


def feature_beyond(line: bytes, n_features: int) -> str:
    """The complaint about the first feature of a line that is beyond those asked for."""
    found = re.finditer(rb"[ \t](\d+):", line)
    beyond = next(one.start(1) for one in found if int(one.group(1)) > n_features)
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
    """What stands at `at` up to a blank, as an error shows it."""
    found = _TOKEN.match(line, at)
    return shown(found.group()) if found and found.group() else "the end of the line"


def _after_blanks(line: bytes, at: int) -> int:
    while line[at] in b" \t":
        at += 1
    return at
