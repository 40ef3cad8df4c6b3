"""The assembled home for a node: the one that is there, or a new one."""

from __future__ import annotations

from pathlib import Path

from owpc_ltr.engine.node import ltrplugin
from owpc_ltr.engine.node.account import Account, closed_folder
from owpc_ltr.engine.node.assembly import assemble, download
from owpc_ltr.engine.node.config import LocalNode
from owpc_ltr.engine.node.manifest import MANIFEST, Manifest
from owpc_ltr.engine.node.maven import Maven
from owpc_ltr.engine.node.places import Places
from owpc_ltr.engine.node.report import Report
from owpc_ltr.errors import BadInput, UsageError


def provide_home(
    node: LocalNode, places: Places, account: Account | None, report: Report
) -> tuple[Path, Manifest]:
    """A whole home of the node's version, with the LTR plugin if it is to be had.

    Only a new home asks the network for the plugin; its manifest remembers the answer. A plugin
    that the user has put into the own Maven repository since is taken up at the next start.
    """
    named = node.home.expanduser().absolute() if node.home else None
    if named:
        _check_open(named, account)
    local = _usable(ltrplugin.find_local(node.version), node.version, report)
    found = _named(named, node) if named else _find(node, places, report)
    if found is None or (local and found[1].ltr_plugin is None and not named):
        maven = Maven(places.maven, report)
        folders = download(node.version, maven)
        plugin = local or _usable(ltrplugin.find_remote(node.version, maven), node.version, report)
        home = named or places.homes / f"opensearch-{node.version}{'-ltr' * bool(plugin)}"
        found = home, assemble(folders, node.version, maven, plugin, home, report)
    if found[1].ltr_plugin is None:
        report.say(
            f"going on without the LTR plugin: no usable {ltrplugin.artifact(node.version)} in a "
            "configured maven repository or the local one"
        )
    return found


def _find(node: LocalNode, places: Places, report: Report) -> tuple[Path, Manifest] | None:
    for name in (f"opensearch-{node.version}-ltr", f"opensearch-{node.version}"):
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
        report.say(f"cannot use the opensearch in {home} ({fault}): assembling it again")
    return None


def _named(home: Path, node: LocalNode) -> tuple[Path, Manifest] | None:
    """The home that the user named; None where it is still to be assembled."""
    if not home.exists() or (home.is_dir() and not any(home.iterdir())):
        return None
    manifest = Manifest.read(home)
    fault = manifest.fault(home, sums=node.verify)
    if manifest.opensearch != node.version:
        fault = f"it is opensearch {manifest.opensearch}, and {node.version} was asked for"
    if fault:
        raise UsageError(f"--home {home} will not do: {fault}; remove it, or name a new folder")
    return home, manifest


def _check_open(home: Path, account: Account | None) -> None:
    closed = closed_folder(home / MANIFEST, account) if account else None
    if account and closed:
        raise UsageError(
            f"--home {home} will not do: the node runs as '{account.name}', since opensearch "
            f"refuses root, and cannot enter {closed}; leave it out, or name a folder outside it"
        )


def _usable(archive: Path | None, version: str, report: Report) -> Path | None:
    """The plugin's zip if it can be trusted and fits; if not, that is said."""
    if archive is None:
        return None
    try:
        ltrplugin.inspect(archive, version)
    except BadInput as error:
        report.say(str(error))
        return None
    return archive
