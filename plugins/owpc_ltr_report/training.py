"""Training: a model's record, its candidates, duality gap, and origin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from owpc_ltr.data.blocks import WARNING, FactList, Table
from owpc_ltr.host.report_parts import configured, plain
from owpc_ltr.models.model_file import warnings_of
from owpc_ltr.training.plan import C
from owpc_ltr_report.features import NamedModel
from owpc_ltr_report.page import (
    Chart,
    PageBlock,
    PageVerdict,
    Section,
    amount,
    drawing,
    finite,
    kind_verdict,
    known,
    lines,
    part_of,
    section_of,
)

_C_AXIS = "C (less regularised to the right)"
_ORIGIN = {
    "owpc_ltr": "trained by owpc-ltr",
    "seed": "seed",
    "normalise": "features scaled",
    "missing": "missing values",
    "fingerprint": "training data",
    "featureset_hash": "feature set",
}
_CERTIFICATE = {
    "objective": "training objective",
    "gap": "duality gap",
    "relative_gap": "duality gap / gain of training",
    "risk_ratio": "risk / risk of the all-tied baseline",
    "passes": "passes",
    "nonzero_duals": "non-zero duals",
    "stop_reason": "reason for stopping",
}
Record = Mapping[str, Any]
"""The training record of a model file, of which any part may be absent or malformed."""


def training_section(ranker: NamedModel, number: int) -> Section | None:
    """How a ranker was trained; None without a record."""
    record, tried = ranker.model.record, _objects(ranker.model.record, "table")
    if not tried and not _parts(record):
        return None
    metric, value = _metric(record), finite(record.get("validation"))
    lead = "The settings were given: none were selected."
    if len(tried) > 1:
        lead = (
            f"{len(tried)} candidates were tried; the one with the best {metric} on validation "
            "queries was selected."
        )
    facts = FactList(
        [
            *_parts(record),
            (f"validation {metric}", amount(value) if isinstance(value, float) else None),
            *_fit_facts(record),
        ]
    )
    charts = *_candidates(tried, record), *_by_pass(record)
    blocks: list[PageBlock] = [
        facts,
        *(f"{WARNING}{message}" for message in warnings_of(record)),
        *(replace(chart, name=f"{chart.name}-{number}") for chart in charts),
    ]
    title, name = f"How was {ranker.name} trained?", ranker.name
    return section_of("training", title, lead, blocks, number=number, name=name)


def _fit_facts(record: Record) -> Iterator[tuple[str, str | None]]:
    """The queries of the training, the basis, and how the fit ended."""
    basis, certificate = part_of(record, "basis"), part_of(record, "certificate")
    if record.get("queries") is not None:
        sizes = f"{plain(record['queries'])} queries, {plain(record.get('documents'))} documents"
        yield "trained on", sizes
    if basis:
        yield "basis", f"{basis.get('name')} of {basis.get('knots')} knots"
    for name, words in _CERTIFICATE.items():
        yield words, known(certificate, name)


def training_verdict(ranker: NamedModel) -> PageVerdict | None:
    """The verdict of a page of a trained model alone; None without a record."""
    record = ranker.model.record
    words = {"metric": _metric(record), "value": finite(record.get("validation"))}
    return kind_verdict("training", ranker, **words) if _parts(record) else None


def origin(record: Record) -> list[tuple[str, str]]:
    """Program, seed, data and feature set; of a digest the first characters."""
    rows = [
        (words, f"{text[:12]}…" if len(text) == 64 else text)
        for key, words in _ORIGIN.items()
        if record.get(key) is not None
        for text in [plain(record[key])]
    ]
    source, imported = part_of(record, "source"), record.get("imported")
    if source.get("data"):
        rows.append(("file", str(source["data"])))
    if isinstance(split := source.get("split"), Mapping):
        parts = ", ".join(f"{name} {plain(value)}" for name, value in split.items())
        rows.append(("split of queries by hash", parts))
    if isinstance(imported, Mapping):
        rows.append(("imported from", str(imported.get("format", "another library"))))
    return rows


def _parts(record: Record) -> list[tuple[str, str]]:
    """Loss, optimizer and reranker with their settings."""
    return [
        (kind, configured(part.get("name"), part_of(part, "settings")))
        for kind in ("loss", "optimizer", "reranker")
        if isinstance(part := record.get(kind), Mapping)
    ]


def _metric(record: Record) -> str:
    """The metric that selected the settings."""
    return str(record.get("select", "the metric"))


def _objects(record: Record, key: str) -> list[Record]:
    rows = record.get(key)
    rows = rows if isinstance(rows, list | tuple) else []
    return [row for row in rows if isinstance(row, Mapping)]


def c_of(settings: Record) -> float:
    """C of a candidate as a number, whatever its type; 0 where it is none.

    >>> c_of({"optimizer.C": "1e-3"}), c_of({"optimizer.C": 10}), c_of({"optimizer.C": "auto"})
    (0.001, 10.0, 0.0)
    """
    try:
        value = float(settings[C])
    except (LookupError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _candidates(tried: Sequence[Record], record: Record) -> Iterator[Chart]:
    """Validation over C, a line for each combination of the other settings; or bars without C."""
    rows = [(row, value) for row in tried if (value := finite(row.get("validation"))) is not None]
    # The settings in which candidates differ.
    varied = [
        name
        for name in dict.fromkeys(chain(*tried))
        if "." in name and all(name in row for row in tried)
        if len({str(row[name]) for row in tried}) > 1
    ]
    if len(rows) < 2 or not varied:
        return
    metric, others = f"validation {_metric(record)}", [name for name in varied if name != C]
    figures = "validation", "relative_gap", "passes"
    cells = [
        (*(plain(row[name]) for name in varied), *(finite(row.get(name)) for name in figures))
        for row, _ in rows
    ]
    if others != varied and all(c_of(row) > 0 for row, _ in rows):
        series: dict[str, list[tuple[float, float]]] = {}
        for row, value in rows:
            line = ", ".join(f"{name.partition('.')[2]}={plain(row[name])}" for name in others)
            series.setdefault(line or "validation", []).append((c_of(row), float(value)))
        ordered = {name: sorted(points) for name, points in series.items()}
        spec = lines(ordered, _C_AXIS, metric, log_x=True)
    else:
        bars = [(", ".join(plain(row[name]) for name in varied), float(v)) for row, v in rows]
        spec = drawing("bars", bars, title=metric)
    # The selected one is the first whose validation value is the model's.
    best = next((row for row in tried if row.get("validation") == record.get("validation")), None)
    settings = ", ".join(f"{name}={plain(best[name])}" for name in varied) if best else "none"
    sentence = f"The best of {len(rows)} is {settings}."
    table = Table((*varied, metric, "relative duality gap", "passes"), cells, "Candidates")
    yield Chart("candidates", "Candidates", spec, sentence, table)


def _by_pass(record: Record) -> Iterator[Chart]:
    """The duality gap after each pass, and validation after each tree or epoch."""
    gaps = [(n, gap) for n, gap in _history(record, "gap") if gap > 0]
    if len(gaps) > 1:
        spec = lines({"gap": gaps}, "pass", "duality gap", log_y=True, marks=len(gaps) <= 60)
        sentence = (
            f"The duality gap fell {_from_to(gaps)}: no linear model is better by more, by the "
            "training objective."
        )
        table = Table(("pass", "duality gap"), gaps, "Duality gap by pass")
        yield Chart("gap", "Duality gap", spec, sentence, table)
    values = _history(record, "validation")
    if len(values) > 1:
        metric, title = f"validation {_metric(record)}", "Validation by pass"
        spec = lines({metric: values}, "pass (tree, or epoch)", metric, marks=len(values) <= 30)
        table = Table(("pass", metric), values, title)
        yield Chart("by-pass", title, spec, f"It went {_from_to(values)}.", table)


def _history(record: Record, key: str) -> list[tuple[int, float]]:
    """A figure of the passes, as far as they were recorded."""
    rows = ((finite(row.get("pass")), finite(row.get(key))) for row in _objects(record, "history"))
    return [(int(n), float(value)) for n, value in rows if n is not None and value is not None]


def _from_to(rows: Sequence[tuple[int, float]]) -> str:
    (first, start), (last, end) = rows[0], rows[-1]
    return f"from {plain(start)} after pass {first} to {plain(end)} after pass {last}"


def provenance_section(models: Sequence[NamedModel]) -> Section | None:
    """The origin of each named model."""
    origins = [
        FactList([("model", model.name), *rows])
        for model in models
        if (rows := origin(model.model.record))
    ]
    lead = "What reproduces a model, and shows whether two models have the same origin."
    return section_of("provenance", "Where is it from?", lead, origins) if origins else None
