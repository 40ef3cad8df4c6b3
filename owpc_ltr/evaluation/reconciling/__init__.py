"""Why another library prints another NDCG or MAP of the same ranking: each convention applied."""

from owpc_ltr.evaluation.reconciling.conventions import Convention
from owpc_ltr.evaluation.reconciling.libraries import LIBRARIES, Library
from owpc_ltr.evaluation.reconciling.reconcile import Elsewhere, Reconciled, Step, reconcile

__all__ = ["LIBRARIES", "Convention", "Elsewhere", "Library", "Reconciled", "Step", "reconcile"]
