"""XGBoost objectives: what each does to the sum of the trees, and which names an engine takes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.files.strict_json import a_json
from owpc_ltr.formats.engine_versions import ServingProfile

_LINKS: Mapping[str, str] = {
    "rank:ndcg": "identity",
    "rank:map": "identity",
    "rank:pairwise": "identity",
    "reg:squarederror": "identity",
    "reg:linear": "identity",
    "reg:squaredlogerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "binary:logitraw": "identity",
    "binary:logistic": "logistic",
    "reg:logistic": "logistic",
}
_WRITTEN = {"identity": "rank:pairwise", "logistic": "binary:logistic"}
"""The names of a link that every engine takes."""


def link_of(objective: object) -> str:
    """What an objective does to the sum of the trees. Raises BadInput where no engine does it."""
    if not isinstance(objective, str) or objective not in _LINKS:
        raise BadInput(
            f"the objective {a_json(objective)} is none whose scores an engine gives: train with "
            "rank:ndcg, rank:map, rank:pairwise, reg:squarederror or binary:logistic"
        )
    return _LINKS[objective]


def base_margin(objective: str, base_score: float, version: int) -> float:
    """What XGBoost adds to the sum of the trees for the `base_score` of its file.

    Logistic objectives state a probability; `binary:logitraw` did before XGBoost 2.
    """
    states_probability = link_of(objective) == "logistic"
    if objective == "binary:logitraw" and version < 2:
        states_probability = True
    if not states_probability:
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
