"""Certificates: what each model in a cluster is, where it comes from, and the proof of its scores.

One document a model lies beside the aliases, so that any model can be verified from the cluster
alone: it holds the model itself and the parity samples, with their features and scores. A
certificate belongs to a store, as its model does.

The facts of a model from its certificate, in few words, and how two models differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from owpc_ltr.data.external_features.sources import sources_in
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, check_written, hits_of, part_of
from owpc_ltr.engine.deployment.alias import INDEX, prepare
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset
from owpc_ltr.models.feature_use import importances
from owpc_ltr.models.model_file import content_of, model_of
from owpc_ltr.models.reordering import load_model
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.names import check_name, immutable, split_immutable
from owpc_ltr.protocols import Model

_FORMAT = 1
_LARGE = ("content", "probes")
_RECORD = ("loss", "optimizer", "normalise", "basis", "seed", "select", "validation", "queries",
           "documents", "imported", "source", "fingerprint", "featureset_hash",
           "owpc_ltr")  # fmt: skip
_SHOWN = 3
_LONG = ("losers", "live")
_EVIDENCE = ("judged_at_10", "window_recall", "n_queries")
"""What is told of the live results of a gate."""
_FIT = ("objective", "risk", "gap", "relative_gap", "passes", "stop_reason")


@dataclass(frozen=True)
class Certificate:
    """A model's provenance and proof.

    `content` is the model file's, with its training record but for the samples; `engine` and
    `indices` are the environment of the upload (see `feature_log/job.py`); `samples`
    have features and local scores of that moment; `parity` and `gate` are what was found then;
    `name` is the one that it was uploaded as, `form` where it runs and why, if that was a choice.
    Empty `content` and `samples` were left out when it was read.
    """

    model: str
    content: dict[str, Any]
    featureset: FeatureSet
    type: str
    index: str
    engine: dict[str, str]
    indices: dict[str, dict[str, str]]
    parity: dict[str, Any]
    interval: ScoreInterval
    gate: dict[str, Any] | None = None
    record: dict[str, Any] = field(default_factory=dict)
    samples: tuple[dict[str, Any], ...] = ()
    name: str | None = None
    form: dict[str, Any] | None = None

    @property
    def alias_name(self) -> str | None:
        """The name that it was uploaded as; older certificates tell it by the model's own."""
        if self.name is not None:
            return self.name
        parts = split_immutable(self.model)
        return parts[0] if parts else None

    def ranker(self) -> Model:
        """The local model. Raises BadInput where the certificate is damaged."""
        return model_of(
            {**self.content, "record": self.record}, Path(f"the certificate of '{self.model}'")
        )

    def as_dict(self) -> dict[str, Any]:
        """The certificate as JSON."""
        return {
            "format": _FORMAT,
            "model": self.model,
            "name": self.name,
            "type": self.type,
            "featureset": self.featureset.to_body()["featureset"],
            "featureset_hash": self.featureset.hash,
            "index": self.index,
            "engine": self.engine,
            "indices": self.indices,
            "parity": self.parity,
            "interval": self.interval.as_dict(),
            "gate": self.gate,
            **({"form": self.form} if self.form else {}),
            "record": self.record,
            "content": self.content,
            "probes": list(self.samples),
        }


class Certificates:
    """The certificates of a store's models."""

    def __init__(self, engine: Engine, store: Store) -> None:
        """Use the cluster behind `engine`, and what was proven of the models in `store`."""
        self._engine = engine
        self._place = "%2F".join(["certificate", store.kind, *([store.name] if store.name else [])])

    def keep(self, certificate: Certificate) -> None:
        """Write a certificate; a later proof of the same model takes the place of an earlier."""
        prepare(self._engine)
        answer = self._engine.request(
            "PUT",
            self._path(certificate.model),
            params={"refresh": "true"},
            body={"certificate": certificate.as_dict()},
        )
        own = self._id(certificate.model).replace("%2F", "/")
        what = f"the certificate of '{certificate.model}'"
        check_written(answer, what, own, "created", "updated")

    def find(self, model: str, *, whole: bool = True) -> Certificate | None:
        """The certificate of an immutable name, if there is one.

        Where it is not wanted `whole`, the model itself and the samples are left out.
        """
        left_out = "" if whole else ",".join(f"certificate.{part}" for part in _LARGE)
        params = {"_source_excludes": left_out} if left_out else {}
        try:
            answer = self._engine.request("GET", self._path(model), params=params)
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return None
            raise
        return _read(model, part_of(answer, "_source", f"the certificate of '{model}'"))

    def get(self, model: str) -> Certificate:
        """The whole certificate; BadInput if there is none."""
        certificate = self.find(model)
        if certificate is None:
            raise BadInput(
                f"the model '{model}' has no certificate in {self._engine.settings.url}: check the "
                "name and the --store, or upload it again"
            )
        return certificate

    def called(self, name: str) -> str:
        """The model that is meant by its own name: NAME@HASH also means NAME-HASH, once new."""
        parts = split_immutable(name)
        if "@" not in name or parts is None:
            return name
        dashed = immutable(*parts)
        found = self.of([name, dashed])
        return dashed if dashed in found and name not in found else name

    def of(self, models: Collection[str]) -> set[str]:
        """Those of these models that have a certificate."""
        by_id = {self._id(model).replace("%2F", "/"): model for model in models}
        body = {"size": len(by_id), "_source": False, "query": {"ids": {"values": [*by_id]}}}
        if not by_id:
            return set()
        try:
            answer = self._engine.request("POST", f"/{INDEX}/_search", body=body)
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return set()
            raise
        found = {hit["_id"] for hit in hits_of(answer, "its certificates", "_id")}
        return {model for key, model in by_id.items() if key in found}

    def delete(self, model: str) -> None:
        """Take out a certificate; harmless where there is none."""
        try:
            answer = self._engine.request("DELETE", self._path(model), params={"refresh": "true"})
        except EngineRefusal as refusal:
            if refusal.status != 404:
                raise
            return
        own = self._id(model).replace("%2F", "/")
        check_written(answer, f"the certificate of '{model}'", own, "deleted")

    def _path(self, model: str) -> str:
        return f"/{INDEX}/_doc/{self._id(model)}"

    def _id(self, model: str) -> str:
        # No name has a slash in it, so that no alias can be taken for a certificate. Models had an
        # '@' in their names, and have none any more, since certificates belong to stores.
        place = "certificate" if "@" in model else self._place
        return f"{place}%2F{check_name('model', model)}"


