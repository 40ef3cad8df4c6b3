"""Commands of plugins: listed by the modules of the entry-point group `owpc_ltr.commands`.

Their group is a separate one, so that a list of commands imports no loss and no optimizer.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from owpc_ltr.errors import PluginError
from owpc_ltr.host.third_party import reason_of, third_party_import
from owpc_ltr.signatures import Command

GROUP = "owpc_ltr.commands"
_OTHER_HOOKS = ("ltr_workers", "ltr_default_url")
"""Hooks of this group that need no command beside them."""


@dataclass(frozen=True)
class PluginCommands:
    """The commands that plugins offer, and the plugins that cannot be loaded, with the reason."""

    commands: tuple[Command, ...]
    failures: tuple[str, ...]


@functools.cache
def plugin_commands() -> PluginCommands:
    """What is installed; a plugin that breaks is a failure, and takes no other with it."""
    commands: dict[str, Command] = {}
    failures = []
    for point in sorted(entry_points(group=GROUP), key=_shipped_first):
        try:
            offered = _offered(point)
            twice = [one.name for one in offered if one.function and one.name in commands]
            if twice:
                raise PluginError(f"another plugin offers the command '{twice[0]}'")
        except Exception as error:  # noqa: BLE001 - third-party code; the reason is kept
            why = reason_of(error)
            failures.append(f"plugin '{point.name}' ({point.value}) failed to load: {why}")
            continue
        commands = {**{one.name: one for one in offered}, **commands}
    return PluginCommands(tuple(commands.values()), tuple(failures))


def function_of(command: Command) -> Any:
    """The function of a command, imported.

    Raises PluginError where a package of an extra is missing.
    """
    module, _, name = command.function.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise missing_package(command, error) from error


def missing_package(command: Command, error: ModuleNotFoundError) -> Exception:
    """The error for a package that a command needs: which extra brings it, if one does."""
    package = (error.name or "").partition(".")[0]
    if not command.extra or package.startswith("owpc_ltr"):
        return error
    return PluginError(
        f"{command.name} needs {package}, which is not installed: pip install '{command.extra}'"
    )


def public_function(name: str) -> Any:
    """The function of a plugin by its public name, or None: of a command, or `use_workers`."""
    if name == "use_workers":
        return plugin_answer("ltr_workers")
    for command in plugin_commands().commands:
        if command.function and command.public_name == name:
            return function_of(command)
    return None


def plugin_answer(hook: str) -> Any:
    """What the first plugin of this group that has a hook returns for it, or None."""
    for point in sorted(entry_points(group=GROUP), key=_shipped_first):
        with third_party_import():
            module = point.load()
        if hasattr(module, hook):
            return getattr(module, hook)()
    return None


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
    if not isinstance(offered, list) or not all(isinstance(one, Command) for one in offered):
        raise PluginError(f"its ltr_commands() returns {offered!r}: return a list of Command")
    return offered
