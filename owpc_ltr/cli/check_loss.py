"""`owpc-ltr check-loss`: whether a loss is what it claims, with the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles, Seed
from owpc_ltr.cli.output import print_json

if TYPE_CHECKING:
    from owpc_ltr.protocols import Loss


@grouped
def check_loss(
    name: Annotated[str, typer.Argument(help="A loss; see: owpc-ltr plugins.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, as loss.generator=top.")
    ] = None,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Test whether a cost stands behind a loss's gradient (Burges), and whether it is convex.

    Exit code 5 if a claim does not hold.
    """
    from owpc_ltr.errors import Refused
    from owpc_ltr.host import registry as registries
    from owpc_ltr.host.settings import configure, parse_settings
    from owpc_ltr.testing import describe_loss

    registry = registries.load(plugin or [])
    values = parse_settings(setting or []).get("loss", {})
    loss = configure(registry.find("loss", name), values)
    report, fault = describe_loss(loss, seed).as_dict(), _fault(loss)
    if as_json:
        print_json({**report, "holds": not fault, "fault": fault or None})
    else:
        for key, value in report.items():
            typer.echo(f"{key.replace('_', ' '):22}{value}")
    if fault:
        raise Refused(fault)
    if not as_json:
        typer.echo("every claim holds")


def _fault(loss: Loss) -> str:
    """Which claim does not hold, in one line; empty where all do."""
    from owpc_ltr.testing import check_loss as check

    try:
        check(loss)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""
