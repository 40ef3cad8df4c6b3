"""The files that commands read, which must be there, and those that they will write."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from owpc_ltr.errors import BadInput, OwpcLtrError, PluginError, UsageError


@dataclass(frozen=True)
class Reads:
    """Marks a parameter that names one file to read, or several: absent ones end the command.

    They are looked for before the command imports what reads them, which takes seconds; the error
    is what the reader would say. A text that begins with `unless` names no file. With None for
    `absent` it may be a name of another kind.

        data: Annotated[Path, Reads(), typer.Argument(help="A dataset.")]
    """

    absent: str | None = "cannot read {path}: no such file or directory; check the name"
    error: type[OwpcLtrError] = BadInput
    unless: str | None = None

    def check(self, given: object) -> None:
        """Raise the error for the first file that is not there; other faults are the reader's."""
        for path in self.files(given):
            try:
                Path(path).stat()
            except FileNotFoundError as error:
                if self.absent is None:
                    continue
                raise self.error(self.absent.format(path=path)) from error
            except (OSError, ValueError):
                continue

    def files(self, given: object) -> list[Path | str]:
        """The files that the parameter names."""
        several = isinstance(given, Iterable) and not isinstance(given, str)
        return [
            path
            for path in (given if several else [given])  # type: ignore[attr-defined]
            if path is not None
            and not (self.unless is not None and str(path).startswith(self.unless))
        ]


A_MODEL = Reads("cannot read the model {path}: No such file or directory")
A_FEATURE_SET = Reads("cannot read the feature set {path}: No such file or directory")
MAYBE_A_FILE = Reads(None)
A_PLUGIN = Reads("{path}: there is no such file", PluginError)
MODEL_OR_FEATURE = Reads(A_MODEL.absent, unless="feature:")


@dataclass(frozen=True)
class Writes:
    """Marks a parameter that names the file to write, or `-`, standard output.

    It is checked before the command begins: that it can be written, and is none of the files that
    the command reads. With `-` all else that is printed goes to standard error.

        out: Annotated[Path, Writes(), typer.Option(help="Where the model goes.")]
    """

    needs_folder: bool = True
    """Whether its folder must be there already."""
    standard_output: str | None = None
    """Why it cannot be standard output, if it cannot."""
    or_folder: bool = False
    """Whether it may also be a folder, which is then left to who writes it."""

    def check(self, path: Path, inputs: Sequence[Path | str]) -> bool:
        """Raise UsageError for what cannot be written; whether it is standard output."""
        from owpc_ltr.files.output import check_output, is_standard_output

        if is_standard_output(path) and self.standard_output is not None:
            raise UsageError(self.standard_output)
        if self.or_folder and path.is_dir():
            return False
        check_output(path, inputs, needs_folder=self.needs_folder)
        if path.is_symlink() and not is_standard_output(path):
            print(f"{path} is a link: {os.path.realpath(path)} is written", file=sys.stderr)
        return is_standard_output(path)


def refuse_one_file(outputs: Mapping[str, Path]) -> None:
    """Refuse two outputs, by their parameters, that are one file: the first would be lost."""
    from owpc_ltr.files.output import same_file

    for (one, path), (other, again) in combinations(outputs.items(), 2):
        if same_file(path, again):
            raise UsageError(
                f"{_option(one)} {path} and {_option(other)} {again} are one file, which can hold "
                "one of them: name two files"
            )


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"
