"""What the plugin-free store needs of an engine, and how much of it an engine takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.client.engine import About
from owpc_ltr.engine.client.refusals import EngineRefusal, NotAllowed
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.formats.engine_versions import parse_version

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine

USUAL_CLAUSES = 1024
"""What every engine takes that nobody has set lower."""

OLDEST = {"opensearch": (2, 13), "elasticsearch": (8, 8)}
"""The first versions that return the scores of named queries."""

_SETTING = "indices.query.bool.max_clause_count"
_NAMES = {"opensearch": "OpenSearch", "elasticsearch": "Elasticsearch"}


def check_engine(about: About) -> None:
    """Refuse an engine that does not return the scores of named queries, before any work."""
    oldest = OLDEST.get(about.distribution)
    try:
        numbers = parse_version(about.version)
    except UsageError:
        return  # a version that says nothing: what it lacks shows where it is needed
    if oldest is not None and numbers < oldest:
        needed = " or ".join(f"{_NAMES[name]} {a}.{b}" for name, (a, b) in OLDEST.items())
        raise Refused(
            f"{_NAMES[about.distribution]} {about.version} is too old to do without the LTR "
            f"plugin: that needs {needed} or later; upgrade it, or install the plugin"
        )


class NoWindowScores(Refused):
    """The engine returns no scores of queries named inside a rescorer."""


def check_window_scores(about: About) -> None:
    """Raise NoWindowScores for an engine that returns no scores of queries named in a rescorer.

    Every feature would seem missing: OpenSearch does so before 3.2, without a word.
    """
    try:
        numbers = parse_version(about.version)
    except UsageError:
        return
    if about.distribution == "opensearch" and numbers < (3, 2):
        raise NoWindowScores(
            f"OpenSearch {about.version} returns no scores of queries named inside a rescorer, by "
            "which features come with a search: that needs OpenSearch 3.2 or Elasticsearch 8.8 or "
            "later; upgrade it, or use a linear model, which needs none"
        )


def check_collapse(about: About) -> None:
    """Refuse an engine that does not collapse results which it rescores."""
    try:
        numbers = parse_version(about.version)
    except UsageError:
        return  # its own refusal says so too
    if about.distribution != "elasticsearch" or numbers < (8, 15):
        raise UsageError(
            f"the search's body has a 'collapse', and {_NAMES[about.distribution]} "
            f"{about.version} does not collapse results that it rescores, as Elasticsearch 8.15 "
            "and later do: leave it out, and group the hits in the application"
        )


def most_clauses(engine: Engine) -> int | None:
    """How many clauses one search may have; None where the engine alone can tell.

    Elasticsearch reckons with its heap, and says only at a search what was too much; so does an
    engine whose settings are not ours to read.
    """
    # A filter takes the dots of a flat name for a path, and finds nothing.
    params = {"include_defaults": "true", "flat_settings": "true"}
    try:
        if engine.about().distribution != "opensearch":
            return None
        answer = engine.request("GET", "/_cluster/settings", params=params)
    except (NotAllowed, EngineRefusal):
        return None
    return _number(answer)


def _number(settings: Any) -> int | None:
    """The setting as the cluster has it: what is set comes before what is by default."""
    for kind in ("transient", "persistent", "defaults"):
        part = settings.get(kind) if isinstance(settings, dict) else None
        value = part.get(_SETTING) if isinstance(part, dict) else None
        if value is not None and str(value).isdigit():
            return int(value)
    return None
