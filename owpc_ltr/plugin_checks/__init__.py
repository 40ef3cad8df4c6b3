"""Checks of what a plugin promises (`owpc-ltr plugins check`).

    from owpc_ltr.plugin_checks import check_loss

    def test_my_loss_keeps_its_promises() -> None:
        check_loss(MyLoss())

A broken promise raises AssertionError with one sentence: the plugin, what was promised, and the
numbers. All samples are seeded: a check gives the same answer every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import homes, public_name

_HOMES = homes(
    {
        "plugin_checks.check": "ContractResult check_plugin",
        "plugin_checks.exports": "check_export",
        "plugin_checks.learners": "check_optimizer check_reranker",
        "plugin_checks.losses": "check_loss",
        "plugin_checks.metrics": "check_metric",
        "plugin_checks.readers": "Judged check_click_model check_judgment_reader",
    }
)

if TYPE_CHECKING:
    from owpc_ltr.plugin_checks.check import ContractResult as ContractResult
    from owpc_ltr.plugin_checks.check import check_plugin as check_plugin
    from owpc_ltr.plugin_checks.exports import check_export as check_export
    from owpc_ltr.plugin_checks.learners import check_optimizer as check_optimizer
    from owpc_ltr.plugin_checks.learners import check_reranker as check_reranker
    from owpc_ltr.plugin_checks.losses import check_loss as check_loss
    from owpc_ltr.plugin_checks.metrics import check_metric as check_metric
    from owpc_ltr.plugin_checks.readers import Judged as Judged
    from owpc_ltr.plugin_checks.readers import check_click_model as check_click_model
    from owpc_ltr.plugin_checks.readers import (
        check_judgment_reader as check_judgment_reader,
    )
else:
    __all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    return public_name(name, globals(), _HOMES)
