"""What each version of each engine does with models: where it sends a missing feature."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.files.input import shown
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.text import ShortRepr
from owpc_ltr.version import Version, parse_version, version_text

LINEAR = "model/linear"
RANKLIB = "model/ranklib"
XGBOOST = "model/xgboost+json"
XGBOOST_RAW = "model/xgboost+json+raw"

MissingRule = Literal["zero", "right", "default"]
"""Where a missing feature goes: as 0 would, always right, or as each split says."""


@dataclass(frozen=True, repr=False)
class ServingProfile(ShortRepr):
    """What an engine of one version does with models.

    `missing` is where XGBoost's trees send a missing feature; to linear models and to RankLib's it
    is 0 in every version. `missing_as_zero`: whether a dump may have the key of that name.
    """

    engine: str
    version: Version
    missing: MissingRule
    missing_as_zero: bool

    def __str__(self) -> str:
        return f"{self.engine} {version_text(self.version)}"


def serving_profile(engine: str, version: str) -> ServingProfile:
    """The profile of `opensearch` or `elasticsearch` with the LTR plugin. Raises UsageError."""
    number = parse_version(version)
    rules: dict[str, MissingRule] = {
        "opensearch": ("default" if number >= (3, 8) else "right" if number >= (3, 2) else "zero"),
        "elasticsearch": "default" if number >= (8, 11) else "zero",
    }
    if engine not in rules:
        raise UsageError(f"no profile of {engine[:40]!r}: choose from {', '.join(rules)}")
    knows_key = number >= (3, 8, 1) or (3, 6, 1) <= number < (3, 7)
    return ServingProfile(engine, number, rules[engine], knows_key and engine == "opensearch")


def positions(model_names: Sequence[str], featureset_names: Sequence[str]) -> list[int]:
    """The place of each feature of a model in the feature set. Raises Refused if one is absent."""
    places = {name: place for place, name in enumerate(featureset_names)}
    for name in model_names:
        if name not in places:
            raise Refused(
                f"the model needs the feature {shown(name)}, which the feature set has not: "
                "push the feature set that it was trained on"
            )
    return [places[name] for name in model_names]


_MEANING = {"zero": "as if it were 0", "right": "always right"}


def needs_zero_flag(
    model: TreeModel, rule: MissingRule, profile: ServingProfile, never_missing: Collection[str]
) -> bool:
    """Whether `missing_as_zero` must be written for an engine of this rule to do as the model does.

    Features in `never_missing` match every document, so their splits are safe under any rule.
    Raises Refused where the engine would send a missing feature another way.
    """
    if rule == "default":
        return False
    forest, splits = model.forest, model.splits
    safe = np.array([name in never_missing for name in model.feature_names], dtype=bool)
    splits = splits[~safe[forest.feature[splits]]]
    default_left = forest.default_left[splits]
    differs = default_left != (forest.threshold[splits] > 0)
    wrong = splits[differs if rule == "zero" else default_left]
    if not len(wrong):
        return False
    if rule == "right" and profile.missing_as_zero and not differs.any():
        return True
    name = model.feature_names[forest.feature[wrong[0]]]
    form = f", which goes in as {RANKLIB}" if rule == "right" else ""
    raise Refused(
        f"{len(wrong)} of {len(model.splits)} splits send a missing feature elsewhere than "
        f"{profile} does ({_MEANING[rule]}), the first on {shown(name)}: train with "
        f"`train(missing='zero')`{form}, or make the feature match every document"
    )
