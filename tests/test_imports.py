"""How many modules of ours one module imports from: what must be known to read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 20
LARGER = {"owpc_ltr/training/train.py": 22}
"""Files that import from more, and from how many."""


def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    named = {}
    for top in (ROOT, ROOT / "plugins"):
        for path in top.glob("owpc_ltr*/**/*.py"):
            name = ".".join(path.relative_to(top).with_suffix("").parts)
            named[name.removesuffix(".__init__")] = path
    return named


OURS = modules()


def imported(source: str) -> set[str]:
    """The modules of ours that a source imports from, functions included, type checking not."""
    return {name for name in _names(ast.parse(source)) if name.startswith("owpc_ltr")}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for part in node.orelse:
            yield from _names(part)
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in OURS else node.module
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def test_no_module_imports_from_more_than_twenty() -> None:
    counts = {
        str(path.relative_to(ROOT)): len(imported(path.read_text())) for path in OURS.values()
    }
    larger = {file: n for file, n in counts.items() if n > LARGER.get(file, LIMIT)}
    assert not larger, f"at most {LIMIT}: move work to where its data is, or hand on one object"


def test_late_imports_count_and_those_of_type_checking_do_not() -> None:
    source = """
from typing import TYPE_CHECKING
import numpy
from owpc_ltr.text import cut, shortened
from owpc_ltr.host import registry
if TYPE_CHECKING:
    from owpc_ltr.errors import BadInput
def work():
    if late:
        from owpc_ltr.metrics import parse_metric
"""
    assert imported(source) == {"owpc_ltr.text", "owpc_ltr.host.registry", "owpc_ltr.metrics"}
