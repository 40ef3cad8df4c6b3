"""Deployment records: what each model in a cluster is, where it comes from, and its proof.

Each model has one document beside the aliases, so that it can be verified from the cluster alone:
the model itself, and the parity samples with their features and scores. A record belongs to a
store, as its model does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from owpc_ltr.data.feature_sources import sources_in
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.stores import Store
from owpc_ltr.engine.versioned_documents import VersionedDocuments
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset
from owpc_ltr.files.output import digest_of
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.host.settings import check_settings
from owpc_ltr.models.analysis import ScoreInterval, importances
from owpc_ltr.models.combined import load_model, without_other_folds
from owpc_ltr.models.model_file import content_of, model_of
from owpc_ltr.names import immutable, split_immutable
from owpc_ltr.protocols import Model
from owpc_ltr.text import ShortRepr

_KEY = "deployment_record"
_FORMAT = 1
_LARGE = ("content", "samples", "record.folds")
_OBJECTS = ("search", "switch", "serving_mode", "search_template")
_PLAN = ("loss", "optimizer", "parts", "normalise", "basis", "seed", "select", "validation")
_DATA = ("queries", "documents", "imported", "source", "fingerprint", "featureset_hash")
_FIT = ("objective", "risk", "gap", "relative_gap", "passes", "stop_reason")


@dataclass(frozen=True, repr=False)
class DeploymentRecord(ShortRepr):
    """A model's provenance and proof.

    `content` is the model file's, with its training record but for the samples; `engine` and
    `indices` are the environment of the upload (see `feature_log/job.py`); `samples`
    have features and local scores of that moment; `parity` is what was found then; `name` is the
    alias that it was uploaded under, `serving_mode` where it runs and why, if that was a choice.
    `search` is what applications send, as far as it is known: the query `template`, examples of its
    `params`, the `window`; `search_template` is the `source` and `params` of its search template,
    if it has one. `switch` is what the alias was switched on: `over` which model, and the
    `evidence` for it, or why it was `unproven`. `content` and `samples` are empty where they were
    not read.
    """

    model: str
    name: str
    content: dict[str, Any]
    featureset: FeatureSet
    type: str
    index: str
    engine: dict[str, str]
    indices: dict[str, dict[str, str]]
    parity: dict[str, Any]
    interval: ScoreInterval
    search: dict[str, Any] | None = None
    switch: dict[str, Any] | None = None
    record: dict[str, Any] = field(default_factory=dict)
    samples: tuple[dict[str, Any], ...] = ()
    serving_mode: dict[str, Any] | None = None
    search_template: dict[str, Any] | None = None

    @classmethod
    def of_model(cls, model: Model, stored: StoredModel, **proved: Any) -> DeploymentRecord:
        """That of a model as it is stored; `proved` are the other fields."""
        content = content_of(model)
        record = without_other_folds(content.pop("record"), model.feature_names)
        return cls(
            model=stored.name,
            content=content,
            featureset=stored.featureset,
            type=stored.type,
            record={key: part for key, part in record.items() if key != "probes"},
            **proved,
        )

    def ranker(self) -> Model:
        """The local model. Raises BadInput where the record is damaged."""
        return model_of({**self.content, "record": self.record}, Path(_what(self.model)))

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON."""
        return {
            "format": _FORMAT,
            **{part.name: getattr(self, part.name) for part in fields(self)},
            "featureset": self.featureset.to_body()["featureset"],
            "featureset_hash": self.featureset.hash,
            "interval": self.interval.as_dict(),
            "samples": list(self.samples),
        }


class StorePlace(NamedTuple):
    """Which store of a cluster is meant."""

    kind: str
    name: str | None


