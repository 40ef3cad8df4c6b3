"""What a report says of a plugin's own results: a verdict and sections, made of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from owpc_ltr.data.blocks import Block
from owpc_ltr.errors import PluginError
from owpc_ltr.host.commands import plugin_answers


@dataclass(frozen=True)
class ReportSection:
    """A section: its name, what links say, the question that it answers, how to read it, blocks."""

    name: str
    link: str
    title: str
    lead: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class ReportVerdict:
    """What a page says first.

    `mood` is an outcome of a comparison, or "neutral"; `heading` is that of a page of this result.
    """

    mood: str
    title: str
    sentence: str
    heading: str
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class ReportPart:
    """What a plugin offers by the hook `ltr_report_parts`: what a page says of its results.

    A page has one result of the class `results`, the last one. Where it has none, its end says how
    to get one: `absent`.
    """

    results: type[Any]
    sections: Callable[[Any], Sequence[ReportSection]]
    verdict: Callable[[Any], ReportVerdict] | None = None
    absent: str = ""


def report_parts() -> list[ReportPart]:
    """The parts of all plugins. Raises PluginError for what is none."""
    parts: list[ReportPart] = []
    for offered in plugin_answers("ltr_report_parts"):
        if not isinstance(offered, list) or not all(
            isinstance(part, ReportPart) for part in offered
        ):
            raise PluginError(
                f"an ltr_report_parts() returns {offered!r}: return a list of ReportPart"
            )
        parts += offered
    return parts


def signed(value: float, digits: int = 4) -> str:
    """A difference with its sign, in which a minus is U+2212.

    >>> signed(0.0183), signed(-0.002), signed(-0.00001)
    ('+0.0183', '−0.0020', '−0.0000')
    """
    return f"{value:+.{digits}f}".replace("-", "−")


def plain(value: object) -> str:
    """A value of any type in few characters.

    >>> plain(0.1 + 0.2), plain(1234567), plain(None), plain(True)
    ('0.3', '1,234,567', '–', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isnan(value):
        return f"{value:.4g}".replace("-", "−")
    if value is None or isinstance(value, float):
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


def capital(text: str) -> str:
    """The text with a capital first letter, unless that is a Greek one."""
    return text if text.startswith("λ") else f"{text[:1].upper()}{text[1:]}"


def configured(name: str | None, settings: Mapping[str, Any]) -> str:
    """The name of a plugin's part, with its settings if it has any."""
    text = ", ".join(f"{key}={plain(value)}" for key, value in settings.items())
    return f"{name} ({text})" if text else str(name)
