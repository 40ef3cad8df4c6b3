"""Mustache templates: rendering, their variables, and the query that a template is.

A template that is nested too deep, or is more than one query, is refused.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

Text = Callable[[Mapping[str, Any]], str]
"""A compiled template: its text for given params."""

_REFUSED = {
    "{": "{{{…}}} inserts text without JSON escapes",
    "&": "{{&…}} inserts text without JSON escapes",
    ">": "{{>…}} could read the server's files before 3.8.0, and is not resolved since",
    "=": "{{=…}} changes the delimiters, and hides what follows from every check",
}
_TAG = re.compile(r"\{\{\s*([#^/!]?)\s*([^{}]*?)\s*\}\}")
_NAME = re.compile(r"\.|[A-Za-z0-9_-]+(\.(?!size\b)[A-Za-z_][A-Za-z0-9_-]*)*")
TO_JSON = re.compile(r"\{\{\s*#\s*toJson\s*\}\}\s*([A-Za-z0-9_-]+)\s*\{\{\s*/\s*toJson\s*\}\}")
_PLAIN = re.compile(r"\{\{\s*([A-Za-z0-9_-]+)\s*\}\}")
_LIST_OR_TAG = re.compile(f"{TO_JSON.pattern}|{_TAG.pattern}")
_LISTED = "\0toJson "
"""Prefix of the inner name under which a parameter's JSON is found; no tag can spell it."""


def is_structure(value: Json) -> bool:
    """Whether it is a list or an object, which no text can stand for."""
    return isinstance(value, list | tuple | dict)


def variables(template: str) -> set[str]:
    """The parameters that a template names. Raises BadInput, in words, for what is refused.

    >>> sorted(variables("{{keywords}} {{#tags}}{{.}}{{/tags}} {{place.lat}}"))
    ['keywords', 'place', 'tags']
    """
    _refuse(template)
    names = {match[1] for match in TO_JSON.finditer(template)}
    for sigil, name in _tags(TO_JSON.sub("", template)):
        if sigil != "!" and name != ".":
            names.add(name.partition(".")[0])
    return names


def json_variables(template: str) -> set[str]:
    """The parameters that a template inserts as JSON: only lists and objects are safe there."""
    return {match[1] for match in TO_JSON.finditer(template)}


def text_variables(template: str) -> set[str]:
    """The parameters that a template inserts as text, where a list would read `{0=a, 1=b}`.

    >>> sorted(text_variables("{{q}} {{#tags}}{{.}}{{/tags}} {{#toJson}}v{{/toJson}} {{at.lat}}"))
    ['q']
    """
    return set(_PLAIN.findall(TO_JSON.sub("", template)))


def place_of(text: str) -> str | None:
    """The parameter in whose place a text stands, if it is nothing but its tag.

    >>> [place_of(text) for text in ("{{size}}", "{{#toJson}}size{{/toJson}}", "5}", "{{a}}{{b}}")]
    ['size', 'size', None, None]
    """
    match = TO_JSON.fullmatch(text) or _PLAIN.fullmatch(text)
    return match and match[1]


def compiled(template: str, escape: Callable[[str], str]) -> Text:
    """A function that renders the template, `escape` applied to each value's text.

    Raises BadInput for what is refused or unbalanced.

    >>> compiled("{{query}} {{year}}", str)({"query": "alien", "year": 1979})
    'alien 1979'
    """
    variables(template)
    lists = json_variables(template)
    tags = list(_tags(TO_JSON.sub("", template)))
    if all(not sigil and "." not in name for sigil, name in tags):
        pieces = _pieces(template)

        def fill(params: Mapping[str, Any]) -> str:
            return "".join(
                text
                if name is None
                else _as_json(name, params.get(name))
                if listed
                else escape(java_text(params.get(name)))
                for text, name, listed in pieces
            )

        return fill
    # Few templates have sections, and feature sets are read where none is filled.
    import pystache

    parsed = pystache.parse(TO_JSON.sub(lambda m: "{{{" + _LISTED + m[1] + "}}}", template))
    renderer = pystache.Renderer(escape=escape, missing_tags="ignore")
    renderer.str_coerce = java_text

    def render(params: Mapping[str, Any]) -> str:
        listed = {_LISTED + name: _as_json(name, params.get(name)) for name in lists}
        return str(renderer.render(parsed, {**_wrapped(params), **listed}))

    return render


