"""How promises are required of a plugin, and what every kind of plugin promises of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from owpc_ltr.errors import PluginError
from owpc_ltr.host.registry import checked_name


class Require:
    """Raises AssertionError, with a sentence on the plugin, unless it keeps a promise.

    require = Require("optimizer", optimizer)
    require(gap >= 0, f"reports the negative gap {gap}")
    """

    def __init__(self, kind: str, plugin: Any, case: str = "") -> None:
        """Require all that the host does before it loads a plugin of the kind."""
        try:
            name = checked_name(kind, type(plugin))
        except PluginError as error:
            raise AssertionError(str(error)) from error
        self.who = f"{kind.replace('-', ' ')} '{name}'{case and f' {case}'}"

    def __call__(self, kept: object, sentence: str, *shown: object) -> None:
        """Require a promise, else say what the plugin does; `shown` fills the places {}.

        These are formatted only then: formatting an array takes longer than checking it.
        """
        if not kept:
            with np.printoptions(threshold=30, edgeitems=5):
                told = sentence.format(*shown) if shown else sentence
            raise AssertionError(" ".join(f"{self.who} {told}".split()))

    def equal(
        self,
        found: ArrayLike,
        wanted: ArrayLike,
        sentence: str,
        rtol: float = 1e-9,
        atol: float = 1e-12,
    ) -> None:
        """Require numbers that agree to what rounding leaves, and are NaN in the same places."""
        same = np.allclose(found, wanted, rtol, atol, equal_nan=True)
        self(same, f"{sentence}: {{}} in place of {{}}", np.asarray(found), np.asarray(wanted))

    def finite(self, values: ArrayLike, what: str) -> None:
        """Require numbers that are neither infinite nor NaN."""
        self(
            np.isfinite(values).all(), f"gave {what} that are not finite: {{}}", np.asarray(values)
        )

    def answer(
        self,
        method: Callable[..., Any],
        given: Mapping[str, Any],
        *shapes: tuple[int, ...],
        twice: bool = False,
    ) -> Any:
        """What a method returns for arrays, by position, none of which it may change.

        Of the shapes, one for each array where it returns several; the same bits `twice`.
        """
        copies = [array.copy() for array in given.values()]
        try:
            found = method(*copies)
        except PluginError as error:
            raise AssertionError(str(error)) from error
        for name, before, after in zip(given, given.values(), copies, strict=True):
            self(np.array_equal(before, after, equal_nan=True), f"changed the {name} it read")
        if len(shapes) > 1:
            self(
                isinstance(found, tuple | list) and len(found) == len(shapes),
                f"returned {{}} from {getattr(method, '__name__', 'a method')}: return "
                f"{len(shapes)} values, as (value, gradient)",
                found,
            )
        told = [np.shape(one) for one in (found if len(shapes) > 1 else [found])]
        self(not shapes or told == [*shapes], f"gave shapes {told} in place of {[*shapes]}")
        if twice:
            again = self.answer(method, given, *shapes)
            pairs = zip(found, again, strict=True) if len(shapes) > 1 else [(found, again)]
            same = all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)
            self(same, f"gave two answers for the same {', '.join(given)}")
        return found
