"""What is counted of a log of behaviour: actions, positions, who is a bot, what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from owpc_ltr.errors import UsageError

IMPRESSIONS = ("impression", "impressions", "view", "viewed", "shown")
"""Names of actions that say that a result was there to be seen."""


@dataclass(frozen=True)
class EventOptions:
    """How events are read.

    `actions` have values above 0, the greatest of one list counts; `impressions` are the actions
    that say that a result was shown. `first_position` is how positions count their first one;
    None: as the log shows. What lies below rank `depth` does not count. A session with more clicks
    than `max_clicks`, or a client with more sessions than `max_sessions`, is dropped as a bot; 0
    keeps all. A query is kept where at least `min_people` asked it. `since` and `until`
    are times as in `2026-10-01` or `2026-10-01T12:00:00Z`, the second one not included.
    `keep_repeats` counts the clicks of a person on a result of a query in every list, and not in
    one of them alone. `document_field` is what documents are named by; None: as the log says.
    """

    actions: Mapping[str, float] = field(default_factory=lambda: {"click": 1.0})
    impressions: tuple[str, ...] = IMPRESSIONS
    first_position: int | None = None
    depth: int = 100
    max_clicks: int = 50
    max_sessions: int = 500
    min_people: int = 5
    keep_case: bool = False
    since: str | None = None
    until: str | None = None
    keep_repeats: bool = False
    document_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.actions or not self.impressions:
            raise UsageError("no action is named: give them values, as click=1,add_to_cart=2")
        for name, value in self.actions.items():
            if not 0 < value < float("inf"):
                raise UsageError(
                    f"the action '{name}' has the value {value:g}: give it one above 0, as click=1"
                )
            if name in self.impressions:
                raise UsageError(
                    f"the action '{name}' cannot be worth something and mean that a result was "
                    "merely shown: name it once"
                )
        if self.first_position not in {None, 0, 1}:
            raise UsageError(f"positions begin with 0 or 1, not with {self.first_position}")
        counts: dict[str, tuple[Any, int]] = {
            "the depth": (self.depth, 1),
            "the clicks of a session": (self.max_clicks, 0),
            "the sessions of a client": (self.max_sessions, 0),
            "the people of a query": (self.min_people, 1),
        }
        for what, (value, least) in counts.items():
            if value < least:
                raise UsageError(f"{what} cannot be {value}: give {least} or more")

    @property
    def greatest(self) -> float:
        """The value of the most that a user can do."""
        return max(self.actions.values())


def parse_actions(text: str) -> dict[str, float]:
    """Actions and their values, as `click=1,add_to_cart=2`. Raises UsageError.

    >>> parse_actions("click=1, add_to_cart=2")
    {'click': 1.0, 'add_to_cart': 2.0}
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            number = float(value) if equals else 1.0
        except ValueError:
            number = -1.0
        if not name.strip() or number <= 0:
            raise UsageError(
                f"cannot read the action '{part.strip()}': write click=1,add_to_cart=2"
            )
        found[name.strip()] = number
    return found
