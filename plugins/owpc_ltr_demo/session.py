"""The session: options and names of the demo, its printed steps, its files and its figures."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from owpc_ltr.data.blocks import text_table
from owpc_ltr.files.output import write_output
from owpc_ltr.signatures import Progress

PORT = 9270
"""The port of the demo's own node."""
FOLDER = Path("owpc-ltr-demo")
QUERIES = 1800
INDEX = "python-docs"
"""The name of the index and of the feature set."""
PROJECT = {
    "index": INDEX,
    "featureset": INDEX,
    "alias": "docs-search",
    "query_template": f"{INDEX}-query.json",
    "title_field": "qualified_name",
    "judgments": f"{INDEX}-judgments.tsv",
    "judged_by": "people",
    "metric": "ndcg@10",
    "data": "docs.parquet",
    "model": "docs-model.json",
}
"""What the demo's project file says, besides the address."""
MODEL = "python-docs-owpc"
TREES_MODEL = "python-docs-trees"
WINDOW = 100
"""Documents that a model reranks in a live search."""
SELECT = "ndcg@10"
"""The metric that selects loss weights, C, trees and boosts."""
STEPS = 11
"""The number of steps."""


@dataclass(frozen=True)
class DemoOptions:
    """The options of the demo."""

    port: int = PORT
    folder: Path = FOLDER
    queries: int = QUERIES
    threads: int = 1
    seed: int = 0


@dataclass
class DemoSession:
    """A run of the demo: it prints the steps and their results, and keeps the figures so far."""

    options: DemoOptions
    figures: dict[str, Any] = field(default_factory=lambda: {"seconds": {}})

    @contextmanager
    def step(self, key: str, title: str) -> Iterator[None]:
        """Announce a step, and record its seconds."""
        self.announce(len(self.figures["seconds"]) + 1, title)
        started = time.monotonic()
        yield
        self.figures["seconds"][key] = time.monotonic() - started

    def announce(self, number: int, title: str) -> None:
        """Print the number and the title of a step."""
        print(f"\n[{number}/{STEPS}] {title}")

    def line(self, text: str = "") -> None:
        """Print one result."""
        print(f"  {text}" if text else "")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print figures."""
        print(text_table(headers, rows))

    def working(self) -> AbstractContextManager[Progress]:
        """The progress of a long task on a terminal; nothing is printed meanwhile."""
        from owpc_ltr.cli.terminal import progress

        return progress()

    def file(self, ending: str) -> Path:
        """A file of the demo."""
        return self.options.folder / f"{INDEX}{ending}"

    def write(self, ending: str, text: str) -> Path:
        """Write a file of the demo."""
        write_output(self.file(ending), f"{text}\n".encode())
        return self.file(ending)


def program() -> str:
    """The program as it is called here: its name, or its path where that is not on PATH."""
    if shutil.which("owpc-ltr"):
        return "owpc-ltr"
    return os.path.relpath(Path(sys.executable).parent / "owpc-ltr")
