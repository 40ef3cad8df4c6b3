"""What every plugin must promise, as checks that a plugin author calls from a test.

    from owpc_ltr.plugin_checks import check_loss

    def test_my_loss_keeps_its_promises() -> None:
        check_loss(MyLoss())

A broken promise raises AssertionError with one sentence: the plugin, what was promised, and the
numbers. All samples are seeded: a check gives the same answer every time.
"""

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
