"""Segments: named parts of the queries, in which a ranker may lose what it gains in others.

By `length` (words of the text), by `frequency` (how much of all the weight the queries have), and
by any parameter of the queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
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
_LENGTHS = {1: "1 word", 2: "2 words", 3: "3-4 words", 5: "5 or more words"}
_FREQUENCIES = {0: "head", 1: "middle", 2: "tail"}
_VALUES = 8
"""Values of a parameter that are segments of their own: those of most queries."""
_LONGEST = 40
_FIXED = [
    f"{kind}: {name}"
    for kind, names in ((LENGTH, _LENGTHS), (FREQUENCY, _FREQUENCIES))
    for name in names.values()
]


def segments_of(
    ids: pa.StringArray,
    params: Sequence[Mapping[str, Any]],
    weights: Vector | None,
    kinds: Sequence[str] | None = None,
    accepted: Sequence[str] = (),
) -> Segments:
    """The segments of these kinds, and those by length and frequency.

    There are none by length without texts, and none by frequency without weights that vary. Raises
    UsageError for a kind that no query has, and for an accepted segment that there is not.
    """
    texts = [query_text(each) for each in params]
    parts: dict[str, list[str]] = {}
    if any(texts) and texts != ids.to_pylist():
        parts[LENGTH] = by_length(texts)
    if weights is not None:
        parts[FREQUENCY] = by_frequency(weights)
    if kinds is not None:
        names = [*parts, *dict.fromkeys(name for each in params for name in each)]
        for kind in kinds:
            if kind not in names:
                why = {FREQUENCY: " with a weight that varies", LENGTH: " with a text"}
                raise UsageError(
                    f"there is no segment by '{kind}', as no query has one{why.get(kind, '')}: "
                    f"there are {', '.join(names) or 'none'}"
                )
        parts = {kind: parts.get(kind) or _by_parameter(params, kind) for kind in kinds} | parts
    # A segment of all queries tells nothing that nobody asked for.
    asked = kinds or ()
    parts = {kind: part for kind, part in parts.items() if kind in asked or len({*part}) > 1}
    segments = {
        f"{kind}: {name}": np.array([label == name for label in labels])
        for kind, labels in parts.items()
        for name in _ordered(labels)
    }
    known = {normalised_text(name): name for name in (*segments, *_FIXED)}
    for name in accepted:
        if normalised_text(name) not in known:
            raise UsageError(
                f"no segment is called '{name}': there are {', '.join(segments) or 'none'}"
            )
    return segments


def is_accepted(name: str, accepted: Sequence[str]) -> bool:
    """Whether a segment is named, in whatever case."""
    return normalised_text(name) in map(normalised_text, accepted)


def by_length(texts: Sequence[str]) -> list[str]:
    """By how many words a query has."""
    steps = np.array(list(_LENGTHS))
    words = np.maximum([len(text.split()) for text in texts], 1)
    return [_LENGTHS[step] for step in steps[np.searchsorted(steps, words, "right") - 1].tolist()]


def by_frequency(weights: Vector) -> list[str]:
    """Whether a query is of those with the largest, or the smallest, third of all the weight.

    Queries of one weight are in one segment: the largest one in the head, the smallest in the tail.
    """
    values, codes = np.unique(-weights, return_inverse=True)
    whole = np.bincount(codes, weights, len(values))
    middle = (np.cumsum(whole) - whole / 2) / whole.sum()
    places = np.minimum(middle * 3, 2).astype(int)
    places[0], places[-1] = 0, 2
    return [_FREQUENCIES[place] for place in places[codes].tolist()]


def _by_parameter(params: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    values = [cut(printable(str(each.get(name, "not given"))), _LONGEST) for each in params]
    most = {value for value, _ in Counter(values).most_common(_VALUES)}
    return [value if value in most else "other" for value in values]


def _ordered(labels: Sequence[str]) -> list[str]:
    """The names of segments: by length and frequency in their order, values by their queries."""
    counts = Counter(labels)
    fixed = [*_LENGTHS.values(), *_FREQUENCIES.values()]
    if counts.keys() <= set(fixed):
        return [name for name in fixed if name in counts]
    return sorted(counts, key=lambda name: (name == "other", -counts[name], name))
