"""Vespa: a model as a rank profile, the text of SCHEMA/NAME.profile in an application package.

The expression is what Vespa makes of an imported XGBoost model: `if (f < t, left, right)`, and
`if (!(f >= t), left, right)` where a missing value (NaN, with which no comparison holds) goes left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.columns import positions
from owpc_ltr.formats.engine_versions import parse_version, version_text
from owpc_ltr.host.settings import check_settings
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model
from owpc_ltr_exports.vespa.evaluation import evaluate
from owpc_ltr_exports.vespa.expressions import expression_of
from owpc_ltr_exports.vespa.profile import (
    check_profile_name,
    function_names,
    profile_text,
    read_profile,
)

Phase = Literal["first-phase", "second-phase"]


@dataclass(frozen=True)
class Vespa:
    """Vespa: a rank profile with one function a feature, whose bodies its reader fills in.

    `phase` is the ranking phase that the model scores in: the first sees every match, the second
    the best of them by nativeRank.
    """

    name: ClassVar[str] = "vespa"
    versions: ClassVar[tuple[str, ...]] = ("8",)

    phase: Phase = "first-phase"

    def __post_init__(self) -> None:
        check_settings(self)

    def export(
        self,
        model: Model,
        name: str,
        version: str,
        featureset: FeatureSet | None = None,  # noqa: ARG002 - Vespa has other queries
    ) -> ExportedFile:
        """Linear models and trees; missing features go where the model sends them."""
        numbers = parse_version(version)
        if numbers < (8,):
            raise UsageError(f"vespa {version_text(numbers)} is not known here: choose 8 or later")
        check_profile_name(name)
        functions = function_names(model.feature_names)
        text = profile_text(name, functions, self.phase, expression_of(model, list(functions)))
        request = f"copying it to schemas/SCHEMA/{name}.profile, filled in, and `vespa deploy`"
        return ExportedFile(text, "rank-profile", request, version_text(numbers))

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float64, by the expression of the file, each function the column that it names."""
        functions, expression = read_profile(exported.text)
        if features.ndim != 2 or features.shape[1] != len(feature_names):
            raise BadInput(
                f"{len(feature_names)} features are named, the data has {features.shape[-1]}"
            )
        columns = positions(list(functions.values()), feature_names)
        values = {
            function: features[:, column].astype(float)
            for function, column in zip(functions, columns, strict=True)
        }
        return evaluate(expression, values, len(features))


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for vespa`."""
    return [Vespa]
