"""What the calls of this package return, by name."""

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.types import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import DatasetSplits
from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.engine.deployment.feature_drift import Moved
from owpc_ltr.engine.deployment.live_gate import GateResult, NotBetter
from owpc_ltr.engine.deployment.parity import Orders, Parity
from owpc_ltr.engine.deployment.upload import Uploaded
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.feature_log.log import LogReport
from owpc_ltr.engine.profile import Profile
from owpc_ltr.engine.search.judgment_pool import Pooled
from owpc_ltr.engine.search.latency import FeatureCost, Samples
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, LiveMeasured
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.search import BeforeAndAfter, Hit
from owpc_ltr.evaluation.comparison import ComparedRanker, RankerComparison
from owpc_ltr.evaluation.measurement import Measured
from owpc_ltr.evaluation.pairs import ComparedPair
from owpc_ltr.evaluation.prediction_powered import PredictionPowered
from owpc_ltr.evaluation.reconciliation import Reconciled
from owpc_ltr.explanations.explanation import ExplainedHit, Explanation
from owpc_ltr.inspection.finding import Finding
from owpc_ltr.inspection.result import Canary, DataFigures, FeatureRow, Inspection, LearningCurve
from owpc_ltr.training.cross_validation import Choice, Selection
from owpc_ltr.training.feature_cost import Costs

__all__ = [
    "Alias",
    "BeforeAndAfter",
    "Canary",
    "Choice",
    "ComparedPair",
    "ComparedRanker",
    "Costs",
    "DataFigures",
    "DatasetSplits",
    "ExplainedHit",
    "Explanation",
    "FeatureCost",
    "FeatureRow",
    "Finding",
    "GateResult",
    "Hit",
    "Inspection",
    "Judgments",
    "LearningCurve",
    "LiveEvaluation",
    "LiveMeasured",
    "LogReport",
    "Measured",
    "Moved",
    "NotBetter",
    "Orders",
    "Parity",
    "PartitionedDataset",
    "Pooled",
    "PredictionPowered",
    "Profile",
    "RankerComparison",
    "RankingDataset",
    "Reconciled",
    "Samples",
    "SearchRequest",
    "Selection",
    "Uploaded",
    "Verification",
]
