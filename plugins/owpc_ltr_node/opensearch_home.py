"""An OpenSearch home's parts: which jars go into which folder, and what only Maven lacks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.files.output import write_atomically
from owpc_ltr_node.java import thai_locale
from owpc_ltr_node.layout import (
    BOOTSTRAP,
    BOOTSTRAP_ELSE,
    LIB,
    MODULES,
    SERVER,
    Module,
    cut,
    log4j_core,
    singles,
)
from owpc_ltr_node.maven import Jar, Maven, NotPublished
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.release import Release
from owpc_ltr_node.report import Report

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
            own = home / "modules" / module.name
            descriptor = module.descriptor(self.release).encode()
            write_atomically(own / "plugin-descriptor.properties", descriptor)
            if self.release.numbers < (3,):
                write_atomically(own / "plugin-security.policy", _POLICY)
        write_atomically(home / LIB / "thai-locale.jar", thai_locale().read_bytes())
        # The server looks for both at its start.
        make_folder(home / "bin")
        make_folder(home / "plugins")


def opensearch_parts(release: Release, maven: Maven, report: Report) -> OpenSearchParts:
    """Have all jars of a home in the local repository.

    Raises NotPublished, naming it, where a part that the node cannot do without is not to be had.
    """
    modules = _published(release, maven, report)
    alone = [_version_of(each, release, maven, report) for each in singles(release)]
    asked = [f"{SERVER}:{release.version}", *alone]
    asked += [f"{module.coordinate}:{release.version}" for module in modules]
    server, *others = maven.resolve(asked)
    single = [jars[0] for jars in others[: len(alone)]]
    own = {module.name: jars for module, jars in zip(modules, others[len(alone) :], strict=True)}
    folders = cut(server, [*single, log4j_core(server)], own)
    maven.fetch_all((jar for jars in folders.values() for jar in jars), str(release))
    return OpenSearchParts(release, folders, modules, maven.folder)


def _published(release: Release, maven: Maven, report: Report) -> tuple[Module, ...]:
    """The modules that there are; one that is left out is said."""
    found = []
    for module in MODULES:
        if maven.publishes(f"{module.coordinate}:{release.version}"):
            found.append(module)
        elif module.needed:
            raise NotPublished(
                f"{release} cannot be assembled: its module {module.name} is in no configured "
                "maven repository; name another --version, as 3.8.0"
            )
        else:
            report.say(f"going on without {module.name}: {release} was published without it")
    return tuple(found)


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
        write_atomically(target, source.read_bytes())
