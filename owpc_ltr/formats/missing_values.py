"""Whether an engine sends missing features through the trees as the model does."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from owpc_ltr.errors import Refused
from owpc_ltr.files.strict_json import shown
from owpc_ltr.formats.engine_versions import RANKLIB, ServingProfile
from owpc_ltr.models.trees import TreeModel

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
    here = forest.default_left[splits]
    as_zero = forest.threshold[splits] > 0
    wrong = splits[here != as_zero] if rule == "zero" else splits[here]
    if not len(wrong):
        return False
    if rule == "right" and profile.missing_as_zero and bool((here == as_zero).all()):
        return True
    name = model.feature_names[forest.feature[wrong[0]]]
    raise Refused(
        f"{len(wrong)} of {len(model.splits)} splits send a missing feature elsewhere than "
        f"{profile} does ({_MEANING[rule]}), the first on '{shown(name)}': {_advice(rule)}"
    )


def _advice(rule: str) -> str:
    form = f", which goes in as {RANKLIB}" if rule == "right" else ""
    return (
        f"train with `owpc-ltr train --missing zero`{form}, or make the feature match every "
        "document"
    )
