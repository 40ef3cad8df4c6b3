"""What each version of each engine takes: model formats, objectives, missing values."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.strict_json import a_json, shown
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.text import ShortRepr, Version, parse_version, version_text

LINEAR = "model/linear"
RANKLIB = "model/ranklib"
XGBOOST = "model/xgboost+json"
XGBOOST_RAW = "model/xgboost+json+raw"

MissingRule = Literal["zero", "right", "default"]
"""Where a missing feature goes: as 0 would, always right, or as each split says."""

_OLD_OBJECTIVES = frozenset(
    {"binary:logitraw", "rank:pairwise", "reg:linear", "binary:logistic", "reg:logistic"}
)
_OBJECTIVES = _OLD_OBJECTIVES | {"rank:ndcg", "rank:map"}


@dataclass(frozen=True, repr=False)
class ServingProfile(ShortRepr):
    """What an engine of one version does with models.

    `missing` has each model format that the engine takes, and where its trees (or sum) send a
    missing feature. `objectives` are the XGBoost objectives that a format may name.
    `missing_as_zero`: whether XGBoost formats know the key of that name.
    """

    engine: str
    version: Version
    missing: Mapping[str, MissingRule]
    objectives: Mapping[str, frozenset[str]]
    missing_as_zero: bool
    raw_by_number: bool = False

    @property
    def formats(self) -> tuple[str, ...]:
        """The model types that the engine takes."""
        return tuple(self.missing)

    def __str__(self) -> str:
        return f"{self.engine} {version_text(self.version)}"


def serving_profile(engine: str, version: str) -> ServingProfile:
    """The profile of `opensearch` or `elasticsearch` with the LTR plugin. Raises UsageError."""
    numbers = parse_version(version)
    if engine not in _PROFILES:
        raise UsageError(f"no profile of {engine[:40]!r}: choose from {', '.join(_PROFILES)}")
    return _PROFILES[engine](numbers)


def _opensearch(version: Version) -> ServingProfile:
    trees: MissingRule = "default" if version >= (3, 8) else "right"
    if version < (3, 2):
        trees = "zero"
    missing: dict[str, MissingRule] = {LINEAR: "zero", RANKLIB: "zero", XGBOOST: trees}
    if version >= (2, 19, 2):
        missing[XGBOOST_RAW] = trees
    dump = _OBJECTIVES if version >= (3, 2) else _OLD_OBJECTIVES
    return ServingProfile(
        "opensearch",
        version,
        missing,
        {XGBOOST: dump, XGBOOST_RAW: _OBJECTIVES},
        missing_as_zero=version >= (3, 8, 1) or (3, 6, 1) <= version < (3, 7),
    )


def _elasticsearch(version: Version) -> ServingProfile:
    recent = version >= (8, 11)
    missing: dict[str, MissingRule] = {
        LINEAR: "zero",
        RANKLIB: "zero",
        XGBOOST: "default" if recent else "zero",
    }
    if version >= (8, 15):
        missing[XGBOOST_RAW] = "default" if version >= (9, 0, 8) else "right"
    dump = _OBJECTIVES if recent else _OLD_OBJECTIVES
    return ServingProfile(
        "elasticsearch",
        version,
        missing,
        {XGBOOST: dump, XGBOOST_RAW: _OBJECTIVES},
        missing_as_zero=False,
        raw_by_number=version < (8, 17, 2),
    )


_PROFILES = {"opensearch": _opensearch, "elasticsearch": _elasticsearch}


_LOGISTIC = frozenset(("binary:logistic", "reg:logistic"))
_IDENTITY = frozenset(
    (
        *("rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror", "reg:linear"),
        *("reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "binary:logitraw"),
    )
)
_WRITTEN = {"identity": "rank:pairwise", "logistic": "binary:logistic"}
"""The names of a link that every engine takes."""


def link_of(objective: object) -> str:
    """What an objective does to the sum of the trees. Raises BadInput where no engine does it."""
    if not isinstance(objective, str) or objective not in _IDENTITY | _LOGISTIC:
        raise BadInput(
            f"the objective {a_json(objective)} is none whose scores an engine gives: train with "
            "rank:ndcg, rank:map, rank:pairwise, reg:squarederror or binary:logistic"
        )
    return "logistic" if objective in _LOGISTIC else "identity"


def base_margin(objective: str, base_score: float, version: int) -> float:
    """What XGBoost adds to the sum of the trees for the `base_score` of its file.

    Logistic objectives state a probability; `binary:logitraw` did before XGBoost 2.
    """
    logitraw = objective == "binary:logitraw" and version < 2
    if link_of(objective) == "identity" and not logitraw:
        return base_score
    if not 0 < base_score < 1:
        raise BadInput(f"the base score {base_score} of {objective} is not a probability")
    return math.log(base_score / (1 - base_score))


def objective_for(link: str, model_type: str, profile: ServingProfile) -> str:
    """The objective's name to write for a link. Raises Refused where the format is not taken."""
    if model_type not in profile.missing:
        raise Refused(
            f"{profile} does not take {model_type}: choose from {', '.join(profile.formats)}"
        )
    return _WRITTEN[link]


def positions(model_names: Sequence[str], featureset_names: Sequence[str]) -> list[int]:
    """The place of each feature of a model in the feature set. Raises Refused if one is absent."""
    places = {name: place for place, name in enumerate(featureset_names)}
    for name in model_names:
        if name not in places:
            raise Refused(
                f"the model needs the feature '{shown(name)}', which the feature set has not: "
                "push the feature set that it was trained on"
            )
    return [places[name] for name in model_names]


_MEANING = {"zero": "as if it were 0", "right": "always right"}


def needs_zero_flag(
    model: TreeModel, model_type: str, profile: ServingProfile, never_missing: Collection[str]
) -> bool:
    """Whether `missing_as_zero` must be written for the engine to do as the model does.

    Features in `never_missing` match every document, so their splits are safe under any rule.
    Raises Refused where the engine would send a missing feature another way.
    """
    rule = profile.missing[model_type]
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
        f"{profile} does ({_MEANING[rule]}), the first on '{shown(name)}': train with `owpc-ltr "
        f"train --missing zero`{form}, or make the feature match every document"
    )
