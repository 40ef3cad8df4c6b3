"""The outputs that pages show, compared with what their commands print, or written anew.

`make outputs` writes the lines whose numbers have changed or, as where a column has another name,
some of their words, and names the lines that it cannot match. The tests of pages compare words
alone: times differ from run to run, last digits between machines.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WRITES = os.environ.get("OWPC_LTR_OUTPUTS") == "write"
_CHANGES = re.compile(r"[-+−]?[\d,]*\.?\d+(?:e[-+]?\d+)?%?")
_RUNS = re.compile(r"[\d.,]+(?= (?:ms|s|seconds|documents a second)\b)|(?<=://)[\w.]+:\d+")
_HASHES = re.compile(r"\b[0-9a-f]{8}\b")
_CUT = "…"


@dataclass(frozen=True)
class Shown:
    """A command of a page and the lines of output below it, of which `…` stands for any others."""

    command: str
    lines: tuple[str, ...]


def shown_in(source: str) -> list[Shown]:
    """The commands of a console block; one that ends with a backslash goes on."""
    commands: list[Shown] = []
    for line in source.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            commands.append(Shown(line[2:], ()))
        elif commands:
            commands[-1] = Shown(commands[-1].command, (*commands[-1].lines, line))
    return commands


def words_of(line: str) -> str:
    """A line without its numbers, and without the width of its columns."""
    return " ".join(_CHANGES.sub("#", _HASHES.sub("#", line.rstrip(f"{_CUT} "))).split())


def printed_for(shown: Sequence[str], printed: Sequence[str]) -> dict[str, str | None]:
    """For each shown line the printed one of the same words, in order; None where there is none.

    A line that is shown cut, with `…` at its end, is the beginning of one.
    """
    outputs: dict[str, str | None] = {}
    rest = list(printed)
    for line in filter(str.strip, shown):
        if line.strip() == _CUT:
            continue
        words, cut = words_of(line), line.endswith(_CUT)
        fits = (
            place
            for place, text in enumerate(rest)
            if words_of(text) == words or (cut and words_of(text).startswith(words))
        )
        place = next(fits, None)
        outputs[line] = None if place is None else rest[place]
        rest = rest if place is None else rest[place + 1 :]
    return outputs


def with_changed_words(
    outputs: Mapping[str, str | None], printed: Sequence[str]
) -> dict[str, str | None]:
    """The same, each None replaced by the nearest printed line that no other shown line has."""
    lines_by_output = dict(outputs)
    for line in [line for line, text in outputs.items() if text is None]:
        rest = {words_of(text): text for text in printed if text not in lines_by_output.values()}
        nearest = difflib.get_close_matches(words_of(line), rest, n=1, cutoff=0.7)
        lines_by_output[line] = rest[nearest[0]] if nearest else None
    return lines_by_output


def check_output(page: Path, shown: Shown, out: str, err: str) -> None:
    """AssertionError for a shown line that is not printed; `make outputs` writes what changed."""
    # Warnings and progress stand above what a command prints, or below it.
    both = [*err.splitlines(), *out.splitlines(), *err.splitlines()]
    outputs = printed_for(shown.lines, both)
    if WRITES:
        outputs = with_changed_words(outputs, both)
    lost = [line for line, printed in outputs.items() if printed is None]
    if lost:
        raise AssertionError(
            f"`{shown.command}` does not print {lost[0].strip()!r}, as {page.name} shows:\n"
            f"{out}{err}"
        )
    if WRITES:
        write_numbers(page, shown, outputs)


def write_numbers(page: Path, shown: Shown, outputs: Mapping[str, str | None]) -> None:
    """Put the printed lines in the place of the shown ones, where more than times has changed."""
    before = "\n".join(shown.lines)
    new = [
        printed
        if printed and not line.endswith(_CUT) and _steady(line) != _steady(printed)
        else line
        for line in shown.lines
        for printed in [outputs.get(line)]
    ]
    text = page.read_text()
    if new != list(shown.lines):
        if text.count(before) != 1:
            raise AssertionError(f"{page.name} shows the output of `{shown.command}` indented")
        page.write_text(text.replace(before, "\n".join(new)))


def _steady(line: str) -> str:
    """A line without what differs from run to run: times, addresses and hashes."""
    return _HASHES.sub("#", _RUNS.sub("#", line.strip()))
