"""`export_model`: the file that makes a model in an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.host.settings import configure, named_settings
from owpc_ltr.signatures import (
    NO_FEATURE_SET,
    NO_MODEL,
    Argument,
    Help,
    Plugins,
    Reads,
    Writes,
    job,
)

if TYPE_CHECKING:
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.protocols import ExportedFile, Model


@job
def export_model(
    model: Annotated[Model | Path | str, Reads("A model file.", absent=NO_MODEL), Argument.RANKER],
    *,
    target: Annotated[
        str,
        Help(
            "opensearch or elasticsearch with the LTR plugin; elastic: Elasticsearch's own "
            "learning to rank; plugin-free-trees: either without a plugin; solr; vespa; or another "
            "export target: owpc-ltr plugins.",
            flag="--for",
            metavar="TARGET",
        ),
    ],
    version: Annotated[str, Help("The engine's version, as 3.8.", metavar="VERSION")],
    out: Annotated[
        Path | str | None,
        Writes("The file: the body of the request (JSON), or Vespa's profile.", required=True),
    ] = None,
    name: Annotated[str, Help("The model's name in the engine."), Argument.NAME] = "owpc-ltr",
    featureset: Annotated[
        FeatureSet | Path | str | None,
        Reads("The feature set that it was trained on (JSON).", absent=NO_FEATURE_SET),
        Argument.NAME,
    ] = None,
    settings: Annotated[
        Mapping[str, Any] | None,
        Help(
            "A setting of the target, as target.phase=second-phase.",
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
    from owpc_ltr.files.output import write_output
    from owpc_ltr.formats.model_conversion import check_features, for_engine
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
