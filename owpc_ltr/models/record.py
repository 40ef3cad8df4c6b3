"""The record of a model file, looked at before anything reads it: it may be anybody's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import a_json
from owpc_ltr.protocols import Ranker

AnyRanker = TypeVar("AnyRanker", bound=Ranker)

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


def warnings_of(record: Mapping[str, Any]) -> list[str]:
    """What training warned of."""
    told = record.get("warnings")
    return [str(one) for one in told] if isinstance(told, list) else []


def with_warnings(model: AnyRanker, found: Iterable[str]) -> AnyRanker:
    """The same ranker, whose record has these warnings before its own, each once."""
    told = list(dict.fromkeys([*found, *warnings_of(model.record)]))
    changed: AnyRanker = replace(model, record={**model.record, "warnings": told})  # type: ignore[type-var]
    return changed


_WORDS = {dict: "JSON object", list: "list", str: "text"}
