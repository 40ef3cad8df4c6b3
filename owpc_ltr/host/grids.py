"""Grids of settings: `C=1e-3..1e3`, `loss.generator=constant,inverse`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from owpc_ltr.errors import UsageError

DEFAULT_C = tuple(float(f"1e{exponent}") for exponent in range(-3, 4))


def parse_grid(
    text: str, loss: type[Any], learner: type[Any], kind: str = "optimizer"
) -> tuple[str, tuple[str, ...]]:
    """A grid's full setting name and its values, as text.

    `a..b` counts in powers of ten, `a..b*3` in as many steps a decade; `x,y,z` lists values. A
    bare name is looked up among the settings of the loss and of the learner, which is an optimizer
    or a reranker (`kind`). Raises UsageError.
    """
    name, equals, values = text.partition("=")
    name = name.strip()
    if not (equals and values):
        raise UsageError(f"cannot read the grid '{text}': write C=1e-3..1e3 or loss.p=5,10,20")
    if "." not in name:
        owners = [
            owner
            for owner, cls in (("loss", loss), (kind, learner))
            if name in {field.name for field in dataclasses.fields(cls)}
        ]
        if len(owners) != 1:
            found = "neither has" if not owners else "both have"
            raise UsageError(
                f"the grid names '{name}', and of loss '{loss.name}' and {kind} "
                f"'{learner.name}' {found} such a setting: write loss.{name} or {kind}.{name}"
            )
        name = f"{owners[0]}.{name}"
    if ".." in values:
        return name, tuple(f"{value:.6g}" for value in _decades(text, values))
    return name, tuple(value.strip() for value in values.split(","))


def named_grids(texts: Iterable[str]) -> dict[str, str]:
    """Each `NAME=VALUES` by its name, the values still text. Raises UsageError."""
    grids = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (equals and values):
            raise UsageError(f"cannot read the grid '{text}': write C=1e-3..1e3 or loss.p=5,10,20")
        grids[name.strip()] = values
    return grids


def combinations(grid: Mapping[str, Iterable[Any]], innermost: str) -> list[dict[str, Any]]:
    """All combinations, the innermost setting varying fastest, so that fits can warm-start."""
    names = sorted(grid, key=lambda name: name == innermost)
    return [
        dict(zip(names, chosen, strict=True))
        for chosen in itertools.product(*(grid[name] for name in names))
    ]


def _decades(text: str, values: str) -> list[float]:
    span, _, per_decade = values.partition("*")
    low, _, high = span.partition("..")
    try:
        ends = float(low), float(high)
        steps = int(per_decade or 1)
    except ValueError:
        raise UsageError(
            f"cannot read the grid '{text}': write C=1e-3..1e3 or C=.1..10*3"
        ) from None
    if not (0 < ends[0] <= ends[1] < np.inf and steps > 0):
        raise UsageError(f"the grid '{text}' must go from a small positive number to a larger one")
    first, last = np.log10(ends)
    count = round((last - first) * steps) + 1
    return [float(10**exponent) for exponent in np.linspace(first, last, count)]
