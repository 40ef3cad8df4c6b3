"""A home put together from Maven artifacts: whole and checked, or not there."""

from __future__ import annotations

import os
import shutil
from importlib import resources
from pathlib import Path
from typing import Protocol

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_node import ltrplugin
from owpc_ltr_node.elasticsearch_home import elasticsearch_parts
from owpc_ltr_node.manifest import Manifest
from owpc_ltr_node.maven import Maven
from owpc_ltr_node.opensearch_home import opensearch_parts
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.release import OPENSEARCH, Release
from owpc_ltr_node.report import Report


class Parts(Protocol):
    """What a home of a release is made of, downloaded."""

    @property
    def release(self) -> Release:
        """What it makes."""

    def put_into(self, home: Path) -> None:
        """Fill a new folder."""


def download(release: Release, maven: Maven, report: Report) -> Parts:
    """Have all that a home of the release is made of in the local repository."""
    take = opensearch_parts if release.engine == OPENSEARCH else elasticsearch_parts
    return take(release, maven, report)


def assemble(parts: Parts, plugin: Path | None, home: Path, report: Report) -> Manifest:
    """Put a home together; `home` appears when it is complete."""
    release = parts.release
    make_folder(home.parent)
    for leftover in home.parent.glob(f".{home.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = make_folder(home.with_name(f".{home.name}.{os.getpid()}"))
    try:
        parts.put_into(partial)
        inside = partial / "plugins"
        plugin_version = ltrplugin.unpack(plugin, inside, release.version) if plugin else None
        manifest = Manifest.of(partial, release, plugin_version)
        known = _check_recorded(manifest)
        manifest.write(partial)
        _replace(partial, home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report.say(
        f"assembled {release} in {home} ({len(manifest.parts)} files, sums "
        f"{'checked' if known else 'recorded, for this owpc-ltr knows none of it'})"
    )
    return manifest


def _check_recorded(manifest: Manifest) -> bool:
    """Compare with the SHA-256 sums that this package carries; False where it has none.

    The repository's own sums show damage on the way; only these show another file in its place.
    """
    release = manifest.release
    kind = "" if release.engine == OPENSEARCH else f"{release.engine}-"
    folder = resources.files("owpc_ltr_node") / "sums"
    recorded = folder / f"{kind}{release.version}.sha256"
    if not recorded.is_file():
        return False
    sums = dict(line.split()[::-1] for line in recorded.read_text().splitlines())
    for part in manifest.parts:
        if sums.get(part.path, part.sha256) != part.sha256:
            raise EngineUnavailable(
                f"{part.path} from the maven repository has the SHA-256 {part.sha256[:12]}…, and "
                f"{release} was released with {sums[part.path][:12]}…: "
                "check the repository that jgo is configured with"
            )
    return True


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
