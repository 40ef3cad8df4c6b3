"""Cells that do not keep their promise yet, and why: each fails today, and must not pass unseen."""

from __future__ import annotations

_NOT_DONE = "after a write that was not done it is told that the set is not there, as exit code 3"
KNOWN: dict[tuple[str, str], str] = {
    ("featureset push", "401"): _NOT_DONE,
    ("featureset push", "write answered: an empty list"): _NOT_DONE,
}
"""By stage and fault; `*` is every fault of the stage, or every stage."""


def known(stage: str, fault: str) -> str | None:
    """Why this cell fails today; None where it does not."""
    return KNOWN.get((stage, fault)) or KNOWN.get(("*", fault))
