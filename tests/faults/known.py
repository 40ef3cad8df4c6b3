"""Cells that do not keep their promise yet, and why: each fails today, and must not pass unseen."""

from __future__ import annotations

KNOWN: dict[tuple[str, str], str] = {}
"""By stage and fault; `*` is every fault of the stage, or every stage."""


def known(stage: str, fault: str) -> str | None:
    """Why this cell fails today; None where it does not."""
    return KNOWN.get((stage, fault)) or KNOWN.get(("*", fault))
