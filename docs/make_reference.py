"""Writes the reference from the code: commands' help, plugins' settings, the layout of the design.

python docs/make_reference.py          # writes docs/cli.md, docs/plugins.md, and in docs/design.md
python docs/make_reference.py --check  # tells whether they are up to date
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from layout import with_layout
from typer.testing import CliRunner

from owpc_ltr.cli.app import app
from owpc_ltr.host import registry
from owpc_ltr.host.settings import describe_settings

FOLDER = Path(__file__).parent
_CLAIMS = (
    "convex",
    "conservative",
    "smooth",
    "needs_convex",
    "uses_loss",
    "has_objective",
    "higher_is_better",
)
NOTE = "<!-- Made by docs/make_reference.py; do not edit. -->\n"


def cli_page() -> str:
    """The help of each command."""
    parts = ["# Commands\n", NOTE]
    for words in [[], *_commands(typer.main.get_command(app), [])]:
        name = " ".join(["owpc-ltr", *words])
        parts.append(f"## {name}\n\n```text\n{_help(words)}\n```\n")
    return "\n".join(parts)


def plugins_page() -> str:
    """What each installed plugin is, claims and takes."""
    parts = ["# Plugins\n", NOTE]
    for plugin in registry.load().all():
        if not plugin.shipped:
            continue
        default = plugin.cls()
        claims = [claim for claim in _CLAIMS if getattr(default, claim, False)]
        document = inspect.getdoc(plugin.cls) or ""
        module = inspect.getdoc(inspect.getmodule(plugin.cls)) or ""
        parts.append(f"## {plugin.kind} `{plugin.name}`\n\n{document}\n")
        parts.append(f"```text\n{module}\n```\n")
        if claims:
            parts.append(f"Claims: {', '.join(claims)}.\n")
        settings = _settings(plugin.cls)
        if settings:
            parts.append(f"| setting | default | takes |\n|---|---|---|\n{settings}\n")
    return "\n".join(parts)


def _settings(cls: type[Any]) -> str:
    defaults = dict(text.split("=", 1) for text in describe_settings(cls))
    hints = get_type_hints(cls)
    rows = []
    for field in dataclasses.fields(cls):
        if field.init:
            takes = _takes(hints[field.name])
            rows.append(f"| `{field.name}` | {defaults[field.name] or '–'} | {takes} |")
    return "\n".join(rows)


def _takes(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(hint, str(hint).replace("|", "or"))


def _commands(command: Any, words: list[str]) -> Iterator[list[str]]:
    for name, child in getattr(command, "commands", {}).items():
        yield [*words, name]
        yield from _commands(child, [*words, name])


def _help(words: list[str]) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="owpc-ltr")
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def main() -> int:
    """Write the pages, or compare them."""
    os.environ["COLUMNS"] = "100"
    pages = {
        "cli.md": cli_page(),
        "plugins.md": plugins_page(),
        "design.md": with_layout(_read("design.md")),
    }
    stale = [name for name, text in pages.items() if _read(name) != text]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/{name} is not up to date: run python docs/make_reference.py")
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(pages[name])
    return 0


def _read(name: str) -> str:
    path = FOLDER / name
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
