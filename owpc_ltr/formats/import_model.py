"""`import_model`: the model in another tool's file, with notes of what changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.errors import UsageError
from owpc_ltr.host.commands import CommandSummary
from owpc_ltr.signatures import NO_FEATURE_SET, Argument, Help, Reads, Writes, job, option_name

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.model_reader import Columns
    from owpc_ltr.protocols import Model


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
    featureset: Annotated[
        FeatureSet | Path | str | None,
        Reads("The feature set that it was trained on (JSON).", absent=NO_FEATURE_SET),
        Argument.NAME,
    ] = None,
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

    The kind is recognised by the content. Without --data or --trained-on nobody knows which
    queries the model has seen, and no comparison can tell whether it is better.

    Pickles are never read: save XGBoost as .json and LightGBM as .txt.

    Python: the notes are in the model's record (`record["imported"]["notes"]`); `source` is what
    the record calls `data` that has no file name.
    """
    from owpc_ltr.formats.model_reader import import_with
    from owpc_ltr.models.model_file import save_model

    if sum(names is not None and names != () for names in (feature_names, featureset, data)) > 1:
        raise UsageError(
            f"{option_name('feature_names')}, {option_name('featureset')} and "
            f"{option_name('data')} name the "
            "same columns: give one"
        )
    model = import_with(Path(path), _columns(feature_names, featureset, data, source), missing)
    if trained_on is not None:
        model = _with_queries(model, trained_on)
    if out is not None:
        save_model(model, out)
    return model


def _with_queries(model: Model, trained_on: Any) -> Model:
    """The model, whose record has the queries that it was trained on."""
    from owpc_ltr.data.judgments.grouping import Judgments
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
