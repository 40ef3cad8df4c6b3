"""The corpus: the documented objects of Python's standard library.

Modules with source are parsed, not imported: importing some opens a browser or starts tests. The
summary line of each docstring is held back, since it is the query.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import re
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.options import IN_FLIGHT
from owpc_ltr.errors import Refused

LONGEST_SUMMARY = 40
"""Words; a longer first paragraph without a full stop is no sentence."""

_SENTENCE = re.compile(
    r"(?s:.+?)(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?](?=\s+[A-Z0-9`'\"(*:]|\s*$)"
)
_BLANK_LINE = re.compile(r"\n\s*\n")
_RESULT = re.compile(r"\)\s*(?:->|--?|=>)\s*")


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring; each may be empty."""

    signature: str
    summary: str
    rest: str


def split_docstring(name: str, text: str) -> Docstring:
    """The parts of the docstring of the object called `name`.

    Compiled objects often begin with `name(…) -> result`. Where that is all they say, the result
    is the summary.

    >>> split_docstring("f", "Add one.  Never two.")
    Docstring(signature='', summary='Add one.', rest='Never two.')
    >>> split_docstring("keys", "D.keys() -> a view on the keys of D")
    Docstring(signature='D.keys()', summary='a view on the keys of D', rest='')
    """
    signature, body = _cut_signature(name, inspect.cleandoc(text).strip())
    paragraph = _BLANK_LINE.split(body, maxsplit=1)[0]
    sentence = _SENTENCE.match(paragraph)
    summary = sentence[0] if sentence else paragraph
    if len(summary.split()) > LONGEST_SUMMARY:
        summary = body.partition("\n")[0]
    return Docstring(signature, " ".join(summary.split()), body[len(summary) :].strip())


def _cut_signature(name: str, text: str) -> tuple[str, str]:
    """The leading `name(…)` lines, and what follows them."""
    call = re.compile(rf"(?:\w+\.)*{re.escape(name)}\(")
    lines = text.split("\n")
    count = next((i for i, line in enumerate(lines) if not call.match(line)), len(lines))
    if count == 0:
        return "", text
    signature = "\n".join(lines[:count])
    body = "\n".join(lines[count:]).strip()
    first, _, result = _cut_result(lines[count - 1])
    if body and lines[count].strip():
        # The description goes on from the line of the signature.
        return first, f"{result}\n{body}".strip()
    return (signature, body) if body else (first, result)


def _cut_result(line: str) -> tuple[str, str, str]:
    match = _RESULT.search(line)
    return (line[: match.start() + 1], match[0], line[match.end() :]) if match else (line, "", "")


