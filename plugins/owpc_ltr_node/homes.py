"""The assembled home for a node: the one that is there, or a new one."""

from __future__ import annotations

from pathlib import Path

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr_node import ltrplugin
from owpc_ltr_node.account import Account, closed_folder
from owpc_ltr_node.assembly import assemble, download
from owpc_ltr_node.config import LocalNode
from owpc_ltr_node.manifest import MANIFEST, Manifest
from owpc_ltr_node.maven import Maven
from owpc_ltr_node.places import Places
from owpc_ltr_node.release import OPENSEARCH, Release
from owpc_ltr_node.report import Report


def provide_home(
    node: LocalNode, places: Places, account: Account | None, report: Report
) -> tuple[Path, Manifest]:
    """A whole home of the node's version, with the LTR plugin if it is to be had.

    Only a new home asks the network for the plugin; its manifest remembers the answer. A plugin
    that the user has put into the own Maven repository since is taken up at the next start.
    """
    named = node.home.expanduser().absolute() if node.home else None
    if named:
        _check_open(named, account, node.engine)
    release = node.release
    # Elasticsearch's has never been on Maven.
    can_have_plugin = release.engine == OPENSEARCH
    local = ltrplugin.find_local(release.version) if can_have_plugin else None
    local = _usable(local, release, report)
    found = _named(named, node) if named else _find(node, places, report)
    if found is None or (local and found[1].ltr_plugin is None and not named):
        maven = Maven(places.maven, report)
        parts = download(release, maven, report)
        plugin = local
        if can_have_plugin and plugin is None:
            plugin = _usable(ltrplugin.find_remote(release.version, maven), release, report)
        home = named or places.homes / f"{_folder(release)}{'-ltr' * bool(plugin)}"
        found = home, assemble(parts, plugin, home, report)
    if can_have_plugin and found[1].ltr_plugin is None:
        report.say(
            f"going on without the LTR plugin: no usable {ltrplugin.artifact(release.version)} in "
            "a configured maven repository or the local one"
        )
    return found


def _folder(release: Release) -> str:
    return f"{release.engine}-{release.version}"


def _find(node: LocalNode, places: Places, report: Report) -> tuple[Path, Manifest] | None:
    for name in (f"{_folder(node.release)}-ltr", _folder(node.release)):
        home = places.homes / name
        if not home.is_dir():
            continue
        try:
            manifest = Manifest.read(home)
            fault = manifest.fault(home, sums=node.verify)
        except BadInput as error:
            fault = str(error)
        if not fault:
            return home, manifest
        report.say(f"cannot use the {node.release.engine} in {home} ({fault}): assembling it again")
    return None


def _named(home: Path, node: LocalNode) -> tuple[Path, Manifest] | None:
    """The home that the user named; None where it is still to be assembled."""
    if not home.exists() or (home.is_dir() and not any(home.iterdir())):
        return None
    manifest = Manifest.read(home)
    fault = manifest.fault(home, sums=node.verify)
    if manifest.release != node.release:
        fault = f"it is {manifest.release}, and {_asked(node, manifest.release)} was asked for"
    if fault:
        raise UsageError(f"--home {home} will not do: {fault}; remove it, or name a new folder")
    return home, manifest


def _check_open(home: Path, account: Account | None, engine: str) -> None:
    closed = closed_folder(home / MANIFEST, account) if account else None
    if account and closed:
        raise UsageError(
            f"--home {home} will not do: the node runs as '{account.name}', since {engine} "
            f"refuses root, and cannot enter {closed}; leave it out, or name a folder outside it"
        )


def _asked(node: LocalNode, other: Release) -> str:
    """What was asked for, where something else is there."""
    return node.release.version if node.engine == other.engine else str(node.release)


def _usable(archive: Path | None, release: Release, report: Report) -> Path | None:
    """The plugin's zip if it can be trusted and fits; if not, that is said."""
    if archive is None:
        return None
    try:
        ltrplugin.inspect(archive, release.version)
    except BadInput as error:
        report.say(str(error))
        return None
    return archive
