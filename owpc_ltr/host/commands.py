"""Commands, what a job tells of its own, and the commands of plugins.

Those are listed by the modules of the entry-point group `owpc_ltr.commands`, a separate one, so
that a list of commands imports no loss and no optimizer.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.errors import PluginError, reason_of
from owpc_ltr.signatures import Argument, Reads, Writes

GROUP = "owpc_ltr.commands"
_OTHER_HOOKS = ("ltr_workers", "ltr_default_url", "ltr_report_parts")
"""Hooks of this group that need no command beside them."""


@dataclass(frozen=True)
class Command:
    """A command, known without importing its function, or a group of commands.

    `name` is `train`, or `judge clicks` for a command in a group. `function` is `module:function`;
    a group has none. `summary` is the first sentence of the function's docstring. `panel` is the
    part of the list of commands that it stands in.
    """

    name: str
    function: str
    summary: str
    panel: str = "Other"
    extra: str = ""
    """The extra of the distribution that brings the packages which the function needs."""

    @property
    def public_name(self) -> str:
        """What the function is called in `owpc_ltr`."""
        return self.name.replace("-", "_").replace(" ", "_")

    def load(self) -> Any:
        """The function, imported. Raises PluginError where a package of an extra is missing."""
        module, _, name = self.function.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise self.missing_package(error) from error

    def missing_package(self, error: ModuleNotFoundError) -> Exception:
        """The error for a package that the function needs: which extra brings it, if one does."""
        package = (error.name or "").partition(".")[0]
        if not self.extra or package.startswith("owpc_ltr"):
            return error
        return PluginError(
            f"{self.name} needs {package}, which is not installed: pip install '{self.extra}'"
        )


@dataclass(frozen=True)
class PluginCommands:
    """The commands that plugins offer, and the plugins that cannot be loaded, with the reason."""

    commands: tuple[Command, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True)
class CommandSummary:
    """What the command line says of a result: as text, and as JSON."""

    text: str
    content: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON."""
        return dict(self.content)

    def __str__(self) -> str:
        return self.text


class WritesReport(Writes):
    """A parameter that names the page: it is checked that a plugin can write pages."""

    def check(self, path: Path | str, inputs: list[Path | str]) -> None:
        """Raise UsageError for a file that cannot be written, PluginError without the plugin."""
        super().check(path, inputs)
        plugin_job("report")


ReportPage = Annotated[
    Path | str | None,
    WritesReport(
        "Also write an HTML page to show to others, to this file.",
        standard_output="`report` writes a page to open in a browser: name a file, not -",
    ),
]
"""The parameter `report` of jobs."""
Plugins = Annotated[
    Sequence[Path | str],
    Reads(
        "Plugin files to load as well.",
        flag="--plugin",
        metavar="FILE.py",
        cli=list[Path],
        panel="Advanced",
        absent="{path}: there is no such file",
        error=PluginError,
    ),
    Argument.LIST,
]
"""The parameter `plugins` of jobs."""


@dataclass(frozen=True)
class ConnectsWith:
    """Marks the parameter `cluster` of a job that needs one only if another `parameter` is given.

    With a `prefix`: only if its value begins with the prefix.
    """

    parameter: str
    prefix: str = ""


NO_STORE = ("store_kind", "store")
"""Marks it too: these options of `connect` have no effect on the job."""


@functools.cache
def plugin_commands() -> PluginCommands:
    """What is installed; a plugin that breaks is a failure, and takes no other with it."""
    commands: dict[str, Command] = {}
    failures = []
    for point in sorted(entry_points(group=GROUP), key=_shipped_first):
        try:
            offered = _offered(point)
            twice = [
                command.name for command in offered if command.function and command.name in commands
            ]
            if twice:
                raise PluginError(f"another plugin offers the command '{twice[0]}'")
        except Exception as error:  # noqa: BLE001 - third-party code; the reason is kept
            why = reason_of(error)
            failures.append(f"plugin '{point.name}' ({point.value}) failed to load: {why}")
            continue
        commands = {**{command.name: command for command in offered}, **commands}
    return PluginCommands(tuple(commands.values()), tuple(failures))


def public_function(name: str) -> Any:
    """The function of a plugin by its public name, or None: of a command, or `use_workers`."""
    if name == "use_workers":
        return plugin_answer("ltr_workers")
    for command in plugin_commands().commands:
        if command.function and command.public_name == name:
            return command.load()
    return None


def plugin_job(name: str) -> Any:
    """The function of a plugin's command. Raises PluginError where no plugin offers it."""
    function = public_function(name.replace(" ", "_"))
    if function is None:
        raise PluginError(f"no plugin offers the command '{name}': install owpc-ltr again")
    return function


def run_plugin_job(command: str, /, **arguments: Any) -> Any:
    """The result of a plugin's job by the name of its command, as `judge clicks`.

    Arguments are its parameters, and fields of its options. Raises PluginError as `plugin_job`.
    """
    function = plugin_job(command)
    return function(**arguments)


def plugin_answer(hook: str) -> Any:
    """What the first plugin of this group that has a hook returns for it, or None."""
    return next(plugin_answers(hook), None)


def plugin_answers(hook: str) -> Iterator[Any]:
    """What each plugin of this group that has a hook returns for it."""
    for point in sorted(entry_points(group=GROUP), key=_shipped_first):
        with third_party_import():
            module = point.load()
        if hasattr(module, hook):
            yield getattr(module, hook)()


@contextmanager
def third_party_import() -> Iterator[None]:
    """Around imports of plugins: what they print goes to standard error, since it is no result.

    Raises PluginError where one ends the process.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise PluginError(
            f"it ends the process by SystemExit({', '.join(map(repr, error.args))}) while it is "
            "imported: raise an error that says what is wrong"
        ) from error


def write_report(results: Any, out: Path | str | None, plugins: Sequence[Path | str] = ()) -> None:
    """Write the page of one result, or of several in a list, unless `out` is None."""
    if out is not None:
        plugin_job("report")(results, out=out, plugins=plugins)


def _shipped_first(point: EntryPoint) -> tuple[bool, str]:
    return not point.value.startswith("owpc_ltr_"), point.name


def _offered(point: EntryPoint) -> list[Command]:
    with third_party_import():
        module = point.load()
    if not hasattr(module, "ltr_commands"):
        if any(hasattr(module, hook) for hook in _OTHER_HOOKS):
            return []
        raise PluginError("it has no function ltr_commands()")
    offered = module.ltr_commands()
    if not isinstance(offered, list) or not all(
        isinstance(command, Command) for command in offered
    ):
        raise PluginError(f"its ltr_commands() returns {offered!r}: return a list of Command")
    return offered
