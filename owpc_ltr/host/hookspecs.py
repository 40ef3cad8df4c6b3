"""The hooks: a plugin is any module, named by an entry point, that implements one of them.

from owpc_ltr import hookimpl

@hookimpl
def ltr_losses():
    return [MyLoss]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from owpc_ltr.host.commands import Command
    from owpc_ltr.host.report_parts import ReportPart
    from owpc_ltr.protocols import (
        ClickModel,
        ExportTarget,
        JudgmentReader,
        Loss,
        Optimizer,
        Reranker,
    )

PROJECT = "owpc_ltr"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ltr_losses() -> list[type[Loss]]:  # type: ignore[empty-body]
    """Classes of losses: frozen dataclasses that satisfy `owpc_ltr.protocols.Loss`."""


@hookspec
def ltr_optimizers() -> list[type[Optimizer]]:  # type: ignore[empty-body]
    """Classes of optimizers, which satisfy `owpc_ltr.protocols.Optimizer`."""


@hookspec
def ltr_rerankers() -> list[type[Reranker]]:  # type: ignore[empty-body]
    """Classes of rerankers, which satisfy `owpc_ltr.protocols.Reranker`."""


@hookspec
def ltr_metrics() -> list[type[Any]]:  # type: ignore[empty-body]
    """Classes of metrics: frozen dataclasses that extend `owpc_ltr.metrics.Metric`."""


@hookspec
def ltr_judgment_readers() -> list[type[JudgmentReader]]:  # type: ignore[empty-body]
    """Classes of judgment readers, which satisfy `owpc_ltr.protocols.JudgmentReader`."""


@hookspec
def ltr_export_targets() -> list[type[ExportTarget]]:  # type: ignore[empty-body]
    """Classes of export targets, which satisfy `owpc_ltr.protocols.ExportTarget`."""


@hookspec
def ltr_click_models() -> list[type[ClickModel]]:  # type: ignore[empty-body]
    """Classes of click models, which satisfy `owpc_ltr.protocols.ClickModel`."""


@hookspec
def ltr_commands() -> list[Command]:  # type: ignore[empty-body]
    """Commands of `owpc-ltr`, each of them the public function that it names.

    The module stands in the entry-point group `owpc_ltr.commands`, and imports the functions' own
    modules only when a command runs:

        @hookimpl
        def ltr_commands():
            return [Command("hello", "owpc_ltr_hello.greeting:hello", "Greet the user.")]
    """


@hookspec
def ltr_workers() -> Callable[..., AbstractContextManager[Any]]:  # type: ignore[empty-body]
    """A context manager `use_workers(place, *, plugins)`, for jobs that have the option `--dask`.

    The module stands in the entry-point group `owpc_ltr.commands`.
    """


@hookspec
def ltr_default_url() -> str:  # type: ignore[empty-body]
    """The address of the engine where the user names none: of a node that runs on this machine.

    The module stands in the entry-point group `owpc_ltr.commands`. The first plugin decides.
    """


@hookspec
def ltr_report_parts() -> list[ReportPart]:  # type: ignore[empty-body]
    """What `owpc-ltr report` says of results of the plugin's own classes.

    The module stands in the entry-point group `owpc_ltr.commands`.
    """
