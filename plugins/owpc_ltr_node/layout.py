"""Which artifacts make an OpenSearch home, and in which of its folders each belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from owpc_ltr_node.maven import Jar
from owpc_ltr_node.release import Release

LIB = "lib"
SERVER = "org.opensearch:opensearch"
CLASSLOADER = "org.opensearch:opensearch-plugin-classloader"
# Which classes may end the process: a server from 3.0 on does not start without it.
BOOTSTRAP = "org.opensearch:opensearch-agent-bootstrap"
BOOTSTRAP_ELSE = "3.4.0"
"""Where a release's own was never published (3.0, 3.2, 3.5): 3.1 to 3.6 have the same bytes."""
LOG4J_API = ("org.apache.logging.log4j", "log4j-api", "")
LOG4J_CORE = "org.apache.logging.log4j:log4j-core"
# HTTP/3 in native code for every platform: 20 MB that a local node does not use.
UNUSED = ("io.netty", "netty-codec-native-quic")


@dataclass(frozen=True)
class Module:
    """A module of the OpenSearch distribution that Maven Central carries."""

    name: str
    artifact: str
    plugin: str
    extends: str = ""
    needed: bool = True

    @property
    def coordinate(self) -> str:
        """Where Maven has it."""
        return f"org.opensearch.plugin:{self.artifact}"

    def plugin_class(self, release: Release) -> str:
        """The class that the server makes it by."""
        return f"{self.plugin}{'ModulePlugin' if release.numbers >= (3,) else 'Plugin'}"

    def descriptor(self, release: Release) -> str:
        """Its plugin-descriptor.properties, which only the distribution has ready-made."""
        lines = {
            "name": self.name,
            "description": f"the {self.name} module",
            "version": release.version,
            "opensearch.version": release.version,
            "java.version": "21" if release.numbers >= (3,) else "11",
            "classname": self.plugin_class(release),
            "extended.plugins": self.extends,
            "has.native.controller": "false",
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items() if value)


MODULES = (
    Module("transport-netty4", "transport-netty4-client", "org.opensearch.transport.Netty4"),
    Module("lang-painless", "lang-painless", "org.opensearch.painless.Painless"),
    Module(
        "lang-mustache",
        "lang-mustache-client",
        "org.opensearch.script.mustache.Mustache",
        needed=False,
    ),
    Module(
        "analysis-common",
        "analysis-common",
        "org.opensearch.analysis.common.CommonAnalysis",
        extends="lang-painless",
    ),
    Module(
        "mapper-extras",
        "mapper-extras-client",
        "org.opensearch.index.mapper.MapperExtras",
        needed=False,
    ),
    Module("reindex", "reindex-client", "org.opensearch.index.reindex.Reindex", needed=False),
)


def singles(release: Release) -> list[str]:
    """The artifacts of the server's project that stand in lib/ without what they ask for."""
    return [CLASSLOADER, BOOTSTRAP] if release.numbers >= (3,) else [CLASSLOADER]


def log4j_core(server: Sequence[Jar]) -> Jar:
    """The logging backend, in the version of the interface that the server asks for."""
    version = next(jar.version for jar in server if jar.identity == LOG4J_API)
    group, name = LOG4J_CORE.split(":")
    return Jar(group, name, version)


def cut(
    server: Sequence[Jar], singles: Sequence[Jar], modules: Mapping[str, Sequence[Jar]]
) -> dict[str, list[Jar]]:
    """Each folder of the home with its jars; no artifact is seen twice by one class loader.

    A module's loader sees lib/ first, so a module keeps only what lib/ has not, in any version.
    """
    lib = _unique([*server, *singles])
    shared = {jar.identity for jar in lib}
    folders = {LIB: lib}
    for name, jars in modules.items():
        own = [jar for jar in jars if jar.identity not in shared]
        folders[f"modules/{name}"] = _unique(own)
    return folders


def _unique(jars: Sequence[Jar]) -> list[Jar]:
    first: dict[tuple[str, str, str], Jar] = {}
    for jar in jars:
        if (jar.group, jar.name) != UNUSED:
            first.setdefault(jar.identity, jar)
    return sorted(first.values())
