"""What OpenSearch's Java makes of an answer, as its sources say."""

from __future__ import annotations

import re

JAVA_DOUBLE = re.compile(r"-?[0-9]+(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
"""What JSON parsers of the JVM make a Double of; a number without any of this is an Integer."""
LONGEST = 18
"""Above so many characters json-smart, which JsonPath reads with, may make a BigDecimal."""


def java_casts(text: str, documents: int) -> list[float]:
    """What OpenSearch's post-processing makes of an answer: (Integer) index, (Double) score.

    Raises ClassCastException in its words, and for a list with a gap.
    """
    scores: list[float | None] = [None] * documents
    results = re.findall(r'"index":([^,}]+),"relevance_score":([^,}]+)', text)
    for index, score in results:
        if not re.fullmatch(r"[0-9]{1,9}", index):
            raise TypeError(f"{index} cannot be cast to class java.lang.Integer")
        if not JAVA_DOUBLE.fullmatch(score):
            raise TypeError(f"{score} cannot be cast to class java.lang.Double")
        if len(score) > LONGEST:
            raise TypeError(f"BigDecimal {score} cannot be cast to class java.lang.Double")
        scores[int(index)] = float(score)
    if None in scores:
        raise TypeError("a hit has no score")
    return [score for score in scores if score is not None]
