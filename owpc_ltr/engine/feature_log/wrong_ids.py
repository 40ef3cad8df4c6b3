"""What is said where no judged document is in the index: which ids it has, and where theirs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.client.responses import AnswerPart
from owpc_ltr.engine.stores.feature_set_trial import field_types
from owpc_ltr.errors import OwpcLtrError

_WHOLE_NUMBERS = {"integer", "long", "short", "unsigned_long"}
_FIELDS, _IDS = 50, 20
_LONGEST = 40


def id_advice(engine: EngineLike, index: str, judged: Sequence[str]) -> str:
    """An id of both sides, and the field of the index that holds judged ids, or a question."""
    question = "is it the right index and id field?"
    said = f"judged '{_shortened(judged[0])}'"
    try:
        there = _search(engine, index, {"match_all": {}})
        if there is None:
            return f"{said}, and '{index}' is empty: {question}"
        said += f"; ids in the index look like '{_shortened(there['_id'].text)}'"
        field = _holding(engine, index, list(judged[:_IDS]))
    except OwpcLtrError:  # advice may not hide what it is about
        return f"{said}; {question}"
    if field is None:
        return f"{said}; {question}"
    return f"{said}; the field '{field}' holds the judged ids: index again with --id-field {field}"


def _holding(engine: EngineLike, index: str, judged: list[str]) -> str | None:
    types = field_types(engine, index)
    wanted = {"keyword"} | (_WHOLE_NUMBERS if all(map(str.isdecimal, judged)) else set())
    fields = [name for name, kind in types.items() if kind in wanted][:_FIELDS]
    if not fields:
        return None
    clauses = [{"terms": {field: judged, "_name": field}} for field in fields]
    found = _search(engine, index, {"bool": {"should": clauses, "minimum_should_match": 1}})
    if found is None:
        return None
    field = next(iter(found["matched_queries"])).text
    # The text of a document has no name.keyword, which is name indexed in another way.
    above = field.rpartition(".")[0]
    return above if types.get(above) == "text" else field


def _search(engine: EngineLike, index: str, query: dict[str, Any]) -> AnswerPart | None:
    """The first hit of a query; None where there is none."""
    body = {"query": query, "size": 1, "_source": False}
    answer = engine.request("POST", f"/{index}/_search", body=body)
    return next(iter(AnswerPart(answer, f"a document of '{index}'")["hits"]["hits"]), None)


def _shortened(identifier: str) -> str:
    return identifier if len(identifier) <= _LONGEST else f"{identifier[: _LONGEST - 1]}…"