class DeploymentRecords:
    """The deployment records of a store's models."""

    def __init__(self, engine: Engine, store: Store | StorePlace) -> None:
        """Use the cluster behind `engine`, and the records of the models in `store`."""
        self.engine = engine
        place = f"{store.kind}/{store.name}" if store.name else store.kind
        self._documents = VersionedDocuments(engine, "the deployment record of", f"{_KEY}/{place}/")

    def put(self, deployment: DeploymentRecord) -> None:
        """Write a record; it replaces an earlier one of the same model."""
        self._documents.put(deployment.model, {_KEY: deployment.as_dict()})

    def find(self, model: str, *, whole: bool = True) -> DeploymentRecord | None:
        """The record of an immutable name, if there is one.

        Unless `whole`, it lacks the model itself and the samples.
        """
        excluded = ",".join(f"{_KEY}.{part}" for part in _LARGE)
        params = {} if whole else {"_source_excludes": excluded}
        stored = self._documents.read(model, **params)
        return None if stored is None else _read(_what(model), stored.content)

    def get(self, model: str) -> DeploymentRecord:
        """The whole record; BadInput if there is none."""
        deployment = self.find(model)
        if deployment is None:
            raise BadInput(
                f"the model '{model}' has no deployment record in "
                f"{self.engine.settings.url}: check the name and the `store`, or upload it again"
            )
        return deployment

    def recorded(self, models: Collection[str]) -> set[str]:
        """Those of these models that have a record."""
        return self._documents.present(models)

    def delete(self, model: str) -> None:
        """Delete a record; nothing happens where there is none."""
        self._documents.delete(model)


def _what(model: str) -> str:
    return f"the deployment record of '{model}'"


