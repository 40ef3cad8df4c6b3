"""`use_workers`: Dask workers for `train`, `evaluate` and `select`, while a block of work lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, overload

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr_dask.connection import Workers


@contextmanager
def use_workers(place: str, *, plugins: Sequence[Path | str] = ()) -> Iterator[Workers]:
    """Workers at `local:4` (processes of this machine), or of a scheduler, `tcp://HOST:8786`.

    `workers.parts(open_dataset(folder))` is the dataset whose parts they go through: give that to
    `train` and `evaluate`; the result is the same, bit for bit, for any number of workers.
    `plugins` are files of which losses or optimizers are used. Processes of this machine end with
    the block: a script that starts some does so under `if __name__ == "__main__"`. Raises
    WorkersUnavailable where nobody answers, Refused where a worker is not fit for the work.

    ```python
    with owpc_ltr.use_workers("local:4") as workers:
        data = workers.parts(owpc_ltr.open_dataset("judged/"))
        model = owpc_ltr.train(data, optimizer="bundle", settings={"C": 1.0})
    ```
    """
    if find_spec("distributed") is None or find_spec("cryptography") is None:
        raise UsageError("work on a cluster needs Dask: pip install 'owpc-ltr[dask]'")
    from owpc_ltr_dask.connection import workers_at
    from owpc_ltr_dask.place import parse_place

    with workers_at(parse_place(place), list(map(Path, plugins))) as workers:
        yield workers


@contextmanager
def workers_if_asked(
    place: str | None, plugins: Sequence[Path | str] = ()
) -> Iterator[Workers | None]:
    """The same, or None where no place is given."""
    if place is None:
        yield None
        return
    with use_workers(place, plugins=plugins) as workers:
        yield workers


def check_in_parts(path: Path) -> None:
    """Refuse what workers cannot go through, before any of them is started."""
    from owpc_ltr.data.partitioned.manifest import is_partitioned

    if not is_partitioned(path):
        raise UsageError(
            f"workers go through a folder of parts, and {path} is none: make one with owpc-ltr "
            f"partition {path} --out FOLDER"
        )


@overload
def on(data: PartitionedDataset, workers: Workers | None) -> PartitionedDataset: ...
@overload
def on(data: RankingDataset, workers: Workers | None) -> RankingDataset: ...
@overload
def on(data: None, workers: Workers | None) -> None: ...
def on(
    data: RankingDataset | PartitionedDataset | None, workers: Workers | None
) -> RankingDataset | PartitionedDataset | None:
    """Some data, gone through by the workers where there are any."""
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset

    return (
        data if workers is None or not isinstance(data, PartitionedDataset) else workers.parts(data)
    )