LEFT_OUT = frozenset(
    {
        *("antigravity", "this"),
        *("idlelib", "turtledemo", "ensurepip", "distutils", "lib2to3"),
        *("encodings", "pydoc_data"),
        "test",
    }
)
"""Jokes, applications, tables and tests: no documentation that anybody looks for."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class DocumentedObject:
    """An object as its author describes it; `path` holds the names of the classes around it."""

    module: str
    path: tuple[str, ...]
    kind: str
    signature: str
    parameters: int
    docstring: str

    @property
    def qualified_name(self) -> str:
        """What to type to get at it."""
        return ".".join((self.module, *self.path))


def read_sources() -> Iterator[DocumentedObject]:
    """Every documented public object that has Python source, module by module.

    Raises Refused where this Python comes without the source of its library.
    """
    root = Path(sysconfig.get_path("stdlib"))
    if not (root / "json" / "decoder.py").is_file():
        raise Refused(
            f"the demo reads the documentation of the standard library, and {root} does not hold "
            "its source: use a Python that was installed with it"
        )
    for name in sorted(sys.stdlib_module_names - LEFT_OUT):
        if not name.startswith("_"):
            for file in _files(root, name):
                yield from _source_objects(root, file)


def _files(root: Path, name: str) -> list[Path]:
    single = root / f"{name}.py"
    files = [single] if single.is_file() else (root / name).rglob("*.py")
    return sorted(file for file in files if _is_public(file.relative_to(root).parts))


def _is_public(parts: tuple[str, ...]) -> bool:
    names = [part.removesuffix(".py") for part in parts]
    return not any(
        name in ("test", "tests") or (name.startswith("_") and name != "__init__") for name in names
    )


def _source_objects(root: Path, file: Path) -> Iterator[DocumentedObject]:
    parts = file.relative_to(root).with_suffix("").parts
    module = ".".join(part for part in parts if part != "__init__")
    trees = [_parse(file)]
    trees += [_parse(root / f"{name}.py") for name in _implementations(trees[0], root)]
    documented = [text for tree in trees if (text := ast.get_docstring(tree))]
    if documented:
        yield DocumentedObject(module, (), "module", "", 0, docstring=documented[0])
    for tree in trees:
        yield from _definitions(tree.body, module, ())


def _parse(file: Path) -> ast.Module:
    with warnings.catch_warnings():
        # The reader of a demo cannot fix a doubtful escape in the standard library.
        warnings.simplefilter("ignore")
        return ast.parse(file.read_bytes())


def _implementations(tree: ast.Module, root: Path) -> list[str]:
    """Private modules whose names a public one takes over whole, as datetime does _pydatetime's."""
    return sorted(
        {
            node.module
            for node in _statements(tree.body)
            if isinstance(node, ast.ImportFrom)
            and node.level == 0
            and node.module is not None
            and node.module.startswith("_")
            and node.names[0].name == "*"
            and (root / f"{node.module}.py").is_file()
        }
    )


def _definitions(
    body: list[ast.stmt], module: str, path: tuple[str, ...]
) -> Iterator[DocumentedObject]:
    for node in _statements(body):
        if isinstance(node, Definition) and not node.name.startswith("_"):
            inner = (*path, node.name)
            text = ast.get_docstring(node)
            if text:
                call = _signature(node, in_class=bool(path))
                yield DocumentedObject(module, inner, _kind(node, path), *call, docstring=text)
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, module, inner)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those under `if` and `try` too."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements(node.body + node.orelse)
        if isinstance(node, ast.Try):
            yield from _statements([inner for handler in node.handlers for inner in handler.body])


def _kind(node: Definition, path: tuple[str, ...]) -> str:
    if isinstance(node, ast.ClassDef):
        return "class"
    return "method" if path else "function"


