"""TreeModel: a sum of decision trees, from any library, in one exact form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import take_integers, take_numbers
from owpc_ltr.models.forest import HIGHEST, LEAF, Forest
from owpc_ltr.models.linear import SavedRanker
from owpc_ltr.models.matrix import model_matrix

LINKS = ("identity", "logistic")
"""What is done to the sum of the trees: nothing, or 1 / (1 + exp(−sum))."""


@dataclass(frozen=True, eq=False)
class TreeModel(SavedRanker):
    """`base` plus the outputs of the trees, through the link.

    A missing feature (NaN) goes where each split's `default_left` says; `with_missing_as_zero`
    makes that the way of a 0.
    """

    kind: ClassVar[str] = "trees"

    feature_names: tuple[str, ...]
    forest: Forest
    base: float = 0.0
    link: str = "identity"
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.feature_names)) != len(self.feature_names):
            raise BadInput("a tree model has two features of one name")
        highest = int(self.forest.feature.max())
        if highest >= len(self.feature_names):
            raise BadInput(
                f"a tree splits on feature number {highest}, the model has "
                f"{len(self.feature_names)} features"
            )
        if self.link not in LINKS:
            raise BadInput(f"the link of a tree model is {' or '.join(LINKS)}, not '{self.link}'")
        if not abs(self.base) <= HIGHEST:
            raise BadInput(f"the base score {self.base} is not a finite float32 number")

    def score(self, features: Any) -> Vector:
        """Scores in float64, (n_documents,)."""
        features = model_matrix(self, features)
        margin = self.forest.score(features) + self.base
        return margin if self.link == "identity" else logistic(margin)

    def sizes(self) -> dict[str, object]:
        """Trees and leaves."""
        return {"trees": len(self.forest.roots), "leaves": int(self.forest.is_leaf.sum())}

    def feature_uses(self) -> dict[str, float]:
        """How many splits read each feature; those that none reads are left out."""
        used = self.forest.feature[~self.forest.is_leaf]
        counts = np.bincount(used, minlength=len(self.feature_names)).tolist()
        return {
            name: float(count)
            for name, count in zip(self.feature_names, counts, strict=True)
            if count
        }

    @property
    def splits(self) -> NDArray[np.intp]:
        """The nodes that are not leaves."""
        return np.flatnonzero(~self.forest.is_leaf)

    def with_missing_as_zero(self) -> TreeModel:
        """The model that sends a missing feature where a feature of 0 goes."""
        forest = replace(self.forest, default_left=self.forest.threshold > 0)
        return replace(self, forest=forest)

    def with_base_as_tree(self) -> TreeModel:
        """The same model with the base score as one more tree, of a single leaf."""
        if self.base == 0:
            return self
        old, last = self.forest, len(self.forest.feature)
        forest = Forest(
            np.append(old.roots, np.int32(last)),
            np.append(old.feature, np.int32(LEAF)),
            np.append(old.threshold, np.float32(0)),
            np.append(old.left, np.int32(0)),
            np.append(old.default_left, False),
            np.append(old.value, self.base),
        )
        return replace(self, forest=forest, base=0.0)

    def as_dict(self) -> dict[str, Any]:
        """The model as JSON, without the record."""
        forest = self.forest
        return {
            "link": self.link,
            "base": self.base,
            "roots": forest.roots.tolist(),
            "feature": forest.feature.tolist(),
            "threshold": shortest_floats(forest.threshold),
            "left": forest.left.tolist(),
            "default_left": forest.default_left.astype(int).tolist(),
            "value": forest.value.tolist(),
        }

    @classmethod
    def from_dict(
        cls, content: dict[str, Any], names: tuple[str, ...], record: dict[str, Any]
    ) -> TreeModel:
        """The model whose `as_dict` gave `content`. Raises BadInput."""
        where = "the tree model"
        default_left = take_integers(content, "default_left", where)
        if ((default_left != 0) & (default_left != 1)).any():
            raise BadInput("'default_left' of the tree model does not hold only 0 and 1")
        forest = Forest(
            take_integers(content, "roots", where).astype(np.int32),
            take_integers(content, "feature", where).astype(np.int32),
            to_single(take_numbers(content, "threshold", where)),
            take_integers(content, "left", where).astype(np.int32),
            default_left == 1,
            take_numbers(content, "value", where),
        )
        base = take_numbers({"base": [content["base"]]}, "base", where)[0]
        return cls(names, forest, float(base), str(content["link"]), record)


def logistic(margin: Vector) -> Vector:
    """1 / (1 + exp(−margin)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * margin)))


def to_single(values: Vector) -> NDArray[np.float32]:
    """The nearest float32 numbers; infinite where there is none."""
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float32)


def shortest_floats(values: NDArray[np.float32]) -> list[float]:
    """Each float32 as the number with the fewest digits that reads back as the same float32."""
    return [
        float(text) if np.float32(float(text)) == value else float(value)
        for text, value in zip(values.astype(str), values, strict=True)
    ]
