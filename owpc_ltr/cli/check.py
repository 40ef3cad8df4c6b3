"""`owpc-ltr check`: whether plugins are what they claim, with the numbers of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles, Seed
from owpc_ltr.cli.output import print_json, progress

if TYPE_CHECKING:
    from owpc_ltr.api.results import Checked


@grouped
def check(
    what: Annotated[
        str, typer.Argument(metavar="FILE.py|NAME", help="A plugin file, or an installed plugin.")
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, as loss.generator=top; default: every choice."),
    ] = None,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Test whether plugins keep the promises of their kind.

    Every plugin of the file or of the name is tested: a loss with each choice of its settings, an
    optimizer and a reranker with each loss that suits it, a metric, a judgment reader, an export
    target. Of a loss it is also measured whether a cost stands behind its gradient (Burges).

    Exit code 5 if a promise is broken.
    """
    from owpc_ltr.api.plugins import check as check_all
    from owpc_ltr.api.plugins import measure_losses, named_settings
    from owpc_ltr.errors import Refused

    asked: dict[str, Any] = {"seed": seed, "files": plugin or ()}
    settings = named_settings(setting or ())
    found: list[Checked] = []
    with progress() as show:
        for one in check_all(what, settings, **asked):
            found.append(one)
            show(f"{one.kind} {one.name}: {one.given}", None)
            if not as_json:
                _print(one)
    broken = [one for one in found if not one.holds]
    measured = measure_losses(what, settings, **asked)
    if as_json:
        checks = [{**asdict(one), "holds": one.holds} for one in found]
        print_json({"checks": checks, "losses": measured, "holds": not broken})
    else:
        _print_measured(measured)
    if broken:
        raise Refused(f"{len(broken)} of {len(found)} checks broke; the first: {broken[0].fault}")
    if not as_json:
        typer.echo(f"every promise holds; checks made: {len(found)}")


def _print(one: Checked) -> None:
    typer.echo(f"{'holds' if one.holds else 'BREAKS':7} {one.kind} {one.name}, with {one.given}")
    for sentence in (*([one.fault] if one.fault else []), *one.skipped):
        typer.echo(f"        {sentence}")


def _print_measured(reports: Sequence[Mapping[str, Any]]) -> None:
    for report in reports:
        for key, value in report.items():
            typer.echo(f"{key.replace('_', ' '):22}{value}")
