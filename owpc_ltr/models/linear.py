"""Linear models with their normalisers, and the file of every model: JSON, never pickled."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import write_output
from owpc_ltr.files.regular import read_regular
from owpc_ltr.files.strict_json import (
    a_json,
    each_once,
    finite_json,
    shown,
    take_numbers,
    take_strings,
)
from owpc_ltr.models.file_digest import signed, without_digest
from owpc_ltr.models.html import ranker_html
from owpc_ltr.models.matrix import model_matrix
from owpc_ltr.models.record import checked_record
from owpc_ltr.protocols import Model, Ranker

FORMAT = "owpc-ltr model"
REORDERING = "reordering"
"""The kind of a file that holds a base model and what reranks its lists: see `reranking.py`."""
_LARGEST_FILE = 50_000_000


@dataclass(frozen=True)
class Normaliser:
    """How the engine changes one feature before the model: (value − shift) / scale.

    `kind` is the LTR plugin's own word: "standard" (shift = mean, scale = standard deviation) or
    "min_max" (shift = minimum, scale = maximum − minimum).
    """

    kind: str
    shift: float
    scale: float

    def __post_init__(self) -> None:
        if self.kind not in {"standard", "min_max"}:
            raise BadInput(f"a normaliser is standard or min_max, not '{self.kind}'")
        if not (np.isfinite(self.shift) and np.isfinite(self.scale) and self.scale > 0):
            raise BadInput(
                f"a normaliser needs a finite shift and a positive scale, not {self.shift}, "
                f"{self.scale}"
            )


class SavedRanker:
    """What every kind of model can do: write its file, and show itself in a notebook."""

    def save(self: Ranker, path: str | Path) -> None:
        """Write the model's file: whole or not at all."""
        save_model(self, Path(path))

    def sizes(self) -> dict[str, object]:
        """What a notebook shows of its size, by name."""
        return {}

    def feature_uses(self) -> dict[str, float]:
        """How much it makes of each feature, where that is one number."""
        return {}

    def _repr_html_(self) -> str:
        about: Any = self
        return ranker_html(
            about.kind, about.feature_names, about.record, self.sizes(), self.feature_uses()
        )


