"""The table of commands, and what `owpc-ltr` itself prints.

A line names the public function that the command is; plugins add lines with `ltr_commands`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.generator import ALL, HELP_OPTIONS, LazyCommand, show_all
from owpc_ltr.cli.options import connection_options
from owpc_ltr.cli.signals import Interrupted
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.host.commands import Command, plugin_commands
from owpc_ltr.host.project import PROJECT_FILE
from owpc_ltr.version import VERSION


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

    def get_short_help_str(self, limit: int = 45) -> str:
        """The summary of the group, and its commands."""
        summary = super().get_short_help_str(limit).removesuffix(".")
        return f"{summary}: {', '.join(sorted(self.commands))}."


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
        names = self.list_commands(ctx)
        commands = {name: self.commands[name] for name in names}
        if ctx.meta.get(ALL):
            commands = {
                f"{name} {part}".strip(): command
                for name in names
                for part, command in getattr(
                    commands[name], "commands", {"": commands[name]}
                ).items()
            }
        width = max(map(len, commands))
        for name, command in commands.items():
            default_panel = getattr(getattr(command, "about", None), "panel", _OTHER)
            panel: str = next(
                (title for title, of in _PANELS.items() if name.partition(" ")[0] in of),
                default_panel,
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
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all",
            callback=show_all,
            is_eager=True,
            help="List the commands of groups, too, and exit.",
        ),
    ] = False,
) -> None:
    """Hold what stands before the command."""
