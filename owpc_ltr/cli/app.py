"""The table of commands, and what `owpc-ltr` itself prints.

A line names the public function that the command is; plugins add lines with `ltr_commands`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from owpc_ltr.cli.generator import HELP_OPTIONS, LazyCommand, connection_options
from owpc_ltr.cli.signals import Interrupted
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.host.commands import Command, plugin_commands
from owpc_ltr.host.project import PROJECT_FILE
from owpc_ltr.version import VERSION

_CORE = {
    "init": (
        "engine.project:init",
        "Write a project file: what commands repeat, as far as cluster and folder tell.",
    ),
    "index": ("engine.index:index", "Index documents, every one accounted for."),
    "inspect": ("inspection.inspect:inspect", "Look for faults in data before training."),
    "evaluate": ("evaluation.evaluate:evaluate", "Measure a ranker on held-out judged queries."),
    "compare": ("evaluation.compare:compare", "Compare rankers on the same judged queries."),
    "compare-live": (
        "engine.live_results.compare_live:compare_live",
        "Compare rankers, or one with the query alone, by live results of the whole index.",
    ),
    "average": ("models.average:average", "Make one model that averages the scores of several."),
    "log-features": (
        "engine.feature_log.log_features:log_features",
        "Log the engine's features of judged documents.",
    ),
    "train": ("training.train:train", "Train a ranker; validation queries choose its settings."),
    "train-reranker": (
        "training.train_reranker:train_reranker",
        "Train a reranker, which reorders the lists of a base ranker.",
    ),
    "select": ("training.select:select", "Compare losses, optimizers and settings over folds."),
    "fuse": (
        "fusion.fuse:fuse",
        "Learn one weight for each leg of a hybrid search, or say why not to fuse.",
    ),
    "explain": (
        "engine.explain_search:explain_ranking",
        "Explain how a ranker orders a query's documents.",
    ),
    "search": (
        "engine.search.search:search",
        "Search without and with a model; show both rankings.",
    ),
    "request": (
        "engine.search.request:request",
        "Print the search request that an application sends.",
    ),
    "profile": (
        "engine.profile:profile",
        "Time the cost of features, windows and a model in a search.",
    ),
    "lint": (
        "fusion.lint:lint",
        "Find what spoils hybrid search in a request or its search pipeline.",
    ),
    "import": (
        "formats.import_export:import_model",
        "Convert a model of another library, and report what changed.",
    ),
    "export": (
        "formats.import_export:export_model",
        "Write a model as a file that an engine takes.",
    ),
    "partition": ("data.datasets:partition", "Write datasets as one folder of Parquet files."),
    "upload": (
        "engine.deployment.upload:upload",
        "Store a model, check its scores in the engine, switch its alias.",
    ),
    "verify": (
        "engine.deployment.verify:verify",
        "Check an uploaded model again, and look for drift.",
    ),
    "models": ("", "Uploaded models: show, diff, promote, roll back, delete."),
    "models show": (
        "engine.deployment.uploaded_models:show_models",
        "List the aliases and their models, or show one model.",
    ),
    "models delete": (
        "engine.deployment.uploaded_models:delete",
        "Delete a model, a name with all of its models, or all unused models.",
    ),
    "models diff": ("engine.deployment.uploaded_models:diff", "Show how two models differ."),
    "models promote": (
        "engine.deployment.uploaded_models:promote",
        "Switch the alias NAME to its challenger, or to the model NAME-HASH.",
    ),
    "models rollback": (
        "engine.deployment.uploaded_models:rollback",
        "Roll the alias NAME back to its previous model.",
    ),
    "featureset": ("", "Feature sets: suggest, push, show, delete."),
    "featureset suggest": (
        "engine.feature_sets:suggest",
        "Write a first feature set for an index, from the types of its fields.",
    ),
    "featureset push": (
        "engine.feature_sets:push",
        "Try every feature of a set on the index, then store the set.",
    ),
    "featureset show": (
        "engine.feature_sets:show",
        "List the feature sets of the cluster, or print the features of one.",
    ),
    "featureset delete": (
        "engine.feature_sets:delete",
        "Delete a feature set that no uploaded model uses.",
    ),
    "judge": ("", "What to judge next; judgments from clicks, in other formats."),
    "judge convert": ("engine.workbench:convert_judgments", "Write judgments in another format."),
    "judge pool": (
        "engine.live_results.judge_pool:judge_pool",
        "Write a sheet of the rankers' top documents, for people to grade.",
    ),
    "plugins": ("", "Plugins: show, check, compile; the conventions of metrics."),
    "plugins show": (
        "host.plugin_list:plugins",
        "List the installed plugins, or the settings of one.",
    ),
    "plugins check": (
        "plugin_checks.check:check",
        "Test whether plugins fulfil the contract of their kind.",
    ),
    "plugins metrics": (
        "evaluation.metric_explanation:metrics",
        "Explain metrics, and why other libraries' figures differ.",
    ),
}
"""Where each command of the core is, and its summary; a group of commands is nowhere."""
COMMANDS = tuple(
    Command(name, place and f"owpc_ltr.{place}", summary)
    for name, (place, summary) in _CORE.items()
)
"""The commands of the core; a test compares each summary with its function's docstring."""


