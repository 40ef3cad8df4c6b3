"""The commands, mounted: one file each beside this one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from owpc_ltr_demo.command import demo
from owpc_ltr_node.command import app as engine
from owpc_ltr_papers.bounds_command import bounds
from owpc_ltr_papers.reproduce_command import reproduce
from owpc_ltr_report.command import report
from typer.core import TyperGroup

from owpc_ltr.cli import featureset, judge, models
from owpc_ltr.cli.average import average
from owpc_ltr.cli.check import check
from owpc_ltr.cli.compare import compare
from owpc_ltr.cli.doctor import doctor
from owpc_ltr.cli.evaluate import evaluate
from owpc_ltr.cli.explain import explain
from owpc_ltr.cli.export_model import export_model
from owpc_ltr.cli.import_model import import_model
from owpc_ltr.cli.index import index
from owpc_ltr.cli.inspect import inspect
from owpc_ltr.cli.log_features import log_features
from owpc_ltr.cli.metrics import metrics
from owpc_ltr.cli.partition import partition
from owpc_ltr.cli.plugins import plugins
from owpc_ltr.cli.profile import profile
from owpc_ltr.cli.rescore_body import rescore_body
from owpc_ltr.cli.search import search
from owpc_ltr.cli.select import select
from owpc_ltr.cli.stops import Interrupted
from owpc_ltr.cli.train import train
from owpc_ltr.cli.upload import upload
from owpc_ltr.cli.verify import verify
from owpc_ltr.cli.warm_up import warm_up
from owpc_ltr.version import VERSION


class _InOrder(TyperGroup):
    """Commands in the order in which they were mounted, groups among them."""

    def list_commands(self, _ctx: object) -> list[str]:
        """The names of the road first."""
        return sorted(self.commands, key=_ROAD.index)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted from error


app = typer.Typer(
    name="owpc-ltr",
    cls=_InOrder,
    help=(
        "Learning to rank for OpenSearch and Elasticsearch.\n\n"
        "The road: engine start → index → featureset push → log-features → train → evaluate → "
        "upload → search. `owpc-ltr demo` walks it by itself."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_ROAD = [
    *("demo", "engine", "index", "featureset", "judge", "log-features", "partition", "inspect"),
    *("train", "select", "evaluate", "compare", "report", "average", "import", "export", "doctor"),
    *("upload", "verify", "search", "explain", "rescore-body", "profile", "models"),
    *("plugins", "metrics", "check", "bounds", "reproduce", "warm-up"),
]
for command in (
    demo, index, log_features, partition, inspect, train, select, evaluate, compare, report,
    average, doctor, upload, verify, search, explain, rescore_body, profile, plugins, metrics,
    check, bounds, reproduce, warm_up,
):  # fmt: skip
    app.command()(command)
app.command("import")(import_model)
app.command("export")(export_model)
app.add_typer(engine, name="engine")
app.add_typer(featureset.app, name="featureset")
app.add_typer(judge.app, name="judge")
app.add_typer(models.app, name="models")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"owpc-ltr {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold what stands before the command."""
