"""Queries and documents as numbers: each text once, queries as one writes them for all."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NO_TEXT = -1
UNFIT = -2
_UNFIT = re.compile(
    "^[ \t]|[ \t]$|[\x00-\x08\x0a-\x1f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff]"
)
_LONGEST = 512


def normalised(query: str, keep_case: bool = False) -> str:
    r"""A query as all who mean it would have written it: NFKC, case folded, single blanks.

    >>> normalised("  Red\u00a0  SHOE ")
    'red shoe'
    """
    text = unicodedata.normalize("NFKC", query)
    if not keep_case:
        # Folding can undo what NFKC did.
        text = unicodedata.normalize("NFKC", text.casefold())
    return " ".join(text.split())


@dataclass
class Texts:
    """Texts by number, in the order of their first appearance."""

    queries: bool = False
    keep_case: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """Texts by number; those of others too, who count on where these end."""

    def codes(self, column: pa.Array) -> NDArray[np.int32]:
        """The number of each text; NO_TEXT where there is none, UNFIT for what no list can hold."""
        encoded = column.dictionary_encode()
        words = [self._number(text) for text in encoded.dictionary.to_pylist()]
        # A null's index is anything: it leads behind the words.
        indices = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        codes: NDArray[np.int32] = np.array([*words, NO_TEXT], np.int32)[indices]
        return codes

    def ordered(self) -> pa.Array:
        """All texts, by their numbers."""
        return pa.array(self.words, pa.string())

    def _number(self, text: str | None) -> int:
        if text is None:
            return NO_TEXT
        if self.queries:
            text = normalised(text, self.keep_case)
        if not text:
            return NO_TEXT
        known = self.numbers.get(text)
        if known is not None:
            return known
        if len(text) > _LONGEST or _UNFIT.search(text):
            return UNFIT
        self.numbers[text] = number = len(self.words)
        self.words.append(text)
        return number
