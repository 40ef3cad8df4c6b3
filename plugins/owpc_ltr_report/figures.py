"""Numbers and names as text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from owpc_ltr.text import cut

_LONGEST_QUERY = 90


def amount(value: float) -> str:
    """A figure with a fixed number of decimals.

    >>> amount(0.89717), amount(float("nan"))
    ('0.8972', '–')
    """
    return "–" if math.isnan(value) else f"{value:.4f}"


def signed(value: float, digits: int = 4) -> str:
    """A difference with its sign, in which a minus is U+2212.

    >>> signed(0.0183), signed(-0.002), signed(-0.00001)
    ('+0.0183', '−0.0020', '−0.0000')
    """
    return f"{value:+.{digits}f}".replace("-", "−")


def interval(ends: Any, *, plus: bool = True) -> str:
    """Both ends of whatever has a low and a high end."""
    return " to ".join(map(signed if plus else amount, (ends.low, ends.high)))


def p_words(p: float) -> str:
    """A p-value as papers write it.

    >>> p_words(0.0001), p_words(0.0312), p_words(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"


def p_cell(p: float) -> str:
    """The same below a header that says p.

    >>> p_cell(0.0001), p_cell(0.0312)
    ('< 0.001', '0.031')
    """
    return p_words(p).removeprefix("p ").removeprefix("= ")


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


def short_name(name: str) -> str:
    """A ranker's name without folders, which say nothing to other people.

    >>> short_name("/home/me/models/new.json"), short_name("feature:a/b")
    ('new.json', 'feature:a/b')
    """
    named = name.startswith(("feature:", "live:"))
    return name if named else re.split(r"[/\\]", name)[-1] or name


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The short name of each; where two would be equal, both keep their folders.

    >>> short_names(["a/m.json", "b/m.json", "c/n.json"])
    {'a/m.json': 'a/m.json', 'b/m.json': 'b/m.json', 'c/n.json': 'n.json'}
    """
    count = Counter(short_name(name) for name in names)
    return {name: short_name(name) if count[short_name(name)] == 1 else name for name in names}


def shortened(text: str) -> str:
    """A query's text, cut where it is very long."""
    return cut(text, _LONGEST_QUERY)


def configured(name: Any, settings: Mapping[str, Any]) -> str:
    """The name of a plugin's part, with its settings if it has any."""
    text = ", ".join(f"{key}={plain(value)}" for key, value in settings.items())
    return f"{name} ({text})" if text else str(name)


def part_of(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object in a training record; an empty one where there is none."""
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def finite(value: Any) -> float | None:
    """The value if it is a finite number, of whatever else it might be."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def known(record: Mapping[str, Any], name: str) -> str | None:
    """A value of a record in words, unless it is absent or 0."""
    return plain(record[name]) if record.get(name) else None
