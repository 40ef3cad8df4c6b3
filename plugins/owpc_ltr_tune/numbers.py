"""The numbers of a query template that can be tuned: those that it is made of, or marked ones.

    {"multi_match": {"query": "{{keywords}}", "fields": ["title^{{tune 2 of 0, 1, 2, 4}}", "text"],
                     "tie_breaker": "{{tune 0.3 of 0..1 step 0.1}}"}}

A mark has the number as it is now, and the values to try. In a template without a mark, boosts of
fields and scoring clauses, tie breakers, weights of functions, slop and minimum_should_match are
found, and tried at multiples of what they are, or at usual values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.features.mustache import strings

Value = int | float | str
Setting = tuple[Value, ...]
"""A value for each number."""
MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Of a boost or weight, as it is now."""
VALUES: Mapping[str, tuple[Value, ...]] = {
    "boost": MULTIPLES,
    "weight": MULTIPLES,
    "tie_breaker": (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0),
    "slop": (0, 1, 2, 4, 8),
    "minimum_should_match": (1, 2, 3, "50%", "75%", "100%"),
}
"""The numbers that are found, by their keys."""
_OPTIONAL = (0, 1, 2, 3)
"""How many optional clauses of a bool must match."""
_CLAUSES = {
    "bool": ("must", "should"),
    "dis_max": ("queries",),
    "function_score": ("query",),
    "boosting": ("positive",),
}
"""Where the scoring clauses of a query stand."""
_WORDS_AT = {
    **dict.fromkeys(("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix"), "query"),
    **dict.fromkeys(("term", "prefix", "wildcard", "regexp", "fuzzy"), "value"),
}
"""Queries of one field, and where the words stand in the long form."""
_WITH_BOOST = ("constant_score", "match_all", "exists", "terms", "rank_feature", "query_string")
_MARK = re.compile(r"\{\{\s*tune\s+([^{}]+?)\s*\}\}")
NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)")
_RANGE = re.compile(rf"({NUMBER.pattern})\s*\.\.\s*({NUMBER.pattern})\s+step\s+({NUMBER.pattern})")
_MOST_VALUES = 100


@dataclass(frozen=True)
class NumberSlot:
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
    numbers = list[TunedNumber]()
    marked = any(_MARK.search(text) for text in strings(query))
    tree = _marked(query, numbers, place) if marked else _found(query, numbers, alone=True)
    if not numbers:
        raise BadInput(
            f"{place} has no number to tune: name several fields or scoring clauses, or mark one, "
            'as "boost": "{{tune 1 of 0.5, 1, 2}}"'
        )
    return TunableQuery(tree, tuple(numbers))


