"""Reads a metric from its text, `NAME[@CUTOFF][,OPTION=VALUE]…`, among the plugins there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.host.registry import Plugin, Registry, installed
from owpc_ltr.host.settings import convert
from owpc_ltr.metrics.metric import Metric, field_types


def parse_metric(metric: str | Metric, registry: Registry | None = None) -> Metric:
    """Read a metric from its name, cutoff and options; a `Metric` is what it is.

    Names are those of the registry's metrics, or without one of what is installed, and only the
    metric that is asked for is imported.

    >>> parse_metric("ndcg@10,ties=file-order").ties
    'file-order'
    >>> str(parse_metric("ndcg-letor@3, empty=skip"))
    'ndcg-letor@3,empty=skip'

    Raises UsageError naming the part that is not known, and what is.
    """
    if isinstance(metric, Metric):
        return metric
    head, *options = [part.strip() for part in metric.strip().lower().split(",")]
    name, at, cutoff = head.partition("@")
    if at and not (cutoff.isascii() and cutoff.isdigit()):
        raise UsageError(f"'{head}' is no metric: write a whole number after @, as in {name}@10")
    cls, preset = _find(name, installed() if registry is None else registry)
    plain = cls(cutoff=int(cutoff) if at else None, **preset)
    given = dict(_read_option(plain, option) for option in options)
    if len(given) < len(options):
        raise UsageError(f"'{metric}' names an option twice: give each one value")
    try:
        return replace(plain, **given)
    except ValueError as error:
        raise UsageError(f"'{name}' refuses its options: {error}") from error


def _find(name: str, registry: Registry) -> tuple[type[Metric], Mapping[str, Any]]:
    """The class of this name, and what the name sets where it is a variant's."""
    found = list(_offers(name, registry))
    if not found:
        known = [spelling for plugin in registry.all("metric") for spelling in _spellings(plugin)]
        failed = "".join(f"; {failure}" for failure in registry.failures)
        raise UsageError(
            f"there is no metric '{name}'; known: {', '.join(known)} "
            f"(with a cutoff: ndcg@10){failed}"
        )
    if len(found) > 1:
        sources = " and ".join(f"'{plugin.name}' of {plugin.source}" for plugin, _ in found)
        raise PluginError(
            f"two plugins offer the metric '{name}': {sources}; rename or uninstall one"
        )
    (plugin, preset), *_ = found
    if not issubclass(plugin.cls, Metric):
        raise PluginError(
            f"metric '{name}' of {plugin.source} cannot be used: {plugin.cls.__name__} must extend "
            "owpc_ltr.metrics.Metric"
        )
    return plugin.cls, preset


def _offers(name: str, registry: Registry) -> Iterator[tuple[Plugin, Mapping[str, Any]]]:
    """Every metric that the name could stand for: `a-b-c`, variant c of `a-b`, b-c of `a`."""
    exact = registry.look_up("metric", name)
    if exact is not None:
        yield exact, {}
    # No shipped metric has the name of another's variant: only a stranger's can be in doubt.
    importing = exact is None or not exact.shipped
    for place in (place for place, letter in enumerate(name) if letter == "-"):
        plugin = registry.look_up("metric", name[:place], importing)
        variants = {} if plugin is None else getattr(plugin.cls, "variants", {})
        if plugin is not None and name[place + 1 :] in variants:
            yield plugin, variants[name[place + 1 :]]


def _spellings(plugin: Plugin) -> tuple[str, ...]:
    variants = getattr(plugin.cls, "variants", {})
    return (plugin.name, *(f"{plugin.name}-{suffix}" for suffix in variants))


def _read_option(metric: Metric, text: str) -> tuple[str, Any]:
    option, equals, value = (part.strip() for part in text.partition("="))
    known = metric.options
    if not equals or option not in known:
        raise UsageError(
            f"'{metric}' has no option '{text}'; write OPTION=VALUE with one of: "
            + ", ".join(known)
        )
    name = option.replace("-", "_")
    return name, _read_value(metric.name, option, value, field_types(type(metric))[name])


def _read_value(name: str, option: str, text: str, hint: Any) -> Any:
    """A value of the field's type; what `Metric` refuses itself is passed on to be refused."""
    if get_origin(hint) is Literal:
        return next((choice for choice in get_args(hint) if str(choice) == text), text)
    if hint is float:
        try:
            return float(text)
        except ValueError:
            return math.nan
    return convert(name, option, text, hint)
