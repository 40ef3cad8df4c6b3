"""`owpc-ltr import`: a model from elsewhere as a model file of ours."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json
from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.adopting import Columns


class MissingValues(StrEnum):
    """What a missing feature was when the model was trained."""

    as_trained = "as-trained"
    zero = "zero"


def import_model(
    file: Annotated[Path, typer.Argument(help="XGBoost, LightGBM, RankLib, or the LTR plugin's.")],
    out: Annotated[Path, typer.Option(help="Where the model goes (JSON).")],
    features: Annotated[
        Path | None, typer.Option(help="The names of its columns, one a line, in order.")
    ] = None,
    featureset: Annotated[
        Path | None, typer.Option(help="The feature set that it was trained on (JSON).")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The dataset that it was trained on: names, and documents for upload."),
    ] = None,
    missing: Annotated[
        MissingValues, typer.Option(help="zero: it was trained with 0 where a value was missing.")
    ] = MissingValues.as_trained,
    as_json: Json = False,
) -> None:
    """Read a model of another library, told by its content, and say what had to be changed.

    Pickles are never read: save XGBoost as .json and LightGBM as .txt.
    """
    from owpc_ltr.adopting import adopt
    from owpc_ltr.cli.train import check_writable
    from owpc_ltr.models import save_model

    check_writable(out)
    adopted = adopt(file, _columns(features, featureset, data), missing.value)
    model = adopted.model
    save_model(model, out)
    kind = model.record.get("imported", {}).get("format", "owpc-ltr")
    if as_json:
        print_json(
            {
                "model": str(out),
                "kind": model.kind,
                "format": kind,
                "features": list(model.feature_names),
                "notes": list(adopted.notes),
            }
        )
        return
    typer.echo(
        f"wrote {out}: a {model.kind} model of {len(model.feature_names)} features, from {kind}"
    )
    for note in adopted.notes:
        typer.echo(f"- {note}")


def _columns(features: Path | None, featureset: Path | None, data: Path | None) -> Columns:
    from owpc_ltr.adopting import Columns
    from owpc_ltr.dataset_file import read_dataset
    from owpc_ltr.featureset import load_featureset
    from owpc_ltr.probes import probes_of

    if sum(source is not None for source in (features, featureset, data)) > 1:
        raise UsageError("--features, --featureset and --data name the same columns: give one")
    if features is not None:
        return Columns(_names(features))
    if featureset is not None:
        named = load_featureset(featureset)
        return Columns(named.feature_names, {"featureset_hash": named.hash})
    if data is None:
        return Columns()
    judged = read_dataset(data)
    record = {"featureset_hash": judged.featureset_hash, "probes": probes_of(judged)}
    return Columns(judged.feature_names, record)


def _names(path: Path) -> tuple[str, ...]:
    from owpc_ltr.opening import read_text, shown

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
