"""What a metric says of itself: its declarations, its text and its convention."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from typing import Any, ClassVar, Literal, get_args, get_origin

from owpc_ltr.errors import UsageError
from owpc_ltr.host.registry import Plugin, Registry
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.metrics.conventions import empty_words
from owpc_ltr.metrics.metric import field_types, option_fields, spelled
from owpc_ltr.metrics.ranking import ties_words
from owpc_ltr.testing.promises import require

_WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_words(metric: Metric) -> None:
    """Check what a metric declares, that its text is read as itself, and what its line says."""
    _check_declarations(metric)
    _check_cutoff_use(metric)
    _check_text(metric)
    _check_convention(metric)


def alternatives(metric: Metric, name: str) -> Iterator[Metric]:
    """The metric with other values of one option, as far as it takes them."""
    value, hint = getattr(metric, name), field_types(type(metric))[name]
    others: tuple[Any, ...] = ()
    if get_origin(hint) is Literal:
        others = get_args(hint)
    elif isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int | float):
        others = (value + 1, type(value)(value / 2))
    for other in others:
        if other != value:
            try:
                yield replace(metric, **{name: other})
            except (UsageError, ValueError):
                continue


def _check_declarations(metric: Metric) -> None:
    cls = type(metric)
    require(
        _WORD.fullmatch(metric.name),
        f"metric '{metric.name}' needs a name of lower-case words with hyphens between them",
    )
    names, hints = {field.name for field in fields(cls)}, field_types(cls)
    for name in inspect.get_annotations(cls):
        constant = hints[name] is ClassVar or get_origin(hints[name]) is ClassVar
        require(
            constant or name in names,
            f"metric '{metric.name}' has the option {spelled(name)} only on paper: its class needs "
            "@dataclass(frozen=True)",
        )
    for field in fields(cls):
        require(
            field.default is not MISSING,
            f"metric '{metric.name}' needs a default of its option {spelled(field.name)}",
        )
    low, high = metric.value_range
    require(low < high, f"metric '{metric.name}' declares that it lies between {low} and {high}")


def _check_text(metric: Metric) -> None:
    plugin = Plugin("metric", metric.name, type(metric), "what is checked")
    registry = Registry([plugin])
    texts = [f"{metric.name}-{suffix}" for suffix in metric.variants]
    at = "@3" if metric.cutoff_use == "needed" else ""
    for text in texts:
        require(_WORD.fullmatch(text), f"metric '{metric.name}' has the variant '{text}'")
        variant = parse_metric(text + at, registry)
        require(
            str(variant) == text + at,
            f"metric '{metric.name}' calls itself '{variant}' where it was read from '{text + at}'",
        )
    own = [other for name in option_fields(type(metric)) for other in alternatives(metric, name)]
    for one in (metric, type(metric)(), *own):
        again = parse_metric(str(one), registry)
        require(
            again == one,
            f"metric '{metric.name}' calls itself '{one}', which is read as another: {again!r} "
            f"in place of {one!r}",
        )


def _check_cutoff_use(metric: Metric) -> None:
    for cutoff, wrong in ((3, "none"), (None, "needed")):
        try:
            replace(metric, cutoff=cutoff, short="normal")
        except UsageError:
            taken = False
        else:
            taken = True
        require(
            taken != (metric.cutoff_use == wrong),
            f"metric '{metric.name}' declares its cutoff {metric.cutoff_use}, and "
            f"{'takes' if taken else 'refuses'} {cutoff}",
        )


def _check_convention(metric: Metric) -> None:
    line = metric.convention
    require(
        "\n" not in line and line.startswith(f"{metric}: ") and line == line.rstrip(),
        f"metric '{metric.name}' must say its convention in one line after its text and a colon, "
        "not {!r}",
        line,
    )
    for words in (ties_words(metric.ties), empty_words(metric.empty, metric.defined_on)):
        require(
            words in line, f"metric '{metric.name}' does not say in its convention that {words}"
        )
    for name in option_fields(type(metric)):
        for other in alternatives(metric, name):
            require(
                _after_colon(other) != _after_colon(metric),
                f"metric '{metric.name}' does not name {spelled(name)} in its convention: it says "
                f"the same of {spelled(name)}={getattr(other, name)} and {getattr(metric, name)}",
            )
    if metric.cutoff_use != "none":
        deep, deeper = (replace(metric, cutoff=cutoff) for cutoff in (3, 4))
        require(
            _after_colon(deep) != _after_colon(deeper),
            f"metric '{metric.name}' does not name its cutoff in its convention",
        )


def _after_colon(metric: Metric) -> str:
    return metric.convention.removeprefix(f"{metric}: ")
