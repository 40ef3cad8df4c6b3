"""`import_model` and `export_model`: models of other tools, and files that engines take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.files.output import write_output
from owpc_ltr.host.commands import CommandSummary, Plugins
from owpc_ltr.host.settings import configure, named_settings
from owpc_ltr.signatures import (
    NO_FEATURE_SET,
    NO_MODEL,
    Argument,
    Help,
    Reads,
    Writes,
    job,
)

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.model_reader import Columns
    from owpc_ltr.protocols import ExportedFile, Model


_FeatureSetFile = Annotated[
    "FeatureSet | Path | str | None",
    Reads("The feature set that it was trained on (JSON).", absent=NO_FEATURE_SET),
    Argument.NAME,
]


def _summary(model: Model) -> CommandSummary:
    """The kind of an imported model, its source, and what changed."""
    imported, features = model.record["imported"], list(model.feature_names)
    source, notes = imported.get("format", "owpc-ltr"), list(imported["notes"])
    first = f"a {model.kind} model of {len(features)} features, from {source}"
    text = "\n".join([first, *(f"- {note}" for note in notes)])
    content = {"kind": model.kind, "format": source, "features": features, "notes": notes}
    return CommandSummary(text, content)


@job(shows=_summary)
def import_model(
    path: Annotated[
        Path | str,
        Reads(
            "XGBoost, LightGBM, RankLib, or the LTR plugin's.",
            metavar="FILE",
            absent="cannot import {path}: No such file or directory",
        ),
    ],
    *,
    feature_names: Annotated[
        Sequence[str] | Path | str,
        Reads(
            "The names of its columns, one per line, in order.",
            flag="--features",
            cli=Path,
            lists=False,
        ),
    ] = (),
    featureset: _FeatureSetFile = None,
    data: Annotated[
        RankingDataset | Path | str | None,
        Reads("The dataset that it was trained on: names, and documents for upload."),
        Argument.DATA,
    ] = None,
    trained_on: Annotated[
        Any,
        Reads(
            "The judged queries that it was trained on: a dataset, or a judgment list. On others "
            "it can be compared.",
            cli=Path,
        ),
    ] = None,
    missing: Annotated[
        Literal["as-trained", "zero"],
        Help("zero: it was trained with 0 where a value was missing."),
    ] = "as-trained",
    source: Annotated[str, "What the model's record calls its file; default: its name."] = "",
    out: Annotated[Path | str | None, Writes("The model file (JSON).", required=True)] = None,
) -> Model:
    """Convert a model of another library, and report what changed.

    The kind is recognised by the content. Without `data` or `trained_on` nobody knows which
    queries the model has seen, and no comparison can tell whether it is better.

    Pickles are never read: save XGBoost as .json and LightGBM as .txt.

    Python: the notes are in the model's record (`record["imported"]["notes"]`); `source` is what
    the record calls `data` that has no file name.
    """
    from owpc_ltr.formats.model_reader import import_with
    from owpc_ltr.models.model_file import save_model

    if sum(names is not None and names != () for names in (feature_names, featureset, data)) > 1:
        raise UsageError("`feature_names`, `featureset` and `data` name the same columns: give one")
    model = import_with(Path(path), _columns(feature_names, featureset, data, source), missing)
    if trained_on is not None:
        model = _with_queries(model, trained_on)
    if out is not None:
        save_model(model, out)
    return model


def _with_queries(model: Model, trained_on: Any) -> Model:
    """The model, whose record has the queries that it was trained on."""
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import seen_queries
    from owpc_ltr.evaluation.judged_data import read_data
    from owpc_ltr.models.model_file import with_record

    read = read_data(trained_on) if isinstance(trained_on, Path | str) else trained_on
    queries = read.queries if isinstance(read, Judgments) else read
    source = model.record.get("source") or {}
    return with_record(model, {**model.record, "source": {**source, **seen_queries(queries)}})


def _columns(
    feature_names: Sequence[str] | Path | str,
    featureset: FeatureSet | Path | str | None,
    data: RankingDataset | Path | str | None,
    source: str,
) -> Columns:
    """The columns that the model is put on."""
    from owpc_ltr.features.feature_set import load_featureset
    from owpc_ltr.formats.model_reader import Columns, columns_of, read_names

    if data is not None:
        if isinstance(data, Path | str):
            from owpc_ltr.data.datasets import read_dataset

            return columns_of(read_dataset(Path(data)), Path(data).name)
        return columns_of(data, source)
    if isinstance(featureset, Path | str):
        featureset = load_featureset(Path(featureset))
    if featureset is not None:
        return Columns(featureset.feature_names, {"featureset_hash": featureset.hash})
    if isinstance(feature_names, Path | str):
        return Columns(read_names(Path(feature_names)))
    return Columns(tuple(feature_names))


@job
def export_model(
    model: Annotated[
        Model | Path | str,
        Reads("A model file.", absent=NO_MODEL, project="model"),
        Argument.RANKER,
    ],
    *,
    target: Annotated[
        str,
        Help(
            "opensearch or elasticsearch with the LTR plugin; elastic: Elasticsearch's own "
            "learning to rank; plugin-free-trees: either without a plugin; or another export "
            "target: `plugins()`.",
            flag="--for",
            metavar="TARGET",
        ),
    ],
    version: Annotated[str, Help("The engine's version, as 3.8.", metavar="VERSION")],
    out: Annotated[
        Path | str | None,
        Writes("The file: the body of the request (JSON).", required=True),
    ] = None,
    name: Annotated[str, Help("The model's name in the engine."), Argument.NAME] = "owpc-ltr",
    featureset: _FeatureSetFile = None,
    settings: Annotated[
        Mapping[str, Any] | None,
        Help(
            "A setting of the target, as target.window=200.",
            flag="--set",
            cli=list[str],
            parse=named_settings,
            metavar="NAME=VALUE",
        ),
    ] = None,
    plugins: Plugins = (),
) -> ExportedFile:
    """Write a model as a file that an engine takes.

    For those who send the file themselves; `upload` does it for you.

    The engine's scores are those of the model, up to a constant, which changes no ranking; a model
    that an engine would score otherwise is rewritten or refused. Only `upload` checks that on real
    documents.

    Python: `settings` go by name, or as `target.NAME`.
    Raises PluginError for a target that does not exist, Refused where the engine cannot score so.
    """
    from owpc_ltr import protocols
    from owpc_ltr.features.feature_set import load_featureset
    from owpc_ltr.formats.stored_model import check_features, for_engine
    from owpc_ltr.host.registry import load
    from owpc_ltr.models.model_file import load_scoring_model

    values: dict[str, Any] = {}
    for full_name, value in (settings or {}).items():
        kind, dot, setting = full_name.rpartition(".")
        if dot and kind != "target":
            raise UsageError(f"export has no '{kind}' to set: write target.FIELD=VALUE")
        values[setting] = value
    exporter = configure(load(map(Path, plugins)).find("export-target", target), values)
    if isinstance(featureset, Path | str):
        featureset = load_featureset(Path(featureset))
    ranker = load_scoring_model(model) if isinstance(model, Path | str) else model
    if featureset is not None:
        check_features(ranker, featureset)
    exported = exporter.export(for_engine(ranker), name, version, featureset)
    if not isinstance(exported, protocols.ExportedFile):
        raise PluginError(
            f"export target '{target}' returned a {type(exported).__name__}: return an ExportedFile"
        )
    exported = replace(exported, target=target)
    if out is not None:
        write_output(out, exported.text.encode())
    return exported
