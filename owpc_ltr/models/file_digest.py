"""The digest in a model file: whether its content is still what was written.

It is of the file without the line that it stands on, so a file can be laid out anew; without the
line nothing is checked, so whoever edits a model by hand takes the line out.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput

_LINE = re.compile(rb'^ "digest": "sha256:[0-9a-f]{64}",\n', re.MULTILINE)
_HEAD = 400
"""Bytes among which the line stands where we wrote it."""


def signed(content: dict[str, Any], after: str) -> bytes:
    """The JSON of a model file, with its digest on the line after that of the key `after`."""
    text = _text(content)
    begin = text.index(f'\n "{after}": '.encode()) + 1
    end = text.index(b"\n", begin) + 1
    return text[:end] + f' "digest": "{_digest(text)}",\n'.encode() + text[end:]


def without_digest(content: dict[str, Any], raw: bytes, path: Path) -> dict[str, Any]:
    """The content of a file without its digest, which fits. Raises BadInput where it does not."""
    if "digest" not in content:
        return content
    rest = {key: value for key, value in content.items() if key != "digest"}
    line = _LINE.search(raw, 0, _HEAD)
    as_written = "" if line is None else _digest(raw[: line.start()] + raw[line.end() :])
    if content["digest"] != as_written and content["digest"] != _laid_out_anew(rest):
        raise BadInput(
            f"{path} is not as it was written (its digest is another): fetch or write it again; "
            'if it was changed on purpose, take its line "digest" out'
        )
    return rest


def _laid_out_anew(content: dict[str, Any]) -> str:
    try:
        return _digest(_text(content))
    except ValueError:  # we write no NaN
        return ""


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def _digest(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"
