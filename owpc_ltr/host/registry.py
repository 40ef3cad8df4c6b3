"""Finds plugins: those installed under the entry-point group `owpc_ltr`, and named files.

A plugin is imported when it is asked for. The shipped ones are found by their entry point's name,
which is the plugin's own, and by their package, which has plugins of one kind; a stranger's may
have any name and kind, so that all of them are looked into, and a name that two offer is refused.
One broken plugin does not stop the commands that do not need it: it is kept as a failure, and
named as soon as somebody asks for a name that is not there.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pluggy

from owpc_ltr.compiling import keep_privately
from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.host import hookspecs
from owpc_ltr.host.contracts import checked_name
from owpc_ltr.host.third_party import reason_of, third_party_import
from owpc_ltr.ownership import why_unsafe

T = TypeVar("T")

KINDS = {
    "loss": "ltr_losses",
    "optimizer": "ltr_optimizers",
    "reranker": "ltr_rerankers",
    "metric": "ltr_metrics",
    "judgment-reader": "ltr_judgment_readers",
    "export-target": "ltr_export_targets",
    "click-model": "ltr_click_models",
}
"""Each kind of plugin and the hook that offers it."""

SHIPPED = "owpc-ltr"
"""The distribution whose entry points are named as the plugins that they offer."""

PACKAGES = {
    "owpc_ltr_losses": "loss",
    "owpc_ltr_optimizers": "optimizer",
    "owpc_ltr_rerankers": "reranker",
    "owpc_ltr_metrics": "metric",
    "owpc_ltr_judgments": "judgment-reader",
    "owpc_ltr_exports": "export-target",
    "owpc_ltr_clicks": "click-model",
}
"""What kind the plugins of a shipped package are: who asks for one kind imports no other."""


@dataclass(frozen=True)
class Plugin:
    """One offered class, and where it is from (`distribution version` or a file)."""

    kind: str
    name: str
    cls: type[Any]
    source: str

    @property
    def shipped(self) -> bool:
        """Whether it comes with owpc-ltr itself."""
        return self.source.startswith(f"{SHIPPED} ")


@dataclass(frozen=True)
class Failure:
    """A plugin that could not be loaded, and why."""

    plugin: str
    source: str
    reason: str

    def __str__(self) -> str:
        return f"plugin '{self.plugin}' ({self.source}) failed to load: {self.reason}"


@dataclass(frozen=True)
class Entry:
    """A plugin that is installed and not imported yet; `shipped` ones are named as their offer.

    `kind` is what it is known to offer; without one it may offer anything.
    """

    name: str
    source: str
    shipped: bool
    load: Callable[[], ModuleType]
    kind: str | None = None

    def may_offer(self, kind: str | None) -> bool:
        """Whether a plugin of the kind can be in it; None stands for any."""
        return kind is None or self.kind in {None, kind}


class Registry:
    """All plugins that were found; see `load`.

    What is installed is imported when it is first needed, and stays as it is afterwards.
    """

    def __init__(
        self,
        plugins: Iterable[Plugin],
        failures: Iterable[Failure] = (),
        entries: Iterable[Entry] = (),
    ) -> None:
        """Index plugins by kind and name. Raises PluginError where two have one name."""
        self._lock = threading.RLock()
        # Beside each, the kind that it is known to be of.
        self._failures: list[tuple[Failure, str | None]] = [(f, None) for f in failures]
        self._waiting = list(entries)
        self._plugins: dict[tuple[str, str], Plugin] = {}
        for plugin in plugins:
            self._add(plugin)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The installed plugins that cannot be loaded; imports them all."""
        self._import(lambda _: True)
        return tuple(failure for failure, _ in self._failures)

    def failures_of(self, kind: str) -> tuple[Failure, ...]:
        """The installed plugins that cannot be loaded and may be of a kind; imports these."""
        self._import(lambda entry: entry.may_offer(kind))
        return tuple(failure for failure, of in self._failures if of in {None, kind})

    def find(self, kind: str, name: str) -> type[Any]:
        """The class of a plugin.

        Raises PluginError, naming what there is and which plugins failed to load.
        """
        plugin = self.look_up(kind, name)
        if plugin is None:
            known = ", ".join(plugin.name for plugin in self.all(kind)) or "none"
            failed = "".join(f"; {failure}" for failure in self.failures_of(kind))
            raise PluginError(f"no {kind} is named '{name}'; installed: {known}{failed}")
        return plugin.cls

    def look_up(self, kind: str, name: str, importing: bool = True) -> Plugin | None:
        """A plugin, or None where there is none.

        Imports only what may offer it; without `importing`, a shipped one is found only if it
        was imported before.
        """
        self._import(
            lambda entry: (
                not entry.shipped or (importing and entry.name == name and entry.may_offer(kind))
            )
        )
        return self._plugins.get((kind, name))

    def all(self, kind: str | None = None) -> list[Plugin]:
        """All plugins (of a kind), by kind and name; imports what may offer one."""
        self._import(lambda entry: entry.may_offer(kind))
        chosen = (p for p in self._plugins.values() if kind in {None, p.kind})
        return sorted(chosen, key=lambda plugin: (list(KINDS).index(plugin.kind), plugin.name))

    def _import(self, needed: Callable[[Entry], bool]) -> None:
        # Fits that run side by side ask one registry, and nothing may be imported twice.
        with self._lock:
            for entry in [entry for entry in self._waiting if needed(entry)]:
                self._load(entry)

    def _load(self, entry: Entry) -> None:
        try:
            with third_party_import():
                offered = _offers(entry.load(), entry.source)
        except Exception as error:  # noqa: BLE001 - a stranger's code; kept and named in `find`
            failure = Failure(entry.name, entry.source, reason_of(error))
            self._failures.append((failure, entry.kind))
            offered = []
        # What is refused stays waiting, so that it is refused to whoever asks next, too.
        for plugin in offered:
            self._refuse_twin(plugin)
        self._waiting.remove(entry)
        for plugin in offered:
            self._add(plugin)

    def _add(self, plugin: Plugin) -> None:
        self._refuse_twin(plugin)
        self._plugins[plugin.kind, plugin.name] = plugin

    def _refuse_twin(self, plugin: Plugin) -> None:
        other = self._plugins.get((plugin.kind, plugin.name))
        if other is not None:
            raise PluginError(
                f"two plugins offer the {plugin.kind} '{plugin.name}': {other.source} and "
                f"{plugin.source}; rename or uninstall one"
            )


