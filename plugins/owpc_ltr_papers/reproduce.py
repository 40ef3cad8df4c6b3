"""`owpc-ltr reproduce`: a paper's protocol on the reader's own LETOR, published figures beside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from owpc_ltr.errors import Stopped, UsageError
from owpc_ltr.signatures import Help, Plugins, Progress, Reads, Seed, job, option_name, silent
from owpc_ltr.training.options import Threads

if TYPE_CHECKING:
    from owpc_ltr_papers.results import Reproduction


def print_message(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr)


@job
def reproduce(
    protocol: Annotated[
        Literal["owpc2009", "inex2009", "lambdarank", "exchangeable2014"],
        Help("Which paper's experiments.", metavar="PROTOCOL"),
    ],
    *,
    letor: Annotated[
        Path | str,
        Reads(
            "The folder with LETOR's data sets: Fold1/train.txt, or S1.txt to S5.",
            absent="{path} is no folder: name the one that holds LETOR's data sets",
            metavar="FOLDER",
        ),
    ],
    data_sets: Annotated[
        Sequence[str], Help("Only this data set, as OHSUMED; may be repeated.", flag="--data-set")
    ] = (),
    out: Annotated[
        Path | str | None,
        Help(
            "A folder for finished work and the table in every format.",
            short="-o",
            metavar="FOLDER",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["table", "markdown", "csv", "latex"], Help("How the table is printed.")
    ] = "table",
    quick: Annotated[
        bool, Help("Run a small part of the protocol; results are marked as such.")
    ] = False,
    with_ranklib: Annotated[
        bool, Help("Download RankLib once, and run it as the paper did.")
    ] = False,
    threads: Threads = 1,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
    say: Callable[[str], None] = print_message,
) -> Reproduction:
    """Run a paper's protocol on your LETOR folder.

    Shows each published figure beside ours, with the difference and an interval. Missing data sets
    are named; figures of a part of a data set are marked and not compared. With --out, the same
    command resumes an interrupted run.

    Python: `say` receives each message; by default it is printed to standard error.

    Raises UsageError for a protocol or a data set that there is not, BadInput for a folder without
    data.
    """
    from owpc_ltr.host.registry import load
    from owpc_ltr.protocols import Run
    from owpc_ltr_papers.protocol_run import ReproductionPlan, run_protocol
    from owpc_ltr_papers.protocols import Extent

    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UsageError(f"{option_name('out')} {out} is a file: name a folder")
    plan = ReproductionPlan(
        protocol,
        Path(letor),
        tuple(data_sets),
        folder,
        extent=Extent(quick, with_ranklib),
        seed=seed,
        format=format,
    )
    run = Run(seed=seed, threads=threads, progress=progress)
    try:
        found = run_protocol(plan, load(map(Path, plugins)), run, say)
    except Stopped:
        if folder is None:
            say(f"nothing of it is kept: with {option_name('out')} FOLDER it would be")
        raise
    if found.stale:
        say(
            f"{found.stale} results in {out} were of other data, another version or another base: "
            "done again"
        )
    if folder is not None:
        say(f"written to {out}: results.json, .csv, .md, .tex and .html")
    return found
