"""Dask workers for partitioned datasets: jobs with the option `--dask`, or a block of Python.

The sums of a part are the same on a worker and in this process, and this process adds them in the
order of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr import hookimpl
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr_dask.connection import DaskWorkers


@hookimpl
def ltr_workers() -> Callable[..., AbstractContextManager[Any]]:
    """Offer `--dask`."""
    return use_workers


@contextmanager
def use_workers(place: str, *, plugins: Sequence[Path | str] = ()) -> Iterator[DaskWorkers]:
    """Workers at `local:4` (processes of this machine), or of a scheduler, `tcp://HOST:8786`.

    `workers.parts(open_dataset(folder))` is the dataset whose parts they go through: give that to
    `train`; the result is the same, bit for bit, for any number of workers.
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
    from owpc_ltr_dask.connection import parse_place, workers_at

    with workers_at(parse_place(place), list(map(Path, plugins))) as workers:
        yield workers
