"""The files of a release: which Maven artifacts make an OpenSearch or Elasticsearch home.

Its plugins, LTR, k-NN and neural search, are unpacked without trust.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr_node.folders import Report, make_folder, write_readable
from owpc_ltr_node.java import thai_locale
from owpc_ltr_node.maven import Jar, Maven, NotPublished
from owpc_ltr_node.release import OPENSEARCH, USUAL, VECTORS, Release


def check_entries(archive: Path, files: zipfile.ZipFile, largest: int) -> None:
    """Raise BadInput for an archive that would write outside its folder, or without end."""
    entries = files.infolist()
    for entry in entries:
        target = PurePosixPath(entry.filename)
        escapes = target.is_absolute() or ".." in target.parts
        # A backslash or a colon is a way out on other systems, and a link is one on ours.
        odd = re.search(r"[\\:\x00]", entry.filename) or stat.S_ISLNK(entry.external_attr >> 16)
        if escapes or odd:
            raise BadInput(
                f"{archive} would write outside its folder ('{entry.filename}'): do not use it"
            )
    if sum(entry.file_size for entry in entries) > largest:
        raise BadInput(f"{archive} unpacks to more than {largest // 1_000_000} MB: refused")


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

    def descriptor(self, release: Release) -> str:
        """Its plugin-descriptor.properties, which only the distribution has ready-made."""
        since_3 = release.numbers >= (3,)
        lines = {
            "name": self.name,
            "description": f"the {self.name} module",
            "version": release.version,
            "opensearch.version": release.version,
            "java.version": "21" if since_3 else "11",
            "classname": f"org.opensearch.{self.plugin}{'ModulePlugin' if since_3 else 'Plugin'}",
            "extended.plugins": self.extends,
            "has.native.controller": "false",
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items() if value)


MODULES = (
    Module("transport-netty4", "transport-netty4-client", "transport.Netty4"),
    Module("lang-painless", "lang-painless", "painless.Painless"),
    Module("lang-mustache", "lang-mustache-client", "script.mustache.Mustache", needed=False),
    Module("analysis-common", "analysis-common", "analysis.common.CommonAnalysis", "lang-painless"),
    Module("mapper-extras", "mapper-extras-client", "index.mapper.MapperExtras", needed=False),
    Module("reindex", "reindex-client", "index.reindex.Reindex", needed=False),
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
        added = [jar for jar in jars if jar.identity not in shared]
        folders[f"modules/{name}"] = _unique(added)
    return folders


def _unique(jars: Sequence[Jar]) -> list[Jar]:
    first: dict[tuple[str, str, str], Jar] = {}
    for jar in jars:
        if (jar.group, jar.name) != UNUSED:
            first.setdefault(jar.identity, jar)
    return sorted(first.values())


# Before 3.0 a security manager watches every class; a local node needs no wall within itself.
_POLICY = b"grant {\n  permission java.security.AllPermission;\n};\n"


@dataclass(frozen=True)
class OpenSearchParts:
    """The jars of a home by folder, all of them in the local repository."""

    release: Release
    folders: dict[str, list[Jar]]
    modules: tuple[Module, ...]
    repository: Path

    def put_into(self, home: Path) -> None:
        """Fill a new folder."""
        for folder, jars in self.folders.items():
            make_folder(home / folder)
            for jar in jars:
                _place(self.repository / jar.path, home / folder / jar.filename)
        for module in self.modules:
            folder_of_module = home / "modules" / module.name
            descriptor = module.descriptor(self.release).encode()
            write_readable(folder_of_module / DESCRIPTOR, descriptor)
            if self.release.numbers < (3,):
                write_readable(folder_of_module / "plugin-security.policy", _POLICY)
        write_readable(home / LIB / "thai-locale.jar", thai_locale().read_bytes())
        # The server looks for both at its start.
        make_folder(home / "bin")
        make_folder(home / "plugins")


def opensearch_parts(release: Release, maven: Maven, report: Report) -> OpenSearchParts:
    """Have all jars of a home in the local repository.

    Raises NotPublished, naming it, where a part that the node cannot do without is not to be had.
    """
    modules = _published(release, maven, report)
    alone = [_version_of(each, release, maven, report) for each in singles(release)]
    coordinates = [f"{SERVER}:{release.version}", *alone]
    coordinates += [f"{module.coordinate}:{release.version}" for module in modules]
    server, *others = maven.resolve(coordinates)
    single = [jars[0] for jars in others[: len(alone)]]
    module_jars = {
        module.name: jars for module, jars in zip(modules, others[len(alone) :], strict=True)
    }
    folders = cut(server, [*single, log4j_core(server)], module_jars)
    maven.fetch_all((jar for jars in folders.values() for jar in jars), str(release))
    return OpenSearchParts(release, folders, modules, maven.folder)


def _published(release: Release, maven: Maven, report: Report) -> tuple[Module, ...]:
    """The modules that there are; one that is left out is said."""
    published = []
    for module in MODULES:
        if maven.publishes(f"{module.coordinate}:{release.version}"):
            published.append(module)
        elif module.needed:
            raise NotPublished(
                f"{release} cannot be assembled: its module {module.name} is in no configured "
                f"maven repository; name another --version, as {USUAL[OPENSEARCH]}"
            )
        else:
            report.say(f"going on without {module.name}: {release} was published without it")
    return tuple(published)


def _version_of(artifact: str, release: Release, maven: Maven, report: Report) -> str:
    if artifact != BOOTSTRAP or maven.publishes(f"{artifact}:{release.version}"):
        return f"{artifact}:{release.version}"
    report.say(f"{release} was published without its agent-bootstrap: that of {BOOTSTRAP_ELSE}")
    return f"{artifact}:{BOOTSTRAP_ELSE}"


def _place(source: Path, target: Path) -> None:
    """Link where the file system can, since both are only read; otherwise copy."""
    try:
        os.link(source, target)
    except OSError:
        write_readable(target, source.read_bytes())


LARGEST_RELEASE = 1_000_000_000
# What the server reads; the rest is start scripts and example settings.
KEPT = ("lib/", "modules/", "LICENSE.txt", "NOTICE.txt")


@dataclass(frozen=True)
class ElasticsearchParts:
    """The distribution's zip in the local repository: server, x-pack core and security.

    It has no english analysis, no scripts and no machine learning: those are not on Maven.
    """

    release: Release
    archive: Path

    def put_into(self, home: Path) -> None:
        """Unpack what is needed of it. Raises BadInput for a damaged or hostile zip."""
        top = f"elasticsearch-{self.release.version}/"
        try:
            with zipfile.ZipFile(self.archive) as files:
                check_entries(self.archive, files, LARGEST_RELEASE)
                # Each entry's own sum is checked as it is read.
                for entry in files.infolist():
                    name = entry.filename.removeprefix(top)
                    if name.startswith(KEPT) and not entry.is_dir():
                        make_folder((home / name).parent)
                        write_readable(home / name, files.read(entry))
        except (zipfile.BadZipFile, OSError) as error:
            raise BadInput(f"{self.archive} is not a sound zip file: {error}; remove it") from error
        if not (home / "lib").is_dir():
            raise BadInput(f"{self.archive} holds no {top}lib: it is no {self.release}; remove it")
        # The server looks for it at its start.
        make_folder(home / "plugins")


def distribution(release: Release) -> Jar:
    """Where Maven has it."""
    group = "org.elasticsearch.distribution.integ-test-zip"
    return Jar(group, "elasticsearch", release.version, packaging="zip")


def elasticsearch_parts(release: Release, maven: Maven, report: Report) -> ElasticsearchParts:
    """Have the distribution in the local repository; its licence is said before it is fetched."""
    report.say(f"{release} is under {release.licence}")
    report.advance(str(release), 0, 0)
    return ElasticsearchParts(release, maven.fetch(distribution(release), unsummed=True))


DESCRIPTOR = "plugin-descriptor.properties"
LARGEST_PLUGIN = 200_000_000
VECTOR_PLUGINS = ("opensearch-knn", "neural-search")
"""Neural search extends k-NN. Their zips are without native libraries, so that of k-NN's engines
only `lucene` works."""


def ltr_plugin(version: str) -> Jar:
    """The plugin's zip for a version of OpenSearch."""
    return Jar("org.opensearch", "ltr", f"{version}.0", packaging="zip")


