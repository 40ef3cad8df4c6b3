"""The fields that scripts, and texts in Lucene's query language, name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_QUOTED = r"""(?:'([^'\\]*)'|"([^"\\]*)")"""
_OF_DOC = re.compile(rf"\bdoc\s*(?:\[\s*|\.(?:containsKey|get)\s*\(\s*){_QUOTED}\s*[\])]")
_OF_FIELD = re.compile(rf"(?<![\w.])(?:field|\$)\s*\(\s*{_QUOTED}\s*[,)]")
_OF_PARAMETER = re.compile(rf"\bdoc\s*\[\s*params\s*(?:\.\s*(\w+)|\[\s*{_QUOTED}\s*\])\s*\]")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|\[[^\]]*\]|(?<!\{)\{(?!\{)[^{}]*\}')
_BEFORE_COLON = re.compile(r"(?:^|(?<=[\s(+!-]))((?!-)(?:[\w@.{}\0]|-(?=\w)|\\\*|\*)+):(?!\s*$)")
_ASKED_FOR = re.compile(r"_exists_:\s*([\w.@{}\0]+)")


def fields_of_script(source: str, params: Mapping[str, Any]) -> Iterator[str]:
    """The fields that a painless script or an expression reads, where they are written out.

    >>> list(fields_of_script("doc['votes'].value + doc[params.by].value", {"by": "year"}))
    ['votes', 'year']
    """
    # A comment can hold what once was read; in a text "//" is rare, and then too little is found.
    text = _COMMENT.sub(" ", source)
    for pattern in (_OF_DOC, _OF_FIELD):
        for match in pattern.finditer(text):
            yield match[1] or match[2] or ""
    for match in _OF_PARAMETER.finditer(text):
        name = params.get(match[1] or match[2] or match[3])
        if isinstance(name, str):
            yield name


def fields_of_query_text(text: str) -> Iterator[str]:
    r"""The fields that the text of a query_string names, `title:alien`, outside of quotes.

    >>> list(fields_of_query_text('title:alien AND (_exists_:year OR tags.\\*:"x: y")'))
    ['title', 'tags.*', 'year']
    """
    text = _LITERAL.sub('""', text)
    for match in _BEFORE_COLON.finditer(text):
        if match[1] != "_exists_":
            yield match[1].replace("\\", "")
    for match in _ASKED_FOR.finditer(text):
        yield match[1]
