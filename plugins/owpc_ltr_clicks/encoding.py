"""Queries and documents encoded as numbers; which documents an index has."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.files.input import shown

ID = "_id"
"""The field that names documents where the log says nothing else."""
Lookup = Callable[[str, Sequence[str]], Mapping[str, Sequence[str]]]
"""A field and values → for each value that exists, the `_id`s of the documents that have it."""
_REASONS = (
    "a document that the index does not have",
    "a document that several of the index may be",
)
NO_TEXT = -1
"""The code of a missing text."""
UNFIT = -2
"""The code of a text that no judgment list can hold."""
_UNFIT = re.compile(
    "^[ \t]|[ \t]$|[\x00-\x08\x0a-\x1f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\ufeff]"
)
_LONGEST = 512


def normalised(query: str) -> str:
    r"""A query in normal form: NFKC, case folded, single blanks.

    >>> normalised("  Red\u00a0  SHOE ")
    'red shoe'
    """
    text = unicodedata.normalize("NFKC", query)
    # Folding can undo what NFKC did.
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())


@dataclass
class TextCodes:
    """Codes of texts, numbered in the order of their first appearance."""

    queries: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """All texts by their codes; several encoders may share one list."""

    def codes(self, column: pa.Array) -> NDArray[np.int32]:
        """The code of each text; NO_TEXT and UNFIT where it has none."""
        encoded = column.dictionary_encode()
        words = [self._number(text) for text in encoded.dictionary.to_pylist()]
        # The index of a null is undefined: use one past the last word.
        indices = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        codes: NDArray[np.int32] = np.array([*words, NO_TEXT], np.int32)[indices]
        return codes

    def _number(self, text: str | None) -> int:
        if text is None:
            return NO_TEXT
        if self.queries:
            text = normalised(text)
        if not text:
            return NO_TEXT
        number = self.numbers.get(text)
        if number is not None:
            return number
        if len(text) > _LONGEST or _UNFIT.search(text):
            return UNFIT
        self.numbers[text] = number = len(self.words)
        self.words.append(text)
        return number


@dataclass(frozen=True, eq=False)
class ResolvedDocuments:
    """The final code of each document: `places[code]`, an index of `texts`.

    A place behind the last text is an index of `reasons`: why the document has no id.
    """

    texts: pa.Array
    places: NDArray[np.int32]
    reasons: tuple[str, ...]


OTHER_FIELD = "a document named by"
"""How the reason begins for which documents of another field are left out."""


class DocumentCodes:
    """Codes of document ids. The same text in another field is another document."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._texts: dict[str | None, TextCodes] = {None: TextCodes(words=self._words)}
        self._named: Counter[str] = Counter()

    def codes(self, ids: pa.Array, fields: pa.Array | None = None) -> NDArray[np.int32]:
        """The code of each id; NO_TEXT and UNFIT where it has none."""
        if fields is None or fields.null_count == len(fields):
            return self._texts[None].codes(ids)
        codes = np.full(len(ids), NO_TEXT, np.int32)
        for name in fields.unique().to_pylist():
            rows = pc.is_null(fields) if name is None else pc.equal(fields, name).fill_null(False)
            texts = self._texts.setdefault(name or None, TextCodes(words=self._words))
            codes[rows.to_numpy(zero_copy_only=False)] = texts.codes(ids.filter(rows))
            if name:
                self._named[name] += rows.true_count
        return codes

    def field(self, requested: str | None) -> str | None:
        """The field that names documents: `asked`, else that of most events; None without any.

        Where a subfield is asked for, as sku.raw, and events name its field, it is that.
        """
        parent = (requested or "").rpartition(".")[0]
        if requested not in self._named and parent in self._named:
            return parent
        if requested is not None or not self._named:
            return requested
        return min(self._named, key=lambda name: (-self._named[name], name))

    def resolved(self, field: str | None, lookup: Lookup | None = None) -> ResolvedDocuments:
        """The documents named by a field; ids without a field are taken to be of it too.

        With a `lookup`, by their `_id`s. Documents of another field, and those that the index lacks
        or has several times, are left out for that reason.
        """
        kinds = [self._texts[name] for name in {None: 0, field: 1} if name in self._texts]
        words = list(dict.fromkeys(word for texts in kinds for word in texts.numbers))
        ids_of: Mapping[str, Sequence[str]] = {word: (word,) for word in words}
        if lookup is not None and field not in {None, ID}:
            ids_of = lookup(str(field), words)
        matches = {word: ids_of.get(word, ()) for word in words}
        ids = list(dict.fromkeys(hits[0] for hits in matches.values() if len(hits) == 1))
        place_of = {text: place for place, text in enumerate([*ids, *_REASONS])}
        places = np.zeros(len(self._words), np.int32)
        reasons = list(_REASONS)
        for name, texts in self._texts.items():
            numbers = list(texts.numbers.values())
            if name in {None, field}:
                named = [matches[word] for word in texts.numbers]
                places[numbers] = [
                    place_of[hits[0] if len(hits) == 1 else _REASONS[bool(hits)]] for hits in named
                ]
            elif numbers:
                places[numbers] = len(ids) + len(reasons)
                reasons.append(f"{OTHER_FIELD} {shown(name or ID)}, not by {shown(field or ID)}")
        return ResolvedDocuments(pa.array(ids, pa.string()), places, tuple(reasons))
