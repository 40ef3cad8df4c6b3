"""The code blocks of the pages, run in order: a reader who types them gets what the page says.

Each fenced block of a page is of one kind:

- with `title="FILE"`: written into the page's folder; Python is imported from there as well,
- `python`: run, in a namespace that the page's blocks share,
- `console`: each `$ owpc-ltr …` is run; what follows is what it prints, and is not compared,
- `text`: not code, unless it has a title,
- `json`, `toml`: parsed.

Right above a block a remark may stand: `<!-- not run: why -->`, `<!-- exit code: 5 -->`, or
`<!-- runs where: owpc_ltr.NAME -->` for what needs a name that there may not be. Anything else is
refused. `<!-- runs with: SAMPLE, … -->`, once a page, says what the folder holds at the start (see
`tests/page_samples.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import sys
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sybil import Document, Example, Lexeme, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from owpc_ltr.errors import OwpcLtrWarning
from tests.commands import Run

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])

_REMARK = re.compile(r"[ \t]*<!--\s*(not run|exit code|runs where):\s*(.+?)\s*-->[ \t]*\n")
_REMARKS_ABOVE = re.compile(rf"(?:{_REMARK.pattern})+[ \t]*\Z")
_SAMPLES = re.compile(r"<!--\s*runs with:\s*(.+?)\s*-->")
_TITLE = re.compile(r'title="([\w./-]+)"')
_LEXER = RawFencedCodeBlockLexer(re.compile(r"(?P<info>[^\n]*)$\n", re.MULTILINE))
_DATA = {"json": json.loads, "toml": tomllib.loads}


class Unfit(AssertionError):
    """A block that is neither run nor marked as not run."""


@dataclass(frozen=True)
class Block:
    """One fenced block, and the remarks above it."""

    language: str
    title: str | None
    source: Lexeme
    remarks: dict[str, str]

    @property
    def runs(self) -> bool:
        """Whether there is something to do with it here."""
        needed = self.remarks.get("runs where")
        if "not run" in self.remarks or (needed is not None and not is_there(needed)):
            return False
        return self.title is not None or self.language != "text"


def samples_of(page: Path) -> list[str]:
    """The samples that a page is run with."""
    found = _SAMPLES.search(page.read_text())
    return found[1].split(", ") if found else []


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page; Unfit where one is of no kind that runs, and not marked."""
    return [example.parsed for example in _document(page).examples()]


def run_page(page: Path, folder: Path, run: Run) -> int:
    """Run the blocks of a page in a folder, which is the working one; how many were run."""
    document = _document(page)
    done = 0
    # Samples are small: that some features say nothing in them is told, as it should be.
    warnings.filterwarnings("ignore", ".*no value, or one and the same", OwpcLtrWarning)
    for example in document.examples():
        block: Block = example.parsed
        if not block.runs:
            continue
        try:
            done += _run(block, example, folder, run)
        except Exception as error:
            error.add_note(f"in the block at line {example.line} of {page.name}")
            raise
    return done


def is_there(name: str) -> bool:
    """Whether a module, or a name of a package, can be had."""
    package, _, last = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(package), last) or bool(
            importlib.util.find_spec(name)
        )
    except ModuleNotFoundError:
        return False


def _document(page: Path) -> Document:
    document = Document.parse(str(page), _blocks)
    document.namespace["__name__"] = "__main__"
    return document


def _blocks(document: Document) -> Iterator[Region]:
    for region in _LEXER(document):
        above = _REMARKS_ABOVE.search(document.text[: region.start])
        remarks = dict(_REMARK.findall(above[0])) if above else {}
        info = region.lexemes["info"].strip()
        title = _TITLE.search(info)
        language = info.split(" ")[0]
        block = Block(language, title[1] if title else None, region.lexemes["source"], remarks)
        region.parsed = block
        region.evaluator = _nothing
        _check(block, f"{document.path}, {document.line_column(region.start)}")
        yield region


def _nothing(_example: Example) -> None:
    """Evaluation is `run_page`'s, which has the folder."""


def _check(block: Block, where: str) -> None:
    if "not run" in block.remarks or block.title or block.language in {"python", "text", *_DATA}:
        return
    if block.language != "console":
        kind = block.language or "nameless"
        raise Unfit(f"{where}: nothing runs a {kind} block: mark it as not run, and why")
    words = [command.split()[0] for command in _commands(block.source)]
    if not words:
        raise Unfit(f"{where}: no line of this console block begins with $")
    other = [word for word in words if word != "owpc-ltr"]
    if other:
        raise Unfit(f"{where}: {other[0]} is not run here: mark the block as not run, and why")


def _run(block: Block, example: Example, folder: Path, run: Run) -> int:
    if block.title:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.source)
        if path.suffix == ".py":
            example.namespace.update(_imported(path))
    elif block.language == "python":
        example.parsed = block.source
        PythonEvaluator()(example)
    elif block.language == "console":
        _run_commands(block, folder, run)
    elif block.language in _DATA:
        _DATA[block.language](block.source)
    else:
        return 0
    return 1


def _imported(path: Path) -> dict[str, Any]:
    """The public names of a file, imported as a module: plugins are compiled from their files."""
    specification = importlib.util.spec_from_file_location(f"page_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _commands(source: str) -> list[str]:
    """The commands of a console block; a line that ends with a backslash goes on."""
    joined = source.replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def _run_commands(block: Block, folder: Path, run: Run) -> None:
    expected = int(block.remarks.get("exit code", "0"))
    for command in _commands(block.source):
        words = shlex.split(command)[1:]
        words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
        code, printed, complaints = run(*words)
        if code != expected:
            raise AssertionError(
                f"`{command}` ended with {code}, not {expected}:\n{printed}{complaints}"
            )
        if target is not None:
            (folder / target).write_text(printed)
