"""Which column of a log says what: `query=q,document=sku,position=rank`, or known names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.text import shown

KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query": ("query", "user_query", "keywords", "query_text"),
        "document": (
            *("document", "doc_id", "document_id", "docid", "object_id"),
            "event_attributes.object.object_id",
        ),
        "field": ("object_id_field", "event_attributes.object.object_id_field"),
        "position": (
            *("position", "rank", "ordinal", "event_attributes.position.ordinal"),
            "position.ordinal",
        ),
        "action": ("action", "action_name", "event_name", "event"),
        "session": ("session", "session_id"),
        "client": ("client", "client_id", "user_id"),
        "search": ("search", "search_id", "query_id"),
        "shown": ("shown", "query_response_hit_ids"),
        "time": ("time", "timestamp"),
    }
)
"""What a column can say, and the names by which it is known: a dot leads into an object."""


def parse_columns(text: str) -> dict[str, str]:
    """Roles and the columns that have them, as `query=q,document=sku`. Raises UsageError.

    >>> parse_columns("query=q, document=sku")
    {'query': 'q', 'document': 'sku'}
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not (equals and column) or role not in KNOWN:
            raise UsageError(
                f"cannot read the column '{part.strip()}': write ROLE=COLUMN, where the role is "
                f"{', '.join(KNOWN)}"
            )
        if role in found:
            raise UsageError(f"two columns are named for the {role}: name one")
        found[role] = column
    return found


def find_columns(names: Sequence[str], given: Mapping[str, str], place: str) -> dict[str, str]:
    """The column of each role: as given, else the first known name that is there.

    Raises BadInput where one that was given, or that is needed, is not there.
    """
    have = set(names)
    found: dict[str, str] = {}
    for role, known in KNOWN.items():
        wanted = [given[role]] if role in given else known
        column = next((name for name in wanted if name in have), None)
        if column is not None:
            if names.count(column) > 1:
                raise BadInput(
                    f"cannot read {place}: it has two columns {shown(column)}: rename one"
                )
            found[role] = column
        elif role in given:
            raise BadInput(
                f"cannot read {place}: it has no column {shown(given[role])}: {_of(names)}"
            )
    listed = "shown" in found
    for role in ("query", *(() if listed else ("document", "position", "action"))):
        if role not in found:
            raise BadInput(
                f"cannot read {place}: no column says the {role}: name it as "
                f"--columns {role}=COLUMN; {_of(names)}"
            )
    if not {"session", "client", "search"} & set(found):
        raise BadInput(
            f"cannot read {place}: no column says whose events these are: name it as "
            f"--columns session=COLUMN (or client, or search); {_of(names)}"
        )
    return found


def _of(names: Sequence[str]) -> str:
    some = ", ".join(shown(name) for name in names[:20])
    return f"it has {some}{' …' if len(names) > 20 else ''}"
