"""Named: a model under the name that a page is to call it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from owpc_ltr.arrays import Vector


@dataclass(frozen=True)
class Named:
    """A model for a report, and its name there."""

    name: str
    model: Any
    scores: Vector | None = None
    """Its score of each document of the data that the page is on."""
