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
Training     train, train_reranker, select, average, load_model, save_model, Ranker
Evaluation   evaluate, compare, explain, explain_metric, read_run
Cluster      connect, Cluster; its models and featuresets; fuse, lint
Other tools  import_model, export_model, from_sklearn
Plugins      plugins, hookimpl
Errors       OwpcLtrError and its kinds: UsageError, BadInput, EngineUnavailable, Refused, …

`help(owpc_ltr.train)` describes each parameter of a function. `owpc_ltr.types` has the classes that
programs and plugins name. The attributes of results are public, too. Anything else may change
without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.public_names import homes, public_name
from owpc_ltr.version import VERSION

__version__ = VERSION
_HOMES = homes(
    {
        "data.construction": "from_frame make_dataset",
        "data.dataset": "RankingDataset",
        "data.datasets": "open_dataset partition read_dataset",
        "data.external_features": "read_external_features",
        "data.parquet": "save_dataset",
        "data.partitioned": "PartitionedDataset",
        "data.runs": "read_run",
        "engine.cluster": "Cluster",
        "engine.connect": "connect",
        "errors": (
            "BadInput DiskFault EngineUnavailable OwpcLtrError OwpcLtrWarning PluginError Refused "
            "UsageError WorkersUnavailable"
        ),
        "evaluation.compare": "compare",
        "evaluation.comparison_result": "Evaluation RankerComparison",
        "evaluation.evaluate": "evaluate write_run",
        "evaluation.interleaving": "interleave",
        "evaluation.metric_explanation": "explain_metric",
        "explanations.explain": "explain",
        "formats.import_export": "export_model import_model",
        "formats.other_trees": "from_sklearn",
        "fusion.fuse": "fuse",
        "fusion.lint": "lint",
        "host.hookspecs": "hookimpl",
        "host.judgment_lists": "read_judgments write_judgments",
        "host.plugin_list": "plugins",
        "inspection.inspect": "inspect",
        "models.combined": "average load_model",
        "models.model_file": "save_model",
        "training.cross_validation": "read_folds",
        "training.estimators": "Ranker",
        "training.select": "select",
        "training.train": "train",
        "training.train_reranker": "train_reranker",
    }
)

if TYPE_CHECKING:
    from owpc_ltr.data.construction import from_frame as from_frame
    from owpc_ltr.data.construction import make_dataset as make_dataset
    from owpc_ltr.data.dataset import RankingDataset as RankingDataset
    from owpc_ltr.data.datasets import open_dataset as open_dataset
    from owpc_ltr.data.datasets import partition as partition
    from owpc_ltr.data.datasets import read_dataset as read_dataset
    from owpc_ltr.data.external_features import (
        read_external_features as read_external_features,
    )
    from owpc_ltr.data.parquet import save_dataset as save_dataset
    from owpc_ltr.data.partitioned import PartitionedDataset as PartitionedDataset
    from owpc_ltr.data.runs import read_run as read_run
    from owpc_ltr.engine.cluster import Cluster as Cluster
    from owpc_ltr.engine.connect import connect as connect
    from owpc_ltr.errors import BadInput as BadInput
    from owpc_ltr.errors import DiskFault as DiskFault
    from owpc_ltr.errors import EngineUnavailable as EngineUnavailable
    from owpc_ltr.errors import OwpcLtrError as OwpcLtrError
    from owpc_ltr.errors import OwpcLtrWarning as OwpcLtrWarning
    from owpc_ltr.errors import PluginError as PluginError
    from owpc_ltr.errors import Refused as Refused
    from owpc_ltr.errors import UsageError as UsageError
    from owpc_ltr.errors import WorkersUnavailable as WorkersUnavailable
    from owpc_ltr.evaluation.compare import compare as compare
    from owpc_ltr.evaluation.comparison_result import Evaluation as Evaluation
    from owpc_ltr.evaluation.comparison_result import RankerComparison as RankerComparison
    from owpc_ltr.evaluation.evaluate import evaluate as evaluate
    from owpc_ltr.evaluation.evaluate import write_run as write_run
    from owpc_ltr.evaluation.interleaving import interleave as interleave
    from owpc_ltr.evaluation.metric_explanation import explain_metric as explain_metric
    from owpc_ltr.explanations.explain import explain as explain
    from owpc_ltr.formats.import_export import export_model as export_model
    from owpc_ltr.formats.import_export import import_model as import_model
    from owpc_ltr.formats.other_trees import from_sklearn as from_sklearn
    from owpc_ltr.fusion.fuse import fuse as fuse
    from owpc_ltr.fusion.lint import lint as lint
    from owpc_ltr.host.hookspecs import hookimpl as hookimpl
    from owpc_ltr.host.judgment_lists import read_judgments as read_judgments
    from owpc_ltr.host.judgment_lists import write_judgments as write_judgments
    from owpc_ltr.host.plugin_list import plugins as plugins
    from owpc_ltr.inspection.inspect import inspect as inspect
    from owpc_ltr.models.combined import average as average
    from owpc_ltr.models.combined import load_model as load_model
    from owpc_ltr.models.model_file import save_model as save_model
    from owpc_ltr.training.cross_validation import read_folds as read_folds
    from owpc_ltr.training.estimators import Ranker as Ranker
    from owpc_ltr.training.select import select as select
    from owpc_ltr.training.train import train as train
    from owpc_ltr.training.train_reranker import train_reranker as train_reranker
else:
    __all__ = sorted([*_HOMES, "__version__"])


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
    from owpc_ltr import types
    from owpc_ltr.host.commands import public_function

    if name in types.__all__:
        raise AttributeError(
            f"module 'owpc_ltr' has no attribute '{name}': it is in owpc_ltr.types"
        )
    return public_function(name)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*_HOMES, "__version__"})
