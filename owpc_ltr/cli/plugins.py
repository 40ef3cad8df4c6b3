"""`owpc-ltr plugins`: what is installed; or one plugin, what it claims, and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.results import Failure


def plugins(
    name: Annotated[
        str | None, typer.Argument(help="One plugin, to be shown with its settings.")
    ] = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """List what is installed; of one plugin show its settings.

    Use a name as --loss NAME, --optimizer NAME, --metric NAME …, and a setting as
    --set loss.SETTING=VALUE.
    """
    from owpc_ltr.api.plugins import describe
    from owpc_ltr.api.plugins import plugins as installed

    registry = installed(plugin or [])
    rows = [describe(found) for found in registry.all()]
    if name is not None:
        _show([row for row in rows if row["name"] == name], name, as_json=as_json)
        return
    failures = [vars(failure) for failure in registry.failures]
    if as_json:
        print_json({"plugins": rows, "failures": failures})
        return
    print_table(["KIND", "NAME", "WHAT IT IS"], [_line(row) for row in rows])
    _warn_of(registry.failures)


def _line(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["kind"], row["name"], row["summary"]


def _show(rows: Sequence[Mapping[str, Any]], name: str, *, as_json: bool) -> None:
    if not rows:
        raise UsageError(f"no plugin is named '{name}'; see: owpc-ltr plugins")
    if as_json:
        print_json({"plugins": rows})
        return
    for row in rows:
        typer.echo(f"{row['kind']} {row['name']}, of {row['source']}: {row['summary']}")
        typer.echo(row["formula"])
        if row["claims"]:
            typer.echo(f"claims: {', '.join(row['claims'])}")
        print_table(["SETTING", "DEFAULT"], [tuple(text.split("=", 1)) for text in row["settings"]])


def _warn_of(failures: Sequence[Failure]) -> None:
    for failure in failures:
        warn(f"plugin '{failure.plugin}' ({failure.source}) failed to load: {failure.reason}")
