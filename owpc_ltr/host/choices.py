"""Settings with a list of choices: other values are refused; kernels read a choice's number.

    target: Literal["label", "gain"] = "label"

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> Vector:
        return np.array([choice_number(self, "target")])

The type of the field lists the choices.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints


def check_choices(plugin: Any) -> None:
    """Raise ValueError, naming the choices, where a field of a Literal type has another value."""
    for name, choices in choices_of(plugin.__class__).items():
        value = getattr(plugin, name)
        if value not in choices:
            known = ", ".join(map(str, choices))
            raise ValueError(f"{name} must be one of {known}, not '{value}'")


def choice_number(plugin: Any, name: str) -> float:
    """The place of a field's value among its choices, from 0, as a kernel reads it."""
    return float(choices_of(plugin.__class__)[name].index(getattr(plugin, name)))


@cache
def choices_of(cls: Any) -> dict[str, tuple[Any, ...]]:
    """The fields of Literal types of a class, and the choices of each."""
    hints = get_type_hints(cls)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
