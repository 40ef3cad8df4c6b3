"""The record of a model file, looked at before anything reads it: it may be anybody's."""

from __future__ import annotations

from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import a_json

_PARTS = {
    "imported": dict,
    "source": dict,
    "certificate": dict,
    "probes": list,
    "featureset_hash": str,
    "fingerprint": str,
    "joined_tables": list,
}
"""What is read of a record, and what it must be where it is there."""


def checked_record(content: dict[str, Any]) -> dict[str, Any]:
    """The record in a model file's content. Raises BadInput where a part is something else."""
    record = content.get("record", {})
    if not isinstance(record, dict):
        raise BadInput(f"its record is {a_json(record)}, not an object")
    for name, wanted in _PARTS.items():
        part = record.get(name)
        if part is not None and not isinstance(part, wanted):
            raise BadInput(f"'{name}' of its record is {a_json(part)}, not a {_WORDS[wanted]}")
    split = (record.get("source") or {}).get("split")
    if split is not None and not isinstance(split, dict):
        raise BadInput(f"'split' of its source is {a_json(split)}, not an object")
    return dict(record)


_WORDS = {dict: "JSON object", list: "list", str: "text"}
