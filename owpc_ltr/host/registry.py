"""Finds plugins: those installed under the entry-point group `owpc_ltr`, and named files.

A plugin is imported when it is needed. The shipped ones are found by their entry point's name,
which is the plugin's own, and by their package, which has plugins of one kind; third-party ones may
have any name and kind, so that all of them are looked into, and a name that two offer is refused.
One broken plugin does not stop the commands that do not need it: it is kept as a failure, and
named as soon as somebody asks for a name that is not there.

What a plugin class must have is read off the protocol of its kind: claims, properties, methods.
Everything is looked at before it is called, so that what is missing is one line that says what to
add. Whether claims hold, and what methods return, is for `owpc_ltr.plugin_checks` and for training.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import pluggy

from owpc_ltr import protocols
from owpc_ltr.compiling import keep_privately
from owpc_ltr.errors import PluginError, reason_of
from owpc_ltr.files.input import why_unsafe
from owpc_ltr.host import hookspecs
from owpc_ltr.host.commands import GROUP, third_party_import
from owpc_ltr.names import did_you_mean

T = TypeVar("T")

_PLUGIN_KINDS: tuple[tuple[str, str, str, type[Any] | None], ...] = (
    ("loss", "ltr_losses", "owpc_ltr_losses", protocols.Loss),
    ("optimizer", "ltr_optimizers", "owpc_ltr_optimizers", protocols.Optimizer),
    ("reranker", "ltr_rerankers", "owpc_ltr_rerankers", protocols.Reranker),
    ("metric", "ltr_metrics", "owpc_ltr_metrics", None),
    ("judgment-reader", "ltr_judgment_readers", "owpc_ltr_judgments", protocols.JudgmentReader),
    ("export-target", "ltr_export_targets", "owpc_ltr_exports", protocols.ExportTarget),
    ("click-model", "ltr_click_models", "owpc_ltr_clicks", protocols.ClickModel),
)
"""Each kind of plugin, the hook that offers it, the shipped package of that kind, the protocol.

