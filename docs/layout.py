"""The folders of the packages, each with the first line of its docstring, for docs/design.md."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH = 100
BEGIN = "<!-- The layout: made by docs/make_reference.py; do not edit. -->\n"
END = "<!-- The end of the layout. -->\n"
_DESCRIPTIONS_FROM = 28


def with_layout(page: str) -> str:
    """A page with the layout as it is now between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page needs the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n```text\n{layout()}\n```\n\n{END}{after}"


def layout() -> str:
    """A line or more for each folder."""
    packages = [ROOT / "owpc_ltr", *sorted(ROOT.glob("plugins/*/"))]
    return "\n".join(line for package in packages for line in _package(package, 0))


def _package(folder: Path, depth: int) -> Iterator[str]:
    if not (folder / "__init__.py").exists():
        return
    name = folder.name if depth else folder.relative_to(ROOT).as_posix()
    indent = "  " * depth
    yield from textwrap.wrap(
        f"{indent}{name}/".ljust(_DESCRIPTIONS_FROM) + " " + first_line(folder / "__init__.py"),
        width=WIDTH,
        subsequent_indent=" " * (_DESCRIPTIONS_FROM + 1),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for child in sorted(folder.iterdir()):
        if child.is_dir():
            yield from _package(child, depth + 1)


def first_line(module: Path) -> str:
    """The first line of a module's docstring; ValueError where there is none."""
    document = ast.get_docstring(ast.parse(module.read_text()))
    if not document:
        raise ValueError(f"{module.relative_to(ROOT)} has no docstring")
    return document.splitlines()[0]
