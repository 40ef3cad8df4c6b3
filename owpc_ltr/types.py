"""Classes that signatures, results and plugins of `owpc_ltr` mention, and tools of plugins.

    from owpc_ltr.types import Loss, Vector

Data        Vector, Labels, Matrix, Fields, DatasetSplits, HashSplit, JudgedQueries, Origin,
            TrecRun, RankedDocuments, Judgments, JudgedQuery, JudgmentLines, TypedColumn,
            ClickCounts, ClickLists, ExternalTable, Texts, ExternalSource, DocumentPairs, Room,
            FeatureSet, Feature, Inspection, Finding, FeatureRow, DataFigures, Canary,
            LearningCurve, CurvePoint, Gain, HumanLabelSample, Stratum
Models      RankingModel, Model, LinearModel, AdditiveModel, Curve, Normaliser, TreeModel, Forest,
            AverageModel, NetworkModel, LogisticNetwork, Layer, ReorderingModel, ScoreInterval
Training    Fold, Selection, Choice, FitRow, Costs
Evaluation  Metric, RankSum, RankedQueries, Ranking, Measured, ComparedPair, ComparedRanker,
            MeanInterval, Comparison, Doubt, Outcome, Verdict, PredictionPowered, Agreement,
            Estimate, Reconciled, Elsewhere, Step, JudgmentChecker, LiveLists, Explanation,
            ExplainedHit, ScorePart, Term, TreePath, Split, ToPass, ValueChange
Cluster     FeatureSets, SuggestedFeatureSet, SuggestedFeature, EngineOwner, IndexReport,
            LogReport, LogCounts, RemoteWorkers, Uploaded, Verification, Parity, FeatureDrift,
            RankAgreement, GateResult, ServingMode, Alias, DeploymentRecord, UploadedModels,
            ModelList, ModelDescription, ModelDifferences, AliasSwitch, Removal, LiveEvaluation,
            LiveMeasured, LiveQuestion, BeforeAndAfter, Hit, Profile, Capacity, FeatureCost,
            Samples, RequestBody, Served, SearchRequest, Pooled, UpgradeReport, UpgradeEffect,
            ServingProfile, StoredModel, Store, Engine, RequestLint, RequestFinding
Plugins     Loss, Optimizer, StreamingOptimizer, Fit, Run, Certificate, Reranker,
            DescendingReranker, RerankObjective, Reordering, ExplainingReordering, ListTerm,
            JudgmentReader, JudgmentWriter, ExportTarget, ExportedFile, ClickModel, ClickFit,
            Registry, Plugin, Failure, InstalledPlugins, PluginDescription, Command, Help, Reads,
            Writes, Progress, job
Tools       compiled, BoundLoss, Kernel, KernelLoss, bind, kernel, linear_risk, losses_of_scores,
            parse_metric, cutoff_words, relevant_of_runs, relevant_words, read_text, shown,
            check_name, share_by_clicks, ranks_vary, check_settings, choice_number

Each name is imported when it is first used. Other modules may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import public_name

if TYPE_CHECKING:
    from owpc_ltr.arrays import Fields, Labels, Matrix, Vector
    from owpc_ltr.compiling import compiled
    from owpc_ltr.data.click_counts import ClickCounts, ClickLists, ranks_vary
    from owpc_ltr.data.external_features.sources import DocumentPairs, ExternalSource
    from owpc_ltr.data.external_features.table import ExternalTable, Texts
    from owpc_ltr.data.judgments.lines import JudgmentLines, TypedColumn
    from owpc_ltr.data.judgments.queries import JudgedQuery, Judgments, share_by_clicks
    from owpc_ltr.data.options import Room
    from owpc_ltr.data.runs import RankedDocuments, TrecRun
    from owpc_ltr.data.splits import DatasetSplits, HashSplit, JudgedQueries, Origin
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.deployment.alias import Alias
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
    from owpc_ltr.engine.deployment.live_gate import GateResult
    from owpc_ltr.engine.deployment.model_upload import Uploaded
    from owpc_ltr.engine.deployment.parity import FeatureDrift, Parity, RankAgreement
    from owpc_ltr.engine.deployment.serving_mode import ServingMode
    from owpc_ltr.engine.deployment.uploaded_models import (
        AliasSwitch,
        ModelDescription,
        ModelDifferences,
        ModelList,
        Removal,
        UploadedModels,
    )
    from owpc_ltr.engine.deployment.verify import Verification
    from owpc_ltr.engine.feature_log.feature_reader import LogCounts
    from owpc_ltr.engine.feature_log.log import LogReport
    from owpc_ltr.engine.feature_log.remote import RemoteWorkers
    from owpc_ltr.engine.feature_sets import FeatureSets
    from owpc_ltr.engine.index import IndexReport
    from owpc_ltr.engine.live_results.judge_pool import Pooled
    from owpc_ltr.engine.profile import Profile
    from owpc_ltr.engine.search.capacity import Capacity
    from owpc_ltr.engine.search.latency import FeatureCost, Samples
    from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, LiveMeasured, LiveQuestion
    from owpc_ltr.engine.search.request import RequestBody, SearchRequest
    from owpc_ltr.engine.search.search import BeforeAndAfter, Hit
    from owpc_ltr.engine.search.serving import Served
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.engine.suggested_features import (
        EngineOwner,
        SuggestedFeature,
        SuggestedFeatureSet,
    )
    from owpc_ltr.evaluation.active_sampling import HumanLabelSample, Stratum
    from owpc_ltr.evaluation.comparison_table import ComparedPair, ComparedRanker, MeanInterval
    from owpc_ltr.evaluation.live_lists import LiveLists
    from owpc_ltr.evaluation.measurement import Measured
    from owpc_ltr.evaluation.options import JudgmentChecker
    from owpc_ltr.evaluation.other_libraries import Elsewhere, Reconciled, Step
    from owpc_ltr.evaluation.prediction_powered import Agreement, Estimate, PredictionPowered
    from owpc_ltr.evaluation.significance import Comparison, Doubt, Outcome, Verdict
    from owpc_ltr.explanations.explanation import ExplainedHit, Explanation, ScorePart, Term
    from owpc_ltr.explanations.trees import Split, TreePath
    from owpc_ltr.explanations.what_if import ToPass, ValueChange
    from owpc_ltr.features.feature_set import Feature, FeatureSet
    from owpc_ltr.files.input import read_text, shown
    from owpc_ltr.formats.engine_versions import ServingProfile
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.formats.upgrade_report import UpgradeEffect, UpgradeReport
    from owpc_ltr.fusion.lint_result import RequestLint
    from owpc_ltr.fusion.request_checks import RequestFinding
    from owpc_ltr.host.plugin_list import InstalledPlugins, PluginDescription
    from owpc_ltr.host.registry import Failure, Plugin, Registry
    from owpc_ltr.host.settings import check_settings, choice_number
    from owpc_ltr.inspection.result import (
        Canary,
        CurvePoint,
        DataFigures,
        FeatureRow,
        Finding,
        Gain,
        Inspection,
        LearningCurve,
    )
    from owpc_ltr.kernels.kernel import BoundLoss, Kernel, KernelLoss, bind, kernel
    from owpc_ltr.kernels.linear import linear_risk, losses_of_scores
    from owpc_ltr.metrics.metric import Metric, RankSum, parse_metric
    from owpc_ltr.metrics.ranking import (
        RankedQueries,
        Ranking,
        cutoff_words,
        relevant_of_runs,
        relevant_words,
    )
    from owpc_ltr.models.average import AverageModel
    from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel, Normaliser
    from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.models.score_range import ScoreInterval
    from owpc_ltr.models.trees import Forest, TreeModel
    from owpc_ltr.names import check_name
    from owpc_ltr.protocols import (
        Certificate,
        ClickFit,
        ClickModel,
        DescendingReranker,
        ExplainingReordering,
        ExportedFile,
        ExportTarget,
        Fit,
        JudgmentReader,
        JudgmentWriter,
        ListTerm,
        Loss,
        Model,
        Optimizer,
        RankingModel,
        Reordering,
        Reranker,
        RerankObjective,
        Run,
        StreamingOptimizer,
    )
    from owpc_ltr.signatures import Command, Help, Progress, Reads, Writes, job
    from owpc_ltr.training.cross_validation import Choice, FitRow, Fold, Selection
    from owpc_ltr.training.feature_cost import Costs

__all__ = [
    "AdditiveModel",
    "Agreement",
    "Alias",
    "AliasSwitch",
    "AverageModel",
    "BeforeAndAfter",
    "BoundLoss",
    "Canary",
    "Capacity",
    "Certificate",
    "Choice",
    "ClickCounts",
    "ClickFit",
    "ClickLists",
    "ClickModel",
    "Command",
    "ComparedPair",
    "ComparedRanker",
    "Comparison",
    "Costs",
    "Curve",
    "CurvePoint",
    "DataFigures",
    "DatasetSplits",
    "DeploymentRecord",
    "DescendingReranker",
    "DocumentPairs",
    "Doubt",
    "Elsewhere",
    "Engine",
    "EngineOwner",
    "Estimate",
    "ExplainedHit",
    "ExplainingReordering",
    "Explanation",
    "ExportTarget",
    "ExportedFile",
    "ExternalSource",
    "ExternalTable",
    "Failure",
    "Feature",
    "FeatureCost",
    "FeatureDrift",
    "FeatureRow",
    "FeatureSet",
    "FeatureSets",
    "Fields",
    "Finding",
    "Fit",
    "FitRow",
    "Fold",
    "Forest",
    "Gain",
    "GateResult",
    "HashSplit",
    "Help",
    "Hit",
    "HumanLabelSample",
    "IndexReport",
    "Inspection",
    "InstalledPlugins",
    "JudgedQueries",
    "JudgedQuery",
    "JudgmentChecker",
    "JudgmentLines",
    "JudgmentReader",
    "JudgmentWriter",
    "Judgments",
    "Kernel",
    "KernelLoss",
    "Labels",
    "Layer",
    "LearningCurve",
    "LinearModel",
    "ListTerm",
    "LiveEvaluation",
    "LiveLists",
    "LiveMeasured",
    "LiveQuestion",
    "LogCounts",
    "LogReport",
    "LogisticNetwork",
    "Loss",
    "Matrix",
    "MeanInterval",
    "Measured",
    "Metric",
    "Model",
    "ModelDescription",
    "ModelDifferences",
    "ModelList",
    "NetworkModel",
    "Normaliser",
    "Optimizer",
    "Origin",
    "Outcome",
    "Parity",
    "Plugin",
    "PluginDescription",
    "Pooled",
    "PredictionPowered",
    "Profile",
    "Progress",
    "RankAgreement",
    "RankSum",
    "RankedDocuments",
    "RankedQueries",
    "Ranking",
    "RankingModel",
    "Reads",
    "Reconciled",
    "Registry",
    "RemoteWorkers",
    "Removal",
    "Reordering",
    "ReorderingModel",
    "RequestBody",
    "RequestFinding",
    "RequestLint",
    "RerankObjective",
    "Reranker",
    "Room",
    "Run",
    "Samples",
    "ScoreInterval",
    "ScorePart",
    "SearchRequest",
    "Selection",
    "Served",
    "ServingMode",
    "ServingProfile",
    "Split",
    "Step",
    "Store",
    "StoredModel",
    "Stratum",
    "StreamingOptimizer",
    "SuggestedFeature",
    "SuggestedFeatureSet",
    "Term",
    "Texts",
    "ToPass",
    "TrecRun",
    "TreeModel",
    "TreePath",
    "TypedColumn",
    "UpgradeEffect",
    "UpgradeReport",
    "Uploaded",
    "UploadedModels",
    "ValueChange",
    "Vector",
    "Verdict",
    "Verification",
    "Writes",
    "bind",
    "check_name",
    "check_settings",
    "choice_number",
    "compiled",
    "cutoff_words",
    "job",
    "kernel",
    "linear_risk",
    "losses_of_scores",
    "parse_metric",
    "ranks_vary",
    "read_text",
    "relevant_of_runs",
    "relevant_words",
    "share_by_clicks",
    "shown",
]

_HOMES = {
    "AdditiveModel": "owpc_ltr.models.linear",
    "Agreement": "owpc_ltr.evaluation.prediction_powered",
    "Alias": "owpc_ltr.engine.deployment.alias",
    "AliasSwitch": "owpc_ltr.engine.deployment.uploaded_models",
    "AverageModel": "owpc_ltr.models.average",
    "BeforeAndAfter": "owpc_ltr.engine.search.search",
    "BoundLoss": "owpc_ltr.kernels.kernel",
    "Canary": "owpc_ltr.inspection.result",
    "Capacity": "owpc_ltr.engine.search.capacity",
    "Certificate": "owpc_ltr.protocols",
    "Choice": "owpc_ltr.training.cross_validation",
    "ClickCounts": "owpc_ltr.data.click_counts",
    "ClickFit": "owpc_ltr.protocols",
    "ClickLists": "owpc_ltr.data.click_counts",
    "ClickModel": "owpc_ltr.protocols",
    "Command": "owpc_ltr.signatures",
    "ComparedPair": "owpc_ltr.evaluation.comparison_table",
    "ComparedRanker": "owpc_ltr.evaluation.comparison_table",
    "Comparison": "owpc_ltr.evaluation.significance",
    "Costs": "owpc_ltr.training.feature_cost",
    "Curve": "owpc_ltr.models.linear",
    "CurvePoint": "owpc_ltr.inspection.result",
    "DataFigures": "owpc_ltr.inspection.result",
    "DatasetSplits": "owpc_ltr.data.splits",
    "DeploymentRecord": "owpc_ltr.engine.deployment.deployment_record",
    "DescendingReranker": "owpc_ltr.protocols",
    "DocumentPairs": "owpc_ltr.data.external_features.sources",
    "Doubt": "owpc_ltr.evaluation.significance",
    "Elsewhere": "owpc_ltr.evaluation.other_libraries",
    "Engine": "owpc_ltr.engine.client.engine",
    "EngineOwner": "owpc_ltr.engine.suggested_features",
    "Estimate": "owpc_ltr.evaluation.prediction_powered",
    "ExplainedHit": "owpc_ltr.explanations.explanation",
    "ExplainingReordering": "owpc_ltr.protocols",
    "Explanation": "owpc_ltr.explanations.explanation",
    "ExportTarget": "owpc_ltr.protocols",
    "ExportedFile": "owpc_ltr.protocols",
    "ExternalSource": "owpc_ltr.data.external_features.sources",
    "ExternalTable": "owpc_ltr.data.external_features.table",
    "Failure": "owpc_ltr.host.registry",
    "Feature": "owpc_ltr.features.feature_set",
    "FeatureCost": "owpc_ltr.engine.search.latency",
    "FeatureDrift": "owpc_ltr.engine.deployment.parity",
    "FeatureRow": "owpc_ltr.inspection.result",
    "FeatureSet": "owpc_ltr.features.feature_set",
    "FeatureSets": "owpc_ltr.engine.feature_sets",
    "Fields": "owpc_ltr.arrays",
    "Finding": "owpc_ltr.inspection.result",
    "Fit": "owpc_ltr.protocols",
    "FitRow": "owpc_ltr.training.cross_validation",
    "Fold": "owpc_ltr.training.cross_validation",
    "Forest": "owpc_ltr.models.trees",
    "Gain": "owpc_ltr.inspection.result",
    "GateResult": "owpc_ltr.engine.deployment.live_gate",
    "HashSplit": "owpc_ltr.data.splits",
    "Help": "owpc_ltr.signatures",
    "Hit": "owpc_ltr.engine.search.search",
    "HumanLabelSample": "owpc_ltr.evaluation.active_sampling",
    "IndexReport": "owpc_ltr.engine.index",
    "Inspection": "owpc_ltr.inspection.result",
    "InstalledPlugins": "owpc_ltr.host.plugin_list",
    "JudgedQueries": "owpc_ltr.data.splits",
    "JudgedQuery": "owpc_ltr.data.judgments.queries",
    "JudgmentChecker": "owpc_ltr.evaluation.options",
    "JudgmentLines": "owpc_ltr.data.judgments.lines",
    "JudgmentReader": "owpc_ltr.protocols",
    "JudgmentWriter": "owpc_ltr.protocols",
    "Judgments": "owpc_ltr.data.judgments.queries",
    "Kernel": "owpc_ltr.kernels.kernel",
    "KernelLoss": "owpc_ltr.kernels.kernel",
    "Labels": "owpc_ltr.arrays",
    "Layer": "owpc_ltr.models.networks",
    "LearningCurve": "owpc_ltr.inspection.result",
    "LinearModel": "owpc_ltr.models.linear",
    "ListTerm": "owpc_ltr.protocols",
    "LiveEvaluation": "owpc_ltr.engine.search.live_evaluation",
    "LiveLists": "owpc_ltr.evaluation.live_lists",
    "LiveMeasured": "owpc_ltr.engine.search.live_evaluation",
    "LiveQuestion": "owpc_ltr.engine.search.live_evaluation",
    "LogCounts": "owpc_ltr.engine.feature_log.feature_reader",
    "LogReport": "owpc_ltr.engine.feature_log.log",
    "LogisticNetwork": "owpc_ltr.models.networks",
    "Loss": "owpc_ltr.protocols",
    "Matrix": "owpc_ltr.arrays",
    "MeanInterval": "owpc_ltr.evaluation.comparison_table",
    "Measured": "owpc_ltr.evaluation.measurement",
    "Metric": "owpc_ltr.metrics.metric",
    "Model": "owpc_ltr.protocols",
    "ModelDescription": "owpc_ltr.engine.deployment.uploaded_models",
    "ModelDifferences": "owpc_ltr.engine.deployment.uploaded_models",
    "ModelList": "owpc_ltr.engine.deployment.uploaded_models",
    "NetworkModel": "owpc_ltr.models.networks",
    "Normaliser": "owpc_ltr.models.linear",
    "Optimizer": "owpc_ltr.protocols",
    "Origin": "owpc_ltr.data.splits",
    "Outcome": "owpc_ltr.evaluation.significance",
    "Parity": "owpc_ltr.engine.deployment.parity",
    "Plugin": "owpc_ltr.host.registry",
    "PluginDescription": "owpc_ltr.host.plugin_list",
    "Pooled": "owpc_ltr.engine.live_results.judge_pool",
    "PredictionPowered": "owpc_ltr.evaluation.prediction_powered",
    "Profile": "owpc_ltr.engine.profile",
    "Progress": "owpc_ltr.signatures",
    "RankAgreement": "owpc_ltr.engine.deployment.parity",
    "RankSum": "owpc_ltr.metrics.metric",
    "RankedDocuments": "owpc_ltr.data.runs",
    "RankedQueries": "owpc_ltr.metrics.ranking",
    "Ranking": "owpc_ltr.metrics.ranking",
    "RankingModel": "owpc_ltr.protocols",
    "Reads": "owpc_ltr.signatures",
    "Reconciled": "owpc_ltr.evaluation.other_libraries",
    "Registry": "owpc_ltr.host.registry",
    "RemoteWorkers": "owpc_ltr.engine.feature_log.remote",
    "Removal": "owpc_ltr.engine.deployment.uploaded_models",
    "Reordering": "owpc_ltr.protocols",
    "ReorderingModel": "owpc_ltr.models.reordering",
    "RequestBody": "owpc_ltr.engine.search.request",
    "RequestFinding": "owpc_ltr.fusion.request_checks",
    "RequestLint": "owpc_ltr.fusion.lint_result",
    "RerankObjective": "owpc_ltr.protocols",
    "Reranker": "owpc_ltr.protocols",
    "Room": "owpc_ltr.data.options",
    "Run": "owpc_ltr.protocols",
    "Samples": "owpc_ltr.engine.search.latency",
    "ScoreInterval": "owpc_ltr.models.score_range",
    "ScorePart": "owpc_ltr.explanations.explanation",
    "SearchRequest": "owpc_ltr.engine.search.request",
    "Selection": "owpc_ltr.training.cross_validation",
    "Served": "owpc_ltr.engine.search.serving",
    "ServingMode": "owpc_ltr.engine.deployment.serving_mode",
    "ServingProfile": "owpc_ltr.formats.engine_versions",
    "Split": "owpc_ltr.explanations.trees",
    "Step": "owpc_ltr.evaluation.other_libraries",
    "Store": "owpc_ltr.engine.stores",
    "StoredModel": "owpc_ltr.formats.stored_model",
    "Stratum": "owpc_ltr.evaluation.active_sampling",
    "StreamingOptimizer": "owpc_ltr.protocols",
    "SuggestedFeature": "owpc_ltr.engine.suggested_features",
    "SuggestedFeatureSet": "owpc_ltr.engine.suggested_features",
    "Term": "owpc_ltr.explanations.explanation",
    "Texts": "owpc_ltr.data.external_features.table",
    "ToPass": "owpc_ltr.explanations.what_if",
    "TrecRun": "owpc_ltr.data.runs",
    "TreeModel": "owpc_ltr.models.trees",
    "TreePath": "owpc_ltr.explanations.trees",
    "TypedColumn": "owpc_ltr.data.judgments.lines",
    "UpgradeEffect": "owpc_ltr.formats.upgrade_report",
    "UpgradeReport": "owpc_ltr.formats.upgrade_report",
    "Uploaded": "owpc_ltr.engine.deployment.model_upload",
    "UploadedModels": "owpc_ltr.engine.deployment.uploaded_models",
    "ValueChange": "owpc_ltr.explanations.what_if",
    "Vector": "owpc_ltr.arrays",
    "Verdict": "owpc_ltr.evaluation.significance",
    "Verification": "owpc_ltr.engine.deployment.verify",
    "Writes": "owpc_ltr.signatures",
    "bind": "owpc_ltr.kernels.kernel",
    "check_name": "owpc_ltr.names",
    "check_settings": "owpc_ltr.host.settings",
    "choice_number": "owpc_ltr.host.settings",
    "compiled": "owpc_ltr.compiling",
    "cutoff_words": "owpc_ltr.metrics.ranking",
    "job": "owpc_ltr.signatures",
    "kernel": "owpc_ltr.kernels.kernel",
    "linear_risk": "owpc_ltr.kernels.linear",
    "losses_of_scores": "owpc_ltr.kernels.linear",
    "parse_metric": "owpc_ltr.metrics.metric",
    "ranks_vary": "owpc_ltr.data.click_counts",
    "read_text": "owpc_ltr.files.input",
    "relevant_of_runs": "owpc_ltr.metrics.ranking",
    "relevant_words": "owpc_ltr.metrics.ranking",
    "share_by_clicks": "owpc_ltr.data.judgments.queries",
    "shown": "owpc_ltr.files.input",
}
"""Each public name and the module that it is imported from when it is first used."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    return public_name(name, globals(), _HOMES)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