def _sample(content: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(content["params"], dict) or not isinstance(content["document_ids"], list):
        raise TypeError("samples")
    if not all(isinstance(name, str) for name in content["document_ids"]):
        raise TypeError("document_ids")
    return dict(content)


def _read(place: str, source: Mapping[str, Any]) -> DeploymentRecord:
    try:
        content = source[_KEY]
        if content["format"] != _FORMAT:
            raise BadInput(
                f"{place} has the format {content['format']!r}, which a later version of owpc-ltr "
                "wrote: use that one"
            )
        parts = {
            part.name: content[part.name]
            for part in fields(DeploymentRecord)
            if part.name in content
        }
        parts |= {name: dict(content.get(name) or {}) for name in ("content", "record")}
        parts |= {name: dict(content[name]) for name in ("engine", "indices", "parity")}
        parts |= {
            "featureset": parse_featureset(content["featureset"], place),
            "interval": ScoreInterval.from_dict(content["interval"]),
            "samples": tuple(map(_sample, content.get("samples") or ())),
        }
        record = DeploymentRecord(**parts)
        check_settings(record)
        given = {name: parts[name] for name in _OBJECTS if parts.get(name) is not None}
        for name, part in (given | record.indices).items():
            if not isinstance(part, dict):
                raise TypeError(f"'{name}' is not an object")
        template = given.get("search_template")
        if template is not None and not {"source", "params"} <= template.keys():
            raise KeyError("search_template")
    except UsageError as error:
        raise BadInput(f"{place} is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadInput(f"{place} is damaged: {type(error).__name__} {error}") from error
    return record


def provenance(deployment: DeploymentRecord) -> dict[str, Any]:
    """The facts of a model by dotted names: data, settings, index, engine, proofs."""
    facts: dict[str, Any] = {"model": deployment.model, "type": deployment.type}
    facts |= training_facts(deployment.record)
    if deployment.serving_mode:
        mode = deployment.serving_mode
        facts["serving_mode"] = {key: part for key, part in mode.items() if part is not None}
    facts["featureset"] = deployment.featureset.name
    facts["featureset_hash"] = deployment.featureset.hash
    facts["engine"] = deployment.engine
    facts["index"] = deployment.index
    facts["indices"] = deployment.indices
    facts["parity"] = deployment.parity
    facts["interval"] = {**deployment.interval.as_dict(), "holds": deployment.interval.holds}
    if deployment.search:
        facts["query_template"] = deployment.search.get("template") is not None
        facts["window"] = deployment.search.get("window")
    if deployment.switch:
        facts["switch"] = _switch_facts(deployment.switch)
    return dict(flattened(facts))


def _switch_facts(switch: Mapping[str, Any]) -> dict[str, Any]:
    """What the alias was switched on: which model it replaced, and the main facts of why."""
    evidence = switch.get("evidence")
    if evidence is None:
        return dict(switch)
    figures = evidence["figures"]
    return {
        "over": switch["over"],
        "verdict": evidence["verdict"]["outcome"],
        "by": evidence["by"],
        "written": evidence["written"],
        **{key: part for key, part in figures.items() if not isinstance(part, dict | list)},
    }


def training_facts(record: dict[str, Any]) -> dict[str, Any]:
    """The main facts of a model's training record."""
    facts = {
        key: record[key] for key in (*_PLAN, *_DATA, "owpc_ltr") if record.get(key) is not None
    }
    if isinstance(record.get("source"), dict):
        facts["source"] = _without_queries(record["source"])
    for source in sources_in(record, "the record"):
        by = f"{source.file}, by {' and '.join(source.keys)} ({source.sha256[:12]})"
        facts["joined"] = {**facts.get("joined", {}), **dict.fromkeys(source.features, by)}
    fit = record.get("certificate") or {}
    fit_facts = {key: fit[key] for key in _FIT if key in fit and fit[key] not in ("", None)}
    return facts | ({"fit": fit_facts} if fit_facts else {})


def describe_model_file(
    path: Path | str,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """A model file without samples and digests, the facts of its record, and importances."""
    model = load_model(path)
    record = {key: part for key, part in model.record.items() if key not in {"probes", "folds"}}
    if "source" in record:
        record["source"] = _without_queries(record["source"] or {})
    facts = {"file": str(path), "type": model.kind, "features": len(model.feature_names)}
    facts = dict(flattened(facts | training_facts(record)))
    return {**content_of(model), "record": record}, facts, importances(model)


def _without_queries(source: Mapping[str, Any]) -> dict[str, Any]:
    """The source of a dataset without its queries, which are for comparison with other models."""
    return {key: part for key, part in source.items() if key != "queries"}


def differences(first: DeploymentRecord, other: DeploymentRecord) -> list[tuple[str, Any, Any]]:
    """Every fact in which two models differ, and every weight of linear ones."""
    facts, others = (
        {**provenance(model), **dict(flattened(_weights(model)))} for model in (first, other)
    )
    names = [*facts, *(name for name in others if name not in facts)]
    return [
        (name, facts.get(name), others.get(name))
        for name in names
        if facts.get(name) != others.get(name)
    ]


def flattened(content: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Facts by dotted names: `{"loss": {"name": "owpc"}}` as `loss.name`."""
    for key, value in content.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from flattened(value, f"{name}.")
        else:
            yield name, value


def _weights(deployment: DeploymentRecord) -> dict[str, Any]:
    weights = deployment.content.get("weights")
    if weights is None:
        return {}
    names = deployment.content["feature_names"]
    return {"weight": dict(zip(names, weights, strict=True))}


def immutable_name(name: str, stored: StoredModel) -> str:
    """`name-hash`: the same content always has the same name, other content another one."""
    return immutable(name, _content_hash(stored, stored.definition))


def is_named_by_content(stored: StoredModel) -> bool:
    """Whether a model in a store has the hash of its own content in its name.

    Only an upload of owpc-ltr names models so; by chance one in four billion would match.
    """
    parts = split_immutable(stored.name)
    if parts is None:
        return False
    # The LTR plugin may return as text what was sent as an object.
    definitions = [stored.definition]
    if isinstance(stored.definition, str):
        with suppress(ValueError, RecursionError):
            definitions.append(json.loads(stored.definition))
    return any(_content_hash(stored, part).startswith(parts[1]) for part in definitions)


def _content_hash(stored: StoredModel, definition: object) -> str:
    content = [stored.type, definition, stored.feature_normalizers, stored.featureset.hash]
    return digest_of(content)
