"""The page of the Python interface, docs/python.md, made from the objects themselves.

A name belongs to the topic of the module that defines it. Parameters and their meaning are those
that `help()` shows.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from owpc_ltr import arrays, errors, protocols
from owpc_ltr.host.commands import plugin_commands
from owpc_ltr.public_names import parameter_lines
from owpc_ltr.signatures import described, help_of

INTRODUCTION = """
The public names are those of `owpc_ltr`{types}, and the checks of `owpc_ltr.plugin_checks`.
Attributes of results are public, too. Everything else may change without notice. A module is
imported when one of its names is first used.
`help(owpc_ltr.train)` shows the same text as this page.
"""

TOPICS = {
    "Data": (
        "Read judged queries with their features, make them of arrays or data frames, and split "
        "them by query.",
        ("owpc_ltr.data", "owpc_ltr.host.judgment_lists", "owpc_ltr.inspection"),
    ),
    "Judgments": (
        "Make judgments from clicks.",
        ("owpc_ltr_clicks",),
    ),
    "Training": (
        "Train, select, average, save and load models.",
        ("owpc_ltr.training", "owpc_ltr.models"),
    ),
    "Evaluation": (
        "Measure, compare and explain rankers.",
        ("owpc_ltr.evaluation", "owpc_ltr.explanations", "owpc_ltr.metrics", "owpc_ltr_report"),
    ),
    "Cluster": (
        "`connect` gives a `Cluster`. Its methods log features, upload models and search.",
        ("owpc_ltr.engine.cluster", "owpc_ltr.engine.connect"),
    ),
    "Other tools": (
        "Convert models of other libraries.",
        ("owpc_ltr.formats",),
    ),
    "scikit-learn": (
        "The same training as estimators.",
        ("owpc_ltr.training.estimators",),
    ),
    "Plugins": (
        "What a plugin implements: see [Write a plugin](write-a-plugin.md). Arrays have one entry "
        "or one row for each document, in the order of the dataset, unless a text says otherwise.",
        ("owpc_ltr.host", "owpc_ltr.protocols"),
    ),
    "Checks of plugins": (
        "`owpc_ltr.plugin_checks`: call one from a test of your plugin. A broken promise raises "
        "AssertionError with the numbers.",
        ("owpc_ltr.plugin_checks",),
    ),
    "Node, demo and papers": (
        "The functions of other commands.",
        ("owpc_ltr_node", "owpc_ltr_demo", "owpc_ltr_papers", "owpc_ltr_dask"),
    ),
    "Results and other types": (
        "What functions and methods take and return.",
        ("",),
    ),
}
"""Each topic: its introduction, and the modules whose names belong to it; the longest wins."""

ARRAYS = {
    "Vector": ("float64", "(n,)"),
    "Labels": ("float32", "(n_documents,)"),
    "Matrix": ("float32", "(n_documents, n_features)"),
}

_WIDTH = 76
_CODE = re.compile(r"(`[^`]*`)")


def python_page(note: str) -> str:
    """The whole page."""
    types = " and `owpc_ltr.types`" if find_spec("owpc_ltr.types") else ""
    parts = ["# Python", note, INTRODUCTION.format(types=types).strip()]
    names = public_names()
    for topic, (about, _) in TOPICS.items():
        found = {name: one for name, one in names.items() if _topic(one) == topic}
        if topic != "Plugins":
            found = dict(sorted(found.items(), key=lambda item: inspect.isclass(item[1])))
        if found:
            parts += [f"## {topic}", about]
        if topic == "Plugins":
            parts += [_array_table(), "### hookimpl", HOOKIMPL]
        parts += [part for name, one in found.items() for part in _entry(name, one)]
    parts += ["## Errors", ERRORS, _error_table()]
    return "\n\n".join(parts) + "\n"


ERRORS = """
What a user can fix is an `OwpcLtrError`: one line that says what is wrong, where, and how to fix
it. The exit code is that of a command that ends with the error. A doubtful result is an
`OwpcLtrWarning`, a `UserWarning`. Any other exception is a bug.
""".strip()


HOOKIMPL = """
The decorator of a function that offers plugins, as `ltr_losses`:

