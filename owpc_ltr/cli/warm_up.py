"""`owpc-ltr warm-up`: what is compiled on first use, compiled ahead: for images, CI, and demos."""

from __future__ import annotations

import typer

from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json, progress, warn


def warm_up(plugin: PluginFiles = None, as_json: Json = False) -> None:
    """Compile everything ahead of its first use.

    What reading, training, evaluating and every installed plugin need is compiled once, and kept
    beside the sources where they can be written, else in the user's cache; NUMBA_CACHE_DIR names
    another folder. What is there already is not made again, nor what a platform
    wheel brought compiled; with OWPC_LTR_SHIPPED set and empty, that is compiled
    for this very processor.
    """
    from owpc_ltr.api.warm_up import warm_up as compile_all

    with progress() as show:
        done = compile_all(plugins=plugin or (), progress=show)
    if as_json:
        made = [one._asdict() for one in done.made]
        content: dict[str, object] = {"jobs": done.jobs, "folders": done.folders}
        content["failures"] = done.failures
        content |= {"shipped": done.shipped, "seconds": done.seconds, "kept": done.kept}
        print_json({"compiled": made, **content})
        return
    for failure in done.failures:
        warn(failure)
    if done.shipped:
        typer.echo(f"{done.shipped} functions came compiled with the package")
    if not done.made:
        typer.echo(f"everything is compiled already, for {len(done.jobs)} kinds of work")
        return
    functions = f"compiled {len(done.made)} functions in {done.seconds:.0f} s"
    typer.echo(f"{functions}, for {len(done.jobs)} kinds of work")
    for folder in done.folders:
        typer.echo(f"kept in {folder}")
