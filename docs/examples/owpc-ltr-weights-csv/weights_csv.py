"""The weights of a linear model as CSV: an example of an export target."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import BadInput, Refused, UsageError, hookimpl
from owpc_ltr.types import (
    ExportedFile,
    ExportTarget,
    FeatureSet,
    LinearModel,
    Matrix,
    Model,
    Vector,
    check_name,
)

_HEADER = ["feature", "weight"]


@dataclass(frozen=True)
class WeightsCsv:
    """For an engine of one's own, which adds up weight × feature, a missing feature counting 0."""

    name: ClassVar[str] = "weights-csv"
    versions: ClassVar[tuple[str, ...]] = ("1",)

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        """One line a feature; normalisers are multiplied in, a constant changes no ranking."""
        check_name("model", name)
        if not version.isdecimal() or int(version) < 1:
            raise UsageError(f"there is no version '{version}' of weights-csv: say 1")
        if not isinstance(model, LinearModel):
            raise Refused(f"a model of kind '{model.kind}' is no list of weights: train a linear")
        weights, _constant = model.folded()
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        lines.writerow(_HEADER)
        lines.writerows(zip(model.feature_names, weights.tolist(), strict=True))
        return ExportedFile(text.getvalue(), "text/csv", f"copying it to weights/{name}.csv", "1")

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """What the engine would score, by the text alone."""
        header, *lines = csv.reader(io.StringIO(exported.text, newline=""))
        if header != _HEADER or any(len(line) != 2 for line in lines):
            raise BadInput("this is no CSV of feature and weight")
        weights = {feature: float(weight) for feature, weight in lines}
        columns = np.nan_to_num(features.astype(np.float64))
        return columns @ np.array([weights.get(name, 0.0) for name in feature_names])


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for weights-csv`."""
    return [WeightsCsv]