def text_of(value: Value) -> str:
    """A value as it stands in a text."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _filled(tree: Any, setting: Setting) -> Any:
    if isinstance(tree, NumberSlot):
        value = setting[tree.number]
        between = bool(tree.before or tree.after)
        return f"{tree.before}{text_of(value)}{tree.after}" if between else value
    if isinstance(tree, Mapping):
        return {key: _filled(part, setting) for key, part in tree.items()}
    if isinstance(tree, list):
        dropped = [isinstance(p, NumberSlot) and p.drops and setting[p.number] == 0 for p in tree]
        return [_filled(p, setting) for p, drops in zip(tree, dropped, strict=True) if not drops]
    return tree


def _lacks_fields(tree: Any) -> bool:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return (isinstance(tree, dict) and tree.get("fields") == []) or any(map(_lacks_fields, parts))


def _slot(
    numbers: list[TunedNumber], name: str, now: Value, values: tuple[Value, ...], **how: Any
) -> NumberSlot:
    """The slot of one more number, whose name is its own."""
    taken = sum(re.sub(r" \(\d+\)$", "", number.name) == name for number in numbers)
    name = f"{name} ({taken + 1})" if taken else name
    numbers.append(TunedNumber(name, now, values if now in values else (now, *values)))
    return NumberSlot(len(numbers) - 1, **how)


def _found(query: Any, numbers: list[TunedNumber], *, alone: bool) -> Any:
    """A scoring clause with slots for its numbers; a boost of one that stands `alone` is none."""
    if not (isinstance(query, Mapping) and len(query) == 1):
        return query
    ((kind, body),) = query.items()
    if not isinstance(body, Mapping):
        return query
    if kind in _WORDS_AT and len(body) == 1:
        ((field, words),) = body.items()
        words = words if isinstance(words, Mapping) else {_WORDS_AT[kind]: words}
        return {kind: {field: _own(f"{kind} {field}", words, numbers, boosted=not alone)}}
    clauses = {key: body[key] for key in _CLAUSES.get(kind, ()) if key in body}
    count = sum(len(part) if isinstance(part, list) else 1 for part in clauses.values())
    alone = alone and count <= 1
    inner = {
        key: [_found(each, numbers, alone=alone) for each in part]
        if isinstance(part, list)
        else _found(part, numbers, alone=alone)
        for key, part in clauses.items()
    }
    fields = len(body["fields"]) if isinstance(body.get("fields"), list) else 0
    best = kind == "multi_match" and body.get("type", "best_fields") == "best_fields"
    if (best and fields > 1) or (kind == "dis_max" and count > 1):
        inner["tie_breaker"] = body.get("tie_breaker", 0.0)
    boosted = not alone and not fields and kind in _WITH_BOOST
    return {kind: _own(kind, {**body, **inner}, numbers, boosted=boosted)}


def _own(
    name: str, body: Mapping[str, Any], numbers: list[TunedNumber], *, boosted: bool
) -> dict[str, Any]:
    """The body with slots for its own numbers; a boost is one although it is not written."""
    found = {**body, "boost": body.get("boost", 1.0)} if boosted else dict(body)
    if isinstance(body.get("fields"), list):
        several = len(body["fields"]) > 1
        found["fields"] = [
            _boost(numbers, f"{field} boost", boost or 1.0, before=f"{field}^", drops=several)
            if not boost or NUMBER.fullmatch(boost)
            else f"{field}^{boost}"
            for field, _, boost in (str(text).partition("^") for text in body["fields"])
        ]
    if isinstance(body.get("functions"), list):
        found["functions"] = [
            _own(f"function {place}", part, numbers, boosted=False)
            if isinstance(part, Mapping)
            else part
            for place, part in enumerate(body["functions"], 1)
        ]
    for key, values in VALUES.items():
        now = found.get(key)
        if values is MULTIPLES and isinstance(now, int | float):
            found[key] = _boost(numbers, f"{name} {key}", now)
        elif values is not MULTIPLES and isinstance(now, int | float | str):
            optional = (name, key) == ("bool", "minimum_should_match") and isinstance(now, int)
            tried = _OPTIONAL if optional else values
            found[key] = _slot(numbers, f"{name} {key}", now, tried)
    return found


def _boost(numbers: list[TunedNumber], name: str, now: Any, **how: Any) -> NumberSlot:
    value = float(now)
    values = tuple(value * multiple for multiple in MULTIPLES) if value else MULTIPLES
    return _slot(numbers, name, value, values, **how)


def _marked(tree: Any, numbers: list[TunedNumber], place: str, name: str = "") -> Any:
    """The tree with slots in the places of its marks."""
    if isinstance(tree, Mapping):
        return {key: _marked(part, numbers, place, str(key)) for key, part in tree.items()}
    if isinstance(tree, list):
        return [_marked(part, numbers, place, name) for part in tree]
    match = _MARK.search(tree) if isinstance(tree, str) else None
    if match is None:
        return tree
    before, after = tree[: match.start()], tree[match.end() :]
    now, _, listed = match[1].partition(" of ")
    values = tuple(_values(listed))
    if len(values) < 2 or _MARK.search(after):
        raise BadInput(
            f"{place}: '{tree}' is no mark: write what is there now and the values to try, as "
            "{{tune 2 of 0, 1, 2, 4}} or {{tune 0.3 of 0..1 step 0.1}}, one in a text"
        )
    of_field = name == "fields" and before.endswith("^") and not after
    called = f"{before[:-1]} boost" if of_field else name
    return _slot(numbers, called, _value(now), values, before=before, after=after, drops=of_field)


def _values(text: str) -> Iterator[Value]:
    """The values of a list, or of a range; none where it is neither."""
    span = _RANGE.fullmatch(text.strip())
    if span is None:
        yield from (_value(part) for part in text.split(",") if part.strip() and ".." not in part)
        return
    low, high, step = map(float, span.groups())
    count = int((high - low) / step + 1e-9) if step > 0 and low <= high else -1
    if count <= _MOST_VALUES:
        yield from (float(f"{low + number * step:.10g}") for number in range(count + 1))


def _value(text: str) -> Value:
    text = text.strip()
    if NUMBER.fullmatch(text) is None:
        return text
    return float(text) if "." in text else int(text)
