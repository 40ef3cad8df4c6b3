"""What every plugin must promise, as checks that a plugin author calls from a test.

    from owpc_ltr.testing import check_loss

    def test_my_loss_keeps_its_promises() -> None:
        check_loss(MyLoss())

A broken promise raises AssertionError with one sentence: the plugin, what was promised, and the
numbers. All samples are seeded: a check gives the same answer every time.
"""

from owpc_ltr.testing.by_kind import Checked, check_plugin
from owpc_ltr.testing.click_models import check_click_model
from owpc_ltr.testing.exports import check_export
from owpc_ltr.testing.judgment_readers import check_judgment_reader
from owpc_ltr.testing.judgment_samples import Judged
from owpc_ltr.testing.losses import check_loss
from owpc_ltr.testing.metrics import check_metric
from owpc_ltr.testing.optimizers import check_optimizer
from owpc_ltr.testing.report import LossReport, describe_loss
from owpc_ltr.testing.rerankers import check_reranker

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
