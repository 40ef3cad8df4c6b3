"""A model as a notebook shows it: what it weighs, what it was learned from, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from owpc_ltr.data import html

_SHOWN = 30
"""Features that a table shows, the heaviest first."""


def ranker_html(
    kind: str,
    names: Sequence[str],
    record: Mapping[str, Any],
    sizes: Mapping[str, object],
    uses: Mapping[str, float],
) -> str:
    """A block with a model's kind and sizes, where it is from, and how it uses its features."""
    heaviest = sorted(uses.items(), key=lambda item: -abs(item[1]))
    rows = [("features", len(names)), *sizes.items(), *_learned(record)]
    rest = len(heaviest) - _SHOWN
    return html.block(
        f"{kind} model",
        html.facts(rows),
        html.bars(heaviest[:_SHOWN]),
        html.line(f"and {rest} features more") if rest > 0 else "",
    )


def _learned(record: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What a record says in few words."""
    rows: list[tuple[str, object]] = [
        (part, _with_settings(record[part]))
        for part in ("loss", "optimizer", "reranker")
        if isinstance(record.get(part), Mapping)
    ]
    if isinstance(record.get("imported"), Mapping):
        rows.append(("imported from", record["imported"].get("format", "another library")))
    if record.get("queries") is not None and record.get("documents") is not None:
        rows.append(("trained on", f"{record['queries']} queries, {record['documents']} documents"))
    if isinstance(record.get("validation"), float):
        rows.append((f"validation {record.get('select', '')}", f"{record['validation']:.4f}"))
    if record.get("average_of") is not None:
        rows.append(("average of", f"{record['average_of']} models"))
    if isinstance(record.get("warnings"), list):
        rows += [("warning", warning) for warning in record["warnings"]]
    return rows


def _with_settings(part: Mapping[str, Any]) -> str:
    settings = part.get("settings")
    if not isinstance(settings, Mapping) or not settings:
        return str(part.get("name"))
    shown = ", ".join(f"{key}={value}" for key, value in settings.items())
    return f"{part.get('name')} ({shown})"
