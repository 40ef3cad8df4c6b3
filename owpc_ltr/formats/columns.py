"""Where the features of a model stand in a feature set."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.errors import Refused
from owpc_ltr.files.strict_json import shown


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
