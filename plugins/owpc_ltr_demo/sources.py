"""The demo's documents of Python modules, read from their source without importing it.

Importing some of its modules opens a browser or a window, or starts tests; parsing does nothing.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import Refused

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
class Described:
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


def read_sources() -> Iterator[Described]:
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
                yield from _objects(root, file)


def _files(root: Path, name: str) -> list[Path]:
    single = root / f"{name}.py"
    found = [single] if single.is_file() else (root / name).rglob("*.py")
    return sorted(file for file in found if _is_public(file.relative_to(root).parts))


def _is_public(parts: tuple[str, ...]) -> bool:
    names = [part.removesuffix(".py") for part in parts]
    return not any(
        name in ("test", "tests") or (name.startswith("_") and name != "__init__") for name in names
    )


def _objects(root: Path, file: Path) -> Iterator[Described]:
    parts = file.relative_to(root).with_suffix("").parts
    module = ".".join(part for part in parts if part != "__init__")
    trees = [_parse(file)]
    trees += [_parse(root / f"{name}.py") for name in _implementations(trees[0], root)]
    documented = [text for tree in trees if (text := ast.get_docstring(tree))]
    if documented:
        yield Described(module, (), "module", "", 0, documented[0])
    for tree in trees:
        yield from _definitions(tree.body, module, ())


def _parse(file: Path) -> ast.Module:
    with warnings.catch_warnings():
        # A doubtful escape in somebody's source is nothing that the reader of a demo can mend.
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


def _definitions(body: list[ast.stmt], module: str, path: tuple[str, ...]) -> Iterator[Described]:
    for node in _statements(body):
        if isinstance(node, Definition) and not node.name.startswith("_"):
            inner = (*path, node.name)
            text = ast.get_docstring(node)
            if text:
                signature, parameters = _signature(node, in_class=bool(path))
                yield Described(module, inner, _kind(node, path), signature, parameters, text)
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
    given = node.args
    count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    count += (given.vararg is not None) + (given.kwarg is not None)
    skipped = skip_first and bool(given.posonlyargs or given.args)
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{name}({ast.unparse(given)}){returns}", count - skipped
