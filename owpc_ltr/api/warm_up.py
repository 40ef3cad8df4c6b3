"""`warm_up`: everything compiled ahead of time, by small jobs of every kind."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from owpc_ltr.compiling.work import Made
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.host.registry import Registry

Progress = Callable[[str, float | None], None]
Job = tuple[str, Callable[[], object]]


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
    from owpc_ltr.compiling.work import WORK, Listener
    from owpc_ltr.errors import OwpcLtrWarning
    from owpc_ltr.host.registry import load

    made: list[Made] = []
    failures: list[str] = []
    before, shipped = WORK.seconds, WORK.shipped
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        jobs = list(_jobs(load(map(Path, plugins)), Path(folder), plugins))
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


def _jobs(registry: Registry, folder: Path, plugins: Sequence[Path | str]) -> Iterator[Job]:
    """Each kind of work, by its name, so small that compiling is all of it."""
    from owpc_ltr.api.evaluation import evaluate
    from owpc_ltr.api.training import train, train_reranker
    from owpc_ltr.testing.samples import sample_dataset

    data, validation = sample_dataset(grades=2), sample_dataset(grades=2, seed=1)
    common: dict[str, Any] = {"validation": validation, "plugins": plugins}
    yield "LETOR text", partial(_read_text, data, folder)
    yield "large Parquet files", _read_large
    for loss in registry.all("loss"):
        yield f"loss {loss.name}", partial(_price, loss.cls)

    def fit(optimizer: str) -> None:
        evaluate(train(data, optimizer=optimizer, **common), validation, queries="all")

    def reorder(reranker: str) -> None:
        train_reranker(data, f"feature:{data.feature_names[0]}", reranker=reranker, **common)

    for optimizer in registry.all("optimizer"):
        yield f"optimizer {optimizer.name}", partial(fit, optimizer.name)
    for reranker in registry.all("reranker"):
        yield f"reranker {reranker.name}", partial(reorder, reranker.name)


def _read_text(data: RankingDataset, folder: Path) -> None:
    """Text whose rows become wider, and more than were expected."""
    from owpc_ltr.data.letor import read_letor
    from owpc_ltr.data.letor.writing import write_letor

    path = folder / "data.txt"
    write_letor(data, path)
    wide = "".join(f"1 qid:wide{n} 1:0.5 {n + 9}:-1e-3 # docid = d{n}\n" for n in range(8))
    path.write_text(path.read_text() + wide)
    read_letor(path, block=512)


def _read_large() -> None:
    """What is compiled for files that NumPy would take long for."""
    import numpy as np

    from owpc_ltr.data.parquet.digest import column_sums
    from owpc_ltr.data.parquet.reading import transpose_into

    rows = np.zeros((2049, 1024), np.float32)
    transpose_into(rows, np.zeros((1024, 2049), np.float32))
    column_sums(rows.view(np.uint32))


def _price(loss: type[Any]) -> None:
    from owpc_ltr.kernels.kernel import bind, evaluate_query
    from owpc_ltr.testing.samples import sample_queries

    sample = sample_queries()[0]
    evaluate_query(bind(loss()), sample.points[0], sample.labels)
