"""What became of every event: used, or unusable for a reason; nothing is lost in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Account:
    """Events read, and why some were of no use. A shown list of n results counts as n events.

    `implied` are clicks whose result was nowhere said to be shown, and is taken to have been.
    `early` events are stamped before the query was asked that they name, and count none the less.
    `others` are the actions that nobody asked for, by name. `first_position` is how positions
    count; `positions_said` whether that was given and not found out. `document_field` is what the
    log names documents by, where it says so; `looked_up` whether these were found in an index.
    """

    read: int = 0
    unusable: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    implied: int = 0
    early: int = 0
    document_field: str | None = None
    looked_up: bool = False
    first_position: int = 1
    positions_said: bool = False

    @property
    def used(self) -> int:
        """Events that count."""
        return self.read - sum(self.unusable.values())

    def leave_out(self, reason: str, events: int) -> None:
        """So many events are of no use."""
        if events:
            self.unusable[reason] += int(events)

    def as_dict(self) -> dict[str, Any]:
        """The account as JSON, the most frequent reason first."""
        return {
            "read": self.read,
            "used": self.used,
            "unusable": dict(sorted(self.unusable.items(), key=lambda one: (-one[1], one[0]))),
            "other_actions": dict(
                sorted(self.others.items(), key=lambda one: (-one[1], one[0]))[:20]
            ),
            "clicks_without_impression": self.implied,
            "before_their_query": self.early,
            "document_field": self.document_field,
            "first_position": self.first_position,
            "first_position_given": self.positions_said,
        }
