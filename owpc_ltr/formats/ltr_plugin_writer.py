"""Which of the LTR plugin's formats a model goes into an engine as."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from owpc_ltr.errors import Refused
from owpc_ltr.formats.engine_versions import RANKLIB, XGBOOST, XGBOOST_RAW, ServingProfile
from owpc_ltr.formats.ranklib import to_ranklib
from owpc_ltr.formats.xgboost_json_writer import to_dump
from owpc_ltr.formats.xgboost_raw_writer import to_raw
from owpc_ltr.models.ranklib_network import LogisticNetwork
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model


def plugin_definition(
    model: Model,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),
) -> tuple[str, Any]:
    """The type and definition of a tree or network model: the first format that scores it exactly.

    Features in `never_missing` match every document. Raises Refused, with the first format's
    reason, where none does.
    """
    writers: list[tuple[str, Callable[..., Any]]] = []
    if isinstance(model, TreeModel):
        writers = [(XGBOOST, to_dump), (XGBOOST_RAW, to_raw), (RANKLIB, to_ranklib)]
    elif isinstance(model, LogisticNetwork):
        writers = [(RANKLIB, to_ranklib)]
    reasons = [
        f"the LTR plugin has no {model.kind} models: push its feature set (featureset push), and "
        "upload it, both with --store-kind plugin-free, for the client to score"
    ]
    for model_type, write in writers:
        try:
            return model_type, write(model, featureset_names, profile, never_missing)
        except Refused as error:
            reasons.append(str(error))
    raise Refused(reasons[min(1, len(reasons) - 1)])
