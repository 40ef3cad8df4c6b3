"""Segments: named parts of the queries, in which a ranker may lose what it gains in others.

By `length` (words of the text), by `frequency` (how much of all the weight the queries have), and
by any parameter of the queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import query_text
from owpc_ltr.errors import UsageError
from owpc_ltr.text import cut, normalised_text, printable

Segments = Mapping[str, NDArray[np.bool_]]
"""Which queries are in a segment, by its name."""
FEWEST = 20
"""Independent queries of a segment that is tested: of fewer, an interval is wider than most
differences."""
LENGTH, FREQUENCY = "length", "frequency"
_VALUES = 8
"""Values of a parameter that are segments of their own: those of most queries."""
_LONGEST = 40


def segments_of(
    params: Sequence[Mapping[str, Any]],
    weights: Vector | None,
    kinds: Sequence[str] = (),
    accepted: Sequence[str] = (),
) -> Segments:
    """The segments by length, by frequency (where weights vary), and of these kinds.

    One of all queries is left out, unless its kind was asked for. Raises UsageError for a kind that
    no query has, and for an accepted segment that there is not.
    """
    texts = [query_text(each) for each in params]
    parts = {
        LENGTH: by_length(texts if any(texts) else []),
        FREQUENCY: by_frequency(np.zeros(0) if weights is None else weights),
    }
    there = [kind for kind, part in parts.items() if any(map(np.any, part.values()))]
    names = [*there, *dict.fromkeys(name for each in params for name in each)]
    for kind in kinds:
        if kind not in names:
            raise UsageError(
                f"there is no segment by '{kind}': there are {', '.join(names) or 'none'} (by "
                "frequency where query weights vary)"
            )
        if kind not in there:
            parts[kind] = _by_parameter(params, kind)
    segments = {
        f"{kind}: {name}": inside for kind, part in parts.items() for name, inside in part.items()
    }
    for name in accepted:
        if not any(is_accepted(each, [name]) for each in segments):
            raise UsageError(f"no segment is called '{name}': there are {', '.join(segments)}")
    asked = tuple(f"{kind}: " for kind in kinds)
    return {
        name: inside
        for name, inside in segments.items()
        if inside.any() and (name.startswith(asked) or not inside.all())
    }


def is_accepted(name: str, accepted: Sequence[str]) -> bool:
    """Whether a segment is named, in whatever case."""
    return normalised_text(name) in map(normalised_text, accepted)


def by_length(texts: Sequence[str]) -> Segments:
    """By how many words a query has."""
    words = np.array([len(text.split()) for text in texts])
    return {
        "1 word": words <= 1,
        "2 words": words == 2,
        "3-4 words": (words == 3) | (words == 4),
        "5 or more words": words >= 5,
    }


def by_frequency(weights: Vector) -> Segments:
    """Whether a query is of those with the largest, or the smallest, third of all the weight.

    Queries of one weight are in one segment: the largest one in the head, the smallest in the tail.
    """
    values, codes = np.unique(-weights, return_inverse=True)
    whole = np.bincount(codes, weights, len(values))
    places = np.minimum((np.cumsum(whole) - whole / 2) / whole.sum() * 3, 2).astype(int)
    places[:1], places[-1:] = 0, 2
    return {name: places[codes] == of for of, name in enumerate(("head", "middle", "tail"))}


def _by_parameter(params: Sequence[Mapping[str, Any]], name: str) -> Segments:
    values = [cut(printable(str(each.get(name, "not given"))), _LONGEST) for each in params]
    most = [value for value, _ in Counter(values).most_common(_VALUES) if value != "other"]
    column = np.array(values)
    return {value: column == value for value in most} | {"other": ~np.isin(column, most)}
