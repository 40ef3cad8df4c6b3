"""What users and authors of plugins write is public, and nothing else is."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import functools
import importlib
import inspect
import pathlib
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ForwardRef, Literal, get_args, get_origin

import pytest

import owpc_ltr
import owpc_ltr.plugin_checks
import owpc_ltr.types
from owpc_ltr import protocols
from owpc_ltr.host import hookspecs
from owpc_ltr.host.commands import plugin_commands

INSIDE = {"OpenSearch", "Elasticsearch", "JudgmentChecker", "ReportPart"}
"""Of libraries that need not be installed; what a Cluster is to `evaluate`; of our own report."""
NOT_CALLED = {"blocks", "figure_blocks", "label_blocks"}
"""Methods of results that renderers call."""
MADE = {
    # Models that an optimizer may return, and their parts.
    *("AdditiveModel", "AverageModel", "Curve", "Forest", "Layer", "LogisticNetwork"),
    *("NetworkModel", "Normaliser"),
    # Of a FeatureSet; aliases of annotations; of commands, kernels and settings of plugins.
    *("Feature", "JudgedTable", "Progress", "Argument", "Writes", "BoundLoss", "compiled"),
    *("check_settings", "choice_number", "parse_metric"),
}
"""Made or called by users and authors of plugins, and in no signature and on no page."""
_OF_TYPES = re.compile(r"(?:from )?owpc_ltr\.types(?: import (\([^)]*\)|[^\n]*)|\.(\w+))")
_IMPORT = re.compile(
    r"^\s*(?:>>> )?(?:from|import) (owpc_ltr(?:\.[\w.]+)?)\b(?! as simulate)", re.M
)
MODULES = (owpc_ltr, owpc_ltr.types, owpc_ltr.plugin_checks)
ROOT = Path(__file__).resolve().parents[1]


def public_classes() -> dict[type, str]:
    """Each public class, and its name."""
    named = [(name, getattr(module, name)) for module in MODULES for name in module.__all__]
    return {member: name for name, member in named if inspect.isclass(member)}


class Absent(type):
    """What stands for a class of a library that need not be installed."""

    def __getattr__(cls, name: str) -> Any:
        return Absent(name, (), {})

    def __getitem__(cls, _: Any) -> Any:
        return cls


class Names(dict[str, Any]):
    """What the annotations of a module may name, with what only type checkers import."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = sys.modules.get(module) or importlib.import_module(module)

    def __missing__(self, name: str) -> Any:
        for module in (self.module, builtins, typing, collections.abc, pathlib):
            if name in vars(module):
                return vars(module)[name]
        for statement in for_type_checkers(Path(str(self.module.__file__))):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    if name == (alias.asname or alias.name).partition(".")[0]:
                        return importlib.import_module(alias.name if alias.asname else name)
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if name == (alias.asname or alias.name):
                        return Names(str(statement.module))[alias.name]
            elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
                return eval(ast.unparse(statement.value), {}, self)  # noqa: S307 - our own source
        # A text inside an alias is of the module of the alias.
        others = [other for other in sys.modules if other.startswith("owpc_ltr.")]
        home = next((other for other in others if name in names_of(other)), None)
        # A class of a library that need not be installed.
        return Absent(name, (), {}) if home is None else Names(home)[name]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def for_type_checkers(path: Path) -> list[ast.stmt]:
    return [
        statement
        for block in parsed(path).body
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
    ]


@functools.cache
def names_of(module: str) -> set[str]:
    """What a module defines or imports, type checkers included."""
    path = Path(str(sys.modules[module].__file__))
    statements = [*parsed(path).body, *for_type_checkers(path)]
    return {
        *vars(sys.modules[module]),
        *(
            alias.asname or alias.name
            for node in statements
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ),
        *(ast.unparse(node.targets[0]) for node in statements if isinstance(node, ast.Assign)),
    }


def classes_in(annotation: Any, module: str) -> Iterator[type]:
    """The classes that an annotation mentions."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        annotation = eval(annotation, {}, Names(module))  # noqa: S307 - our own source
    origin = get_origin(annotation)
    if isinstance(annotation, list):
        for part in annotation:
            yield from classes_in(part, module)
    elif origin is Annotated:
        yield from classes_in(get_args(annotation)[0], module)
    elif origin is not Literal and origin is not None:
        for part in (origin, *get_args(annotation)):
            yield from classes_in(part, module)
    elif isinstance(annotation, type):
        yield annotation


def methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods and properties of a class, and its constructor."""
    for base in cls.__mro__:
        if not base.__module__.startswith("owpc_ltr"):
            continue
        for name, member in vars(base).items():
            # Of properties and class methods, and methods that are imported when they are called.
            kept = [getattr(member, kind, None) for kind in ("fget", "__func__", "func")]
            for function in (member, *kept, getattr(base, name, None)):
                if inspect.isfunction(function) and not name.startswith("_"):
                    yield name, function


def named_by_users() -> Iterator[tuple[str, Any]]:
    """Public functions and commands, and methods of public classes; in a cluster only its jobs."""
    groups = (owpc_ltr.Cluster, owpc_ltr.types.FeatureSets, owpc_ltr.types.UploadedModels)
    public = [
        getattr(module, name)
        for module in (owpc_ltr, owpc_ltr.plugin_checks)
        for name in module.__all__
    ]
    for target in (*public, *groups):
        if inspect.isfunction(target):
            yield target.__name__, target
        elif inspect.isclass(target):
            for name, method in methods(target):
                job = hasattr(method, "shows") or name in {"models", "featuresets"}
                if (job or target not in groups) and name not in NOT_CALLED:
                    yield f"{target.__name__}.{name}", method
    for command in plugin_commands().commands:
        if command.function.startswith("owpc_ltr."):
            yield command.public_name, command.load()


