"""The files that commands read, which must be there, and those that they will write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import BadInput, OwpcLtrError, PluginError, UsageError


@dataclass(frozen=True)
class Reads:
    """Marks a parameter that names one file to read, or several: absent ones end the command.

    They are looked for before the command imports what reads them, which takes seconds; the error
    is what the reader would say. A text that begins with `unless` names no file.

        data: Annotated[Path, Reads(), typer.Argument(help="A dataset.")]
    """

    absent: str = "cannot read {path}: no such file or directory; check the name"
    error: type[OwpcLtrError] = BadInput
    unless: str | None = None

    def check(self, given: object) -> None:
        """Raise the error for the first file that is not there; other faults are the reader's."""
        several = isinstance(given, Iterable) and not isinstance(given, str)
        for path in given if several else [given]:  # type: ignore[attr-defined]
            if path is None or (self.unless is not None and str(path).startswith(self.unless)):
                continue
            try:
                Path(path).stat()
            except FileNotFoundError as error:
                raise self.error(self.absent.format(path=path)) from error
            except (OSError, ValueError):
                continue


A_MODEL = Reads("cannot read the model {path}: No such file or directory")
A_FEATURE_SET = Reads("cannot read the feature set {path}: No such file or directory")
A_PLUGIN = Reads("{path}: there is no such file", PluginError)
MODEL_OR_FEATURE = Reads(A_MODEL.absent, unless="feature:")


def check_writable(path: Path) -> None:
    """Refuse an output that could not be written, before the work rather than after it."""
    if path.is_dir():
        raise UsageError(f"cannot write to {path}: it is a folder; name a file")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} is not writable")
