"""The options of a log: its columns, and which events count.

The defaults that decide what is left out, such as the limits for bots, are the constants here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from owpc_ltr.data.options import parse_columns
from owpc_ltr.errors import UsageError
from owpc_ltr.text import ShortRepr
from owpc_ltr_clicks.grading import MIN_PEOPLE

ACTIONS: Mapping[str, float] = MappingProxyType({"click": 1.0})
"""The actions that count as clicks, and the value of each."""
IMPRESSIONS = ("impression", "impressions", "view", "viewed", "shown")
"""Names of actions that say that a result was shown."""
MAX_RANK = 100
"""The lowest rank that counts."""
MAX_CLICKS_PER_SESSION = 50
"""A session with more clicks is dropped as a bot."""
MAX_SESSIONS_PER_CLIENT = 500
"""A client with more sessions is dropped as a bot."""


KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query": ("query", "user_query", "keywords", "query_text"),
        "document": (
            *("document", "doc_id", "document_id", "docid", "object_id"),
            "event_attributes.object.object_id",
        ),
        "field": ("object_id_field", "event_attributes.object.object_id_field"),
        "position": (
            *("position", "rank", "ordinal", "event_attributes.position.ordinal"),
            "position.ordinal",
        ),
        "action": ("action", "action_name", "event_name", "event"),
        "session": ("session", "session_id"),
        "client": ("client", "client_id", "user_id"),
        "search": ("search", "search_id", "query_id"),
        "shown": ("shown", "query_response_hit_ids"),
        "time": ("time", "timestamp"),
    }
)
"""The roles of columns, and the names that are known for each; a dot leads into an object."""


def parse_actions(text: str) -> dict[str, float]:
    """Actions and their values, as `click=1,add_to_cart=2`. Raises UsageError.

    >>> parse_actions("click=1, add_to_cart=2")
    {'click': 1.0, 'add_to_cart': 2.0}
    """
    actions: dict[str, float] = {}
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
        actions[name.strip()] = number
    return actions


@dataclass(frozen=True, kw_only=True, repr=False)
class EventOptions(ShortRepr):
    """Which events of a log count, and how. UsageError where a value cannot be.

    Of the actions of a list on one result, the one with the greatest value counts.
    """

    actions: Mapping[str, float] = field(default_factory=lambda: ACTIONS)
    since: str | None = None
    until: str | None = None
    max_clicks_per_session: int = MAX_CLICKS_PER_SESSION
    max_sessions_per_client: int = MAX_SESSIONS_PER_CLIENT
    min_people: int = MIN_PEOPLE
    document_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        if not self.actions:
            raise UsageError("no action is named: give them values, as click=1,add_to_cart=2")
        for name, value in self.actions.items():
            if not 0 < value < float("inf"):
                raise UsageError(
                    f"the action '{name}' has the value {value:g}: give it one above 0, as click=1"
                )
            if name in IMPRESSIONS:
                raise UsageError(
                    f"the action '{name}' says that a result was shown ({', '.join(IMPRESSIONS)} "
                    "do), and has no value: leave it out, or rename it in the log"
                )
        counts: dict[str, tuple[int, int]] = {
            "the clicks of a session": (self.max_clicks_per_session, 0),
            "the sessions of a client": (self.max_sessions_per_client, 0),
            "the people of a query": (self.min_people, 1),
        }
        for what, (value, least) in counts.items():
            if value < least:
                raise UsageError(f"{what} cannot be {value}: give {least} or more")

    @property
    def greatest_value(self) -> float:
        """The greatest value of an action."""
        return max(self.actions.values())


def click_columns(text: str) -> dict[str, str]:
    """The column of each role, from `query=q,doc_id=sku`. Raises UsageError.

    >>> click_columns("query=q, doc_id=sku")
    {'query': 'q', 'document': 'sku'}
    """
    return parse_columns(text, KNOWN)
