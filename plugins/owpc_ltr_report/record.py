"""Record: what a model file says of its training, in words; it may be anybody's, and lack parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from owpc_ltr.models.model_file import warnings_of
from owpc_ltr_report.figures import plain

C = "optimizer.C"
_PARTS = ("loss", "optimizer", "reranker")
_CERTIFICATE = {
    "objective": "training objective",
    "gap": "duality gap",
    "relative_gap": "duality gap / what training gained",
    "risk_ratio": "risk / risk of scoring everything 0",
    "passes": "passes",
    "nonzero_duals": "non-zero duals",
    "stop_reason": "stopped because",
}


@dataclass(frozen=True)
class Record:
    """A training record, read with care."""

    content: Mapping[str, Any]

    @cached_property
    def candidates(self) -> list[Mapping[str, Any]]:
        """The rows of what was tried."""
        return _objects(self.content.get("table"))

    @cached_property
    def passes(self) -> list[Mapping[str, Any]]:
        """The rows of the chosen fit's passes, as far as they were kept."""
        return _objects(self.content.get("history"))

    @property
    def warnings(self) -> list[str]:
        """What training warned of."""
        return warnings_of(self.content)

    @property
    def chosen_by(self) -> str:
        """The metric that chose."""
        return str(self.content.get("select", "the metric"))

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Loss, optimizer and reranker with their settings."""
        return [
            (part, _with_settings(self.content[part]))
            for part in _PARTS
            if isinstance(self.content.get(part), Mapping)
        ]

    @property
    def loss_name(self) -> str:
        """The name of the loss."""
        loss = self.content.get("loss")
        return str(loss.get("name")) if isinstance(loss, Mapping) else "?"

    @cached_property
    def varied(self) -> list[str]:
        """The settings in which candidates differ."""
        named = dict.fromkeys(name for row in self.candidates for name in row if "." in name)
        return [
            name
            for name in named
            if all(name in row for row in self.candidates)
            and len({str(row[name]) for row in self.candidates}) > 1
        ]

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The candidate that was chosen: the first whose validation value is the model's."""
        value = self.content.get("validation")
        return next((row for row in self.candidates if row.get("validation") == value), None)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """The settings, what was learned from, and the certificate."""
        rows = self.parts
        validation = self.content.get("validation")
        if isinstance(validation, float) and math.isfinite(validation):
            rows.append((f"validation {self.chosen_by}", f"{validation:.4f}"))
        if self.content.get("queries") is not None:
            rows.append(("trained on", self._trained_on()))
        basis = self.content.get("basis")
        if isinstance(basis, Mapping):
            rows.append(("basis", f"{basis.get('name')} of {basis.get('knots')} knots"))
        certificate = self.content.get("certificate")
        if isinstance(certificate, Mapping):
            rows += [
                (words, plain(certificate[key]))
                for key, words in _CERTIFICATE.items()
                if certificate.get(key)
            ]
        return tuple(rows)

    def provenance(self) -> tuple[tuple[str, str], ...]:
        """Where a model is from: program, seed, data and feature set."""
        keys = {
            "owpc_ltr": "trained by owpc-ltr",
            "seed": "seed",
            "normalise": "features scaled",
            "missing": "missing values",
            "fingerprint": "training data",
            "featureset_hash": "feature set",
        }
        rows = [
            (words, _brief(self.content[key]))
            for key, words in keys.items()
            if self.content.get(key) is not None
        ]
        source = self.content.get("source")
        if isinstance(source, Mapping) and source.get("data"):
            rows.append(("file", str(source["data"])))
        split = source.get("split") if isinstance(source, Mapping) else None
        if isinstance(split, Mapping):
            told = ", ".join(f"{name} {plain(value)}" for name, value in split.items())
            rows.append(("split of queries by hash", told))
        imported = self.content.get("imported")
        if isinstance(imported, Mapping):
            rows.append(("imported from", str(imported.get("format", "another library"))))
        return tuple(rows)

    def _trained_on(self) -> str:
        queries, documents = self.content.get("queries"), self.content.get("documents")
        return f"{plain(queries)} queries, {plain(documents)} documents"


def c_of(settings: Mapping[str, Any]) -> float:
    """C of a candidate as a number, however it was given; 0 where it is none.

    >>> c_of({"optimizer.C": "1e-3"}), c_of({"optimizer.C": 10}), c_of({"optimizer.C": "auto"})
    (0.001, 10.0, 0.0)
    """
    try:
        value = float(settings[C])
    except (LookupError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _brief(value: Any) -> str:
    """A digest by its first digits, anything else as it is."""
    text = plain(value)
    return f"{text[:12]}…" if len(text) == 64 else text


def _with_settings(part: Mapping[str, Any]) -> str:
    settings = part.get("settings")
    if not isinstance(settings, Mapping) or not settings:
        return str(part.get("name"))
    told = ", ".join(f"{key}={plain(value)}" for key, value in settings.items())
    return f"{part.get('name')} ({told})"


def _objects(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [row for row in value if isinstance(row, Mapping)]