def _signature(node: Definition, *, in_class: bool) -> tuple[str, int]:
    """The call as it is written, and its number of parameters; a class shows its `__init__`."""
    if isinstance(node, ast.ClassDef):
        makers = (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
        maker = next((inner for inner in makers if inner.name == "__init__"), None)
        return (node.name, 0) if maker is None else _call(node.name, maker, skip_first=True)
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    return _call(node.name, node, skip_first=in_class and not static)


def _call(
    name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, skip_first: bool
) -> tuple[str, int]:
    arguments = node.args
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    count += (arguments.vararg is not None) + (arguments.kwarg is not None)
    skipped = skip_first and bool(arguments.posonlyargs or arguments.args)
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{name}({ast.unparse(arguments)}){returns}", count - skipped


MODULES = {
    name: name.removeprefix("_")
    for name in (
        *("_collections", "_contextvars", "_csv", "_functools", "_io", "_queue", "_random"),
        *("_socket", "_struct", "_weakref", "array", "atexit", "binascii", "builtins", "cmath"),
        *("faulthandler", "fcntl", "gc", "grp", "itertools", "marshal", "math", "mmap", "pwd"),
        *("resource", "select", "sys", "syslog", "termios", "time", "unicodedata", "zlib"),
    )
} | {"posix": "os"}
"""Compiled modules whose import does nothing else, and where their objects are documented."""


def read_compiled() -> Iterator[DocumentedObject]:
    """Every documented public object of the compiled modules that this Python has."""
    for name, public in MODULES.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if public == name and module.__doc__:
            yield DocumentedObject(name, (), "module", "", 0, docstring=module.__doc__)
        yield from _compiled_objects(module, public)


def _compiled_objects(module: ModuleType, public: str) -> Iterator[DocumentedObject]:
    homes = {module.__name__, public}
    content = vars(module)
    for name in sorted(content):
        # Hooks of sys may have been replaced by now; the original is kept beside them.
        thing = content.get(f"__{name}__", content[name])
        # Under another name, or from another module, it is documented elsewhere.
        if name.startswith("_") or getattr(thing, "__name__", None) != name:
            continue
        if getattr(thing, "__module__", None) not in homes:
            continue
        if inspect.isclass(thing):
            yield from _documented(public, (name,), "class", thing)
            for inner, member in sorted(vars(thing).items()):
                if not inner.startswith("_") and (
                    inspect.isroutine(member) or inspect.isdatadescriptor(member)
                ):
                    yield from _documented(public, (name, inner), "method", member)
        elif inspect.isroutine(thing):
            yield from _documented(public, (name,), "function", thing)


def _documented(
    module: str, path: tuple[str, ...], kind: str, thing: object
) -> Iterator[DocumentedObject]:
    text = thing.__doc__
    if not isinstance(text, str) or not text.strip():
        return
    written = getattr(thing, "__text_signature__", None)
    if written:
        call = re.sub(r"\$(?:self|cls|type|module)(?:, /)?(?:, )?", "", written)
        signature = path[-1] + call
    else:
        signature = split_docstring(path[-1], text).signature or path[-1]
    yield DocumentedObject(module, path, kind, signature, _parameters(signature), docstring=text)


def _parameters(signature: str) -> int:
    """How many names the first call of a signature takes."""
    inside = re.search(r"\(([^()]*)", signature)
    if inside is None:
        return 0
    return sum(1 for part in inside[1].split(",") if re.search(r"[A-Za-z]", part.partition("=")[0]))


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@dataclass(frozen=True)
class Document:
    """One object; the `summary` is not part of its indexed `content`."""

    id: str
    kind: str
    summary: str
    content: dict[str, Any]


def read_corpus() -> tuple[Document, ...]:
    """All documents, sorted by id; of an object defined twice, the first definition.

    The same Python gives the same documents. Takes about two seconds.
    """
    objects: dict[str, DocumentedObject] = {}
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


def _document(described: DocumentedObject, text: Docstring, context: str, members: int) -> Document:
    qualified_name = described.qualified_name
    names = qualified_name.split(".")
    around = [word for name in names[:-1] for word in (name.lower(), *words_of(name).split())]
    content = {
        "id": qualified_name,
        "name": names[-1],
        "qualified_name": qualified_name,
        "kind": described.kind,
        "module": described.module,
        "signature": " ".join(described.signature.split()),
        "doc": text.rest,
        "name_words": words_of(names[-1]),
        "parents": " ".join(dict.fromkeys(around)),
        "context": context,
        "parameters": described.parameters,
        "depth": len(names),
        "members": members,
        "doc_words": len(text.rest.split()),
        "name_length": len(names[-1]),
    }
    return Document(qualified_name, described.kind, text.summary, content)


def _parent(qualified_name: str) -> str:
    return qualified_name.rpartition(".")[0]


POOL_SIZE = 50
"""Candidates of a query."""
FEWEST_WORDS, MOST_WORDS = 4, 30
FEWEST_MEMBERS, MOST_MEMBERS = 2, 30
"""A module with more members is too broad for a query."""

MODULE, OBJECT = "module", "object"
JUDGE = "authors"
"""Who judged: whoever wrote the docstrings."""


@dataclass(frozen=True)
class DemoQuery:
    """A query and its relevant documents with their labels; `kind` is `module` or `object`."""

    query_id: str
    text: str
    kind: str
    relevant: dict[str, int]

    def judged(self, doc_ids: Iterable[str]) -> JudgedQuery:
        """The query with the labels of these documents."""
        names = list(doc_ids)
        grades = np.array([self.relevant.get(name, 0) for name in names], np.float32)
        params = {"keywords": self.text, "query": self.text}
        return JudgedQuery(self.query_id, params, names, grades, judged_by=[JUDGE] * len(names))


@dataclass(frozen=True)
class CandidatePool:
    """The candidates of one query, sorted by id so that the order is independent of relevance."""

    query: DemoQuery
    doc_ids: tuple[str, ...]

    @property
    def recall(self) -> float:
        """The share of the relevant documents that are among the candidates."""
        return len(self.query.relevant.keys() & set(self.doc_ids)) / len(self.query.relevant)


def make_queries(documents: Sequence[Document], size: int) -> tuple[DemoQuery, ...]:
    """`size` queries in the order of their hashes: every module's, and a sample of the objects'.

    The same Python gives the same queries. Left out are summaries that several objects share, that
    are very short or long, or that occur elsewhere in their own document.
    """
    shared = Counter(_normal(document.summary) for document in documents)
    members: dict[str, list[str]] = {}
    for document in documents:
        members.setdefault(document.id.rpartition(".")[0], []).append(document.id)
    queries = [
        _demo_query(document, members.get(document.id, []))
        for document in documents
        if shared[_normal(document.summary)] == 1 and _is_question(document)
    ]
    eligible = [query for query in queries if len(query.relevant) <= MOST_MEMBERS + 1]
    ordered = sorted(eligible, key=lambda query: (query.kind != MODULE, _draw(query)))
    return tuple(sorted(ordered[:size], key=_draw))


def pool_query(text: str) -> dict[str, Any]:
    """The full-text query that finds candidates; its sum of fields has a high recall."""
    names = ["name_words.spelled_out", "name_words.abbreviated", "name.trigrams^0.5"]
    fields = ["text", "parents", *names]
    return {"multi_match": {"query": text, "fields": fields, "type": "most_fields"}}


def candidates_of(engine: Engine, index: str, query: DemoQuery) -> CandidatePool:
    """The best documents of the full-text query.

    Raises Incomplete where the engine answers for a part of the index.
    """
    body = {"query": pool_query(query.text), "size": POOL_SIZE, "_source": False}
    hits = search_index(engine, index, body).hits
    return CandidatePool(query, tuple(sorted(hit["_id"] for hit in hits)))


def candidate_pools(
    engine: Engine,
    index: str,
    queries: Sequence[DemoQuery],
    progress: Callable[[str, float | None], None],
) -> tuple[CandidatePool, ...]:
    """The candidates of each query, by several searches at a time."""
    pools: list[CandidatePool] = []
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        for pool in threads.map(lambda query: candidates_of(engine, index, query), queries):
            pools.append(pool)
            progress(f"{len(pools)} of {len(queries)} queries", len(pools) / len(queries))
    return tuple(pools)


def candidate_recall(pools: Sequence[CandidatePool]) -> float:
    """The mean share of a query's relevant documents that full-text search found."""
    return sum(pool.recall for pool in pools) / len(pools)


def _demo_query(document: Document, members: list[str]) -> DemoQuery:
    if document.kind == "module" and len(members) >= FEWEST_MEMBERS:
        relevant = dict.fromkeys(members, 1) | {document.id: 2}
        return DemoQuery(f"{MODULE}:{document.id}", document.summary, MODULE, relevant)
    return DemoQuery(f"{OBJECT}:{document.id}", document.summary, OBJECT, {document.id: 1})


def _is_question(document: Document) -> bool:
    summary = _normal(document.summary)
    if not FEWEST_WORDS <= len(summary.split()) <= MOST_WORDS:
        return False
    texts = (value for value in document.content.values() if isinstance(value, str))
    return not any(summary in _normal(text) for text in texts)


def _normal(text: str) -> str:
    """Lower-case words without punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _draw(query: DemoQuery) -> bytes:
    return hashlib.sha256(f"demo\0{query.query_id}".encode()).digest()


def judgments_of(pools: Iterable[CandidatePool]) -> Judgments:
    """The candidates with their labels, as judgments."""
    return Judgments([pool.query.judged(pool.doc_ids) for pool in pools])
