"""Settings: `loss.generator=top` becomes `OWPC(generator="top")`, from the dataclass fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from owpc_ltr.errors import UsageError

T = TypeVar("T")


def parse_settings(texts: list[str]) -> dict[str, dict[str, str]]:
    """Group `kind.field=value` by kind.

    >>> parse_settings(["loss.generator=top", "loss.p=5", "optimizer.C=10"])
    {'loss': {'generator': 'top', 'p': '5'}, 'optimizer': {'C': '10'}}
    """
    grouped: dict[str, dict[str, str]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        kind, dot, name = path.partition(".")
        if not (equals and dot and name):
            raise UsageError(
                f"cannot read the setting '{text}': write it as loss.FIELD=VALUE, "
                "optimizer.FIELD=VALUE, reranker.FIELD=VALUE or target.FIELD=VALUE"
            )
        grouped.setdefault(kind.strip(), {})[name.strip()] = value.strip()
    return grouped


def named_settings(texts: Iterable[str]) -> dict[str, str]:
    """Each `kind.field=value` under its full name.

    >>> named_settings(["loss.generator=top", "optimizer.C=10"])
    {'loss.generator': 'top', 'optimizer.C': '10'}
    """
    return {
        f"{kind}.{name}": value
        for kind, values in parse_settings(list(texts)).items()
        for name, value in values.items()
    }


def configure(cls: type[T], values: Mapping[str, Any]) -> T:
    """Make a plugin object from settings given as text or as values.

    Raises UsageError naming the plugin, the setting, the value and what would do.
    """
    plugin = getattr(cls, "name", cls.__name__)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    for name in values:
        if name not in fields:
            known = ", ".join(describe_settings(cls)) or "none"
            raise UsageError(f"'{plugin}' has no setting '{name}'; its settings: {known}")
    converted = {
        name: convert(plugin, name, value, hints[name]) if isinstance(value, str) else value
        for name, value in values.items()
    }
    try:
        return cls(**converted)
    except ValueError as error:
        raise UsageError(f"'{plugin}' refuses its settings: {error}") from error


def describe_settings(cls: type[Any]) -> list[str]:
    """Each setting as `name=default`."""
    return [
        f"{field.name}={_plain(field.default)}" for field in dataclasses.fields(cls) if field.init
    ]


def values_of(plugin: Any) -> dict[str, Any]:
    """The settings of a plugin object, as JSON."""
    return {
        field.name: getattr(plugin, field.name)
        for field in dataclasses.fields(plugin)
        if field.init
    }


def convert(plugin: str, name: str, text: str, hint: Any) -> Any:
    """A setting's text as its type says. Raises UsageError naming plugin, setting and type."""
    refusal = UsageError(f"'{plugin}' cannot take {name}={text}: it must be {_describe_type(hint)}")
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        for choice in arguments:
            if str(choice) == text:
                return choice
        raise refusal
    if origin in {Union, UnionType}:
        if NoneType in arguments and text.lower() in {"", "none"}:
            return None
        hint = next(argument for argument in arguments if argument is not NoneType)
        return convert(plugin, name, text, hint)
    if hint is bool:
        if text.lower() in {"true", "yes", "1"}:
            return True
        if text.lower() in {"false", "no", "0"}:
            return False
        raise refusal
    try:
        return hint(text)
    except (TypeError, ValueError):
        raise refusal from None


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def _describe_type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(hint, str(hint))
