"""Writes the reference from the code: commands, Python, plugins, the layout in the design.

make reference                         # writes docs/cli.md, python.md, plugins.md, design.md
python docs/make_reference.py --check  # tells whether they are up to date; part of make lint
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer
from layout import with_layout
from python_reference import markdown, python_page
from typer.testing import CliRunner

from owpc_ltr.cli.app import app
from owpc_ltr.engine.options import TO_CONNECT
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
_WIDE = 10_000
"""Columns in which no line of a help page is wrapped."""

NOTE = "<!-- Made by docs/make_reference.py; do not edit. -->\n"


def cli_page() -> str:
    """Each command: how it is called, what it does, its arguments and options."""
    parts = ["# Commands\n", NOTE, CLI_INTRODUCTION]
    commands: Any = typer.main.get_command(app)
    commands.list_commands(None)  # which adds those of plugins
    for words in [[], *_commands(commands, [])]:
        usage, text, sections = _help(words)
        parts.append(f"## {' '.join(['owpc-ltr', *words])}\n")
        parts.append(f"```text\n{usage}\n```\n\n{markdown(text)}\n")
        sections.pop(f"{TO_CONNECT} options", None)
        for title, rows in sections.items():
            shown = [_row(words, name, what) for name, what in rows if name not in EVERYWHERE]
            if shown:
                parts.append("\n".join([f"**{title}**\n", *shown]) + "\n")
    return "\n".join(parts)


def _row(words: list[str], name: str, what: str) -> str:
    """An option, or a command with a link to its section."""
    told = re.sub(r"\s+\[(.*)\]$", r" (\1)", what)
    if re.match("[a-z]", name):
        place = "-".join(["owpc-ltr", *words, *name.split()])
        return f"- [`{name}`](#{place}): {markdown(told)}"
    return f"- `{name}`: {markdown(told)}"


CLI_INTRODUCTION = """Every command has `-h` (`--help`), those with many options or a cluster also
`--help-all`, and every command with a result has `--json`, which prints one JSON object. The
options that connect to a cluster are [listed once](#owpc-ltr).
Exit codes:
[Errors and exit codes](formats.md#errors-and-exit-codes).

`owpc-ltr --install-completion` makes the Tab key of bash, zsh, fish or PowerShell complete
commands, options and their choices. `--show-completion` prints the script.
"""
EVERYWHERE = {"-h, --help", "--help-all", "--json"}


def plugins_page() -> str:
    """What each installed plugin is, claims and takes."""
    parts = ["# Shipped plugins\n", NOTE]
    for plugin in registry.load().all():
        if not plugin.shipped:
            continue
        default = plugin.cls()
        claims = [claim for claim in _CLAIMS if getattr(default, claim, False)]
        document = inspect.getdoc(plugin.cls) or ""
        module = inspect.getdoc(inspect.getmodule(plugin.cls)) or ""
        parts.append(f"## {plugin.kind} `{plugin.name}`\n\n{markdown(document)}\n")
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
    """The words of every command; a list of all commands adds those of plugins."""
    children = getattr(command, "commands", {})
    for name in command.list_commands(None) if children else []:
        yield [*words, name]
        yield from _commands(children[name], [*words, name])


def _help(words: list[str]) -> tuple[str, str, dict[str, list[tuple[str, str]]]]:
    """A command's help in its parts: the usage, the text, and the rows of each section."""
    wide: Any = {"terminal_width": _WIDE, "max_content_width": _WIDE, "prog_name": "owpc-ltr"}
    output = CliRunner().invoke(app, [*words, "--help"], **wide).output
    if "--help-all" in output:
        output = CliRunner().invoke(app, [*words, "--help-all"], **wide).output
    usage, *lines = output.strip().splitlines()
    text: list[str] = []
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        title = re.fullmatch(r"(\S.*):", line)
        row = re.fullmatch(r"  (\S.*?)(?:  +(\S.*))?", line)
        if title:
            rows = sections.setdefault(title[1], [])
        elif not sections:
            text.append(line.removeprefix("  "))
        elif row:
            rows.append((row[1], row[2] or ""))
        elif line.strip():  # a long option has its text in the next line
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
    return usage.removeprefix("Usage: "), "\n".join(text), sections


def main() -> int:
    """Write the pages, or compare them."""
    pages = {
        "cli.md": cli_page(),
        "python.md": python_page(NOTE.strip()),
        "plugins.md": plugins_page(),
        "design.md": with_layout(_read("design.md")),
    }
    stale = [name for name, text in pages.items() if _read(name) != text]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/{name} is not up to date: run make reference")
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(pages[name])
    return 0


def _read(name: str) -> str:
    path = FOLDER / name
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