```python
@hookimpl
def ltr_losses() -> list[type[Loss]]:
    return [WorstPairs]
```
""".strip()


def public_names() -> dict[str, Any]:
    """Every public function and class by its name, protocols and functions of commands among them.

    Errors have a table of their own.
    """
    found: dict[str, Any] = {}
    for module in ("owpc_ltr", "owpc_ltr.types", "owpc_ltr.plugin_checks"):
        if find_spec(module):
            package = import_module(module)
            found |= {name: getattr(package, name) for name in package.__all__}
    for name, one in vars(protocols).items():
        if getattr(one, "__module__", "") == protocols.__name__ and not name.startswith("_"):
            found.setdefault(name, one)
    for command in plugin_commands().commands:
        if command.function.startswith("owpc_ltr_"):
            function = command.load()
            found[command.public_name] = function
    return {
        name: one
        for name, one in found.items()
        if (inspect.isclass(one) or inspect.isfunction(one)) and not _is_error(one)
    }


def _is_error(one: Any) -> bool:
    return one.__module__ == errors.__name__


def _topic(one: Any) -> str:
    module = f"{inspect.unwrap(one).__module__}."
    fitting = [
        (len(prefix), topic)
        for topic, (_, prefixes) in TOPICS.items()
        for prefix in prefixes
        if not prefix or module.startswith(f"{prefix}.")
    ]
    return max(fitting)[1]


def _entry(name: str, one: Any) -> Iterator[str]:
    yield f"### {name}"
    if inspect.isclass(one):
        yield from _class(name, one)
    else:
        yield from _function(name, one)


def _class(name: str, cls: type[Any]) -> Iterator[str]:
    from owpc_ltr.engine.cluster import Cluster

    if not getattr(cls, "_is_protocol", False) and _is_made_by_users(cls):
        yield _signature(name, cls.__init__)
    bases = [f"`{base.__name__}`" for base in cls.__bases__ if base.__name__ in public_names()]
    if bases:
        yield f"Extends {', '.join(bases)}."
    has_options = dataclasses.is_dataclass(cls) and _is_job(cls)
    yield markdown(_plain_doc(cls) if has_options else _own_doc(cls))
    rows = [] if cls is Cluster else list(_parameters(cls) if has_options else _attributes(cls))
    if rows:
        yield "\n".join(rows)
    for member, function in _methods(cls):
        if cls is not Cluster or hasattr(function, "shows"):
            yield f"#### {name}.{member}"
            yield from _function(f"{_instance(cls)}.{member}", function)
    if cls is Cluster:
        for member in ("featuresets", "models"):
            part = _returned(member)
            yield f"### Cluster.{member}"
            yield markdown(_own_doc(vars(cls)[member].fget))
            for method, function in _methods(part):
                yield f"#### Cluster.{member}.{method}"
                yield from _function(f"cluster.{member}.{method}", function)


def _is_made_by_users(cls: type[Any]) -> bool:
    return cls.__module__ in {"owpc_ltr.training.estimators", "owpc_ltr.protocols"}


def _returned(member: str) -> Any:
    homes = {
        "featuresets": ("owpc_ltr.engine.feature_sets", "FeatureSets"),
        "models": ("owpc_ltr.engine.deployment.uploaded_models", "UploadedModels"),
    }
    module, name = homes[member]
    return getattr(import_module(module), name)


def _instance(cls: type[Any]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _own_doc(one: Any) -> str:
    """The docstring, unless a dataclass has made it."""
    text = inspect.getdoc(one) or ""
    return "" if text.startswith(f"{getattr(one, '__name__', '')}(") else text


def _layers(cls: type[Any]) -> Iterator[type[Any]]:
    """A class and its bases of ours that are not public themselves."""
    names = {id(one) for one in public_names().values()}
    for base in cls.__mro__:
        ours = base.__module__.startswith("owpc_ltr")
        if base is cls or (ours and id(base) not in names):
            yield base


def _attributes(cls: type[Any]) -> Iterator[str]:
    """A line for each field and property: its type, its default, what it is."""
    done = set()
    for base in _layers(cls):
        told = _texts_of_fields(base)
        fields = getattr(base, "__dataclass_fields__", {})
        for name, kind in inspect.get_annotations(base).items():
            if name.startswith("_") or name in done:
                continue
            done.add(name)
            shown = re.sub(r"ClassVar\[(.*)\]$", r"\1", str(kind))
            default = _default_of(fields[name]) if name in fields else ""
            text = f" {markdown(told[name])}" if name in told else ""
            yield f"- `{name}`: `{shown}`{default}.{text}"
        for name, member in vars(base).items():
            getter = member.fget if isinstance(member, property) else None
            if isinstance(member, cached_property):
                getter = member.func
            if getter is None or name.startswith("_") or name in done:
                continue
            done.add(name)
            shown = getter.__annotations__.get("return", "Any")
            yield f"- `{name}`: `{shown}`. {markdown(' '.join(_own_doc(getter).split()))}"


def _default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING or not field.init:
        return ""
    if callable(field.default):
        return ", optional"
    return f", default `{field.default!r}`"


def _texts_of_fields(cls: type[Any]) -> dict[str, str]:
    """The strings that stand below fields."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except OSError:
        return {}
    body = tree.body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _methods(cls: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    done = set()
    for base in _layers(cls):
        for name in vars(base):
            found = getattr(base, name)
            inherited = name.startswith(("_", "set_")) and name != "set_params"
            if name in done or inherited or not callable(found) or inspect.isclass(found):
                continue
            if inspect.unwrap(found).__module__.startswith("owpc_ltr"):
                done.add(name)
                yield name, found


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Signature, text, parameters, what is returned, examples."""
    bare = inspect.unwrap(function)
    yield _signature(name, bare)
    text = _plain_doc(bare)
    before, found, examples = text.partition(">>> ")
    told, raised, raises = _cut_raises(before)
    yield markdown(told.replace("\nPython: ", "\n"))
    if _is_job(bare):
        yield "\n".join(_parameters(bare))
    returned = bare.__annotations__.get("return")
    if returned not in {None, "None", "Self"}:
        yield f"Returns `{_shown(returned)}`."
    if raised:
        yield markdown(f"Raises {raises}")
    if found:
        yield f"```pycon\n{found}{examples.strip()}\n```"


def _plain_doc(bare: Callable[..., Any]) -> str:
    """The docstring as it is written, without the parameters that `help()` adds."""
    text = inspect.getdoc(bare) or ""
    return re.sub(r"\n\nParameters\n-+\n(?:.+\n?)*", "\n", text).strip()


def _cut_raises(text: str) -> tuple[str, str, str]:
    found = re.search(r"(?:^|(?<=[.:]\s))Raises ", text, re.MULTILINE)
    if not found:
        return text, "", ""
    return text[: found.start()], found[0], text[found.end() :]


def _is_job(function: Callable[..., Any]) -> bool:
    return any(help_of(one) is not None for one in described(function).parameters.values())


def _parameters(function: Callable[..., Any]) -> Iterator[str]:
    head, meaning = "", ""
    for line in [*parameter_lines(function), "end : "]:
        if line.startswith(" "):
            meaning = " ".join(line.split())
            continue
        if head:
            name, _, kind = head.partition(" : ")
            kind, given, default = kind.partition(", default ")
            shown = f", default `{default}`" if given else ", required"
            shown = ", optional" if default == "None" else shown
            yield f"- `{name}`: `{kind}`{shown}. {markdown(meaning)}".rstrip()
        head, meaning = line, ""


def _signature(name: str, function: Callable[..., Any]) -> str:
    """The call, one parameter a line where it is long; types where the list has none."""
    bare = inspect.unwrap(function)
    typed = not _is_job(bare)
    parts = list(_arguments(inspect.signature(bare).parameters, typed))
    line = f"{name}({', '.join(parts)})"
    if len(line) > _WIDTH // 2:
        line = "".join([f"{name}(\n", *(f"    {part},\n" for part in parts), ")"])
    return f"```python\n{line}\n```"


def _arguments(parameters: Mapping[str, inspect.Parameter], typed: bool) -> Iterator[str]:
    star = False
    for name, one in parameters.items():
        if name == "self" or (name == "cluster" and one.default is one.empty):
            continue
        if one.kind is one.VAR_POSITIONAL:
            star = True
        elif one.kind is one.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = f": {_shown(one.annotation)}" if typed and one.annotation is not one.empty else ""
        default = ""
        if one.default is not one.empty:
            shown = getattr(one.default, "__name__", None) or repr(one.default)
            default = f" = {shown}" if kind else f"={shown}"
        yield f"{stars}{name}{kind}{default}"


def _shown(annotation: Any) -> str:
    """A type as it is written, without what only the command line reads."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    return re.sub(r"Annotated\[([^,]+), .*\]$", r"\1", text, flags=re.DOTALL)


def _array_table() -> str:
    rows = [
        f"| `{name}` | {kind} | `{shape}` | {_text_of_alias(name)} |"
        for name, (kind, shape) in ARRAYS.items()
    ]
    return "\n".join(["| type | numbers | shape | what |", "|---|---|---|---|", *rows])


def _text_of_alias(name: str) -> str:
    body = ast.parse(inspect.getsource(arrays)).body
    for one, text in pairwise(body):
        named = isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name
        if named and isinstance(text, ast.Expr):
            return str(ast.literal_eval(text.value))
    raise ValueError(f"owpc_ltr.arrays has no {name}")


def _error_table() -> str:
    told = (errors.OwpcLtrError, errors.OwpcLtrWarning)
    kinds = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, told)]
    rows = [
        f"| `{one.__name__}` | {getattr(one, 'exit_code', '–')} | {inspect.getdoc(one)} |"
        for one in kinds
    ]
    return "\n".join(["| error | exit code | what |", "|---|---|---|", *rows])


def markdown(text: str) -> str:
    """A docstring as Markdown: what is indented is code, and nothing else is marked up."""
    return "\n\n".join(filter(None, map(_paragraph, _paragraphs(text))))


def _paragraphs(text: str) -> Iterable[str]:
    return re.split(r"\n\s*\n", text.strip("\n"))


def _paragraph(text: str) -> str:
    if text.startswith("    "):
        return f"```text\n{textwrap.dedent(text)}\n```"
    pieces = _CODE.split(text.strip())
    pieces[::2] = [re.sub(r"([<*${\\])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)
