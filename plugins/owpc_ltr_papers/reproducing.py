"""`reproduce`: a paper's protocol on the reader's own LETOR, published figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr_papers.outcome import Reproduction

Progress = Callable[[str, float | None], None]


def reproduce(
    protocol: str,
    letor: Path | str,
    *,
    out: Path | str | None = None,
    data_sets: Sequence[str] = (),
    quick: bool = False,
    with_ranklib: bool = False,
    seed: int = 0,
    threads: int = 1,
    plugins: Sequence[Path | str] = (),
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Reproduction:
    """Published figures beside ours: `owpc2009`, `inex2009`, `lambdarank` or `exchangeable2014`.

    `letor` is a folder with LETOR's data sets in their own layout, or in part: what is missing is
    said, and what is made of a part is called so. With `out` finished work is kept there, so that
    the same call goes on after a stop, and the table is written in every format. `data_sets`
    chooses some. `quick` does a small part of the protocol, and says so. `with_ranklib` downloads
    RankLib once, and runs it; `say` is told of that.

    Raises UsageError for a protocol or a data set that there is not, BadInput for a folder without
    data.
    """
    from dataclasses import replace

    from owpc_ltr.host.registry import load
    from owpc_ltr.protocols import Run
    from owpc_ltr_papers.protocol import Extent
    from owpc_ltr_papers.reproduce import Asked
    from owpc_ltr_papers.reproduce import reproduce as work

    run = Run(seed=seed, threads=threads)
    asked = Asked(
        protocol,
        Path(letor),
        tuple(data_sets),
        None if out is None else Path(out),
        Extent(quick, with_ranklib),
        seed,
    )
    registry = load(map(Path, plugins))
    told = run if progress is None else replace(run, progress=progress)
    return work(asked, registry, told, say or _silence)


def _silence(_line: str) -> None:
    """Tell nothing."""
