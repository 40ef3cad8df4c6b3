"""Checks of what a plugin promises (`owpc-ltr plugins check`).

    from owpc_ltr.plugin_checks import check_loss

    def test_my_loss_keeps_its_promises() -> None:
        check_loss(MyLoss())

A broken promise raises AssertionError with one sentence: the plugin, what was promised, and the
numbers. All samples are seeded: a check gives the same answer every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import public_name

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
    "Checked": "owpc_ltr.plugin_checks.check",
    "Judged": "owpc_ltr.plugin_checks.judgment_readers",
    "LossReport": "owpc_ltr.plugin_checks.losses",
    "check_click_model": "owpc_ltr.plugin_checks.click_models",
    "check_export": "owpc_ltr.plugin_checks.exports",
    "check_judgment_reader": "owpc_ltr.plugin_checks.judgment_readers",
    "check_loss": "owpc_ltr.plugin_checks.losses",
    "check_metric": "owpc_ltr.plugin_checks.metrics",
    "check_optimizer": "owpc_ltr.plugin_checks.optimizers",
    "check_plugin": "owpc_ltr.plugin_checks.check",
    "check_reranker": "owpc_ltr.plugin_checks.rerankers",
    "describe_loss": "owpc_ltr.plugin_checks.losses",
}
"""Each public name and the module that it is imported from when it is first used."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    return public_name(name, globals(), _HOMES)