Metrics extend a class instead. Loading one kind imports no package of another.
"""
KINDS = {kind: hook for kind, hook, _, _ in _PLUGIN_KINDS}
PACKAGES = {package: kind for kind, _, package, _ in _PLUGIN_KINDS}
PROTOCOLS = {kind: protocol for kind, _, _, protocol in _PLUGIN_KINDS if protocol is not None}

SHIPPED = "owpc-ltr"
"""The distribution whose entry points are named as the plugins that they offer."""

CHOICES = ("loss", "optimizer", "reranker", "metric")
"""The kinds that a parameter of their name chooses."""

_BOOSTING = {"optimizer": "boosting"}
_LAMBDAMART = {"loss": "lambdarank", **_BOOSTING}
_OTHER_NAMES = {
    **dict.fromkeys(("xgboost", "lightgbm", "catboost", "gbdt", "trees"), _BOOSTING),
    **dict.fromkeys(("lambdamart", "lambda-mart", "mart"), _LAMBDAMART),
    "ranknet": {"loss": "pairwise", "optimizer": "gradient"},
}
"""What to choose for a name of another library or of the literature."""


def chosen(plugins: Mapping[str, str]) -> str:
    """How plugins are chosen.

    >>> chosen({"loss": "lambdarank", "optimizer": "boosting"})
    "`train(loss='lambdarank', optimizer='boosting')`"
    """
    return f"`train({', '.join(f'{kind}={name!r}' for kind, name in plugins.items())})`"


_FILE = "owpc_ltr_file_"
"""How the module of a plugin file is called, before the file's own name."""


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

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its name, and those of a metric's variants."""
        variants = getattr(self.cls, "variants", {})
        return (self.name, *(f"{self.name}-{suffix}" for suffix in variants))


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

    def __init__(self, plugins: Iterable[Plugin], entries: Iterable[Entry] = ()) -> None:
        """Index plugins by kind and name. Raises PluginError where two have one name."""
        self._lock = threading.RLock()
        # Each with its kind, if that is known.
        self._failures: list[tuple[Failure, str | None]] = []
        self._waiting = list(entries)
        self._plugins: dict[tuple[str, str], Plugin] = {}
        for plugin in plugins:
            self._add(plugin)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The installed plugins that cannot be loaded; imports them all."""
        return self.failures_of(None)

    def failures_of(self, kind: str | None) -> tuple[Failure, ...]:
        """The installed plugins that cannot be loaded and may be of a kind; imports these."""
        self._import(lambda entry: entry.may_offer(kind))
        return tuple(failure for failure, of in self._failures if None in {kind, of} or kind == of)

    def find(self, kind: str, name: str) -> type[Any]:
        """The class of a plugin.

        Raises PluginError, naming what there is and which plugins failed to load.
        """
        plugin = self.look_up(kind, name)
        if plugin is None:
            names = [plugin.name for plugin in self.all(kind)]
            failed = "".join(f"; {failure}" for failure in self.failures_of(kind))
            raise PluginError(
                f"no {kind} is named '{name}'{self.meant(name, names)}; installed: "
                f"{', '.join(names) or 'none'}{failed}"
            )
        return plugin.cls

    def meant(self, name: str, names: Iterable[str]) -> str:
        """The end of a message on a name that none of the `names` is: what is meant, if known."""
        plain = name.lower()
        if plain in _OTHER_NAMES:
            return f": use {chosen(_OTHER_NAMES[plain])}"
        for plugin in self.all():
            if plugin.name == plain and plugin.kind in CHOICES and plain not in names:
                return f": use {chosen({plugin.kind: plain})}"
        question = did_you_mean(name, names)
        return question and f": {question}"

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

    def all(self, kind: str | None = None, shipped: Collection[str] | None = None) -> list[Plugin]:
        """All plugins (of a kind), by kind and name; imports what may offer one.

        With `shipped`, only these of the shipped ones, and every third-party one.
        """
        self._import(
            lambda entry: (
                entry.may_offer(kind)
                and (shipped is None or not entry.shipped or entry.name in shipped)
            )
        )
        chosen = (
            plugin
            for plugin in self._plugins.values()
            if kind in {None, plugin.kind}
            and (shipped is None or not plugin.shipped or plugin.name in shipped)
        )
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
        except Exception as error:  # noqa: BLE001 - third-party code; kept and named in `find`
            failure = Failure(entry.name, entry.source, reason_of(error))
            self._failures.append((failure, entry.kind))
            offered = []
        # An entry that is refused stays in the list, and is refused again to the next caller.
        for plugin in offered:
            self._refuse_twin(plugin)
        self._waiting.remove(entry)
        for plugin in offered:
            self._add(plugin)

    def _add(self, plugin: Plugin) -> None:
        self._refuse_twin(plugin)
        self._plugins[plugin.kind, plugin.name] = plugin

    def _refuse_twin(self, plugin: Plugin) -> None:
        first = self._plugins.get((plugin.kind, plugin.name))
        # The entries of one module offer all that is in it, each time the same.
        if first is not None and first != plugin:
            raise PluginError(
                f"two plugins offer the {plugin.kind} '{plugin.name}': {first.source} and "
                f"{plugin.source}; rename or uninstall one"
            )


def load(files: Iterable[Path | str] = ()) -> Registry:
    """Every installed plugin, to be imported when it is needed, and the given files.

    An installed plugin that breaks is kept in `failures`; a file that breaks raises PluginError,
    because the user asked for just that one.
    """
    plugins: list[Plugin] = []
    for path in dict.fromkeys(map(Path, files)):
        try:
            with third_party_import():
                plugins += _offers(_module_of_file(path), str(path))
        except PluginError as error:
            raise PluginError(f"{path}: {error}") from error
        except Exception as error:
            raise PluginError(f"plugin {path} failed to load: {reason_of(error)}") from error
    points = sorted(entry_points(group=hookspecs.PROJECT), key=lambda point: point.name)
    return Registry(plugins, entries=_entries(points))


def _module_of_file(path: Path) -> ModuleType:
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
    specification = ModuleSpec(f"{_FILE}{path.stem}", None, origin=str(path))
    specification.has_location = True
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up by name while they are made.
    sys.modules[module.__name__] = module
    keep_privately()
    code = compile(source, str(path), "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - the user named it, and nobody else can write it
    return module


def place_in_plugin(error: BaseException) -> str:
    """File and line of a third-party plugin where an error arose, empty where none had a part."""
    points = (*entry_points(group=hookspecs.PROJECT), *entry_points(group=GROUP))
    foreign = (point for point in points if point.dist is None or point.dist.name != SHIPPED)
    modules = {point.module.partition(".")[0] for point in foreign}
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module.startswith(_FILE) or module in modules:
            return f"{frame.f_code.co_filename}, line {line}"
    return ""


@functools.cache
def installed() -> Registry:
    """The installed plugins, without any plugin file."""
    return load()


def class_of(kind: str, plugin: type[T] | str) -> type[T]:
    """The plugin's class, which may be given by its name if it is installed.

    Raises PluginError for a name that is not installed.
    """
    if isinstance(plugin, str):
        cls: type[T] = installed().find(kind, plugin)
        return cls
    return plugin


def checked_name(kind: str, cls: object) -> str:
    """The name of a plugin class that has all that its kind asks for.

    Raises PluginError, in one line, with everything that is missing and what to add.
    """
    if not isinstance(cls, type):
        raise PluginError(
            f"it offers the {kind} {cls!r}, which is not a class: offer the class itself"
        )
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or name != name.lower() or " " in name or not name:
        raise PluginError(
            f"{kind} {cls.__name__} needs a class attribute 'name' in lower case, not {name!r}"
        )
    if not (dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise PluginError(
            f"{kind} '{name}' must be a frozen dataclass: its fields are its settings"
        )
    faults = list(_faults(kind, cls))
    if faults:
        raise PluginError(f"{kind} '{name}' {'; it '.join(faults)}")
    return name


def _entries(points: list[EntryPoint]) -> Iterator[Entry]:
    # A distribution parses its whole metadata for each question.
    distributions = {id(point.dist): point.dist for point in points if point.dist is not None}
    sources = {key: (dist.name, dist.version) for key, dist in distributions.items()}
    for point in points:
        name, version = sources.get(id(point.dist), (None, ""))
        source = point.value if name is None else f"{name} {version}"
        kind = PACKAGES.get(point.value.partition(".")[0]) if name == SHIPPED else None
        yield Entry(point.name, source, name == SHIPPED, point.load, kind)


def _offers(module: ModuleType, source: str) -> list[Plugin]:
    """What one module offers, through a manager of its own, so that one cannot harm another."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    if not manager.register(module) or not any(
        caller.get_hookimpls() for caller in manager.hook.__dict__.values()
    ):
        raise PluginError(
            f"it implements none of the hooks {', '.join(KINDS.values())}{_hook_meant(module)}"
        )
    # A misspelt hook is an error here, not silence.
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(f"it implements an unknown hook{_hook_meant(module)}") from error
    plugins: list[Plugin] = []
    for kind, hook in KINDS.items():
        for implementation in getattr(manager.hook, hook).get_hookimpls():
            classes = implementation.function()
            if not isinstance(classes, Iterable) or isinstance(classes, type):
                raise PluginError(f"its {hook}() returns {classes!r}: return a list of classes")
            plugins += [Plugin(kind, checked_name(kind, cls), cls, source) for cls in classes]
    return plugins


