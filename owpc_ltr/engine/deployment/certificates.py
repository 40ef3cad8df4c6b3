"""Certificates: what each model in a cluster is, where it comes from, and the proof of its scores.

One document a model lies beside the aliases, so that any model can be verified from the cluster
alone: it holds the model itself and the parity samples, with their features and scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from owpc_ltr.engine.deployment.aliases import INDEX, Aliases
from owpc_ltr.engine.http.client import Engine, EngineRefusal
from owpc_ltr.engine.http.responses import part_of
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset
from owpc_ltr.models.linear import model_of
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.names import check_name
from owpc_ltr.protocols import Model

_FORMAT = 1
_LARGE = ("content", "probes")


@dataclass(frozen=True)
class Certificate:
    """A model's provenance and proof.

    `content` is the model file's, with its training record but for the samples; `engine` and
    `indices` are the environment of the upload (see `feature_log/environment.py`); `samples`
    have features and local scores of that moment; `parity` and `gate` are what was found then.
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
            "type": self.type,
            "featureset": self.featureset.to_body()["featureset"],
            "featureset_hash": self.featureset.hash,
            "index": self.index,
            "engine": self.engine,
            "indices": self.indices,
            "parity": self.parity,
            "interval": self.interval.as_dict(),
            "gate": self.gate,
            "record": self.record,
            "content": self.content,
            "probes": list(self.samples),
        }


class Certificates:
    """The certificates of a cluster."""

    def __init__(self, engine: Engine) -> None:
        """Use the cluster behind `engine`."""
        self._engine = engine

    def keep(self, certificate: Certificate) -> None:
        """Write a certificate; a later proof of the same model takes the place of an earlier."""
        Aliases(self._engine).prepare()
        self._engine.request(
            "PUT",
            _path(certificate.model),
            params={"refresh": "true"},
            body={"certificate": certificate.as_dict()},
        )

    def find(self, model: str, *, whole: bool = True) -> Certificate | None:
        """The certificate of an immutable name, if there is one.

        Where it is not wanted `whole`, the model itself and the samples are left out.
        """
        left_out = "" if whole else ",".join(f"certificate.{part}" for part in _LARGE)
        params = {"_source_excludes": left_out} if left_out else {}
        try:
            answer = self._engine.request("GET", _path(model), params=params)
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
                "name, or upload it again"
            )
        return certificate

    def delete(self, model: str) -> None:
        """Take out a certificate; harmless where there is none."""
        try:
            self._engine.request("DELETE", _path(model), params={"refresh": "true"})
        except EngineRefusal as refusal:
            if refusal.status != 404:
                raise


def _path(model: str) -> str:
    # No name has a slash in it, so that no alias can be taken for a certificate.
    return f"/{INDEX}/_doc/certificate%2F{check_name('model', model)}"


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
            tuple(content.get("probes") or ()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{place} is damaged: {type(error).__name__} {error}") from error
