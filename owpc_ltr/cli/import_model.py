"""`owpc-ltr import`: a model from elsewhere as a model file of ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import A_FEATURE_SET, Reads, check_writable
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, ModelFile
from owpc_ltr.cli.output import print_json
from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.interop.import_columns import Columns


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

    def columns(self) -> Columns:
        """The names, and what else is known. Raises UsageError for more sources than one."""
        from owpc_ltr.data.parquet import read_dataset
        from owpc_ltr.features.loading import load_featureset
        from owpc_ltr.interop.import_columns import Columns
        from owpc_ltr.models.parity_samples import parity_samples_of

        if sum(source is not None for source in (self.features, self.featureset, self.data)) > 1:
            raise UsageError("--features, --featureset and --data name the same columns: give one")
        if self.features is not None:
            return Columns(_names(self.features))
        if self.featureset is not None:
            named = load_featureset(self.featureset)
            return Columns(named.feature_names, {"featureset_hash": named.hash})
        if self.data is None:
            return Columns()
        judged = read_dataset(self.data)
        source = {"data": self.data.name, "fingerprint": judged.fingerprint}
        record = {"featureset_hash": judged.featureset_hash, "probes": parity_samples_of(judged)}
        return Columns(judged.feature_names, {**record, "source": source})


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
    """Read a model of another library, told by its content, and say what had to be changed.

    Pickles are never read: save XGBoost as .json and LightGBM as .txt.
    """
    from owpc_ltr.interop.import_columns import adopt
    from owpc_ltr.models.linear import save_model

    check_writable(out)
    adopted = adopt(file, source.columns(), missing.value)
    model, notes = adopted.model, list(adopted.notes)
    save_model(model, out)
    kind = model.record.get("imported", {}).get("format", "owpc-ltr")
    names = list(model.feature_names)
    if as_json:
        about = {"model": str(out), "kind": model.kind, "format": kind}
        print_json({**about, "features": names, "notes": notes})
        return
    typer.echo(f"wrote {out}: a {model.kind} model of {len(names)} features, from {kind}")
    for note in notes:
        typer.echo(f"- {note}")


def _names(path: Path) -> tuple[str, ...]:
    from owpc_ltr.files.text import read_text, shown

    names: dict[str, int] = {}
    for number, line in enumerate(read_text(path, largest=10_000_000).splitlines(), 1):
        name = line.strip()
        if name in names:
            raise BadInput(
                f"{path}, line {number}: the feature {shown(name)} stands on line {names[name]} "
                "already: leave one"
            )
        if name:
            names[name] = number
    if not names:
        raise BadInput(f"{path} names no feature: write one on each line")
    return tuple(names)
