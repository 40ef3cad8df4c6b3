"""Train a ranker from judged queries and run it inside OpenSearch or Elasticsearch.

    import owpc_ltr as ltr

    data = ltr.read_dataset("train.txt")       # LETOR text or Parquet; or make_dataset, from_frame
    model = ltr.train(data)                    # keeps a fifth of the queries out for evaluation
    print(ltr.evaluate(model, data))           # on the queries that were kept out
    print(ltr.compare({"owpc": model, "other": "other.json"}, data=data))
    model.save("model.json")

    cluster = ltr.connect("http://127.0.0.1:9200")
    cluster.featuresets.push("features.json", index="docs")
    cluster.log_features(judgments="judgments.csv", index="docs", out="train.parquet")
    cluster.upload(model, index="docs", name="docs-ranker")
    cluster.search("red shoes", index="docs", model="docs-ranker")

Data         read_dataset, make_dataset, from_frame, open_dataset, read_judgments, inspect
Training     train, train_reranker, select, average, load_model, save_model, Ranker, OwpcRanker
Evaluation   evaluate, compare, explain, explain_metric, read_run
Cluster      connect, Cluster; its models and featuresets; lint
Other tools  import_model, export_model, from_sklearn, upgrade_check
Plugins      plugins, hookimpl
Errors       OwpcLtrError and its kinds: UsageError, BadInput, EngineUnavailable, Refused, …

`help(owpc_ltr.train)` describes each parameter of a function. `owpc_ltr.types` has the classes that
signatures mention. Anything that is in neither module may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import public_name
from owpc_ltr.version import VERSION

if TYPE_CHECKING:
    from owpc_ltr.data.construction import from_frame, make_dataset
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.datasets import open_dataset, partition, read_dataset
    from owpc_ltr.data.external_features.table import read_external_features
    from owpc_ltr.data.parquet import save_dataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.data.runs import read_run
    from owpc_ltr.engine.cluster import Cluster, connect
    from owpc_ltr.engine.upgrade_check import upgrade_check
    from owpc_ltr.errors import (
        BadInput,
        DiskFault,
        EngineUnavailable,
        OwpcLtrError,
        OwpcLtrWarning,
        PluginError,
        Refused,
        UsageError,
        WorkersUnavailable,
    )
    from owpc_ltr.evaluation.active_sampling import judge_sample
    from owpc_ltr.evaluation.compare import compare
    from owpc_ltr.evaluation.comparison_table import RankerComparison
    from owpc_ltr.evaluation.evaluate import Evaluation, evaluate, write_run
    from owpc_ltr.evaluation.metric_explanation import explain_metric
    from owpc_ltr.explanations.explain import explain
    from owpc_ltr.formats.export_model import export_model
    from owpc_ltr.formats.import_model import import_model
    from owpc_ltr.formats.sklearn_trees import from_sklearn
    from owpc_ltr.fusion.lint import lint
    from owpc_ltr.host.hookspecs import hookimpl
    from owpc_ltr.host.judgment_lists import read_judgments, write_judgments
    from owpc_ltr.host.plugin_list import plugins
    from owpc_ltr.inspection.inspect import inspect
    from owpc_ltr.models.average import average
    from owpc_ltr.models.model_file import save_model
    from owpc_ltr.models.reordering import load_model
    from owpc_ltr.training.cross_validation import read_folds
    from owpc_ltr.training.estimators import OwpcRanker, Ranker
    from owpc_ltr.training.select import select
    from owpc_ltr.training.train import read_costs, train
    from owpc_ltr.training.train_reranker import train_reranker

__all__ = [
    "BadInput",
    "Cluster",
    "DiskFault",
    "EngineUnavailable",
    "Evaluation",
    "OwpcLtrError",
    "OwpcLtrWarning",
    "OwpcRanker",
    "PartitionedDataset",
    "PluginError",
    "Ranker",
    "RankerComparison",
    "RankingDataset",
    "Refused",
    "UsageError",
    "WorkersUnavailable",
    "__version__",
    "average",
    "compare",
    "connect",
    "evaluate",
    "explain",
    "explain_metric",
    "export_model",
    "from_frame",
    "from_sklearn",
    "hookimpl",
    "import_model",
    "inspect",
    "judge_sample",
    "lint",
    "load_model",
    "make_dataset",
    "open_dataset",
    "partition",
    "plugins",
    "read_costs",
    "read_dataset",
    "read_external_features",
    "read_folds",
    "read_judgments",
    "read_run",
    "save_dataset",
    "save_model",
    "select",
    "train",
    "train_reranker",
    "upgrade_check",
    "write_judgments",
    "write_run",
]

__version__ = VERSION

_HOMES = {
    "BadInput": "owpc_ltr.errors",
    "Cluster": "owpc_ltr.engine.cluster",
    "DiskFault": "owpc_ltr.errors",
    "EngineUnavailable": "owpc_ltr.errors",
    "Evaluation": "owpc_ltr.evaluation.evaluate",
    "OwpcLtrError": "owpc_ltr.errors",
    "OwpcLtrWarning": "owpc_ltr.errors",
    "OwpcRanker": "owpc_ltr.training.estimators",
    "PartitionedDataset": "owpc_ltr.data.partitioned.dataset",
    "PluginError": "owpc_ltr.errors",
    "Ranker": "owpc_ltr.training.estimators",
    "RankerComparison": "owpc_ltr.evaluation.comparison_table",
    "RankingDataset": "owpc_ltr.data.dataset",
    "Refused": "owpc_ltr.errors",
    "UsageError": "owpc_ltr.errors",
    "WorkersUnavailable": "owpc_ltr.errors",
    "average": "owpc_ltr.models.average",
    "compare": "owpc_ltr.evaluation.compare",
    "connect": "owpc_ltr.engine.cluster",
    "evaluate": "owpc_ltr.evaluation.evaluate",
    "explain": "owpc_ltr.explanations.explain",
    "explain_metric": "owpc_ltr.evaluation.metric_explanation",
    "export_model": "owpc_ltr.formats.export_model",
    "from_frame": "owpc_ltr.data.construction",
    "from_sklearn": "owpc_ltr.formats.sklearn_trees",
    "hookimpl": "owpc_ltr.host.hookspecs",
    "import_model": "owpc_ltr.formats.import_model",
    "inspect": "owpc_ltr.inspection.inspect",
    "judge_sample": "owpc_ltr.evaluation.active_sampling",
    "lint": "owpc_ltr.fusion.lint",
    "load_model": "owpc_ltr.models.reordering",
    "make_dataset": "owpc_ltr.data.construction",
    "open_dataset": "owpc_ltr.data.datasets",
    "partition": "owpc_ltr.data.datasets",
    "plugins": "owpc_ltr.host.plugin_list",
    "read_costs": "owpc_ltr.training.train",
    "read_dataset": "owpc_ltr.data.datasets",
    "read_external_features": "owpc_ltr.data.external_features.table",
    "read_folds": "owpc_ltr.training.cross_validation",
    "read_judgments": "owpc_ltr.host.judgment_lists",
    "read_run": "owpc_ltr.data.runs",
    "save_dataset": "owpc_ltr.data.parquet",
    "save_model": "owpc_ltr.models.model_file",
    "select": "owpc_ltr.training.select",
    "train": "owpc_ltr.training.train",
    "train_reranker": "owpc_ltr.training.train_reranker",
    "upgrade_check": "owpc_ltr.engine.upgrade_check",
    "write_judgments": "owpc_ltr.host.judgment_lists",
    "write_run": "owpc_ltr.evaluation.evaluate",
}
"""Each public name and the module that it is imported from when it is first asked for."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    value = public_name(name, globals(), _HOMES, otherwise=_module_or_command)
    if name == "connect":
        from owpc_ltr import types

        # Their methods show their parameters once the classes are imported by a public name.
        _ = __getattr__("Cluster"), types.FeatureSets, types.UploadedModels
    return value


def _module_or_command(name: str) -> Any:
    """The function of a plugin's command, or None; a public module is imported."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in {"types", "plugin_checks"}:
        return import_module(f"owpc_ltr.{name}")
    # `from owpc_ltr import data` asks here first, before it imports the module.
    if name.startswith("_") or find_spec(f"owpc_ltr.{name}") is not None:
        return None
    from owpc_ltr.host.commands import public_function

    return public_function(name)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
