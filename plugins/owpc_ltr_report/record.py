"""The training record of a model file, and the section on a model's origin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from owpc_ltr_papers.risk_bounds import Bound

from owpc_ltr.models.model_file import warnings_of
from owpc_ltr_report.blocks import Block, Facts, Section, Table, plain

C = "optimizer.C"
_PARTS = ("loss", "optimizer", "reranker")
_CERTIFICATE = {
    "objective": "training objective",
    "gap": "duality gap",
    "relative_gap": "duality gap / gain of training",
    "risk_ratio": "risk / risk of the all-tied baseline",
    "passes": "passes",
    "nonzero_duals": "non-zero duals",
    "stop_reason": "reason for stopping",
}
_ORIGIN = {
    "owpc_ltr": "trained by owpc-ltr",
    "seed": "seed",
    "normalise": "features scaled",
    "missing": "missing values",
    "fingerprint": "training data",
    "featureset_hash": "feature set",
}


@dataclass(frozen=True)
class TrainingRecord:
    """A model's record, of which any part may be absent or malformed."""

    content: Mapping[str, Any]

    @cached_property
    def candidates(self) -> list[Mapping[str, Any]]:
        """The settings that were tried, with their validation values."""
        return _objects(self.content.get("table"))

    @cached_property
    def passes(self) -> list[Mapping[str, Any]]:
        """The passes of the chosen fit, as far as they were recorded."""
        return _objects(self.content.get("history"))

    @property
    def warnings(self) -> list[str]:
        """The warnings of training."""
        return warnings_of(self.content)

    @property
    def select_metric(self) -> str:
        """The metric that selected the settings."""
        return str(self.content.get("select", "the metric"))

    @property
    def validation(self) -> float | None:
        """The model's value of that metric on validation queries."""
        value = self.content.get("validation")
        return value if is_number(value) else None

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
        names = dict.fromkeys(name for row in self.candidates for name in row if "." in name)
        return [
            name
            for name in names
            if all(name in row for row in self.candidates)
            and len({str(row[name]) for row in self.candidates}) > 1
        ]

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The selected candidate: the first whose validation value is the model's."""
        value = self.content.get("validation")
        return next((row for row in self.candidates if row.get("validation") == value), None)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """The settings, the training data, and the certificate."""
        rows = self.parts
        validation = self.content.get("validation")
        if isinstance(validation, float) and math.isfinite(validation):
            rows.append((f"validation {self.select_metric}", f"{validation:.4f}"))
        queries, documents = self.content.get("queries"), self.content.get("documents")
        if queries is not None:
            rows.append(("trained on", f"{plain(queries)} queries, {plain(documents)} documents"))
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

    def origin(self) -> tuple[tuple[str, str], ...]:
        """Program, seed, data and feature set."""
        rows = [
            (words, _digest_start(self.content[key]))
            for key, words in _ORIGIN.items()
            if self.content.get(key) is not None
        ]
        source = self.content.get("source")
        if isinstance(source, Mapping):
            if source.get("data"):
                rows.append(("file", str(source["data"])))
            if isinstance(source.get("split"), Mapping):
                rows.append(("split of queries by hash", _listed(source["split"], " ")))
        imported = self.content.get("imported")
        if isinstance(imported, Mapping):
            rows.append(("imported from", str(imported.get("format", "another library"))))
        return tuple(rows)


def c_of(settings: Mapping[str, Any]) -> float:
    """C of a candidate as a number, whatever its type; 0 where it is none.

    >>> c_of({"optimizer.C": "1e-3"}), c_of({"optimizer.C": 10}), c_of({"optimizer.C": "auto"})
    (0.001, 10.0, 0.0)
    """
    try:
        value = float(settings[C])
    except (LookupError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def is_number(value: Any) -> bool:
    """Whether a value of a record is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _digest_start(value: Any) -> str:
    """The first characters of a digest; anything else in full."""
    text = plain(value)
    return f"{text[:12]}…" if len(text) == 64 else text


def _with_settings(part: Mapping[str, Any]) -> str:
    settings = part.get("settings")
    if not isinstance(settings, Mapping) or not settings:
        return str(part.get("name"))
    return f"{part.get('name')} ({_listed(settings, '=')})"


def _listed(values: Mapping[str, Any], sign: str) -> str:
    return ", ".join(f"{name}{sign}{plain(value)}" for name, value in values.items())


def _objects(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [row for row in value if isinstance(row, Mapping)]


def provenance_section(
    records: Sequence[tuple[str, TrainingRecord]], bounds: Sequence[Bound] = ()
) -> Section | None:
    """The origin of each named model, and risk bounds where they were computed."""
    blocks: list[Block] = []
    for name, record in records:
        rows = record.origin()
        if rows:
            blocks.append(Facts((("model", name), *rows)))
    if bounds:
        blocks.append(_bounds(bounds))
    if not blocks:
        return None
    lead = "What reproduces a model, and shows whether two models have the same origin."
    return Section("provenance", "Origin", "Where is it from?", lead, tuple(blocks))


def _bounds(bounds: Sequence[Bound]) -> Table:
    return Table(
        "Theoretical bounds of the risk on other queries, at 95 %",
        ("bound", "of", "risk at most", "informative", "queries until it is"),
        tuple(
            (
                bound.name,
                bound.about,
                _power(bound.log_value),
                "no: no ranking has a larger risk" if bound.vacuous else "yes",
                _power(math.log(bound.queries_needed)) if bound.vacuous else "–",
            )
            for bound in bounds
        ),
    )


def _power(logarithm: float) -> str:
    """e^logarithm, also where that overflows."""
    if not math.isfinite(logarithm):
        return "no number"
    tens = logarithm / math.log(10.0)
    return f"{math.exp(logarithm):.3g}" if abs(tens) < 5 else f"10^{tens:.1f}"
