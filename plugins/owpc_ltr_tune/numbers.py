"""The numbers of a query template that can be tuned: those that it is made of, or marked ones.

    {"multi_match": {"query": "{{keywords}}", "fields": ["title^{{tune 2 of 0, 1, 2, 4}}", "text"],
                     "tie_breaker": "{{tune 0.3 of 0..1 step 0.1}}"}}

A mark has the number as it is now, and the values to try. In a template without a mark, boosts of
fields and scoring clauses, tie breakers, weights of functions, slop and minimum_should_match are
found, and tried at multiples of what they are, or at usual values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.mustache import strings

Value = int | float | str
Setting = tuple[Value, ...]
"""A value for each number."""
MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Of a boost or weight, as it is now."""
TIE_BREAKERS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_SLOPS = (0, 1, 2, 4, 8)
_SHOULD_MATCH = (1, 2, 3, "50%", "75%", "100%")
_OF_FIELDS = ("multi_match", "combined_fields", "query_string", "simple_query_string")
_WORDS_AT = {
    **dict.fromkeys(("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix"), "query"),
    **dict.fromkeys(("term", "prefix", "wildcard", "regexp", "fuzzy"), "value"),
}
"""Queries of one field, and where the words stand in the long form."""
_WITH_BOOST = (*_OF_FIELDS, "constant_score", "match_all", "exists", "terms", "rank_feature")
_MARK = re.compile(r"\{\{\s*tune\s+([^{}]+?)\s*\}\}")
_RANGE = re.compile(r"(\S+)\s*\.\.\s*(\S+)\s+step\s+(\S+)")
_MOST_VALUES = 100


@dataclass(frozen=True)
class Slot:
    """The place of a number in a template, between texts.

    Where it `drops` and is 0, the entry of the list that it stands in is left out.
    """

    number: int
    before: str = ""
    after: str = ""
    drops: bool = False


@dataclass(frozen=True)
class TunedNumber:
    """A number of a template by its name, as it is `now`, and the values to try."""

    name: str
    now: Value
    values: tuple[Value, ...]


@dataclass(frozen=True)
class TunableQuery:
    """A query template with slots in the places of its numbers."""

    tree: Mapping[str, Any]
    numbers: tuple[TunedNumber, ...]

    @property
    def now(self) -> Setting:
        """The setting of the original."""
        return tuple(number.now for number in self.numbers)

    def query(self, setting: Setting) -> dict[str, Any]:
        """The template with these values."""
        filled: dict[str, Any] = _filled(self.tree, setting)
        return filled

    def is_complete(self, setting: Setting) -> bool:
        """Whether every list of fields has one left: for none, engines search all fields."""
        return not _lacks_fields(self.query(setting))


def tunable(query: Mapping[str, Any], place: str) -> TunableQuery:
    """The query with its numbers. Raises BadInput where there is none, or a mark is malformed."""
    numbers = _Numbers()
    marked = any(_MARK.search(text) for text in strings(query))
    tree = _marked(query, numbers, place) if marked else _scored(query, numbers, alone=True)
    if not numbers.found:
        raise BadInput(
            f"{place} has no number to tune: name several fields or scoring clauses, or mark one, "
            'as "boost": "{{tune 1 of 0.5, 1, 2}}"'
        )
    return TunableQuery(tree, tuple(numbers.found))


class _Numbers:
    """The numbers so far; each has a name of its own."""

    def __init__(self) -> None:
        self.found: list[TunedNumber] = []

    def slot(
        self, name: str, now: Value, values: Sequence[Value], before: str = "", **how: Any
    ) -> Slot:
        """The slot of one more number."""
        taken = sum(
            number.name == name or number.name.startswith(f"{name} (") for number in self.found
        )
        name = f"{name} ({taken + 1})" if taken else name
        tried = tuple(values) if now in values else (now, *values)
        self.found.append(TunedNumber(name, now, tried))
        return Slot(len(self.found) - 1, before, **how)

    def boost(self, name: str, now: Any, before: str = "", **how: Any) -> Slot:
        """The slot of a boost or weight."""
        value = float(now)
        values = [value * multiple for multiple in MULTIPLES] if value else MULTIPLES
        return self.slot(name, value, values, before, **how)


