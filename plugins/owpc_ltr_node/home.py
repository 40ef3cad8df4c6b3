"""An assembled engine: put together from Maven artifacts, whole and checked, or not there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from owpc_ltr.files.output import sync_folder
from owpc_ltr.files.permissions import why_unsafe
from owpc_ltr_node.distribution import (
    ElasticsearchParts,
    OpenSearchParts,
    elasticsearch_parts,
    fetch_vector_plugins,
    find_local_plugin,
    find_remote_plugin,
    inspect_plugin,
    ltr_plugin,
    opensearch_parts,
    unpack_plugin,
)
from owpc_ltr_node.folders import (
    Places,
    Report,
    UnixUser,
    closed_folder,
    make_folder,
    write_readable,
)
from owpc_ltr_node.maven import Maven
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, Release
from owpc_ltr_node.settings import LocalNode

MANIFEST = "owpc-ltr.json"
# Raised with every change to what is put into a home, so that older homes are made anew.
LAYOUT = 1
ReleaseParts = OpenSearchParts | ElasticsearchParts


@dataclass(frozen=True)
class HomeFile:
    """A file of a home."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class HomeManifest:
    """What a home is made of.

    `ltr_plugin` is the LTR plugin's version, or None without it; `vectors` tells of k-NN and
    neural search.
    """

    release: Release
    ltr_plugin: str | None
    parts: list[HomeFile]
    layout: int = LAYOUT
    vectors: bool = False

    def write(self, home: Path) -> None:
        """Put it into the home."""
        content = {
            self.release.engine: self.release.version,
            "ltr_plugin": self.ltr_plugin,
            "parts": [asdict(part) for part in self.parts],
            "layout": self.layout,
            "vectors": self.vectors,
        }
        write_readable(home / MANIFEST, json.dumps(content, indent=1).encode())

    @staticmethod
    def of(
        home: Path, release: Release, ltr_plugin: str | None, *, vectors: bool = False
    ) -> HomeManifest:
        """Describe the files that are in a folder now."""
        parts = [
            HomeFile(name, (home / name).stat().st_size, _sha256(home / name))
            for name in sorted(_files(home))
        ]
        return HomeManifest(release, ltr_plugin, parts, vectors=vectors)

    @staticmethod
    def read(home: Path) -> HomeManifest:
        """Read it from a home. Raises BadInput where it is not there or cannot be understood."""
        path = home / MANIFEST
        try:
            fields = json.loads(path.read_bytes())
            parts = [HomeFile(**part) for part in fields["parts"]]
            engine = ELASTICSEARCH if ELASTICSEARCH in fields else OPENSEARCH
            release = Release(engine, str(fields[engine]))
            vectors = fields.get("vectors", False) is True
            return HomeManifest(release, fields["ltr_plugin"], parts, fields["layout"], vectors)
        except (OSError, ValueError, TypeError, KeyError, UsageError, RecursionError) as error:
            raise BadInput(f"{path} does not describe an assembled home: {error!r}") from error

    def fault(self, home: Path, *, sums: bool) -> str:
        """The first thing in the home that is not as recorded, or nothing.

        Sizes are always compared; every byte is read only for `sums`.
        """
        if self.layout != LAYOUT:
            return f"it has layout {self.layout}, and this owpc-ltr makes {LAYOUT}"
        for part in self.parts:
            path = home / part.path
            if not path.is_file():
                return f"{part.path} is missing"
            if path.stat().st_size != part.size:
                return f"{part.path} has {path.stat().st_size} bytes instead of {part.size}"
            if sums and _sha256(path) != part.sha256:
                return f"{part.path} has another SHA-256 than when it was assembled"
        recorded = {part.path for part in self.parts}
        stray = [path for path in _files(home) if path not in {*recorded, MANIFEST}]
        return f"{stray[0]} does not belong there" if stray else ""


