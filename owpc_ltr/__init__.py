"""owpc-ltr: from judged queries to a ranker that runs in OpenSearch or Elasticsearch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.version import VERSION

if TYPE_CHECKING:
    from owpc_ltr.api.datasets import from_frame, read_dataset, read_run, write_run
    from owpc_ltr.data.dataset import RankingDataset, make_dataset
    from owpc_ltr.data.parquet import save_dataset
    from owpc_ltr.errors import OwpcLtrError, OwpcLtrWarning
    from owpc_ltr.host.hookspecs import hookimpl
    from owpc_ltr.models.linear import load_model
    from owpc_ltr.models.reordering import load_ranker

__all__ = [
    "OwpcLtrError",
    "OwpcLtrWarning",
    "RankingDataset",
    "__version__",
    "from_frame",
    "hookimpl",
    "load_model",
    "load_ranker",
    "make_dataset",
    "read_dataset",
    "read_run",
    "save_dataset",
    "write_run",
]

__version__ = VERSION

_HOMES = {
    "OwpcLtrError": "owpc_ltr.errors",
    "OwpcLtrWarning": "owpc_ltr.errors",
    "RankingDataset": "owpc_ltr.data.dataset",
    "from_frame": "owpc_ltr.api.datasets",
    "hookimpl": "owpc_ltr.host.hookspecs",
    "load_model": "owpc_ltr.models.linear",
    "load_ranker": "owpc_ltr.models.reordering",
    "make_dataset": "owpc_ltr.data.dataset",
    "read_dataset": "owpc_ltr.api.datasets",
    "read_run": "owpc_ltr.api.datasets",
    "save_dataset": "owpc_ltr.data.parquet",
    "write_run": "owpc_ltr.api.datasets",
}
"""Each public name and the module that it is imported from when it is first asked for."""


def __getattr__(name: str) -> Any:
    """Import a public name, so that what nobody asks for costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'owpc_ltr' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
