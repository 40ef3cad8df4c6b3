"""Identity: which cluster answers, what it runs and in which version, asked in as few words as do.

Each question names a right of its own (`cluster:monitor/…`), so that what a command does not need
to know is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from owpc_ltr.engine.http.refusals import EngineRefusal
from owpc_ltr.errors import EngineUnavailable

_LTR_PLUGINS = {"opensearch-ltr", "ltr"}
_NO_HANDLER = {400, 405}
"""What a node without the module that answers `GET /` says to it."""


class Asking(Protocol):
    """An engine that answers requests, or what stands for one."""

    def request(self, method: str, path: str, *, params: Mapping[str, Any] | None = None) -> Any:
        """The decoded JSON of the answer."""


@dataclass(frozen=True)
class About:
    """What a cluster says of itself."""

    distribution: str
    """`opensearch` or `elasticsearch`."""
    version: str
    cluster: str
    uuid: str


@dataclass(frozen=True)
class Identity(About):
    """Which cluster it is and what it runs."""

    plugins: tuple[str, ...]

    @property
    def has_ltr(self) -> bool:
        """Whether a node of it runs the LTR plugin."""
        return not _LTR_PLUGINS.isdisjoint(self.plugins)


def about(engine: Asking, place: str) -> About:
    """What a cluster says of itself. Raises EngineUnavailable where no engine answers there."""
    try:
        answer = engine.request("GET", "/")
    except EngineRefusal as refusal:
        return about_of_nodes(engine, place, refusal)
    try:
        version = answer["version"]
        return About(
            # Elasticsearch does not name itself.
            str(version.get("distribution", "elasticsearch")),
            str(version["number"]),
            str(answer["cluster_name"]),
            str(answer["cluster_uuid"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_engine(place) from error


def about_of_nodes(engine: Asking, place: str, refusal: EngineRefusal) -> About:
    """The same from what its nodes and its state say, where `GET /` has no handler."""
    if refusal.status not in _NO_HANDLER:
        raise refusal
    nodes = engine.request("GET", "/_nodes/_local/http")
    state = engine.request("GET", "/_cluster/state/version")
    try:
        (node,) = nodes["nodes"].values()
        # Only Elasticsearch's builds have flavours.
        kind = "elasticsearch" if "build_flavor" in node else "opensearch"
        name, uuid = str(nodes["cluster_name"]), str(state["cluster_uuid"])
        return About(kind, str(node["version"]), name, uuid)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _no_engine(place) from error


def identify(engine: Asking, place: str) -> Identity:
    """Which cluster this is, with the plugins of its nodes."""
    found = about(engine, place)
    plugins = engine.request("GET", "/_cat/plugins", params={"format": "json"})
    try:
        names = tuple(sorted({str(plugin["component"]) for plugin in plugins}))
    except (KeyError, TypeError) as error:
        raise _no_engine(place) from error
    return Identity(found.distribution, found.version, found.cluster, found.uuid, names)


def _no_engine(place: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{place} answers, but not as OpenSearch or Elasticsearch does: check the address"
    )