def _sample(content: Any) -> dict[str, Any]:
    if not isinstance(content["params"], dict) or not isinstance(content["document_ids"], list):
        raise TypeError("probes")
    if not all(isinstance(each, str) for each in content["document_ids"]):
        raise TypeError("document_ids")
    return dict(content)


def _read(model: str, source: Any) -> Certificate:
    place = f"the certificate of '{model}'"
    try:
        content = source["certificate"]
        if content["format"] != _FORMAT:
            raise BadInput(
                f"{place} has the format {content['format']!r}, which a later version of owpc-ltr "
                "wrote: use that one"
            )
        featureset = parse_featureset(content["featureset"], place)
        return Certificate(
            str(content["model"]),
            dict(content.get("content") or {}),
            featureset,
            str(content["type"]),
            str(content["index"]),
            dict(content["engine"]),
            dict(content["indices"]),
            dict(content["parity"]),
            ScoreInterval.from_dict(content["interval"]),
            content.get("gate"),
            dict(content["record"]),
            tuple(map(_sample, content.get("probes") or ())),
            content.get("name"),
            content.get("form"),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadInput(f"{place} is damaged: {type(error).__name__} {error}") from error


def provenance(certificate: Certificate) -> dict[str, Any]:
    """What was trained, on what, with what, and what was proven where; one flat fact a line."""
    facts: dict[str, Any] = {"model": certificate.model, "type": certificate.type}
    facts |= recorded(certificate.record)
    if certificate.form:
        facts["form"] = {key: part for key, part in certificate.form.items() if part is not None}
    facts["featureset"] = certificate.featureset.name
    facts["featureset_hash"] = certificate.featureset.hash
    facts["engine"] = certificate.engine
    facts["index"] = certificate.index
    facts["indices"] = certificate.indices
    facts["parity"] = certificate.parity
    facts["interval"] = {**certificate.interval.as_dict(), "holds": certificate.interval.holds}
    if certificate.gate:
        gate = {key: part for key, part in certificate.gate.items() if key not in _LONG}
        facts["gate"] = gate | {"cautions": "; ".join(gate.get("cautions") or ())}
        if isinstance(gate.get("verdict"), dict):
            reasons = "; ".join(one["message"] for one in gate["verdict"].get("reasons") or ())
            facts["gate"]["verdict"] = gate["verdict"]["outcome"]
            facts["gate"] |= {"cannot_tell_because": reasons} if reasons else {}
        live = certificate.gate.get("live") or {}
        facts["gate"] |= {key: live[key] for key in _EVIDENCE if key in live}
        worst = (certificate.gate.get("losers") or ())[:_SHOWN]
        facts["gate"]["loses_most"] = ", ".join(f"'{one.get('keywords')}'" for one in worst)
    return dict(flattened(facts))


def recorded(record: dict[str, Any]) -> dict[str, Any]:
    """What the training record of a model tells, in few words."""
    facts = {key: record[key] for key in _RECORD if record.get(key) is not None}
    if isinstance(record.get("source"), dict):
        # Which queries they were, is for comparing with others: nobody reads it.
        facts["source"] = {key: part for key, part in record["source"].items() if key != "queries"}
    for source in sources_in(record, "the record"):
        by = f"{source.file}, by {' and '.join(source.keys)} ({source.sha256[:12]})"
        facts["joined"] = {**facts.get("joined", {}), **dict.fromkeys(source.features, by)}
    fit = record.get("certificate") or {}
    told = {key: fit[key] for key in _FIT if key in fit and fit[key] not in ("", None)}
    return facts | ({"fit": told} if told else {})


def describe_model_file(
    path: Path | str,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """A model file without samples and digests, the facts of its record, and importances."""
    model = load_model(path)
    record = {key: part for key, part in model.record.items() if key != "probes"}
    if "source" in record:
        # The list of queries is for comparison with other models.
        source = record["source"] or {}
        record["source"] = {key: part for key, part in source.items() if key != "queries"}
    facts = {"file": str(path), "type": model.kind, "features": len(model.feature_names)}
    told = dict(flattened(facts | recorded(record)))
    return {**content_of(model), "record": record}, told, importances(model)


def differences(one: Certificate, other: Certificate) -> list[tuple[str, Any, Any]]:
    """Every fact in which two models differ, and for linear ones every weight."""
    facts, others = (
        {**provenance(each), **dict(flattened(_weights(each)))} for each in (one, other)
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


def _weights(certificate: Certificate) -> dict[str, Any]:
    weights = certificate.content.get("weights")
    if weights is None:
        return {}
    names = certificate.content["feature_names"]
    return {"weight": dict(zip(names, weights, strict=True))}