def _filled(tree: Any, setting: Setting) -> Any:
    if isinstance(tree, Slot):
        value = setting[tree.number]
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return f"{tree.before}{text}{tree.after}" if tree.before or tree.after else value
    if isinstance(tree, Mapping):
        return {key: _filled(part, setting) for key, part in tree.items()}
    if isinstance(tree, list):
        kept = (
            part
            for part in tree
            if not (isinstance(part, Slot) and part.drops and setting[part.number] == 0)
        )
        return [_filled(part, setting) for part in kept]
    return tree


def _lacks_fields(tree: Any) -> bool:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return (isinstance(tree, dict) and tree.get("fields") == []) or any(map(_lacks_fields, parts))


def _marked(tree: Any, numbers: _Numbers, place: str, name: str = "") -> Any:
    """The tree with slots in the places of its marks."""
    if isinstance(tree, Mapping):
        return {key: _marked(part, numbers, place, str(key)) for key, part in tree.items()}
    if isinstance(tree, list):
        return [_marked(part, numbers, place, name) for part in tree]
    match = _MARK.search(tree) if isinstance(tree, str) else None
    if match is None:
        return tree
    before, after = tree[: match.start()], tree[match.end() :]
    if _MARK.search(after):
        raise BadInput(f"{place}: '{tree}' has two marks: put each into a text of its own")
    now, of, listed = match[1].partition(" of ")
    try:
        values = [*_values(listed)]
        value = _value(now)
    except ValueError as error:
        values, of = [], str(error)
    if not of or len(values) < 2:
        raise BadInput(
            f"{place}: '{match[0]}' is no mark: write what is there now and the values to try, as "
            "{{tune 2 of 0, 1, 2, 4}} or {{tune 0.3 of 0..1 step 0.1}}"
        )
    field = before.rstrip("^")
    called = f"{field} boost" if before.endswith("^") else name
    drops = before.endswith("^") and name == "fields" and not after
    return numbers.slot(called, value, values, before, after=after, drops=drops)


def _values(text: str) -> Iterator[Value]:
    """The values of a list, or of a range. Raises ValueError for a range without numbers."""
    span = _RANGE.fullmatch(text.strip())
    if span is None:
        yield from (_value(part) for part in text.split(",") if part.strip())
        return
    low, high, step = map(float, span.groups())
    if step <= 0 or low > high or (high - low) / step > _MOST_VALUES:
        raise ValueError(text)
    for number in range(round((high - low) / step + 1e-9) + 1):
        yield float(f"{low + number * step:.10g}")


def _value(text: str) -> Value:
    text = text.strip()
    try:
        return int(text)
    except ValueError:
        return float(text) if re.fullmatch(r"[-+.\de]+", text) else text


def _scored(query: Any, numbers: _Numbers, *, alone: bool) -> Any:
    """A scoring clause with slots for its numbers. The boost of one that stands `alone` is none."""
    if not isinstance(query, Mapping) or len(query) != 1:
        return query
    ((kind, body),) = query.items()
    if isinstance(body, Mapping):
        if kind in _WORDS_AT and len(body) == 1:
            ((field, words),) = body.items()
            words = dict(words) if isinstance(words, Mapping) else {_WORDS_AT[kind]: words}
            body = {field: _text_numbers(f"{kind} {field}", words, numbers, alone=alone)}
        elif kind in _OF_CLAUSES:
            body = _OF_CLAUSES[kind](body, numbers, alone=alone)
        elif kind in _OF_FIELDS and isinstance(body.get("fields"), list):
            body = _fields(kind, body, numbers, alone=alone)
        elif kind in _WITH_BOOST or "boost" in body:
            body = _text_numbers(kind, dict(body), numbers, alone=alone)
    return {kind: body}


