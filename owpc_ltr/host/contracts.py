"""What a plugin class must have, read off the protocol of its kind: claims, properties, methods.

Everything is looked at before it is called, so that what is missing is one line that says what to
add. Whether claims hold, and what methods return, is for `owpc_ltr.plugin_checks` and for training.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from owpc_ltr import protocols
from owpc_ltr.errors import PluginError

PROTOCOLS: Mapping[str, type[Any]] = MappingProxyType(
    {
        "loss": protocols.Loss,
        "optimizer": protocols.Optimizer,
        "reranker": protocols.Reranker,
        "judgment-reader": protocols.JudgmentReader,
        "export-target": protocols.ExportTarget,
        "click-model": protocols.ClickModel,
    }
)
"""The protocol of each kind whose plugins extend nothing."""

_METRIC = ("owpc_ltr.metrics.metric", "Metric")


def checked_name(kind: str, cls: Any) -> str:
    """The name of a plugin class that has all that its kind asks for.

    Raises PluginError, in one line, with everything that is missing and what to add.
    """
    if not isinstance(cls, type):
        raise PluginError(
            f"it offers the {kind} {cls!r}, which is no class: offer the class itself"
        )
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or name != name.lower() or " " in name or not name:
        raise PluginError(
            f"{kind} {cls.__name__} needs a class attribute `name` in lower case, not {name!r}"
        )
    if not (dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise PluginError(
            f"{kind} '{name}' must be a frozen dataclass: its fields are its settings"
        )
    faults = list(_faults(kind, cls))
    if faults:
        raise PluginError(f"{kind} '{name}' {'; it '.join(faults)}")
    return name


def _faults(kind: str, cls: type[Any]) -> Iterator[str]:
    """What is wrong with a class, each as `has no …`."""
    protocol: Any = _metric_of(cls) if kind == "metric" else PROTOCOLS[kind]
    if protocol is None:
        yield "does not extend owpc_ltr.metrics.Metric"
        return
    missing = [words for name, words in _members(protocol) if not hasattr(cls, name)]
    missing += [_words(protocol, name) for name in sorted(getattr(cls, "__abstractmethods__", ()))]
    yield from (f"has no {words}" for words in missing)
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
    except Exception as error:  # noqa: BLE001 - a stranger's code may raise anything
        yield f"cannot be made with its default settings: {_in_one_line(error)}"
        return
    yield from _faults_of(protocol, default)


def _faults_of(protocol: Any, plugin: Any) -> Iterator[str]:
    """What is wrong with a plugin object that has everything by name."""
    for name, hint in _values(protocol).items():
        try:
            value = getattr(plugin, name)
        except Exception as error:  # noqa: BLE001 - a property is a stranger's code
            yield f"cannot tell its {name}: {_in_one_line(error)}"
            continue
        wanted = get_origin(hint) or hint
        if isinstance(wanted, type) and (
            not isinstance(value, wanted) or (wanted is not bool and isinstance(value, bool))
        ):
            yield f"has {name} = {value!r}, which must be {_type_words(hint)}"
    for name, asked in _methods(protocol).items():
        method = getattr(plugin, name)
        if not callable(method):
            yield f"has {name} = {method!r}, which must be the method {_method_words(name, asked)}"
            continue
        fault = _signature_fault(name, method, asked)
        if fault:
            yield fault


def _signature_fault(name: str, method: Any, asked: inspect.Signature) -> str:
    """Why the host could not call a method, or nothing: with all arguments, and without options."""
    try:
        own = inspect.signature(method)
    except (TypeError, ValueError):
        # What is compiled may not tell: it is called all the same.
        return ""
    needed = [one for one in asked.parameters.values() if one.default is inspect.Parameter.empty]
    for count, what in ((len(asked.parameters), "all of them"), (len(needed), "those needed")):
        try:
            own.bind(*range(count))
        except TypeError as error:
            called = f"called with {what}: {error}"
            return f"must take {_method_words(name, asked)}, and {called}"
    return ""


def _members(protocol: Any) -> Iterator[tuple[str, str]]:
    """Everything that a protocol asks for by name, and how it is written."""
    for name in (*_values(protocol), *_methods(protocol)):
        yield name, _words(protocol, name)


def _words(protocol: Any, name: str) -> str:
    """A member as an author writes it: `convex: ClassVar[bool]`, `fit(loss, data, run)`."""
    if name in _values(protocol):
        return f"{name}: ClassVar[{_type_words(_values(protocol)[name])}]"
    return _method_words(name, _methods(protocol)[name])


def _method_words(name: str, asked: inspect.Signature) -> str:
    parts = [
        one.name if one.default is inspect.Parameter.empty else f"{one.name}={one.default!r}"
        for one in asked.parameters.values()
    ]
    return f"{name}({', '.join(parts)})"


def _type_words(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


@functools.cache
def _values(protocol: Any) -> dict[str, Any]:
    """What is a value of a plugin by its protocol, class variable or property, and its type."""
    found: dict[str, Any] = {}
    for base in reversed(protocol.__mro__):
        if base.__module__.partition(".")[0] != "owpc_ltr":
            continue
        hints = get_type_hints(base)
        for name in inspect.get_annotations(base):
            if get_origin(hints[name]) is ClassVar and not name.startswith("_"):
                found[name] = get_args(hints[name])[0]
        for name, member in vars(base).items():
            if isinstance(member, property) and member.fget and not name.startswith("_"):
                found[name] = get_type_hints(member.fget)["return"]
    return found


@functools.cache
def _methods(protocol: Any) -> dict[str, inspect.Signature]:
    """The methods of a protocol, without self; of a base class, those that it leaves open."""
    open_only = getattr(protocol, "__abstractmethods__", None) if protocol not in _KNOWN else None
    found: dict[str, inspect.Signature] = {}
    for base in reversed(protocol.__mro__):
        if base.__module__.partition(".")[0] != "owpc_ltr":
            continue
        for name, member in vars(base).items():
            asked = inspect.isfunction(member) and not name.startswith("_")
            if asked and (open_only is None or name in open_only):
                signature = inspect.signature(member)
                given = list(signature.parameters.values())[1:]
                found[name] = signature.replace(parameters=given)
    return found


_KNOWN = frozenset(PROTOCOLS.values())


def _metric_of(cls: type[Any]) -> Any:
    """The class of metrics that this one extends; by name, for the host imports no metrics."""
    for base in cls.__mro__[1:]:
        if (base.__module__, base.__qualname__) == _METRIC:
            return base
    return None


def _in_one_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
