"""What an assembled home is made of, and whether it still is."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.output import write_atomically
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, Release

MANIFEST = "owpc-ltr.json"
# Raised with every change to what is put into a home, so that older homes are made anew.
LAYOUT = 1


@dataclass(frozen=True)
class Part:
    """A file of a home."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a home is made of; `ltr_plugin` is the LTR plugin's version, or None without it."""

    release: Release
    ltr_plugin: str | None
    parts: list[Part]
    layout: int = LAYOUT

    def write(self, home: Path) -> None:
        """Put it into the home."""
        content = {
            self.release.engine: self.release.version,
            "ltr_plugin": self.ltr_plugin,
            "parts": [asdict(part) for part in self.parts],
            "layout": self.layout,
        }
        write_atomically(home / MANIFEST, json.dumps(content, indent=1).encode())

    @staticmethod
    def of(home: Path, release: Release, ltr_plugin: str | None) -> Manifest:
        """Describe the files that are in a folder now."""
        parts = [
            Part(name, (home / name).stat().st_size, _sha256(home / name))
            for name in sorted(_files(home))
        ]
        return Manifest(release, ltr_plugin, parts)

    @staticmethod
    def read(home: Path) -> Manifest:
        """Read it from a home. Raises BadInput where it is not there or cannot be understood."""
        path = home / MANIFEST
        try:
            fields = json.loads(path.read_bytes())
            parts = [Part(**part) for part in fields["parts"]]
            engine = ELASTICSEARCH if ELASTICSEARCH in fields else OPENSEARCH
            release = Release(engine, str(fields[engine]))
            return Manifest(release, fields["ltr_plugin"], parts, fields["layout"])
        except (OSError, ValueError, TypeError, KeyError, UsageError, RecursionError) as error:
            raise BadInput(f"{path} does not describe an assembled home: {error!r}") from error

    def fault(self, home: Path, *, sums: bool) -> str:
        """The first thing in the home that is not as recorded, or nothing.

        Sizes are always compared; every byte is read only for `sums`.
        """
        if self.layout != LAYOUT:
            return f"it has layout {self.layout}, and this owpc-ltr makes {LAYOUT}"
        for part in self.parts:
            path = home / part.path
            if not path.is_file():
                return f"{part.path} is missing"
            if path.stat().st_size != part.size:
                return f"{part.path} has {path.stat().st_size} bytes instead of {part.size}"
            if sums and _sha256(path) != part.sha256:
                return f"{part.path} has another SHA-256 than when it was assembled"
        recorded = {part.path for part in self.parts}
        stray = [path for path in _files(home) if path not in {*recorded, MANIFEST}]
        return f"{stray[0]} does not belong there" if stray else ""


def _files(home: Path) -> list[str]:
    return [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