def json_escape(text: str) -> str:
    r"""Text as it stands between the quotes of a JSON string.

    >>> json_escape('a "b"')
    'a \\"b\\"'
    """
    return json.dumps(text, ensure_ascii=False)[1:-1]


def java_text(value: object) -> str:
    """A parameter as Java writes it into a template, the engine being a Java program.

    >>> [java_text(value) for value in (True, None, 3, 0.5, 1e7, 1e-05, ["a", "b"])]
    ['true', '', '3', '0.5', '1.0E7', '1.0E-5', '{0=a, 1=b}']
    """
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, list | tuple):
        return "{" + ", ".join(f"{i}={java_text(part)}" for i, part in enumerate(value)) + "}"
    if isinstance(value, Mapping):
        raise BadInput("an object cannot be inserted as text: name its parts, as {{place.lat}}")
    return str(value)


def _refuse(template: str) -> None:
    for match in re.finditer(r"\{\{", template):
        rest = template[match.end() :].lstrip()
        if rest[:1] in _REFUSED:
            raise BadInput(f"{_REFUSED[rest[:1]]}: it is refused; write {{{{name}}}}")
        if not _TAG.match(template, match.start()):
            raise BadInput(
                f"'{template[match.start() :][:40]}' is not a closed tag: write {{{{name}}}}"
            )


def _tags(template: str) -> Iterator[tuple[str, str]]:
    """Sigil and name of each tag. Raises BadInput for what is not supported or not balanced."""
    open_sections: list[str] = []
    for match in _TAG.finditer(template):
        sigil, name = match[1], match[2]
        if sigil and sigil in "#^":
            open_sections.append(name)
        elif sigil == "/" and (not open_sections or open_sections.pop() != name):
            raise BadInput(
                f"the section end '{match[0]}' has no begin: write {{{{#{name}}}}} first"
            )
        if sigil != "!" and not _NAME.fullmatch(name):
            raise BadInput(f"'{match[0]}' is not supported: write a parameter's name in the tag")
        if sigil == "#" and name in {"toJson", "join", "url"}:
            raise BadInput(
                f"'{match[0]}' is refused: only {{{{#toJson}}}}name{{{{/toJson}}}} of a list or "
                "object is safe"
            )
        yield sigil, name
    if open_sections:
        raise BadInput(f"the section '{open_sections[-1]}' is not closed: write its end too")


def _pieces(template: str) -> list[tuple[str, str | None, bool]]:
    """Literal text and names of variables, in order, and which of these are inserted as JSON."""
    pieces: list[tuple[str, str | None, bool]] = []
    end = 0
    for match in _LIST_OR_TAG.finditer(template):
        pieces.append((template[end : match.start()], None, False))
        pieces.append(("", match[1] or match[3], bool(match[1])))
        end = match.end()
    return [*pieces, (template[end:], None, False)]


def _wrapped(value: object) -> Any:
    """Numbers as their text: in a section Java takes every number for true, also 0."""
    if isinstance(value, Mapping):
        return {key: _wrapped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_wrapped(part) for part in value]
    return value if isinstance(value, str | bool) or value is None else java_text(value)


def _as_json(name: str, value: Json) -> str:
    if value is not None and not isinstance(value, list | tuple | Mapping):
        raise BadInput(
            f"the parameter '{name}' is inserted as JSON, so that it must be a list or an object, "
            f"not {value!r}"
        )
    return "" if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _java_double(value: float) -> str:
    """Double.toString: plain from 1e-3 to 1e7, else a mantissa, E and an exponent."""
    from decimal import Decimal

    digits = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return digits
    if not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(digits, "NaN")
    mantissa, exponent = f"{Decimal(digits).normalize():E}".split("E")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent)}"


_SECTION = re.compile(r"\{\{\s*[#^/]")
_STRING_OR_TAG = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{.*?\}\}', re.DOTALL)


