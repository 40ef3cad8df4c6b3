"""Commands of plugins: listed by the modules of the entry-point group `owpc_ltr.commands`.

Their group is a separate one, so that a list of commands imports no loss and no optimizer.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.errors import PluginError, reason_of, third_party_import
from owpc_ltr.signatures import Command, Writes

GROUP = "owpc_ltr.commands"
_OTHER_HOOKS = ("ltr_workers", "ltr_default_url")
"""Hooks of this group that need no command beside them."""


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
        _report()


ReportPage = Annotated[
    Path | str | None,
    WritesReport(
        "Also write an HTML page to show to others, to this file.",
        standard_output="--report writes a page to open in a browser: name a file, not -",
    ),
]
"""The parameter `report` of jobs."""


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


def plugin_answer(hook: str) -> Any:
    """What the first plugin of this group that has a hook returns for it, or None."""
    for point in sorted(entry_points(group=GROUP), key=_shipped_first):
        with third_party_import():
            module = point.load()
        if hasattr(module, hook):
            return getattr(module, hook)()
    return None


def write_report(results: Any, out: Path | str | None, plugins: Sequence[Path | str] = ()) -> None:
    """Write the page of one result, or of several in a list, unless `out` is None."""
    if out is not None:
        _report()(results, out=out, plugins=plugins)


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


def _report() -> Any:
    function = public_function("report")
    if function is None:
        raise PluginError("no plugin offers the command 'report': install owpc-ltr again")
    return function
