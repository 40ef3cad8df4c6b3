"""Which columns of a joined table are its keys, and which become features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from owpc_ltr.data.joined_tables.asked import DOCUMENT_ID, QUERY, QUERY_ID
from owpc_ltr.data.judgments.roles import ROLES
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import RESERVED_NAMES
from owpc_ltr.files.text import shown

_KEYS = {QUERY_ID: ROLES["query_id"], QUERY: ROLES["query"], DOCUMENT_ID: ROLES["doc_id"]}


@dataclass(frozen=True)
class Columns:
    """The columns of a table: those of its `keys`, by the key's name, and those of numbers."""

    keys: dict[str, str]
    features: tuple[str, ...]


def columns_of(names: Sequence[str], file: str) -> Columns:
    """The roles of a table's columns, names of keys in any case of letters.

    Raises BadInput, naming the file, for a table without a key or without anything else, for two
    columns of one role, and for a name that no feature can have.
    """
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise _bad(file, f"it has two columns {shown(twice)}: rename one")
    keys: dict[str, str] = {}
    for role, known in _KEYS.items():
        present = [name for name in names if name.lower() in known]
        if len(present) > 1:
            both = " and ".join(map(shown, present[:2]))
            raise _bad(file, f"the columns {both} both name the {role}: take one out")
        if present:
            keys[role] = present[0]
    if QUERY_ID in keys and QUERY in keys:
        raise _bad(
            file,
            f"it has a '{keys[QUERY_ID]}' and a '{keys[QUERY]}', and is joined by one: take one "
            "out; by the text of the query, searches find their rows too",
        )
    features = tuple(name for name in names if name not in keys.values())
    if not keys:
        found = ", ".join(map(shown, names[:8])) or "none"
        raise _bad(
            file,
            f"none of its columns says what a row is of: it needs {QUERY_ID} or {QUERY}, or "
            f"{DOCUMENT_ID}, or both; found {found}",
        )
    if not features:
        raise _bad(file, "it has keys and no column of numbers: add what is to be a feature")
    for name in features:
        _check_name(name, file)
    return Columns(keys, features)


def refuse_taken(features: Sequence[str], file: str, taken: Sequence[str], whose: str) -> None:
    """Refuse a column whose name another feature has."""
    both = next((name for name in features if name in set(taken)), None)
    if both is not None:
        raise _bad(file, f"{whose} has a feature {shown(both)} too: rename the column")


def _check_name(name: str, file: str) -> None:
    if name.lower() in RESERVED_NAMES:
        why = "a dataset has a column of that name itself"
    elif not name or "," in name:
        why = "an empty name, or one with a comma, cannot name a feature"
    else:
        return
    raise _bad(file, f"the column {shown(name)}: {why}; rename it, or leave it out")


def _bad(file: str, what: str) -> BadInput:
    return BadInput(f"cannot join {file}: {what}")