def strings(tree: object) -> Iterator[str]:
    """Every string of a query, keys included: wherever a tag can stand."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from strings(value)
    elif isinstance(tree, list):
        for part in tree:
            yield from strings(part)


def query_of(template: Json) -> Any:
    """The query of a template, with a text in the place of each parameter that is inserted bare.

    None for text that is no JSON before its parameters are known, as with sections.

    >>> query_of('{"knn": {"v": {"vector": {{#toJson}}vector{{/toJson}}, "k": {{k}} }}}')
    {'knn': {'v': {'vector': '{{vector}}', 'k': '{{k}}'}}}
    """
    if not isinstance(template, str):
        return template
    text = TO_JSON.sub(lambda match: f"{{{{{match[1]}}}}}", template)
    if _SECTION.search(text):
        return None
    try:
        return json.loads(_STRING_OR_TAG.sub(_quoted, text))
    except (ValueError, RecursionError):
        return None


def _quoted(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else json.dumps(match[0])


def scoring(query: dict[str, Any]) -> dict[str, Any]:
    """The same query, where need be in the form that matches whatever the search counts.

    A bare `range` whose search may stop counting hits misses matches in 3.8.0; around it,
    `constant_score` gives the same score and does not.
    """
    if query.keys() != {"range"}:
        return query
    boosts = [float(part.get("boost", 1.0)) for part in query["range"].values()]
    return {"constant_score": {"filter": query, "boost": boosts[0]}}


DEEPEST = 100
"""Levels of objects and lists in a template; engines take 20 to 30 queries within each other."""


def check_depth(template: Json, where: str) -> None:
    """Raise BadInput for a template that is nested deeper than any query is, text or object."""
    if isinstance(template, str):
        steps = ((char in "{[") - (char in "}]") for char in template)
        deepest = max(itertools.accumulate(steps, initial=0))
    else:
        deepest, level = 0, [template]
        while level and deepest <= DEEPEST:
            deepest += 1
            level = [part for tree in level for part in _parts(tree)]
    if deepest > DEEPEST:
        raise BadInput(f"{where} is nested deeper than {DEEPEST} levels: simplify its query")


def _parts(tree: Json) -> list[Any]:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return [part for part in parts if isinstance(part, dict | list)]


def refuse_search_parts(query: Json, where: str) -> None:
    """Raise BadInput for a template that is a search or holds what stands at its top only."""
    if not isinstance(query, dict):
        return
    if _has_hybrid(query):
        raise BadInput(
            f"{where}: a hybrid query is allowed at the top of a search only, not in a feature: "
            "make each of its queries a feature of its own"
        )
    for name in ("retriever", "query"):
        if name in query:
            raise BadInput(
                f"{where}: it is a search with a '{name}', and a feature is one query: make each "
                "query in it a feature of its own"
            )
    if "knn" in query and (len(query) > 1 or not isinstance(query["knn"], dict)):
        raise BadInput(
            f"{where}: it has a knn section, which ranks beside a search's query, and a feature is "
            'one query: make each a feature of its own, as {"knn": {…}}'
        )


def _has_hybrid(tree: Json) -> bool:
    """Whether there is a hybrid query: an object so called with queries in it."""
    if isinstance(tree, list):
        return any(map(_has_hybrid, tree))
    if not isinstance(tree, dict):
        return False
    hybrid = tree.get("hybrid")
    return (isinstance(hybrid, dict) and "queries" in hybrid) or any(
        map(_has_hybrid, tree.values())
    )


def scripted(query: dict[str, Any], source: str, **params: Json) -> dict[str, Any]:
    """What a script makes of a query's scores, for the documents that match it."""
    return {"script_score": {"query": query, "script": {"source": source, "params": params}}}


def summed(queries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sum of the scores of queries, 0 where none matches: every document does."""
    return {"bool": {"filter": [{"match_all": {}}], "should": list(queries)}}


def lowest(score: float) -> dict[str, Any]:
    """The same score for every document."""
    return {"constant_score": {"filter": {"match_all": {}}, "boost": score}}
