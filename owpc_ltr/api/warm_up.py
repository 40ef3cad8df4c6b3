"""`warm_up`: everything compiled ahead of time, by small jobs of every kind."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.compiling.work import Made

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class WarmedUp:
    """What was compiled, of which kind of work (`jobs`), for how long, and where it is kept.

    What was there already is not made again; the code of `shipped` functions came with the package.
    `failures` are of plugins that could not do a small job; whatever they need is compiled when
    they can.
    """

    made: tuple[Made, ...]
    shipped: int
    jobs: tuple[str, ...]
    seconds: float
    folders: tuple[str, ...]
    failures: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether all of it is there for the next process."""
        return all(one.kept for one in self.made)


def warm_up(*, plugins: Sequence[Path | str] = (), progress: Progress | None = None) -> WarmedUp:
    """Compile what reading, training, evaluating and every plugin need, and keep it on disk.

    What a platform wheel brought compiled is used, unless OWPC_LTR_SHIPPED is set and empty.
    For images and CI, or before a first job that is not to wait. It is kept beside the sources
    where they can be written, else in the user's cache; NUMBA_CACHE_DIR names another folder.
    """
    from owpc_ltr.api.warm_up_jobs import warm_up_jobs
    from owpc_ltr.compiling.work import WORK, Listener
    from owpc_ltr.errors import OwpcLtrWarning
    from owpc_ltr.host.registry import load

    made: list[Made] = []
    failures: list[str] = []
    before, shipped = WORK.seconds, WORK.shipped
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        jobs = list(warm_up_jobs(load(map(Path, plugins)), Path(folder), plugins))
        for number, (name, job) in enumerate(jobs):
            if progress is not None:
                progress(f"compiling: {name}", number / len(jobs))
            with WORK.listening(Listener(made=made.append)):
                try:
                    job()
                except Exception as error:  # noqa: BLE001 - a stranger's code; it is told
                    failures.append(f"{name}: {type(error).__name__}: {error}")
    folders = tuple(sorted({one.kept for one in made if one.kept}))
    names = tuple(name for name, _ in jobs)
    shipped, seconds = WORK.shipped - shipped, WORK.seconds - before
    return WarmedUp(tuple(made), shipped, names, seconds, folders, tuple(failures))
