"""Which artifacts make an OpenSearch home, and in which of its folders each belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from owpc_ltr.engine.node.maven import Jar
from owpc_ltr.errors import UsageError

LIB = "lib"
SERVER = "org.opensearch:opensearch"
SINGLES = (
    "org.opensearch:opensearch-plugin-classloader",
    "org.opensearch:opensearch-agent-bootstrap",
)
LOG4J_API = ("org.apache.logging.log4j", "log4j-api", "")
LOG4J_CORE = "org.apache.logging.log4j:log4j-core"
# HTTP/3 in native code for every platform: 20 MB that a local node does not use.
UNUSED = ("io.netty", "netty-codec-native-quic")


@dataclass(frozen=True)
class Module:
    """A module of the OpenSearch distribution that Maven Central carries."""

    name: str
    artifact: str
    plugin_class: str
    extends: str = ""

    def descriptor(self, version: str) -> str:
        """Its plugin-descriptor.properties, which only the distribution has ready-made."""
        lines = {
            "name": self.name,
            "description": f"the {self.name} module",
            "version": version,
            "opensearch.version": version,
            "java.version": "21",
            "classname": self.plugin_class,
            "extended.plugins": self.extends,
            "has.native.controller": "false",
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items() if value)


MODULES = (
    Module(
        "transport-netty4",
        "transport-netty4-client",
        "org.opensearch.transport.Netty4ModulePlugin",
    ),
    Module("lang-painless", "lang-painless", "org.opensearch.painless.PainlessModulePlugin"),
    Module(
        "lang-mustache",
        "lang-mustache-client",
        "org.opensearch.script.mustache.MustacheModulePlugin",
    ),
    Module("rank-eval", "rank-eval-client", "org.opensearch.index.rankeval.RankEvalModulePlugin"),
    Module(
        "analysis-common",
        "analysis-common",
        "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
        extends="lang-painless",
    ),
    Module(
        "mapper-extras",
        "mapper-extras-client",
        "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    ),
    Module("reindex", "reindex-client", "org.opensearch.index.reindex.ReindexModulePlugin"),
)


def coordinates(version: str) -> list[str]:
    """The artifacts to resolve, each by itself: the server, the singles, then the modules."""
    modules = [f"org.opensearch.plugin:{module.artifact}" for module in MODULES]
    return [f"{each}:{version}" for each in (SERVER, *SINGLES, *modules)]


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


def check_version(version: str) -> str:
    """The version as given, if it can be a path and is one that this layout fits."""
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--version {version} is not an opensearch version: write it as 3.8.0")
    if parts[0] != "3":
        raise UsageError(
            f"--version {version} cannot be assembled: only opensearch 3 can; start another "
            "version yourself and name it with --url"
        )
    return version


def _unique(jars: Sequence[Jar]) -> list[Jar]:
    first: dict[tuple[str, str, str], Jar] = {}
    for jar in jars:
        if (jar.group, jar.name) != UNUSED:
            first.setdefault(jar.identity, jar)
    return sorted(first.values())
