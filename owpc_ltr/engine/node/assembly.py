"""An OpenSearch home put together from Maven artifacts: whole and checked, or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from owpc_ltr.engine.node import ltrplugin
from owpc_ltr.engine.node.java import thai_locale
from owpc_ltr.engine.node.layout import LIB, MODULES, SINGLES, coordinates, cut, log4j_core
from owpc_ltr.engine.node.manifest import Manifest
from owpc_ltr.engine.node.maven import Jar, Maven
from owpc_ltr.engine.node.places import make_folder
from owpc_ltr.engine.node.report import Report
from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.files.atomic import write_atomically


def download(version: str, maven: Maven) -> dict[str, list[Jar]]:
    """Have all jars of a home in the local repository; each folder of the home with its jars."""
    folders = resolve(version, maven)
    maven.fetch_all((jar for jars in folders.values() for jar in jars), f"opensearch {version}")
    return folders


def assemble(
    folders: Mapping[str, list[Jar]],
    version: str,
    maven: Maven,
    plugin: Path | None,
    home: Path,
    report: Report,
) -> Manifest:
    """Put a home together from downloaded jars; `home` appears when it is complete."""
    make_folder(home.parent)
    for leftover in home.parent.glob(f".{home.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = make_folder(home.with_name(f".{home.name}.{os.getpid()}"))
    try:
        _fill(partial, folders, version, maven)
        plugin_version = ltrplugin.unpack(plugin, partial / "plugins", version) if plugin else None
        manifest = Manifest.of(partial, version, plugin_version)
        _check_recorded(manifest)
        manifest.write(partial)
        _replace(partial, home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report.say(
        f"assembled opensearch {version} in {home} ({len(manifest.parts)} files, sums checked)"
    )
    return manifest


def resolve(version: str, maven: Maven) -> dict[str, list[Jar]]:
    """Each folder of the home with its jars."""
    server, *others = maven.resolve(coordinates(version))
    singles = [jars[0] for jars in others[: len(SINGLES)]]
    modules = {
        module.name: jars for module, jars in zip(MODULES, others[len(SINGLES) :], strict=True)
    }
    return cut(server, [*singles, log4j_core(server)], modules)


def _fill(home: Path, folders: Mapping[str, list[Jar]], version: str, maven: Maven) -> None:
    for folder, jars in folders.items():
        make_folder(home / folder)
        for jar in jars:
            _place(maven.folder / jar.path, home / folder / jar.filename)
    for module in MODULES:
        descriptor = home / "modules" / module.name / "plugin-descriptor.properties"
        write_atomically(descriptor, module.descriptor(version).encode())
    write_atomically(home / LIB / "thai-locale.jar", thai_locale().read_bytes())
    # The server looks for both at its start.
    make_folder(home / "bin")
    make_folder(home / "plugins")


def _check_recorded(manifest: Manifest) -> None:
    """Compare with the SHA-256 sums that this package carries, where it knows the version.

    The repository's own sums show damage on the way; only these show another file in its place.
    """
    recorded = resources.files("owpc_ltr.engine.node") / "sums" / f"{manifest.opensearch}.sha256"
    if not recorded.is_file():
        return
    sums = dict(line.split()[::-1] for line in recorded.read_text().splitlines())
    for part in manifest.parts:
        if sums.get(part.path, part.sha256) != part.sha256:
            raise EngineUnavailable(
                f"{part.path} from the maven repository has the SHA-256 {part.sha256[:12]}…, and "
                f"opensearch {manifest.opensearch} was released with {sums[part.path][:12]}…: "
                "check the repository that jgo is configured with"
            )


def _place(source: Path, target: Path) -> None:
    """Link where the file system can, since both are only read; otherwise copy."""
    try:
        os.link(source, target)
    except OSError:
        write_atomically(target, source.read_bytes())


def _replace(partial: Path, home: Path) -> None:
    if home.exists():
        damaged = home.with_name(f".{home.name}.damaged")
        home.rename(damaged)
        partial.rename(home)
        shutil.rmtree(damaged, ignore_errors=True)
    else:
        partial.rename(home)
    descriptor = os.open(home.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