def load(files: Iterable[Path | str] = ()) -> Registry:
    """Every installed plugin, to be imported when it is needed, and the given files.

    An installed plugin that breaks is kept in `failures`; a file that breaks raises PluginError,
    because the user asked for just that one.
    """
    plugins: list[Plugin] = []
    for path in map(Path, files):
        try:
            with third_party_import():
                plugins += _offers(_load_file(path), str(path))
        except PluginError as error:
            raise PluginError(f"{path}: {error}") from error
        except Exception as error:
            raise PluginError(f"plugin {path} failed to load: {reason_of(error)}") from error
    found = sorted(entry_points(group=hookspecs.PROJECT), key=lambda entry: entry.name)
    return Registry(plugins, entries=_entries(found))


@functools.cache
def installed() -> Registry:
    """What is installed, without any file: the registry of whoever names none."""
    return load()


def class_of(kind: str, plugin: type[T] | str) -> type[T]:
    """The plugin's class, which may be given by its name if it is installed.

    Raises PluginError for a name that is not installed, UsageError for what is neither.
    """
    if isinstance(plugin, str):
        found: type[T] = installed().find(kind, plugin)
        return found
    if not isinstance(plugin, type):
        raise UsageError(
            f"{plugin!r} is no class of a plugin: give the {kind}'s name or class, and its "
            f"settings as {kind}.FIELD"
        )
    return plugin


def _entries(points: list[EntryPoint]) -> list[Entry]:
    # A distribution parses its whole metadata for each question.
    distributions = {id(point.dist): point.dist for point in points if point.dist is not None}
    known = {key: (one.name, one.version) for key, one in distributions.items()}
    return [_entry(point, known.get(id(point.dist))) for point in points]


def _entry(point: EntryPoint, distribution: tuple[str, str] | None) -> Entry:
    """An entry point of a distribution, which has a name and a version."""
    source = " ".join(distribution) if distribution else point.value
    shipped = distribution is not None and distribution[0] == SHIPPED
    kind = PACKAGES.get(point.value.partition(".")[0]) if shipped else None
    return Entry(point.name, source, shipped, point.load, kind)


def _offers(module: ModuleType, source: str) -> list[Plugin]:
    """What one module offers, through a manager of its own, so that one cannot harm another."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    if not manager.register(module) or not any(
        caller.get_hookimpls() for caller in manager.hook.__dict__.values()
    ):
        raise PluginError(f"it implements none of the hooks {', '.join(KINDS.values())}")
    # A misspelt hook is an error here, not silence.
    manager.check_pending()
    found: list[Plugin] = []
    for kind, hook in KINDS.items():
        for implementation in getattr(manager.hook, hook).get_hookimpls():
            classes = implementation.function()
            if not isinstance(classes, Iterable) or isinstance(classes, type):
                raise PluginError(f"its {hook}() returns {classes!r}: return a list of classes")
            found += [Plugin(kind, checked_name(kind, cls), cls, source) for cls in classes]
    return found


def _load_file(path: Path) -> ModuleType:
    """The module of a local file: of its source, never of bytecode that lies beside it.

    Raises PluginError for a file that somebody else can write, in whose name it would run.
    """
    try:
        source = path.read_bytes()
        unsafe = why_unsafe(path)
    except OSError as error:
        raise PluginError("there is no such file") from error
    if unsafe:
        raise PluginError(
            f"it is not loaded, for {unsafe}: make a copy in a folder that only you can write"
        )
    if path.suffix != ".py":
        raise PluginError("it is not a Python file (.py)")
    specification = ModuleSpec(f"owpc_ltr_file_{path.stem}", None, origin=str(path))
    specification.has_location = True
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up by name while they are made.
    sys.modules[specification.name] = module
    keep_privately()
    code = compile(source, str(path), "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - the user named it, and nobody else can write it
    return module