def _bool(body: Mapping[str, Any], numbers: _Numbers, *, alone: bool) -> dict[str, Any]:
    clauses = {
        key: body[key] if isinstance(body[key], list) else [body[key]]
        for key in ("must", "should")
        if key in body
    }
    alone = alone and sum(map(len, clauses.values())) == 1
    found = {
        key: [_scored(part, numbers, alone=alone) for part in parts]
        for key, parts in clauses.items()
    }
    filled = {**body, **found}
    if "minimum_should_match" in body:
        now = body["minimum_should_match"]
        filled["minimum_should_match"] = numbers.slot(
            "bool minimum_should_match", now, _SHOULD_MATCH
        )
    return filled


def _dis_max(body: Mapping[str, Any], numbers: _Numbers, *, alone: bool) -> dict[str, Any]:
    queries = body.get("queries", [])
    alone = alone and len(queries) == 1
    found: dict[str, Any] = {"queries": [_scored(part, numbers, alone=alone) for part in queries]}
    if not alone:
        now = body.get("tie_breaker", 0.0)
        found["tie_breaker"] = numbers.slot("dis_max tie_breaker", now, TIE_BREAKERS)
    return {**body, **found}


def _boosting(body: Mapping[str, Any], numbers: _Numbers, *, alone: bool) -> dict[str, Any]:
    return {**body, "positive": _scored(body.get("positive"), numbers, alone=alone)}


def _function_score(body: Mapping[str, Any], numbers: _Numbers, *, alone: bool) -> dict[str, Any]:
    """The numbers of the query, and the weights of the functions."""
    found = dict(body)
    if "query" in body:
        found["query"] = _scored(body["query"], numbers, alone=alone)
    if isinstance(body.get("functions"), list):
        found["functions"] = [
            {**part, "weight": numbers.boost(f"weight of function {place}", part["weight"])}
            if isinstance(part, Mapping) and "weight" in part
            else part
            for place, part in enumerate(body["functions"], 1)
        ]
    elif "weight" in body:
        found["weight"] = numbers.boost("weight", body["weight"])
    return found


_OF_CLAUSES = {
    "bool": _bool,
    "dis_max": _dis_max,
    "boosting": _boosting,
    "function_score": _function_score,
}


def _fields(
    kind: str, body: Mapping[str, Any], numbers: _Numbers, *, alone: bool
) -> dict[str, Any]:
    """The boosts of several fields, of which one more for all moves nothing; the tie breaker."""
    fields = body["fields"]
    found = dict(body)
    if len(fields) > 1 or not alone:
        found["fields"] = [
            numbers.boost(f"{field} boost", boost or 1.0, f"{field}^", drops=len(fields) > 1)
            for field, _, boost in (str(text).partition("^") for text in fields)
        ]
    best = kind == "multi_match" and body.get("type", "best_fields") == "best_fields"
    if best and len(fields) > 1:
        now = body.get("tie_breaker", 0.0)
        found["tie_breaker"] = numbers.slot("tie_breaker", now, TIE_BREAKERS)
    return _text_numbers(kind, found, numbers, alone=True)


def _text_numbers(
    name: str, words: dict[str, Any], numbers: _Numbers, *, alone: bool
) -> dict[str, Any]:
    """The boost, unless the clause is `alone`; slop and minimum_should_match that it has."""
    if not alone:
        words["boost"] = numbers.boost(f"{name} boost", words.get("boost", 1.0))
    for key, values in (("slop", _SLOPS), ("minimum_should_match", _SHOULD_MATCH)):
        if key in words and not isinstance(words[key], Slot):
            words[key] = numbers.slot(f"{name} {key}", words[key], values)
    return words
