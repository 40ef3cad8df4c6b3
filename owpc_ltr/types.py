"""Classes that signatures, results and plugins of `owpc_ltr` mention, and tools of plugins.

    from owpc_ltr.types import Loss, Vector

`dir(owpc_ltr.types)` lists them. Each is imported when it is first used. Other modules may change
without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import homes, public_name

_HOMES = homes(__name__)

if TYPE_CHECKING:
    from owpc_ltr.arrays import Fields as Fields
    from owpc_ltr.arrays import Labels as Labels
    from owpc_ltr.arrays import Matrix as Matrix
    from owpc_ltr.arrays import Vector as Vector
    from owpc_ltr.compiling import compiled as compiled
    from owpc_ltr.data.blocks import Bars as Bars
    from owpc_ltr.data.blocks import BlockResult as BlockResult
    from owpc_ltr.data.blocks import ChartData as ChartData
    from owpc_ltr.data.blocks import FactList as FactList
    from owpc_ltr.data.blocks import Table as Table
    from owpc_ltr.data.blocks import Tiles as Tiles
    from owpc_ltr.data.click_counts import ClickCounts as ClickCounts
    from owpc_ltr.data.click_counts import ClickLists as ClickLists
    from owpc_ltr.data.click_counts import ranks_vary as ranks_vary
    from owpc_ltr.data.external_features.sources import DocumentPairs as DocumentPairs
    from owpc_ltr.data.external_features.sources import ExternalSource as ExternalSource
    from owpc_ltr.data.external_features.table import ExternalTable as ExternalTable
    from owpc_ltr.data.judgments.grouping import JudgedQuery as JudgedQuery
    from owpc_ltr.data.judgments.grouping import Judgments as Judgments
    from owpc_ltr.data.judgments.grouping import machines_among as machines_among
    from owpc_ltr.data.judgments.lines import JudgmentLines as JudgmentLines
    from owpc_ltr.data.judgments.lines import TypedColumn as TypedColumn
    from owpc_ltr.data.partitioned import JudgedTable as JudgedTable
    from owpc_ltr.data.runs import RankedDocuments as RankedDocuments
    from owpc_ltr.data.runs import TrecRun as TrecRun
    from owpc_ltr.data.splits import DatasetSplits as DatasetSplits
    from owpc_ltr.data.splits import HashSplit as HashSplit
    from owpc_ltr.data.splits import JudgedQueries as JudgedQueries
    from owpc_ltr.data.splits import Origin as Origin
    from owpc_ltr.engine.client.engine import Engine as Engine
    from owpc_ltr.engine.deployment.alias import Alias as Alias
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord as DeploymentRecord
    from owpc_ltr.engine.deployment.model_upload import Uploaded as Uploaded
    from owpc_ltr.engine.deployment.parity import FeatureDrift as FeatureDrift
    from owpc_ltr.engine.deployment.parity import Parity as Parity
    from owpc_ltr.engine.deployment.parity import RankAgreement as RankAgreement
    from owpc_ltr.engine.deployment.serving_mode import ServingMode as ServingMode
    from owpc_ltr.engine.deployment.uploaded_models import AliasSwitch as AliasSwitch
    from owpc_ltr.engine.deployment.uploaded_models import ModelDescription as ModelDescription
    from owpc_ltr.engine.deployment.uploaded_models import ModelDifferences as ModelDifferences
    from owpc_ltr.engine.deployment.uploaded_models import ModelList as ModelList
    from owpc_ltr.engine.deployment.uploaded_models import Removal as Removal
    from owpc_ltr.engine.deployment.uploaded_models import UploadedModels as UploadedModels
    from owpc_ltr.engine.deployment.verify import Verification as Verification
    from owpc_ltr.engine.evidence import Evidence as Evidence
    from owpc_ltr.engine.evidence import SearchConfiguration as SearchConfiguration
    from owpc_ltr.engine.feature_log.feature_reader import LogCounts as LogCounts
    from owpc_ltr.engine.feature_log.log import LogReport as LogReport
    from owpc_ltr.engine.feature_sets import FeatureSets as FeatureSets
    from owpc_ltr.engine.feature_sets import SuggestedFeature as SuggestedFeature
    from owpc_ltr.engine.feature_sets import SuggestedFeatureSet as SuggestedFeatureSet
    from owpc_ltr.engine.index import IndexReport as IndexReport
    from owpc_ltr.engine.legs import Leg as Leg
    from owpc_ltr.engine.legs import Legs as Legs
    from owpc_ltr.engine.live_results.comparison import LiveComparison as LiveComparison
    from owpc_ltr.engine.live_results.judge_pool import JudgmentPool as JudgmentPool
    from owpc_ltr.engine.model_size import Capacity as Capacity
    from owpc_ltr.engine.profile import FeatureCost as FeatureCost
    from owpc_ltr.engine.profile import Profile as Profile
    from owpc_ltr.engine.profile import SearchTimes as SearchTimes
    from owpc_ltr.engine.search.client_scoring import Served as Served
    from owpc_ltr.engine.search.request import RequestBody as RequestBody
    from owpc_ltr.engine.search.request import SearchRequest as SearchRequest
    from owpc_ltr.engine.search.search import BeforeAndAfter as BeforeAndAfter
    from owpc_ltr.engine.search.search import Hit as Hit
    from owpc_ltr.engine.stores import Store as Store
    from owpc_ltr.evaluation.compared_pair import ComparedPair as ComparedPair
    from owpc_ltr.evaluation.comparison_result import ComparedRanker as ComparedRanker
    from owpc_ltr.evaluation.interleaving import InterleavedPage as InterleavedPage
    from owpc_ltr.evaluation.library_conventions import LibraryConvention as LibraryConvention
    from owpc_ltr.evaluation.library_conventions import Reconciliation as Reconciliation
    from owpc_ltr.evaluation.library_conventions import Step as Step
    from owpc_ltr.evaluation.measurement import Measured as Measured
    from owpc_ltr.evaluation.options import JudgmentChecker as JudgmentChecker
    from owpc_ltr.evaluation.prediction_powered import Agreement as Agreement
    from owpc_ltr.evaluation.prediction_powered import Estimate as Estimate
    from owpc_ltr.evaluation.prediction_powered import PredictionPowered as PredictionPowered
    from owpc_ltr.evaluation.ranked_lists import RankedLists as RankedLists
    from owpc_ltr.evaluation.significance import Comparison as Comparison
    from owpc_ltr.evaluation.significance import Outcome as Outcome
    from owpc_ltr.evaluation.significance import ResultWarning as ResultWarning
    from owpc_ltr.evaluation.significance import Verdict as Verdict
    from owpc_ltr.explanations.contributions import Split as Split
    from owpc_ltr.explanations.contributions import TreePath as TreePath
    from owpc_ltr.explanations.explanation import ExplainedHit as ExplainedHit
    from owpc_ltr.explanations.explanation import Explanation as Explanation
    from owpc_ltr.explanations.explanation import ScorePart as ScorePart
    from owpc_ltr.explanations.explanation import Term as Term
    from owpc_ltr.features.feature_set import Feature as Feature
    from owpc_ltr.features.feature_set import FeatureSet as FeatureSet
    from owpc_ltr.files.input import read_text as read_text
    from owpc_ltr.files.input import shown as shown
    from owpc_ltr.formats.engine_versions import ServingProfile as ServingProfile
    from owpc_ltr.formats.stored_model import StoredModel as StoredModel
    from owpc_ltr.fusion.engine_fusions import EngineFusion as EngineFusion
    from owpc_ltr.fusion.evaluation import CandidateRecall as CandidateRecall
    from owpc_ltr.fusion.evaluation import Fusion as Fusion
    from owpc_ltr.fusion.evaluation import LoggedLegs as LoggedLegs
    from owpc_ltr.fusion.evaluation import Optimism as Optimism
    from owpc_ltr.fusion.lint import RequestFinding as RequestFinding
    from owpc_ltr.fusion.lint import RequestLint as RequestLint
    from owpc_ltr.host.commands import Command as Command
    from owpc_ltr.host.plugin_list import InstalledPlugins as InstalledPlugins
    from owpc_ltr.host.plugin_list import PluginDescription as PluginDescription
    from owpc_ltr.host.registry import Failure as Failure
    from owpc_ltr.host.registry import Plugin as Plugin
    from owpc_ltr.host.registry import Registry as Registry
    from owpc_ltr.host.settings import check_settings as check_settings
    from owpc_ltr.host.settings import choice_number as choice_number
    from owpc_ltr.inspection.result import DataFigures as DataFigures
    from owpc_ltr.inspection.result import FeatureRow as FeatureRow
    from owpc_ltr.inspection.result import Finding as Finding
    from owpc_ltr.inspection.result import Inspection as Inspection
    from owpc_ltr.kernels.kernel import BoundLoss as BoundLoss
    from owpc_ltr.kernels.kernel import Kernel as Kernel
    from owpc_ltr.kernels.kernel import KernelLoss as KernelLoss
    from owpc_ltr.kernels.kernel import bind as bind
    from owpc_ltr.kernels.kernel import kernel as kernel
    from owpc_ltr.kernels.linear import linear_risk as linear_risk
    from owpc_ltr.kernels.linear import losses_of_scores as losses_of_scores
    from owpc_ltr.metrics.metric import Metric as Metric
    from owpc_ltr.metrics.metric import RankSum as RankSum
    from owpc_ltr.metrics.metric import parse_metric as parse_metric
    from owpc_ltr.metrics.ranking import RankedQueries as RankedQueries
    from owpc_ltr.metrics.ranking import Ranking as Ranking
    from owpc_ltr.metrics.ranking import cutoff_words as cutoff_words
    from owpc_ltr.metrics.ranking import relevant_of_runs as relevant_of_runs
    from owpc_ltr.metrics.ranking import relevant_words as relevant_words
    from owpc_ltr.models.average import AverageModel as AverageModel
    from owpc_ltr.models.linear import AdditiveModel as AdditiveModel
    from owpc_ltr.models.linear import Curve as Curve
    from owpc_ltr.models.linear import LinearModel as LinearModel
    from owpc_ltr.models.linear import Normaliser as Normaliser
    from owpc_ltr.models.networks import Layer as Layer
    from owpc_ltr.models.networks import LogisticNetwork as LogisticNetwork
    from owpc_ltr.models.networks import NetworkModel as NetworkModel
    from owpc_ltr.models.reordering import ReorderingModel as ReorderingModel
    from owpc_ltr.models.score_range import ScoreInterval as ScoreInterval
    from owpc_ltr.models.trees import Forest as Forest
    from owpc_ltr.models.trees import TreeModel as TreeModel
    from owpc_ltr.names import check_name as check_name
    from owpc_ltr.protocols import Certificate as Certificate
    from owpc_ltr.protocols import ClickFit as ClickFit
    from owpc_ltr.protocols import ClickModel as ClickModel
    from owpc_ltr.protocols import DescendingReranker as DescendingReranker
    from owpc_ltr.protocols import ExplainingReordering as ExplainingReordering
    from owpc_ltr.protocols import ExportedFile as ExportedFile
    from owpc_ltr.protocols import ExportTarget as ExportTarget
    from owpc_ltr.protocols import Fit as Fit
    from owpc_ltr.protocols import JudgmentReader as JudgmentReader
    from owpc_ltr.protocols import JudgmentWriter as JudgmentWriter
    from owpc_ltr.protocols import ListTerm as ListTerm
    from owpc_ltr.protocols import Loss as Loss
    from owpc_ltr.protocols import Model as Model
    from owpc_ltr.protocols import Optimizer as Optimizer
    from owpc_ltr.protocols import RankingModel as RankingModel
    from owpc_ltr.protocols import Reordering as Reordering
    from owpc_ltr.protocols import Reranker as Reranker
    from owpc_ltr.protocols import RerankObjective as RerankObjective
    from owpc_ltr.protocols import Run as Run
    from owpc_ltr.protocols import StreamingOptimizer as StreamingOptimizer
    from owpc_ltr.signatures import Argument as Argument
    from owpc_ltr.signatures import Help as Help
    from owpc_ltr.signatures import Progress as Progress
    from owpc_ltr.signatures import Reads as Reads
    from owpc_ltr.signatures import Writes as Writes
    from owpc_ltr.signatures import job as job
    from owpc_ltr.training.cross_validation import Choice as Choice
    from owpc_ltr.training.cross_validation import FitRow as FitRow
    from owpc_ltr.training.cross_validation import Fold as Fold
    from owpc_ltr.training.cross_validation import Selection as Selection
else:
    __all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    return public_name(name, globals(), _HOMES)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *_HOMES})
