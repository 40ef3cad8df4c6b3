"""The trial of a feature set before it is stored: with which parameters, and what a failure means.

A parameter that nothing is known of is tried as text, which a number or a list cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import DERIVED, FeatureSet
from owpc_ltr.formats.engine_versions import XGBOOST, serving_profile

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine

_NO_JSON = re.compile(
    r"does not give JSON|as JSON: it must|unrecognized token|unexpected char", re.I
)
_OF_FEATURE = re.compile(r"feature '([^']+)'|feature \[([^\]]+)\]")
_TOLD = 5
_TEXTS = frozenset(("keywords", "query", "text", "q"))
"""Names of parameters that are text in every feature set."""


@dataclass(frozen=True)
class TrialParams:
    """The parameters of a trial, and the names of those that are only guessed to be this text."""

    values: dict[str, Any]
    guessed: frozenset[str]
    text: str


def trial_params(featureset: FeatureSet, text: str, given: Mapping[str, Any]) -> TrialParams:
    """What is given, else what the set's own validation has, else `text`.

    Raises UsageError for a parameter that no template names.
    """
    for name in given:
        if name not in featureset.params:
            known = ", ".join(featureset.params) or "none"
            raise UsageError(
                f"'{name}' is no parameter of the feature set '{featureset.name}': it has {known}"
            )
    own = (featureset.validation or {}).get("params", {})
    guessed = frozenset(featureset.params) - own.keys() - given.keys()
    values = {**dict.fromkeys(featureset.params, text), **own, **given}
    return TrialParams(values, guessed, text)


def put_tried(store: Store, featureset: FeatureSet, tried: TrialParams, *, replace: bool) -> None:
    """Keep the set; where its trial fails because of a guess, the refusal says how to do better."""
    store.prepare()
    try:
        store.put_featureset(featureset, replace=replace)
    except (Refused, BadInput) as error:
        names = _suspects(str(error), featureset, tried)
        if not names:
            raise
        told = ", ".join(f"'{name}'" for name in names)
        kind = BadInput if isinstance(error, BadInput) else Refused
        raise kind(
            f"{error}; {told} was tried as the text '{tried.text}': if it is a number or a list, "
            f"give a value to try with, --param {names[0]}=VALUE"
        ) from error


def derived_cautions(engine: Engine, store: Store, featureset: FeatureSet) -> list[str]:
    """What the derived features of a set mean for models, before anything is logged for one."""
    derived = [f"'{f.name}'" for f in featureset.features if f.template_language == DERIVED]
    if not derived:
        return []
    told = f"{', '.join(derived[:_TOLD])}{' …' if len(derived) > _TOLD else ''} (derived)"
    if store.kind != "ltr-plugin":
        return [
            f"{told}: only the LTR plugin computes this inside a search, so that here the client "
            "must score a model that uses it: upload it with --client-scored, or leave it out"
        ]
    about = engine.about()
    if serving_profile(about.distribution, about.version).missing[XGBOOST] == "zero":
        return []
    return [
        f"{told}: where a feature that it is derived from does not match, it is logged as for 0, "
        "and trees in the engine take it for missing: train trees with --missing zero, and let it "
        "be 0 there; linear models are not affected"
    ]


def _suspects(message: str, featureset: FeatureSet, tried: TrialParams) -> list[str]:
    """The guessed parameters that can be what a message complains of: it shows their text."""
    shown = re.search(rf"""["'\[=]\s*{re.escape(tried.text)}\s*["'\]]""", message)
    if not tried.guessed or not (shown or _NO_JSON.search(message)):
        return []
    match = _OF_FEATURE.search(message)
    name = (match[1] or match[2]) if match else None
    features = [feature for feature in featureset.features if feature.name == name]
    named = {param for feature in features or featureset.features for param in feature.params}
    guessed = sorted(named & tried.guessed)
    return [param for param in guessed if param not in _TEXTS] or guessed