def named_by_authors() -> Iterator[tuple[str, Any]]:
    """Hooks, and methods and fields of what a plugin implements, receives or returns."""
    for name, hook in vars(hookspecs).items():
        if name.startswith("ltr_"):
            yield name, hook
    of_plugins = (owpc_ltr.types.Metric, owpc_ltr.types.KernelLoss)
    for target in (*vars(protocols).values(), *of_plugins):
        if inspect.isclass(target) and (
            target.__module__ == protocols.__name__ or target in of_plugins
        ):
            yield target.__name__, target
            for name, method in methods(target):
                yield f"{target.__name__}.{name}", method


def written_classes() -> dict[type, set[str]]:
    """Classes that a user or an author of plugins writes, and in what they are mentioned."""
    written: dict[type, set[str]] = {}
    for place, target in (*named_by_users(), *named_by_authors()):
        bare = inspect.unwrap(target)
        # Of a class its own, and not those of its base.
        annotations = (
            vars(bare).get("__annotations__", {})
            if inspect.isclass(bare)
            else (bare.__annotations__)
        )
        for annotation in annotations.values():
            for cls in classes_in(annotation, bare.__module__):
                if cls.__module__.startswith("owpc_ltr") and cls.__name__ not in INSIDE:
                    written.setdefault(cls, set()).add(place)
        if inspect.isclass(target):
            written.setdefault(target, set()).add(place)
    return written


def test_every_class_that_is_written_is_public() -> None:
    public = public_classes()
    lacking = {
        f"{cls.__module__}.{cls.__name__} in {', '.join(sorted(places)[:3])}"
        for cls, places in written_classes().items()
        if cls not in public
    }
    assert not lacking, "\n".join(sorted(lacking))


def test_what_nobody_writes_is_not_public() -> None:
    """Of types: what pages import, what signatures have, and what is made by users and authors."""
    pages = [path for path in (ROOT / "docs").rglob("*.*") if path.suffix in {".md", ".py"}]
    imported = {
        name
        for page in pages
        for listed in _OF_TYPES.findall(page.read_text())
        for name in re.findall(r"\w+", " ".join(listed))
    }
    written = {cls.__name__ for cls in written_classes()}
    assert {*owpc_ltr.types.__all__} - written - imported == MADE


def test_no_name_is_public_in_two_modules() -> None:
    named = [name for module in MODULES for name in module.__all__ if name != "__version__"]
    assert len(named) == len(set(named))


def test_the_table_of_public_names_is_that_of_the_type_checkers() -> None:
    for module in MODULES:
        imported = {
            alias.asname: statement.module
            for statement in for_type_checkers(Path(str(module.__file__)))
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }
        assert vars(module)["_HOMES"] == imported
        assert {*imported, "__version__"} == {*module.__all__, "__version__"}
        assert module.__all__ == sorted(module.__all__)


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        (owpc_ltr, "trian", ": did you mean 'train'?"),
        (owpc_ltr, "Vector", ": it is in owpc_ltr.types"),
        (owpc_ltr, "xyz", ""),
        (owpc_ltr.types, "Metrics", ": did you mean 'Metric'?"),
        (owpc_ltr.plugin_checks, "check_los", ": did you mean 'check_loss'?"),
    ],
)
def test_a_mistyped_name_leads_to_the_one_that_is_meant(
    module: ModuleType, name: str, why: str
) -> None:
    message = f"module '{module.__name__}' has no attribute '{name}'{why}"
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}$"):
        getattr(module, name)


def test_pages_and_examples_import_public_names_only() -> None:
    """So that whatever else changes, what they show still works."""
    allowed = {module.__name__ for module in MODULES}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += [
        *(ROOT / "docs" / "examples").rglob("*.py"),
        *(ROOT / "docs" / "plugins").rglob("*.md"),
    ]
    inside = {
        f"{page.relative_to(ROOT)}: {match[0].strip()}"
        for page in pages
        for match in _IMPORT.finditer(page.read_text())
        if match[1] not in allowed
    }
    assert not inside, "\n".join(sorted(inside))


def product_nodes() -> Iterator[tuple[str, ast.AST]]:
    for folder in ("owpc_ltr", "plugins"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for node in ast.walk(parsed(path)):
                yield name, node


def test_no_class_has_the_name_of_another_and_calls_name_what_is_beyond_the_fifth() -> None:
    """Compiled functions are called as they are written: by position."""
    homes: dict[str, list[str]] = {}
    by_position, long_calls = {"partial", "call_kernel"}, []
    for path, node in product_nodes():
        if isinstance(node, ast.ClassDef):
            homes.setdefault(node.name, []).append(path)
        elif isinstance(node, ast.FunctionDef):
            if any("compiled" in ast.unparse(each) for each in node.decorator_list):
                by_position.add(node.name)
        elif (
            isinstance(node, ast.Call)
            and len(node.args) > 5
            and not isinstance(node.args[-1], ast.Starred)
            and not path.startswith("owpc_ltr/kernels/")
        ):
            called = ast.unparse(node.func).rpartition(".")[2]
            long_calls.append((called, f"{path}:{node.lineno}"))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
    assert [call for call in long_calls if call[0] not in by_position] == []
