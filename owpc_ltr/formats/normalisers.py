"""Feature normalisers as the LTR plugin reads them, in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import a_json, shown
from owpc_ltr.models.forest import HIGHEST, ROUNDS_TO_FINITE

_KINDS = {"standard": ("mean", "standard_deviation"), "min_max": ("minimum", "maximum")}
_DEFAULTS = {"standard": (0.0, 0.0), "min_max": (0.0, HIGHEST)}


@dataclass(frozen=True)
class PluginNormaliser:
    """(value − shift) / scale of one column, each step rounded to float32."""

    column: int
    shift: np.float32
    scale: np.float32

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The normalised values."""
        return np.asarray((values - self.shift) / self.scale, dtype=np.float32)


def read_normalisers(content: Any, names: Sequence[str]) -> list[PluginNormaliser]:
    """What the plugin makes of `feature_normalizers`. Raises BadInput where it refuses them."""
    if not isinstance(content, dict):
        raise BadInput(f"feature_normalizers is {a_json(content)}, not an object")
    return [_read(name, value, names) for name, value in content.items()]


def _read(name: str, value: Any, names: Sequence[str]) -> PluginNormaliser:
    where = f"the normaliser of '{shown(name)}'"
    if name not in names:
        raise BadInput(f"{where}: the feature set has no such feature")
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in _KINDS:
        raise BadInput(f"{where} is {a_json(value)}, not one of {' or '.join(_KINDS)}")
    kind, settings = next(iter(value.items()))
    keys = _KINDS[kind]
    if not isinstance(settings, dict) or set(settings) - set(keys):
        raise BadInput(f"{where} has {a_json(settings)}, not {' and '.join(keys)}")
    numbers = [settings.get(key, d) for key, d in zip(keys, _DEFAULTS[kind], strict=True)]
    for key, number in zip(keys, numbers, strict=True):
        if type(number) not in (int, float) or not abs(number) <= ROUNDS_TO_FINITE:
            raise BadInput(f"{where}: '{key}' is {a_json(number)}, not a float32 number")
    first, second = (np.float32(number) for number in numbers)
    if kind == "standard":
        if second <= 0:
            raise BadInput(f"{where}: the standard deviation {second} is not positive")
        return PluginNormaliser(names.index(name), first, second)
    if not 0 <= first < second:
        raise BadInput(f"{where}: needs 0 ≤ minimum < maximum, not {first} and {second}")
    return PluginNormaliser(names.index(name), first, np.float32(second - first))
