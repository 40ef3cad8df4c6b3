"""The hook of this plugin: Dask workers for jobs that have the option `--dask`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from owpc_ltr import hookimpl


@hookimpl
def ltr_workers() -> Callable[..., AbstractContextManager[Any]]:
    """Offer `--dask`."""
    from owpc_ltr_dask.use_workers import use_workers

    return use_workers
