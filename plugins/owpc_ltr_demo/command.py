"""`owpc-ltr demo`: the main job on text that everybody has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.options import Json, Threads
from owpc_ltr.cli.output import Progress, print_json, print_table, progress
from owpc_ltr.errors import UsageError


def demo(
    port: Annotated[int, typer.Option(help="Where the demo's own node answers.")] = 9270,
    folder: Annotated[
        Path, typer.Option(help="Where judgments, dataset, model and baseline go.")
    ] = Path("owpc-ltr-demo"),
    queries: Annotated[
        int, typer.Option(min=200, help="How many queries; a fifth of them is held out.")
    ] = 2500,
    files: Annotated[
        Path | None,
        typer.Option(help="Only write corpus, settings, features and judgments, into this folder."),
    ] = None,
    clicks: Annotated[
        bool,
        typer.Option("--clicks", help="Learn from what simulated users click on, live."),
    ] = False,
    threads: Threads = 1,
    seed: Annotated[int, typer.Option(help="Same seed, same model.")] = 0,
    as_json: Json = False,
) -> None:
    """Walk the whole road on Python's own documentation.

    Starts a node of its own, indexes the standard library's documentation, logs features, trains
    OWPC, compares it with tuned BM25 and LambdaMART, uploads it and searches live. Each docstring's
    summary is the query that should find its object. The node is left running.

    With --clicks it is told what is relevant by users alone, who are simulated: they click on what
    live searches show; a ranker is trained on judgments from their clicks, and compared with others
    by the true grades.

    With --files it walks nothing: it writes the files with which you can, command by command.
    """
    from owpc_ltr_demo.main_job import run_clicks, run_demo, run_files
    from owpc_ltr_demo.narration import Silent
    from owpc_ltr_demo.walk import DemoOptions

    narrator = Silent() if as_json else _Terminal()
    if files is not None and clicks:
        raise UsageError("--files walks nothing: leave it out, or leave --clicks out")
    if files is not None:
        written = run_files(DemoOptions(port, files, queries, threads, seed), narrator)
        if as_json:
            print_json({**asdict(written), "folder": str(written.folder)})
        return
    options = DemoOptions(port, folder, queries, threads, seed)
    figures = (run_clicks if clicks else run_demo)(options, narrator)
    if as_json:
        print_json(figures)


class _Terminal:
    """Tells the demo's news on standard output, and progress on a terminal."""

    def step(self, number: int, total: int, title: str) -> None:
        typer.echo(f"\n[{number}/{total}] {title}")

    def line(self, text: str = "") -> None:
        typer.echo(f"  {text}" if text else "")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        print_table(headers, rows)

    def working(self) -> AbstractContextManager[Progress]:
        return progress()
