"""The demo's docstrings cut in three: signature lines, the summary, and the rest."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

LONGEST_SUMMARY = 40
"""Words; a longer first paragraph without a full stop is no sentence."""

_SENTENCE = re.compile(
    r"(?s:.+?)(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?](?=\s+[A-Z0-9`'\"(*:]|\s*$)"
)
_BLANK_LINE = re.compile(r"\n\s*\n")
_RESULT = re.compile(r"\)\s*(?:->|--?|=>)\s*")


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring; each may be empty."""

    signature: str
    summary: str
    rest: str


def split_docstring(name: str, text: str) -> Docstring:
    """The parts of the docstring of the object called `name`.

    Compiled objects often begin with `name(…) -> result`. Where that is all they say, the result
    is the summary.

    >>> split_docstring("f", "Add one.  Never two.")
    Docstring(signature='', summary='Add one.', rest='Never two.')
    >>> split_docstring("keys", "D.keys() -> a view on the keys of D")
    Docstring(signature='D.keys()', summary='a view on the keys of D', rest='')
    """
    signature, body = _cut_signature(name, inspect.cleandoc(text).strip())
    paragraph = _BLANK_LINE.split(body, maxsplit=1)[0]
    sentence = _SENTENCE.match(paragraph)
    summary = sentence[0] if sentence else paragraph
    if len(summary.split()) > LONGEST_SUMMARY:
        summary = body.partition("\n")[0]
    return Docstring(signature, " ".join(summary.split()), body[len(summary) :].strip())


def _cut_signature(name: str, text: str) -> tuple[str, str]:
    """The leading `name(…)` lines, and what follows them."""
    call = re.compile(rf"(?:\w+\.)*{re.escape(name)}\(")
    lines = text.split("\n")
    count = next((i for i, line in enumerate(lines) if not call.match(line)), len(lines))
    if count == 0:
        return "", text
    shown = "\n".join(lines[:count])
    body = "\n".join(lines[count:]).strip()
    first, _, result = _cut_result(lines[count - 1])
    if body and lines[count].strip():
        # The description goes on from the line of the signature.
        return first, f"{result}\n{body}".strip()
    return (shown, body) if body else (first, result)


def _cut_result(line: str) -> tuple[str, str, str]:
    found = _RESULT.search(line)
    return (line[: found.start() + 1], found[0], line[found.end() :]) if found else (line, "", "")
