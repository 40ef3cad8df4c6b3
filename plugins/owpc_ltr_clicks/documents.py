"""Documents by number, whatever field they are named by; and which of them the index has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.files.text import shown
from owpc_ltr_clicks.texts import NO_TEXT, Texts

ID = "_id"
"""What a document is named by where nothing else is said."""
Lookup = Callable[[str, Sequence[str]], Mapping[str, Sequence[str]]]
"""A field and values → of each value that is there, the `_id`s of the documents that have it."""
_REASONS = (
    "a document that the index does not have",
    "a document that several of the index may be",
)


@dataclass(frozen=True, eq=False)
class Settled:
    """Documents by their final numbers: `places` of the numbers before, the first `texts`.

    A number behind the last text is a reason why there is none.
    """

    texts: pa.Array
    places: NDArray[np.int32]
    reasons: tuple[str, ...]

    @property
    def are_as_before(self) -> bool:
        """Whether every document keeps its number."""
        return bool(np.array_equal(self.places, np.arange(len(self.places))))


class Documents:
    """Ids of documents. The same text is another document where it is of another field."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._texts: dict[str | None, Texts] = {None: Texts(words=self._words)}
        self._named: Counter[str] = Counter()

    def codes(self, ids: pa.Array, fields: pa.Array | None = None) -> NDArray[np.int32]:
        """The number of each id; NO_TEXT where there is none, UNFIT for what no list can hold."""
        if fields is None or fields.null_count == len(fields):
            return self._texts[None].codes(ids)
        codes = np.full(len(ids), NO_TEXT, np.int32)
        for name in fields.unique().to_pylist():
            here = pc.is_null(fields) if name is None else pc.equal(fields, name).fill_null(False)
            texts = self._texts.setdefault(name or None, Texts(words=self._words))
            codes[here.to_numpy(zero_copy_only=False)] = texts.codes(ids.filter(here))
            if name:
                self._named[name] += here.true_count
        return codes

    def field(self, asked: str | None) -> str | None:
        """What documents are named by: as asked, else as most events say; None if none does."""
        if asked is not None or not self._named:
            return asked
        return min(self._named, key=lambda name: (-self._named[name], name))

    def settled(self, field: str | None, lookup: Lookup | None = None) -> Settled:
        """The documents of a field; what is of no field that is said is taken to be of it too.

        With a `lookup`, by their `_id`s. What is of another field, and what the index has not or
        has several times, is left out for that reason.
        """
        kinds = [self._texts[name] for name in {None: 0, field: 1} if name in self._texts]
        words = list(dict.fromkeys(word for texts in kinds for word in texts.numbers))
        found: Mapping[str, Sequence[str]] = {word: (word,) for word in words}
        if lookup is not None and field not in {None, ID}:
            found = lookup(str(field), words)
        told = [found.get(word, ()) for word in words]
        ids = {its[0]: None for its in told if len(its) == 1}
        places = {text: place for place, text in enumerate([*ids, *_REASONS])}
        of_word = {
            word: places[its[0] if len(its) == 1 else _REASONS[bool(its)]]
            for word, its in zip(words, told, strict=True)
        }
        return self._placed(field, pa.array(list(ids), pa.string()), of_word)

    def _placed(self, field: str | None, ids: pa.Array, of_word: Mapping[str, int]) -> Settled:
        """Where every number before is now."""
        places = np.zeros(len(self._words), np.int32)
        reasons = list(_REASONS)
        for name, texts in self._texts.items():
            numbers = list(texts.numbers.values())
            if name in {None, field}:
                places[numbers] = [of_word[word] for word in texts.numbers]
            elif numbers:
                places[numbers] = len(ids) + len(reasons)
                reasons.append(
                    f"a document named by {shown(name or ID)}, not by {shown(field or ID)}"
                )
        return Settled(ids, places, tuple(reasons))
