"""Classes that programs and plugins name, and tools of plugins.

    from owpc_ltr.types import Loss, Vector

Of `owpc_ltr` it has what functions and methods take and return, of plugins what they implement,
receive or make. What a result holds has no name here: read it from the attributes.

`dir(owpc_ltr.types)` lists them. Each is imported when it is first used. Other modules may change
without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import homes, public_name

_HOMES = homes(
    {
        "arrays": "Fields Labels Matrix Vector",
        "compiling": "compiled",
        "data.click_counts": "ClickCounts ClickLists ranks_vary",
        "data.external_features": "ExternalTable",
        "data.judgments": "JudgedQuery JudgmentLines Judgments TypedColumn",
        "data.partitioned": "JudgedTable",
        "data.runs": "TrecRun",
        "data.splits": "DatasetSplits HashSplit Origin",
        "engine.deployment.model_upload": "Uploaded",
        "engine.deployment.uploaded_models": (
            "AliasSwitch ModelDescription ModelDifferences ModelList Removal UploadedModels"
        ),
        "engine.deployment.verify": "Verification",
        "engine.feature_log.log": "LogReport",
        "engine.feature_sets": "FeatureSets SuggestedFeatureSet",
        "engine.index": "IndexReport",
        "engine.live_results.comparison": "LiveComparison",
        "engine.live_results.judge_pool": "JudgmentPool",
        "engine.profile": "Profile",
        "engine.search.request": "RequestBody",
        "engine.search.search": "BeforeAndAfter",
        "evaluation.compared_pair": "ComparedPair",
        "evaluation.comparison_result": "ComparedRanker",
        "evaluation.interleaving": "InterleavedPage",
        "evaluation.library_conventions": "Reconciliation",
        "evaluation.measurement": "Measured",
        "evaluation.significance": "ResultWarning Verdict",
        "explanations.explanation": "Explanation",
        "features.feature_set": "Feature FeatureSet",
        "files.input": "read_text shown",
        "fusion.evaluation": "Fusion",
        "fusion.lint": "RequestLint",
        "host.commands": "Command",
        "host.plugin_list": "InstalledPlugins",
        "host.registry": "Plugin Registry",
        "host.settings": "check_settings choice_number",
        "inspection.result": "Inspection",
        "kernels.kernel": "bind BoundLoss Kernel kernel KernelLoss linear_risk losses_of_scores",
        "metrics.metric": (
            "cutoff_words Metric parse_metric RankedQueries Ranking RankSum relevant_of_runs "
            "relevant_words"
        ),
        "models.combined": "AverageModel ReorderingModel",
        "models.linear": "AdditiveModel Curve LinearModel Normaliser",
        "models.networks": "Layer LogisticNetwork NetworkModel",
        "models.trees": "Forest TreeModel",
        "protocols": (
            "Certificate ClickFit ClickModel DescendingReranker ExplainingReordering ExportedFile "
            "ExportTarget Fit JudgmentReader JudgmentWriter ListTerm Loss Model Optimizer "
            "RankingModel Reordering Reranker RerankObjective Run StreamingOptimizer"
        ),
        "signatures": "Argument Help Progress Reads Writes job",
        "names": "check_name",
        "training.cross_validation": "Fold Selection",
    }
)

if TYPE_CHECKING:
    from owpc_ltr.arrays import Fields as Fields
    from owpc_ltr.arrays import Labels as Labels
    from owpc_ltr.arrays import Matrix as Matrix
    from owpc_ltr.arrays import Vector as Vector
    from owpc_ltr.compiling import compiled as compiled
    from owpc_ltr.data.click_counts import ClickCounts as ClickCounts
    from owpc_ltr.data.click_counts import ClickLists as ClickLists
    from owpc_ltr.data.click_counts import ranks_vary as ranks_vary
    from owpc_ltr.data.external_features import ExternalTable as ExternalTable
    from owpc_ltr.data.judgments import JudgedQuery as JudgedQuery
    from owpc_ltr.data.judgments import JudgmentLines as JudgmentLines
    from owpc_ltr.data.judgments import Judgments as Judgments
    from owpc_ltr.data.judgments import TypedColumn as TypedColumn
    from owpc_ltr.data.partitioned import JudgedTable as JudgedTable
    from owpc_ltr.data.runs import TrecRun as TrecRun
    from owpc_ltr.data.splits import DatasetSplits as DatasetSplits
    from owpc_ltr.data.splits import HashSplit as HashSplit
    from owpc_ltr.data.splits import Origin as Origin
    from owpc_ltr.engine.deployment.model_upload import Uploaded as Uploaded
    from owpc_ltr.engine.deployment.uploaded_models import AliasSwitch as AliasSwitch
    from owpc_ltr.engine.deployment.uploaded_models import ModelDescription as ModelDescription
    from owpc_ltr.engine.deployment.uploaded_models import ModelDifferences as ModelDifferences
    from owpc_ltr.engine.deployment.uploaded_models import ModelList as ModelList
    from owpc_ltr.engine.deployment.uploaded_models import Removal as Removal
    from owpc_ltr.engine.deployment.uploaded_models import UploadedModels as UploadedModels
    from owpc_ltr.engine.deployment.verify import Verification as Verification
    from owpc_ltr.engine.feature_log.log import LogReport as LogReport
    from owpc_ltr.engine.feature_sets import FeatureSets as FeatureSets
    from owpc_ltr.engine.feature_sets import SuggestedFeatureSet as SuggestedFeatureSet
    from owpc_ltr.engine.index import IndexReport as IndexReport
    from owpc_ltr.engine.live_results.comparison import LiveComparison as LiveComparison
    from owpc_ltr.engine.live_results.judge_pool import JudgmentPool as JudgmentPool
    from owpc_ltr.engine.profile import Profile as Profile
    from owpc_ltr.engine.search.request import RequestBody as RequestBody
    from owpc_ltr.engine.search.search import BeforeAndAfter as BeforeAndAfter
    from owpc_ltr.evaluation.compared_pair import ComparedPair as ComparedPair
    from owpc_ltr.evaluation.comparison_result import ComparedRanker as ComparedRanker
    from owpc_ltr.evaluation.interleaving import InterleavedPage as InterleavedPage
    from owpc_ltr.evaluation.library_conventions import Reconciliation as Reconciliation
    from owpc_ltr.evaluation.measurement import Measured as Measured
    from owpc_ltr.evaluation.significance import ResultWarning as ResultWarning
    from owpc_ltr.evaluation.significance import Verdict as Verdict
    from owpc_ltr.explanations.explanation import Explanation as Explanation
    from owpc_ltr.features.feature_set import Feature as Feature
    from owpc_ltr.features.feature_set import FeatureSet as FeatureSet
    from owpc_ltr.files.input import read_text as read_text
    from owpc_ltr.files.input import shown as shown
    from owpc_ltr.fusion.evaluation import Fusion as Fusion
    from owpc_ltr.fusion.lint import RequestLint as RequestLint
    from owpc_ltr.host.commands import Command as Command
    from owpc_ltr.host.plugin_list import InstalledPlugins as InstalledPlugins
    from owpc_ltr.host.registry import Plugin as Plugin
    from owpc_ltr.host.registry import Registry as Registry
    from owpc_ltr.host.settings import check_settings as check_settings
    from owpc_ltr.host.settings import choice_number as choice_number
    from owpc_ltr.inspection.result import Inspection as Inspection
    from owpc_ltr.kernels.kernel import BoundLoss as BoundLoss
    from owpc_ltr.kernels.kernel import Kernel as Kernel
    from owpc_ltr.kernels.kernel import KernelLoss as KernelLoss
    from owpc_ltr.kernels.kernel import bind as bind
    from owpc_ltr.kernels.kernel import kernel as kernel
    from owpc_ltr.kernels.kernel import linear_risk as linear_risk
    from owpc_ltr.kernels.kernel import losses_of_scores as losses_of_scores
    from owpc_ltr.metrics.metric import Metric as Metric
    from owpc_ltr.metrics.metric import RankedQueries as RankedQueries
    from owpc_ltr.metrics.metric import Ranking as Ranking
    from owpc_ltr.metrics.metric import RankSum as RankSum
    from owpc_ltr.metrics.metric import cutoff_words as cutoff_words
    from owpc_ltr.metrics.metric import parse_metric as parse_metric
    from owpc_ltr.metrics.metric import relevant_of_runs as relevant_of_runs
    from owpc_ltr.metrics.metric import relevant_words as relevant_words
    from owpc_ltr.models.combined import AverageModel as AverageModel
    from owpc_ltr.models.combined import ReorderingModel as ReorderingModel
    from owpc_ltr.models.linear import AdditiveModel as AdditiveModel
    from owpc_ltr.models.linear import Curve as Curve
    from owpc_ltr.models.linear import LinearModel as LinearModel
    from owpc_ltr.models.linear import Normaliser as Normaliser
    from owpc_ltr.models.networks import Layer as Layer
    from owpc_ltr.models.networks import LogisticNetwork as LogisticNetwork
    from owpc_ltr.models.networks import NetworkModel as NetworkModel
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