def _files(home: Path) -> list[str]:
    return [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(release: Release, maven: Maven, report: Report) -> ReleaseParts:
    """Have all that a home of the release is made of in the local repository."""
    parts = opensearch_parts if release.engine == OPENSEARCH else elasticsearch_parts
    return parts(release, maven, report)


def assemble(
    parts: ReleaseParts,
    plugin: Path | None,
    home: Path,
    report: Report,
    vectors: Sequence[Path] = (),
) -> HomeManifest:
    """Put a home together, with the zips of the LTR plugin and of vector search, if any.

    `home` appears when it is complete.
    """
    release = parts.release
    make_folder(home.parent)
    for leftover in home.parent.glob(f".{home.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = make_folder(home.with_name(f".{home.name}.{os.getpid()}"))
    try:
        parts.put_into(partial)
        inside = partial / "plugins"
        for archive in vectors:
            unpack_plugin(archive, inside, release.version)
        plugin_version = unpack_plugin(plugin, inside, release.version) if plugin else None
        manifest = HomeManifest.of(partial, release, plugin_version, vectors=bool(vectors))
        checked = _check_recorded(manifest)
        manifest.write(partial)
        _replace(partial, home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report.say(
        f"assembled {release} in {home} ({len(manifest.parts)} files, sums "
        f"{'checked' if checked else 'recorded, for this owpc-ltr knows none of it'})"
    )
    return manifest


def _check_recorded(manifest: HomeManifest) -> bool:
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
    sync_folder(home.parent)


def provide_home(
    node: LocalNode, places: Places, account: UnixUser | None, report: Report
) -> tuple[Path, HomeManifest]:
    """A whole home of the node's version, with the LTR plugin if it is to be had.

    Only a new home asks the network for the plugin; its manifest remembers the answer. A plugin
    that the user has put into the own Maven repository since is taken up at the next start.

    Raises UsageError for a home that another user can write, who would choose what runs.
    """
    named = node.home.expanduser().absolute() if node.home else None
    if named:
        _check_open(named, account, node.engine)
    release = node.release
    # Elasticsearch's has never been on Maven.
    can_have_plugin = release.engine == OPENSEARCH
    local = find_local_plugin(release.version) if can_have_plugin else None
    local = _usable(local, release, report)
    _check_private(named or places.homes)
    assembled = _named(named, node) if named else _find(node, places, report)
    if assembled:
        for path in (assembled[0], *(assembled[0] / part.path for part in assembled[1].parts)):
            _check_private(path)
    if assembled is None or (local and assembled[1].ltr_plugin is None and not named):
        maven = Maven(places.maven, report)
        vectors = fetch_vector_plugins(release, maven) if node.with_vectors else []
        parts = download(release, maven, report)
        plugin = local
        if can_have_plugin and plugin is None:
            plugin = _usable(find_remote_plugin(release.version, maven), release, report)
        home = named or places.homes / f"{_folder(node)}{'-ltr' * bool(plugin)}"
        assembled = home, assemble(parts, plugin, home, report, vectors)
    if can_have_plugin and assembled[1].ltr_plugin is None:
        report.say(
            "the node has no LTR plugin, and needs none: features and models are stored without "
            f"it ({ltr_plugin(release.version)} in a maven repository would add it)"
        )
    return assembled


def _folder(node: LocalNode) -> str:
    return f"{node.engine}-{node.release.version}{'-vectors' * node.with_vectors}"


def _find(node: LocalNode, places: Places, report: Report) -> tuple[Path, HomeManifest] | None:
    for name in (f"{_folder(node)}-ltr", _folder(node)):
        home = places.homes / name
        if not home.is_dir():
            continue
        try:
            manifest = HomeManifest.read(home)
            fault = manifest.fault(home, sums=node.verify)
        except BadInput as error:
            fault = str(error)
        if not fault:
            return home, manifest
        report.say(f"cannot use the {node.release.engine} in {home} ({fault}): assembling it again")
    return None


def _named(home: Path, node: LocalNode) -> tuple[Path, HomeManifest] | None:
    """The home that the user named; None where it is still to be assembled."""
    if not home.exists() or (home.is_dir() and not any(home.iterdir())):
        return None
    manifest = HomeManifest.read(home)
    fault = manifest.fault(home, sums=node.verify)
    if manifest.release != node.release:
        fault = f"it is {manifest.release}, and {_asked(node, manifest.release)} was asked for"
    elif node.with_vectors and not manifest.vectors:
        fault = "it is without k-NN and neural search"
    if fault:
        raise UsageError(f"--home {home} will not do: {fault}; remove it, or name a new folder")
    return home, manifest


def _check_open(home: Path, account: UnixUser | None, engine: str) -> None:
    closed = closed_folder(home / MANIFEST, account)
    if account and closed:
        raise UsageError(
            f"--home {home} will not do: the node runs as '{account.name}', since {engine} "
            f"refuses root, and cannot enter {closed}; leave it out, or name a folder outside it"
        )


def _check_private(path: Path) -> None:
    existing = next(place for place in (path, *path.parents) if place.exists())
    if unsafe := why_unsafe(existing):
        raise UsageError(
            f"the node's folder {path} will not do: {unsafe}; take that right away, or name a "
            "folder that only you can write with --home"
        )


def _asked(node: LocalNode, other: Release) -> str:
    """What was asked for, where something else is there."""
    return node.release.version if node.engine == other.engine else str(node.release)


def _usable(archive: Path | None, release: Release, report: Report) -> Path | None:
    """The plugin's zip if it can be trusted and fits; if not, that is said."""
    if archive is None:
        return None
    try:
        inspect_plugin(archive, release.version)
    except BadInput as error:
        report.say(str(error))
        return None
    return archive
