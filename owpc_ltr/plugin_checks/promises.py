"""How promises are required of a plugin, and the seeded samples on which plugins are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import PluginError
from owpc_ltr.host.registry import checked_name


class Require:
    """Raises AssertionError, with a sentence on the plugin, unless it keeps a promise.

    require = Require("optimizer", optimizer)
    require(gap >= 0, f"reports the negative gap {gap}")
    """

    def __init__(self, kind: str, plugin: object, case: str = "") -> None:
        """Require all that the host does before it loads a plugin of the kind."""
        try:
            name = checked_name(kind, type(plugin))
        except PluginError as error:
            raise AssertionError(str(error)) from error
        self.who = f"{kind.replace('-', ' ')} '{name}'{case and f' {case}'}"

    def __call__(self, holds: object, sentence: str, *values: object) -> None:
        """Require a promise, else say what the plugin does; `shown` fills the places {}.

        These are formatted only then: formatting an array takes longer than checking it.
        """
        if not holds:
            with np.printoptions(threshold=30, edgeitems=5):
                text = sentence.format(*values) if values else sentence
            raise AssertionError(" ".join(f"{self.who} {text}".split()))

    def equal(
        self,
        actual: ArrayLike,
        expected: ArrayLike,
        sentence: str,
        rtol: float = 1e-9,
        atol: float = 1e-12,
    ) -> None:
        """Require numbers that agree to what rounding leaves, and are NaN in the same places."""
        same = np.allclose(actual, expected, rtol, atol, equal_nan=True)
        self(same, f"{sentence}: {{}} in place of {{}}", np.asarray(actual), np.asarray(expected))

    def finite(self, values: ArrayLike, what: str) -> None:
        """Require numbers that are neither infinite nor NaN."""
        self(
            np.isfinite(values).all(), f"gave {what} that are not finite: {{}}", np.asarray(values)
        )

    def answer(
        self,
        method: Callable[..., Any],
        arguments: Mapping[str, Any],
        *shapes: tuple[int, ...],
        twice: bool = False,
    ) -> Any:
        """What a method returns for arrays, by position, none of which it may change.

        Of the shapes, one for each array where it returns several; the same bits `twice`.
        """
        copies = [array.copy() for array in arguments.values()]
        try:
            result = method(*copies)
        except PluginError as error:
            raise AssertionError(str(error)) from error
        for name, before, after in zip(arguments, arguments.values(), copies, strict=True):
            self(np.array_equal(before, after, equal_nan=True), f"changed the {name} it read")
        if len(shapes) > 1:
            self(
                isinstance(result, tuple | list) and len(result) == len(shapes),
                f"returned {{}} from {getattr(method, '__name__', 'a method')}: return "
                f"{len(shapes)} values, as (value, gradient)",
                result,
            )
        actual = [np.shape(array) for array in (result if len(shapes) > 1 else [result])]
        self(not shapes or actual == [*shapes], f"gave shapes {actual} in place of {[*shapes]}")
        if twice:
            again = self.answer(method, arguments, *shapes)
            pairs = zip(result, again, strict=True) if len(shapes) > 1 else [(result, again)]
            same = all(np.array_equal(first, second, equal_nan=True) for first, second in pairs)
            self(same, f"gave two answers for the same {', '.join(arguments)}")
        return result


Price = Callable[[Vector], tuple[Vector, Vector]]
"""Values (…) and gradients (…, m) at points (…, m)."""


def sample_dataset(grades: int = 1, seed: int = 0) -> RankingDataset:
    """A small noisy dataset: 12 queries of 4 to 9 documents, 4 features, query weights."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 10, 12)
    query_ids = np.repeat(np.arange(len(sizes)), sizes)
    features = rng.normal(size=(len(query_ids), 4)).astype(np.float32)
    utility = features @ np.array([1.0, -0.5, 0.25, 0.0]) + 0.7 * rng.normal(size=len(features))
    labels = np.clip(np.floor(utility + 0.5), 0, grades)
    return make_dataset(
        features, labels, query_ids, query_weights=rng.choice([0.5, 1.0, 2.0], len(sizes))
    )


def slope_errors(
    price: Price, points: Vector, directions: Vector, step: float = 1e-6
) -> tuple[Vector, NDArray[np.bool_]]:
    """|gradient · u − difference quotient| at points (k, m) along directions u, shape (k,).

    Relative to the slope. And which of these points are a step away from a kink, where no slope
    exists, or where the price is not finite.
    """
    moves = step * np.array([0.0, 1.0, -1.0])[:, None, None] * directions
    (at, above, below), (gradients, _, _) = price(points + moves)
    with np.errstate(invalid="ignore"):
        slopes = (above - below) / (2 * step)
        size = np.abs(slopes) + 1e-3 * (1 + np.abs(at))
        errors: Vector = np.abs((gradients * directions).sum(axis=1) - slopes) / size
        smooth = np.abs(above - 2 * at + below) <= 1e-3 * step * size
    return errors, ~smooth | ~np.isfinite(errors)
