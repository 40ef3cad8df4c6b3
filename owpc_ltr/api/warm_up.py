"""`warm_up`: everything compiled ahead of time, by small jobs of every kind."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.compiling import Made

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class WarmedUp:
    """What was compiled, for which kinds of work (`jobs`), for how long, and where it is kept.

    What was there already is not made again.
    `failures` are of plugins that could not do a small job; whatever they need is compiled when
    they can.
    """

    made: tuple[Made, ...]
    jobs: tuple[str, ...]
    seconds: float
    folder: str
    failures: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether all of it is there for the next process."""
        return all(one.folder for one in self.made)


def warm_up(*, plugins: Sequence[Path | str] = (), progress: Progress | None = None) -> WarmedUp:
    """Compile what reading, training, evaluating and every plugin need, and keep it on disk.

    For images and CI, or before a first job that is not to wait. It is kept in the user's cache,
    or in the folder that NUMBA_CACHE_DIR names, if nobody else can write there.
    """
    from owpc_ltr.api.warm_up_jobs import warm_up_jobs
    from owpc_ltr.compiling import WORK
    from owpc_ltr.errors import OwpcLtrWarning
    from owpc_ltr.host.registry import load

    failures: list[str] = []
    before = len(WORK.made)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        jobs = list(warm_up_jobs(load(map(Path, plugins)), Path(folder), plugins))
        for number, (name, job) in enumerate(jobs):
            if progress is not None:
                progress(f"compiling: {name}", number / len(jobs))
            try:
                job()
            except Exception as error:  # noqa: BLE001 - a stranger's code; it is told
                failures.append(f"{name}: {type(error).__name__}: {error}")
    made = tuple(WORK.made[before:])
    folder = next((str(Path(one.folder).parent) for one in made if one.folder), "")
    seconds = sum(one.seconds for one in made)
    return WarmedUp(made, tuple(name for name, _ in jobs), seconds, folder, tuple(failures))