def find_local_plugin(version: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The plugin in the user's own Maven repository, where `mvn install` puts it."""
    repository = environ.get("M2_REPO")
    root = Path(repository) if repository else Path.home() / ".m2" / "repository"
    path = root / ltr_plugin(version).path
    return path if path.is_file() else None


def find_remote_plugin(version: str, maven: Maven) -> Path | None:
    """The plugin from the remote repositories, or None where none has it or can be reached."""
    try:
        return maven.fetch(ltr_plugin(version))
    except EngineUnavailable:
        return None  # the node does without: all that it needs is here already


def fetch_vector_plugins(release: Release, maven: Maven) -> list[Path]:
    """The zips of k-NN and neural search. Raises NotPublished where the release has none."""
    jars = [
        Jar("org.opensearch.plugin", name, f"{release.version}.0", packaging="zip")
        for name in VECTOR_PLUGINS
    ]
    try:
        # Some have no sum beside them; the sums of this package tell whether they are whole.
        return [maven.fetch(jar, unsummed=True) for jar in jars]
    except NotPublished as error:
        raise NotPublished(
            f"{release} has no k-NN and neural search in any configured maven repository: "
            f"name another --version, as {VECTORS}"
        ) from error


def inspect_plugin(archive: Path, opensearch: str) -> dict[str, str]:
    """What the zip says about the plugin in it; nothing is written.

    Raises BadInput for a zip that is damaged, made for another OpenSearch, or tries to write
    outside its folder.
    """
    try:
        with zipfile.ZipFile(archive) as files:
            check_entries(archive, files, LARGEST_PLUGIN)
            damaged = files.testzip()
            about = _plugin_descriptor(archive, files)
    except (zipfile.BadZipFile, OSError) as error:
        raise BadInput(f"{archive} is not a sound zip file: {error}; remove it") from error
    if damaged:
        raise BadInput(f"{archive} is damaged at '{damaged}': remove it")
    if about.get("opensearch.version") != opensearch:
        raise BadInput(
            f"{archive} is for opensearch {about.get('opensearch.version')}, and the node is "
            f"{opensearch}: remove it, or start its version with --version"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", about.get("name", "")):
        raise BadInput(f"{archive} names its plugin '{about.get('name')}', which is no folder name")
    return about


def unpack_plugin(archive: Path, plugins: Path, opensearch: str) -> str:
    """Unpack a plugin's zip into its own folder under `plugins`; the plugin's version.

    Raises BadInput, before anything is written, where `inspect_plugin` does.
    """
    about = inspect_plugin(archive, opensearch)
    with zipfile.ZipFile(archive) as files:
        for entry in files.infolist():
            if not entry.is_dir():
                path = plugins / about["name"] / entry.filename
                make_folder(path.parent)
                write_readable(path, files.read(entry))
    return about.get("version", ltr_plugin(opensearch).version)


def _plugin_descriptor(archive: Path, files: zipfile.ZipFile) -> dict[str, str]:
    try:
        text = files.read(DESCRIPTOR).decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{archive} is not an opensearch plugin: no readable {DESCRIPTOR}"
        ) from error
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip() for key, equals, value in lines if equals}
