"""What is wrong with a LETOR line, in words."""

from __future__ import annotations

import re

from owpc_ltr.data.letor.codes import (
    BAD_FEATURE,
    BAD_LABEL,
    BAD_VALUE,
    CONTROL,
    EMPTY_QUERY,
    HASH_IN_QUERY,
    INDEX_FALLS,
    INDEX_TWICE,
    INDEX_ZERO,
    LARGE_INDEX,
    LARGE_LABEL,
    LARGE_VALUE,
    LARGEST_INDEX,
    LONG_QUERY,
    LONGEST_QUERY,
    NEGATIVE_LABEL,
    NO_QUERY,
    NOT_UTF8,
    WIDER,
)
from owpc_ltr.files.text import shown

_WORDS = {
    BAD_LABEL: "the label {} is not a number: a line is 'label qid:ID 1:value …  # comment'",
    NEGATIVE_LABEL: "the label {} is negative: 0 is irrelevant; leave unjudged documents out, or "
    "shift all labels",
    LARGE_LABEL: "the label {} is beyond float32",
    NO_QUERY: "{} stands where qid:ID must: give each line its query, right after the label",
    EMPTY_QUERY: "the query id after 'qid:' is empty",
    HASH_IN_QUERY: "the query id {} has a '#', which begins a comment: put a blank before it, or "
    "rename the query",
    LONG_QUERY: f"a query id is longer than {LONGEST_QUERY} bytes",
    BAD_FEATURE: "{} is not a feature: write index:value",
    INDEX_ZERO: "the feature {} has index 0: indices begin at 1",
    INDEX_TWICE: "the feature {} repeats the index before it",
    INDEX_FALLS: "the feature {} has a smaller index than the one before it: sort them",
    LARGE_INDEX: f"the feature {{}} is beyond index {LARGEST_INDEX:,}: number the features from 1 "
    "on",
    BAD_VALUE: "the feature {} has no decimal number for a value; a missing value is NULL",
    LARGE_VALUE: "the feature {} has a value beyond float32",
    CONTROL: "a control character, byte {}: is it a text file with lines that end in LF or CRLF?",
    NOT_UTF8: "{} is not UTF-8: save the file as UTF-8",
    WIDER: "the feature {} is beyond the {} features that were asked for",
}

_TOKEN = re.compile(rb"[^ \t\r\n]*")


def complaint(error: int, text: bytes, at: int, n_features: int) -> str:
    """What the reader found at `text[at]`; for WIDER, at the beginning of the line."""
    if error == WIDER:
        at = _first_beyond(text, at, n_features)
    if error == CONTROL:
        value = f"0x{text[at]:02x}"
    else:
        match = _TOKEN.match(text, at)
        token = match.group() if match else b""
        value = shown(token) if token else "the end of the line"
    return _WORDS[error].format(value, n_features)


def too_wide(needed: int, most: int) -> str:
    """A line has more features than are read unless more are asked for."""
    return (
        f"feature {needed:,} is beyond {most:,}, the most that are read: is it an id? number the "
        f"features from 1 on, or give --max-features {needed} (max_features=…)"
    )


def _first_beyond(text: bytes, at: int, n_features: int) -> int:
    for match in re.finditer(rb"[ \t](\d+):", text[at : text.index(b"\n", at)]):
        if int(match.group(1)) > n_features:
            return at + match.start(1)
    return at