def _hook_meant(module: ModuleType) -> str:
    """What is wrong with the function that was to be a hook, where there is one."""
    for name, value in vars(module).items():
        if not (name.startswith("ltr_") and callable(value)):
            continue
        if name not in KINDS.values():
            question = did_you_mean(name, KINDS.values())
            return f": {name}() is not a hook{question and f': {question}'}"
        if not hasattr(value, f"{hookspecs.PROJECT}_impl"):
            return f": write @hookimpl above {name}()"
    return ""


def _faults(kind: str, cls: type[Any]) -> Iterator[str]:
    """What is wrong with a class, each as `has no …`."""
    protocol: Any = _metric_of(cls) if kind == "metric" else PROTOCOLS[kind]
    if protocol is None:
        yield "does not extend owpc_ltr.metrics.Metric"
        return
    members = _members(protocol)
    missing = [name for name in members if not hasattr(cls, name)]
    missing += sorted(getattr(cls, "__abstractmethods__", ()))
    yield from (f"has no {_words(name, members[name])}" for name in missing)
    bare = [
        field.name
        for field in dataclasses.fields(cls)
        if field.init
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    yield from (f"has no default for its setting '{name}'" for name in bare)
    if missing or bare:
        return
    try:
        default = cls()
    except Exception as error:  # noqa: BLE001 - third-party code may raise anything
        yield f"cannot be made with its default settings: {reason_of(error)}"
        return
    for name, member in members.items():
        try:
            value = getattr(default, name)
        except Exception as error:  # noqa: BLE001 - a property is third-party code
            yield f"cannot tell its {name}: {reason_of(error)}"
            continue
        if isinstance(member, inspect.Signature):
            yield from _method_faults(name, value, member)
            continue
        required = get_origin(member) or member
        if isinstance(required, type) and (
            not isinstance(value, required) or (required is not bool and isinstance(value, bool))
        ):
            yield f"has {name} = {value!r}, which must be {_type_words(member)}"


def _method_faults(name: str, method: object, required: inspect.Signature) -> Iterator[str]:
    """Why the host could not call a method with all arguments, or without optional ones."""
    if not callable(method):
        yield f"has {name} = {method!r}, which must be the method {_words(name, required)}"
        return
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return  # compiled code may have no signature: it is called nevertheless
    parameters = required.parameters.values()
    needed = sum(parameter.default is inspect.Parameter.empty for parameter in parameters)
    for count, what in ((len(parameters), "all of them"), (needed, "those needed")):
        try:
            signature.bind(*range(count))
        except TypeError as error:
            yield f"must take {_words(name, required)}, and called with {what}: {error}"
            return


def _words(name: str, member: object) -> str:
    """A member as an author writes it: `convex: ClassVar[bool]`, `fit(loss, data, run)`."""
    if not isinstance(member, inspect.Signature):
        return f"{name}: ClassVar[{_type_words(member)}]"
    parts = [
        parameter.name
        if parameter.default is inspect.Parameter.empty
        else f"{parameter.name}={parameter.default!r}"
        for parameter in member.parameters.values()
    ]
    return f"{name}({', '.join(parts)})"


def _type_words(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


@functools.cache
def _members(protocol: Any) -> dict[str, Any]:
    """What a protocol requires by name: values with their types, then methods, without self.

    A value is a class variable or a property. Of a base class, only abstract methods are required.
    """
    is_protocol = protocol in PROTOCOLS.values()
    values: dict[str, Any] = {}
    methods: dict[str, inspect.Signature] = {}
    for base in reversed(protocol.__mro__):
        if base.__module__.partition(".")[0] != "owpc_ltr":
            continue
        for name, hint in get_type_hints(base).items():
            if name in inspect.get_annotations(base) and get_origin(hint) is ClassVar:
                values[name] = get_args(hint)[0]
        for name, member in vars(base).items():
            if isinstance(member, property):
                values[name] = get_type_hints(member.fget)["return"]
            elif inspect.isfunction(member) and (
                is_protocol or name in protocol.__abstractmethods__
            ):
                signature = inspect.signature(member)
                parameters = list(signature.parameters.values())[1:]
                methods[name] = signature.replace(parameters=parameters)
    members = {**values, **methods}
    return {name: member for name, member in members.items() if not name.startswith("_")}


def _metric_of(cls: type[Any]) -> Any:
    """The class of metrics that this one extends; by name, since the host imports no metrics."""
    for base in cls.__mro__[1:]:
        if (base.__module__, base.__qualname__) == ("owpc_ltr.metrics.metric", "Metric"):
            return base
    return None
