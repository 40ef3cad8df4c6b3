"""What documents of User Behavior Insights say, as columns of text.

The specification (1.3.0) and the OpenSearch plugin differ in their mappings, not in what is read
here: values may stand in objects, or under names with dots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

EVENT_FIELDS = {
    "search": "query_id",
    "session": "session_id",
    "client": "client_id",
    "user": "user_id",
    "query": "user_query",
    "action": "action_name",
    "time": "timestamp",
    "document": "event_attributes.object.object_id",
    "field": "event_attributes.object.object_id_field",
    "position": "event_attributes.position.ordinal",
}
QUERY_FIELDS = {
    "search": "query_id",
    "client": "client_id",
    "query": "user_query",
    "time": "timestamp",
    "shown": "query_response_hit_ids",
    "field": "object_id_field",
}


def table_of(documents: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> pa.Table:
    """The fields of some documents: texts, and lists of texts where results are listed."""
    columns = {}
    for role, path in fields.items():
        values = [_value(document, path) for document in documents]
        if role == "shown":
            columns[role] = pa.array([_texts(value) for value in values], pa.list_(pa.string()))
        else:
            columns[role] = pa.array([text_of(value) for value in values], pa.string())
    return pa.table(columns)


def text_of(value: Any) -> str | None:
    """A value as text: a whole number without a point, what is no text as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def _value(document: Mapping[str, Any], path: str) -> Any:
    """What stands at a path, through objects or names with dots."""
    if path in document:
        return document[path]
    for end in range(len(path)):
        if path[end] == "." and isinstance(document.get(path[:end]), Mapping):
            return _value(document[path[:end]], path[end + 1 :])
    return None


def _texts(value: Any) -> list[str | None] | None:
    if value is None:
        return None
    return [text_of(one) for one in (value if isinstance(value, list) else [value])]
