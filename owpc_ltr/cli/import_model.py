"""`owpc-ltr import`: a model from elsewhere as a model file of ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from owpc_ltr.cli.files import A_FEATURE_SET, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, ModelFile
from owpc_ltr.cli.output import print_json
from owpc_ltr.errors import UsageError


class MissingValues(StrEnum):
    """What a missing feature was when the model was trained."""

    as_trained = "as-trained"
    zero = "zero"


@dataclass(frozen=True)
class ColumnSource:
    """Where the names of a model's columns come from; told by none, they are the model's own."""

    features: Annotated[
        Path | None, Reads(), typer.Option(help="The names of its columns, one a line, in order.")
    ] = None
    featureset: Annotated[
        Path | None,
        A_FEATURE_SET,
        typer.Option(help="The feature set that it was trained on (JSON)."),
    ] = None
    data: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="The dataset that it was trained on: names, and documents for upload."),
    ] = None

    def asked(self) -> dict[str, Any]:
        """What names the columns. Raises UsageError for more sources than one."""
        from owpc_ltr.api.datasets import read_dataset

        if sum(source is not None for source in (self.features, self.featureset, self.data)) > 1:
            raise UsageError("--features, --featureset and --data name the same columns: give one")
        judged = None if self.data is None else read_dataset(self.data)
        named = {"data": judged, "source": "" if self.data is None else self.data.name}
        return {"feature_names": self.features or (), "featureset": self.featureset, **named}


@grouped
def import_model(
    file: Annotated[
        Path,
        Reads("cannot import {path}: No such file or directory"),
        typer.Argument(help="XGBoost, LightGBM, RankLib, or the LTR plugin's."),
    ],
    *,
    out: ModelFile,
    source: ColumnSource,
    missing: Annotated[
        MissingValues, typer.Option(help="zero: it was trained with 0 where a value was missing.")
    ] = MissingValues.as_trained,
    as_json: Json = False,
) -> None:
    """Read a model of another library, and say what changed.

    Its kind is told by its content.

    Pickles are never read: save XGBoost as .json and LightGBM as .txt.
    """
    from owpc_ltr.api.models import import_model as read
    from owpc_ltr.api.models import save_model

    model = read(file, missing=missing.value, **source.asked())
    save_model(model, out)
    imported = model.record["imported"]
    kind, notes = imported.get("format", "owpc-ltr"), imported["notes"]
    names = list(model.feature_names)
    if as_json:
        about = {"model": str(out), "kind": model.kind, "format": kind}
        print_json({**about, "features": names, "notes": notes})
        return
    typer.echo(f"wrote {out}: a {model.kind} model of {len(names)} features, from {kind}")
    for note in notes:
        typer.echo(f"- {note}")
