"""`owpc-ltr warm-up`: what is compiled on first use, compiled ahead: for images, CI, and demos."""

from __future__ import annotations

import typer

from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json, progress, warn


def warm_up(plugin: PluginFiles = None, as_json: Json = False) -> None:
    """Compile everything ahead of its first use.

    What reading, training, evaluating and every installed plugin need is compiled
    once, and kept in the user's cache, or in the folder that NUMBA_CACHE_DIR
    names, if nobody else can write there. What is there already is not made again.
    """
    from owpc_ltr.api.warm_up import warm_up as compile_all

    with progress() as show:
        done = compile_all(plugins=plugin or (), progress=show)
    if as_json:
        made = [one._asdict() for one in done.made]
        content: dict[str, object] = {"jobs": done.jobs, "folder": done.folder}
        content |= {"failures": done.failures, "seconds": done.seconds, "kept": done.kept}
        print_json({"compiled": made, **content})
        return
    for failure in done.failures:
        warn(failure)
    if not done.made:
        typer.echo(f"everything is compiled already, for {len(done.jobs)} kinds of work")
        return
    functions = f"compiled {len(done.made)} functions in {done.seconds:.0f} s"
    typer.echo(f"{functions}, for {len(done.jobs)} kinds of work")
    if done.folder:
        typer.echo(f"kept in {done.folder}")
