"""Models that the client scores, as a store keeps them, and models with joined features.

No engine has external (joined) features: a model goes there without them, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from owpc_ltr.data.feature_sources import (
    KEY,
    ExternalSource,
    external_entry,
    external_names,
    in_words,
    sources_in,
)
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.analysis import features_used, without_last_columns
from owpc_ltr.models.linear import AdditiveModel, LinearModel
from owpc_ltr.models.model_file import content_of, model_of, packed, unpacked, with_record
from owpc_ltr.models.networks import LogisticNetwork
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model, RankingModel

_TYPE = "owpc-ltr/"
LEFT_OUT = "joined_left_out"
"""Where a record names the joined features that a model had, and made nothing of."""


def is_client_scored(stored: StoredModel) -> bool:
    """Whether the client scores the model, and no engine."""
    return stored.type.startswith(_TYPE)


def elsewhere(stored: StoredModel) -> str:
    """Where an engine may run a model that the client scores here, in words."""
    kind = stored.type.removeprefix(_TYPE)
    if kind in {LinearModel.kind, TreeModel.kind, LogisticNetwork.kind}:
        return "a cluster with the LTR plugin may run it"
    scripted = "an engine that allows inline scripts runs it: upload it there"
    return scripted if kind == AdditiveModel.kind else f"no engine runs models of the kind {kind}"


def store_for_client(model: Model, featureset: FeatureSet, name: str) -> StoredModel:
    """A model of any kind as our own JSON, without its record.

    Where it reads joined features, that is said beside: who scores it must have their values.
    """
    definition = {key: part for key, part in content_of(model).items() if key != "record"}
    definition |= external_entry(joined_sources(model))
    return StoredModel(name, _TYPE + model.kind, definition, featureset)


def client_model(stored: StoredModel) -> Model:
    """The model that the client scores. Raises BadInput where the stored one is damaged."""
    if not isinstance(stored.definition, dict):
        raise BadInput(f"the stored model '{stored.name}' is damaged: it is not an object")
    model = model_of(stored.definition, Path(f"the stored model '{stored.name}'"))
    joined = external_names(joined_in(stored))
    if model.feature_names != stored.featureset.feature_names + joined:
        raise BadInput(f"the stored model '{stored.name}' is damaged: it reads other features")
    return model


def joined_in(stored: StoredModel) -> tuple[ExternalSource, ...]:
    """Where the joined features of a stored model are from; nothing of one that an engine runs."""
    if not is_client_scored(stored) or not isinstance(stored.definition, dict):
        return ()
    return sources_in(stored.definition, f"the stored model '{stored.name}'")


def check_features(model: Model, featureset: FeatureSet) -> None:
    """Refuse a feature set that is not the one the model was trained on, joined columns apart."""
    names = index_features(model)
    if names != featureset.feature_names:
        missing = sorted(set(names) - set(featureset.feature_names))
        what = f"lacks '{missing[0]}'" if missing else "has others, or another order"
        raise BadInput(
            f"feature set '{featureset.name}' {what}: use the one that the model was trained on"
        )
    trained = model.record.get("featureset_hash")
    if trained and trained != featureset.hash:
        raise Refused(
            f"feature set '{featureset.name}' has changed since the model's features were logged "
            f"(hash {featureset.hash[:12]}, then {trained[:12]}): log and train again, or push the "
            "old feature set"
        )


def joined_sources(model: RankingModel) -> tuple[ExternalSource, ...]:
    """Where the model's joined features are from. Raises BadInput where its record is damaged."""
    sources = sources_in(model.record, "the model's record")
    names = external_names(sources)
    if names and model.feature_names[-len(names) :] != names:
        raise BadInput("the model's record is damaged: its external features are not its last ones")
    return sources


def index_features(model: RankingModel) -> tuple[str, ...]:
    """The features that an index has: all but the joined ones, which are the last."""
    joined = len(external_names(joined_sources(model)))
    return model.feature_names[: len(model.feature_names) - joined]


def joined_used(model: Model) -> tuple[str, ...]:
    """The joined features that can change a score of the model."""
    used = features_used(model)
    return tuple(name for name in external_names(joined_sources(model)) if name in used)


def for_engine(model: Model) -> Model:
    """The model without joined features, of which it makes nothing; itself where it has none.

    Raises Refused, naming them, where it reads some: no engine has their values.
    """
    sources = joined_sources(model)
    names = external_names(sources)
    used = joined_used(model)
    if used:
        raise Refused(
            f"the model reads {in_words(used, sources)}, which is in no index, so that no engine "
            "can run it: train without it, or let the client score the model: upload "
            "`client_scored`"
        )
    if not names:
        return model
    return with_record(without_last_columns(model, names), _record(model, names))


def samples_of_columns(
    samples: Iterable[dict[str, Any]], width: int, columns: Sequence[int]
) -> list[dict[str, Any]]:
    """Samples of `width` features with these columns of them; some samples have no features."""

    def narrowed(sample: dict[str, Any]) -> dict[str, Any]:
        rows = unpacked(sample["features"], len(sample["document_ids"]), width)
        return {**sample, "features": packed(rows[:, list(columns)])}

    return [narrowed(sample) if "features" in sample else sample for sample in samples]


def _record(model: Model, names: Sequence[str]) -> dict[str, Any]:
    record = {key: part for key, part in model.record.items() if key != KEY}
    width, joined = len(model.feature_names), len(names)
    if record.get("probes"):
        record["probes"] = samples_of_columns(record["probes"], width, range(width - joined))
    if record.get("feature_ranges"):
        record["feature_ranges"] = [ends[: width - joined] for ends in record["feature_ranges"]]
    return {**record, LEFT_OUT: list(names)}
