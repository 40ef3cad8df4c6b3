"""Named: a model under the name that a page is to call it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Named:
    """A model for a report, and its name there."""

    name: str
    model: Any
