"""The facts of a model from its certificate, in few words, and how two models differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from owpc_ltr.data.external_features.source import sources_in
from owpc_ltr.engine.deployment.certificates import Certificate

_RECORD = ("loss", "optimizer", "normalise", "basis", "seed", "select", "validation", "queries",
           "documents", "imported", "source", "fingerprint", "featureset_hash",
           "owpc_ltr")  # fmt: skip
_SHOWN = 3
_LONG = ("losers", "live")
_EVIDENCE = ("judged_at_10", "window_recall", "n_queries")
"""What is told of the live results of a gate."""
_FIT = ("objective", "risk", "gap", "relative_gap", "passes", "stop_reason")


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
