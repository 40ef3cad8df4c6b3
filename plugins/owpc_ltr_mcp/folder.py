"""The folder of a session: every file that a tool reads or writes is in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import Refused, UsageError

_PARTS = re.compile(r"=@|[=,]")
"""What files stand behind in other texts: NAME=@FILE, NAME=FILE, FILE,FILE."""


@dataclass(frozen=True)
class Folder:
    """A folder, and whether paths stay in it. `root` is absolute, without links."""

    root: Path

    @classmethod
    def at(cls, path: Path | str) -> Folder:
        """The folder at this path.

        Raises UsageError where there is none, and for one with all files: clients often start
        servers in / or in the home folder.
        """
        root = Path(path).resolve()
        if not root.is_dir():
            raise UsageError(f"there is no folder {path}: create it, or name another one")
        if root in {Path(root.anchor), Path.home().resolve()}:
            raise UsageError(f"{root} has all files: name a folder with those that tools may use")
        return cls(root)

    def check_path(self, argument: str, path: str) -> None:
        """Refuse a path, also of a file that is yet to be written, that leaves the folder.

        A link must stay in it, too, and so must links within a folder of data.
        """
        target = self._resolved(path)
        if path.startswith("~") or not self._holds(target):
            raise self._leaves(argument, path)
        if target is not None and os.path.isdir(target):  # noqa: PTH112 - for any name
            for link in filter(Path.is_symlink, target.rglob("*")):
                if not self._holds(self._resolved(link)):
                    raise self._leaves(argument, str(link.relative_to(self.root)))

    def check_text(self, argument: str, text: str) -> None:
        """Refuse a text that names an existing file outside of the folder."""
        for part in (text, *_PARTS.split(text)):
            target = self._resolved(part)
            if target and not self._holds(target) and os.path.exists(target):  # noqa: PTH110
                raise self._leaves(argument, part)

    def _holds(self, target: Path | None) -> bool:
        return target is not None and target.is_relative_to(self.root)

    def _resolved(self, path: Path | str) -> Path | None:
        """Where a path leads; None for what is none."""
        try:
            return (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError):
            return None

    def _leaves(self, argument: str, path: str) -> Refused:
        return Refused(
            f"{argument} {path!r} is outside of the folder of this session: name a file in it, "
            "by a path that is relative to it"
        )
