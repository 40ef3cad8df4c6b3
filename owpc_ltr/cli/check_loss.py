"""`owpc-ltr check-loss`: whether a loss is what it claims, with the numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles, Seed
from owpc_ltr.cli.output import print_json


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
    """Test what a loss claims to be: convex, conservative, smooth.

    That is, whether a cost stands behind its gradient (Burges), and whether it is convex.

    Exit code 5 if a claim does not hold.
    """
    from owpc_ltr.api.plugins import describe_loss, named_settings
    from owpc_ltr.errors import Refused

    given = named_settings(setting or ())
    values = {key: value for key, value in given.items() if key.startswith("loss.")}
    report, fault = describe_loss(name, values, seed=seed, files=plugin or ())
    if as_json:
        print_json({**report, "holds": not fault, "fault": fault or None})
    else:
        for key, value in report.items():
            typer.echo(f"{key.replace('_', ' '):22}{value}")
    if fault:
        raise Refused(fault)
    if not as_json:
        typer.echo("every claim holds")
