"""The demo's corpus: one document for each documented object of the standard library.

The summary line of each docstring is held back: it is what people will ask for.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from owpc_ltr_demo.compiled import read_compiled
from owpc_ltr_demo.docstrings import Docstring, split_docstring
from owpc_ltr_demo.sources import Described, read_sources

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@dataclass(frozen=True)
class Document:
    """One object; `summary` is not part of what is indexed."""

    id: str
    name: str
    kind: str
    module: str
    signature: str
    doc: str
    name_words: str
    parents: str
    context: str
    parameters: int
    depth: int
    members: int
    doc_words: int
    summary: str

    def source(self) -> dict[str, Any]:
        """What the engine is given."""
        return {
            "id": self.id,
            "name": self.name,
            "qualified_name": self.id,
            "kind": self.kind,
            "module": self.module,
            "signature": self.signature,
            "doc": self.doc,
            "name_words": self.name_words,
            "parents": self.parents,
            "context": self.context,
            "parameters": self.parameters,
            "depth": self.depth,
            "members": self.members,
            "doc_words": self.doc_words,
            "name_length": len(self.name),
        }


def read_corpus() -> tuple[Document, ...]:
    """All documents, sorted by id; of an object defined twice, the first definition.

    The same Python gives the same documents. Takes about two seconds.
    """
    objects: dict[str, Described] = {}
    for source in (read_sources(), read_compiled()):
        for described in source:
            objects.setdefault(described.qualified_name, described)
    members = Counter(_parent(name) for name in objects)
    texts = {
        name: split_docstring(name.rpartition(".")[2], described.docstring)
        for name, described in objects.items()
    }
    nothing = Docstring("", "", "")
    return tuple(
        _document(described, texts[name], texts.get(_parent(name), nothing).rest, members[name])
        for name, described in sorted(objects.items())
    )


def index_body() -> dict[str, Any]:
    """Settings and mapping of the corpus's index."""
    text = resources.files("owpc_ltr_demo").joinpath("index.json").read_text(encoding="utf-8")
    body: dict[str, Any] = json.loads(text)
    return body


def words_of(name: str) -> str:
    """A name split at case, underscores and digits, lower-case.

    >>> words_of("getHTTPResponse_v2")
    'get http response v 2'
    """
    return " ".join(_WORD.findall(name)).lower()


def without_repeats(words: Iterable[str]) -> str:
    """Words in their order, each once.

    >>> without_repeats(["json", "decoder", "json"])
    'json decoder'
    """
    return " ".join(dict.fromkeys(words))


def _document(described: Described, text: Docstring, context: str, members: int) -> Document:
    qualified_name = described.qualified_name
    names = qualified_name.split(".")
    around = [word for name in names[:-1] for word in (name.lower(), *words_of(name).split())]
    return Document(
        id=qualified_name,
        name=names[-1],
        kind=described.kind,
        module=described.module,
        signature=" ".join(described.signature.split()),
        doc=text.rest,
        name_words=words_of(names[-1]),
        parents=without_repeats(around),
        context=context,
        parameters=described.parameters,
        depth=len(names),
        members=members,
        doc_words=len(text.rest.split()),
        summary=text.summary,
    )


def _parent(qualified_name: str) -> str:
    return qualified_name.rpartition(".")[0]