class _Group(TyperGroup):
    """A group of commands: without a command `show`, which lists, or the group's help."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse what stands before the command."""
        named = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        if "show" in self.commands and not named and not ctx.resilient_parsing:
            args = ["show", *args]
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            ctx.exit(UsageError.exit_code)
        return super().parse_args(ctx, args)


class _Commands(_Group):
    """All commands: those of typer's own, of the table above, and of plugins.

    Plugins are looked for where no other command has the name, or all commands are listed.
    """

    _complete = False

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for command in COMMANDS:
            self._mount(command)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name."""
        command = self.commands.get(cmd_name)
        if command is None or isinstance(command, TyperGroup):
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, those of the workflow first."""
        self._add_plugins()
        order = [name for names in _PANELS.values() for name in names]
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the summaries, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in _PANELS}
        width = max(map(len, self.commands))
        for name in self.list_commands(ctx):
            command = self.commands[name]
            default_panel = getattr(getattr(command, "about", None), "panel", _OTHER)
            panel: str = next(
                (title for title, names in _PANELS.items() if name in names), default_panel
            )
            summary = command.get_short_help_str(formatter.width)
            panels.setdefault(panel, []).append((name.ljust(width), summary))
        panels["Connection options of every command that uses a cluster"] = [
            (it.flag if it.kind is bool else f"{it.flag} {it.metavar}", it.help.text)
            for it in connection_options()
        ]
        panels["Project file"] = [
            ("--no-project", f"Take no value from {PROJECT_FILE}, on any command that takes some.")
        ]
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted from error

    def _add_plugins(self) -> None:
        if self._complete:
            return
        self._complete = True
        installed = plugin_commands()
        refused = [
            f"a plugin's command '{command.name}' is not there, since owpc-ltr has one of that name"
            for command in installed.commands
            if not self._mount(command)
        ]
        give_warnings([*installed.failures, *refused])

    def _mount(self, command: Command) -> bool:
        """Add a command, or a group; False where there is another command of its name."""
        group, _, name = command.name.rpartition(" ")
        parent: Any = self
        if group:
            parent = self.commands.setdefault(group, _group(group, ""))
        if not command.function:
            existing = parent.commands.setdefault(name, _group(name, command.summary))
            existing.help = existing.help or command.summary
            return True
        if name in parent.commands:
            return False
        parent.commands[name] = LazyCommand(command)
        return True


def _group(name: str, summary: str) -> TyperGroup:
    return _Group(name=name, help=summary, rich_markup_mode=None, context_settings=HELP_OPTIONS)


app = typer.Typer(
    name="owpc-ltr",
    cls=_Commands,
    help=(
        "Learning to rank for OpenSearch and Elasticsearch.\n\n"
        "Workflow: engine start → index → featureset push → log-features → train → evaluate → "
        "upload → search. `owpc-ltr demo` runs it all."
    ),
    context_settings=HELP_OPTIONS,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_OTHER = "Other"
_PANELS = {
    panel: commands.split()
    for panel, commands in {
        "Start": "demo engine init",
        "Data": "index featureset judge log-features partition inspect",
        "Rankers": (
            "train train-reranker select fuse evaluate compare compare-live report "
            "average import export"
        ),
        "Cluster": "upload verify search explain request lint profile models",
        "Plugins": "plugins",
        "Papers": "reproduce bounds",
    }.items()
}
"""The parts of the help, and the order of commands in it; others follow in their own panels."""


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"owpc-ltr {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold what stands before the command."""
