"""Checks of what a plugin promises (`owpc-ltr check`).

    from owpc_ltr.plugin_checks import check_loss

    def test_my_loss_keeps_its_promises() -> None:
        check_loss(MyLoss())

A broken promise raises AssertionError with one sentence: the plugin, what was promised, and the
numbers. All samples are seeded: a check gives the same answer every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from owpc_ltr.plugin_checks.check import Checked, check_plugin
    from owpc_ltr.plugin_checks.click_models import check_click_model
    from owpc_ltr.plugin_checks.exports import check_export
    from owpc_ltr.plugin_checks.judgment_readers import Judged, check_judgment_reader
    from owpc_ltr.plugin_checks.losses import LossReport, check_loss, describe_loss
    from owpc_ltr.plugin_checks.metrics import check_metric
    from owpc_ltr.plugin_checks.optimizers import check_optimizer
    from owpc_ltr.plugin_checks.rerankers import check_reranker

__all__ = [
    "Checked",
    "Judged",
    "LossReport",
    "check_click_model",
    "check_export",
    "check_judgment_reader",
    "check_loss",
    "check_metric",
    "check_optimizer",
    "check_plugin",
    "check_reranker",
    "describe_loss",
]


_HOMES = {
    "check": ("Checked", "check_plugin"),
    "click_models": ("check_click_model",),
    "exports": ("check_export",),
    "judgment_readers": ("Judged", "check_judgment_reader"),
    "losses": ("LossReport", "check_loss", "describe_loss"),
    "metrics": ("check_metric",),
    "optimizers": ("check_optimizer",),
    "rerankers": ("check_reranker",),
}
"""The names of each module, which are imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