@dataclass(frozen=True, eq=False)
class LinearModel(SavedRanker):
    """The weighted sum of the features; a missing one counts 0, as in every engine.

    `weights` (n_features,) is rounded to float32, which is what engines keep. A feature named in
    `normalisers` is normalised first (a missing one as if it were 0).
    """

    kind: ClassVar[str] = "linear"

    feature_names: tuple[str, ...]
    weights: Vector
    normalisers: dict[str, Normaliser] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            rounded = np.asarray(self.weights).astype(np.float32).astype(np.float64)
        if rounded.shape != (len(self.feature_names),):
            raise BadInput(
                f"a linear model of {len(self.feature_names)} features has {rounded.size} weights"
            )
        if not np.isfinite(rounded).all():
            name = self.feature_names[int(np.flatnonzero(~np.isfinite(rounded))[0])]
            raise BadInput(f"the weight of feature '{name}' is not a finite float32 number")
        unknown = set(self.normalisers) - set(self.feature_names)
        if unknown:
            raise BadInput(f"a normaliser is for a feature that is not there: {sorted(unknown)[0]}")
        object.__setattr__(self, "weights", rounded)
        with np.errstate(over="ignore", invalid="ignore"):
            folded, intercept = self.folded()
        if not (np.isfinite(folded).all() and np.isfinite(intercept)):
            raise BadInput("a normaliser makes a weight or the intercept larger than any number")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        weights, intercept = self.folded()
        if np.isnan(features).any():
            features = np.nan_to_num(features, nan=0.0, posinf=np.inf, neginf=-np.inf)
        scores: Vector = features @ weights + intercept
        return scores

    def feature_uses(self) -> dict[str, float]:
        """The weights, by feature."""
        return dict(zip(self.feature_names, self.weights.tolist(), strict=True))

    def folded(self) -> tuple[Vector, float]:
        """Weights for the features as they are, and the intercept: normalisers multiplied in."""
        weights, intercept = self.weights.copy(), 0.0
        for index, name in enumerate(self.feature_names):
            normaliser = self.normalisers.get(name)
            if normaliser is not None:
                weights[index] /= normaliser.scale
                intercept -= weights[index] * normaliser.shift
        return weights, intercept

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        return {
            "weights": [float(weight) for weight in self.weights],
            "normalisers": {
                name: {"kind": n.kind, "shift": n.shift, "scale": n.scale}
                for name, n in self.normalisers.items()
            },
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> LinearModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        normalisers = {
            name: _normaliser(part) for name, part in content.get("normalisers", {}).items()
        }
        weights = take_numbers(content, "weights", "the linear model")
        return cls(names, weights, normalisers, record)


def _normaliser(content: Any) -> Normaliser:
    numbers = {"numbers": [content["shift"], content["scale"]]}
    shift, scale = take_numbers(numbers, "numbers", "a normaliser").tolist()
    return Normaliser(str(content["kind"]), shift, scale)


KINDS = {
    "additive": "owpc_ltr.models.additive:AdditiveModel",
    "average": "owpc_ltr.models.average:AverageModel",
    "linear": "owpc_ltr.models.linear:LinearModel",
    "network": "owpc_ltr.models.network:NetworkModel",
    "logistic-network": "owpc_ltr.models.ranklib_network:LogisticNetwork",
    "trees": "owpc_ltr.models.trees:TreeModel",
}
"""Each kind of model file and the class that reads it, imported when there is one to read."""


def with_record(model: Model, record: dict[str, Any]) -> Model:
    """The same model with another training record."""
    changed: Model = replace(model, record=record)  # type: ignore[type-var]
    return changed


def save_model(model: Ranker, path: Path | str) -> None:
    """Write a model file, with its digest: whole or not at all."""
    content = {"format": FORMAT, "version": 1, **content_of(model)}
    write_output(path, signed(content, after="version"))


def content_of(model: Ranker) -> dict[str, Any]:
    """What a model file holds: the kind, the features, the model itself, its record.

    What a record has no finite number for is null in it; a model's own numbers must be finite.
    """
    return {
        "kind": model.kind,
        "feature_names": list(model.feature_names),
        **model.as_dict(),
        "record": finite_json(model.record),
    }


def load_model(path: Path | str) -> Model:
    """Read a model file. Raises BadInput naming the file and what is wrong with it."""
    path = Path(path)
    return model_of(read_content(path), path)


def read_content(path: Path) -> dict[str, Any]:
    """The JSON object of a model file, of any kind. Raises BadInput naming the file."""
    try:
        raw = read_regular(path, _LARGEST_FILE, "cannot read the model", "a model file")
        content = json.loads(raw, object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not a model file: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(f"{path} is not a model file of owpc-ltr")
    return without_digest(content, raw, path)


def model_of(content: dict[str, Any], path: Path) -> Model:
    """The model that a file's content describes. Raises BadInput naming the file."""
    kind = content.get("kind")
    if kind == REORDERING:
        raise BadInput(
            f"{path} holds a reordering, which ranks whole lists and scores no single document: "
            "use it with evaluate, or search --reranker"
        )
    if not isinstance(kind, str) or kind not in KINDS:
        told = shown(kind) if isinstance(kind, str) else a_json(kind)
        raise BadInput(f"{path} holds a model of kind '{told}'; known: {', '.join(KINDS)}")
    try:
        names = tuple(take_strings(content, "feature_names", "the file"))
        module, _, name = KINDS[kind].partition(":")
        reader = getattr(import_module(module), name)
        model: Model = reader.from_dict(content, names, checked_record(content))
    except DAMAGES as error:
        raise damaged(path, error) from error
    except BadInput as error:
        raise BadInput(f"{path} is a damaged model file: {error}") from error
    return model


DAMAGES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What Python raises where a value is not of the kind that a reader takes for granted."""


def damaged(path: Path, error: Exception) -> BadInput:
    """The error for such a file."""
    return BadInput(f"{path} is a damaged model file: {type(error).__name__} {error}")
