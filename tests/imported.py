"""What a command imports: run in a process of its own, whose modules are listed at its end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

HEAVY = (
    *("numpy", "numba", "llvmlite", "scipy", "pyarrow", "pandas", "polars", "sklearn", "xgboost"),
    *("opensearchpy", "requests", "urllib3", "tenacity", "asyncio", "pluggy", "pystache", "psutil"),
    *("pydantic", "rich", "botocore", "jgo"),
)
"""Libraries whose import takes as long as a command may."""

_RUN = """
import json, sys
from owpc_ltr import cli

place, *sys.argv[1:] = sys.argv[1:]
try:
    cli.main()
except SystemExit as ended:
    with open(place, "w") as file:
        json.dump([ended.code, sorted(sys.modules)], file)
"""


@dataclass(frozen=True)
class Imported:
    """The exit code of a command, what it printed, and all modules that were there at its end."""

    code: int
    out: str
    err: str
    modules: frozenset[str]

    def heavy(self, allowed: Collection[str] = ()) -> list[str]:
        """The heavy libraries among the modules, but for those allowed."""
        return [name for name in HEAVY if name in self.modules and name not in allowed]


def imported_by(*words: str, folder: Path, environ: Mapping[str, str]) -> Imported:
    """Run `owpc-ltr` with these words in a folder, where its modules are noted."""
    place = folder / "modules.json"
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, str(place), *words],
        cwd=folder,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    code, modules = json.loads(place.read_text())
    return Imported(int(code or 0), ended.stdout, ended.stderr, frozenset(modules))
