"""Settings with a list of choices: others are refused by name, and kernels read their place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import pytest

from owpc_ltr.host import registry
from owpc_ltr.host.choices import check_choices, choice_number

Shade = Literal["dark", "light", "none"]


@dataclass(frozen=True)
class Painted:
    names: ClassVar[tuple[str, ...]] = ("not", "a", "choice")
    shade: Shade = "light"
    coats: int = 1

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True)
class Varnished(Painted):
    finish: Literal["mat", "gloss"] = "mat"


def test_a_choice_is_numbered_by_its_place() -> None:
    numbers = [choice_number(Painted(shade), "shade") for shade in get_args(Shade)]
    assert numbers == [0.0, 1.0, 2.0]
    assert choice_number(Varnished(finish="gloss"), "finish") == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shade": "pink"}, "shade must be one of dark, light, none, not 'pink'"),
        ({"finish": "wet"}, "finish must be one of mat, gloss, not 'wet'"),
    ],
)
def test_what_is_no_choice_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Varnished(**settings)


INSTALLED = registry.load()


@pytest.mark.parametrize(
    "plugin", INSTALLED.all("loss") + INSTALLED.all("reranker"), ids=lambda plugin: plugin.name
)
def test_every_loss_and_reranker_refuses_what_is_no_choice(plugin: Any) -> None:
    hints = get_type_hints(plugin.cls)
    for field in dataclasses.fields(plugin.cls):
        if get_origin(hints[field.name]) is Literal:
            with pytest.raises(ValueError, match=f"{field.name} must be one of"):
                plugin.cls(**{field.name: "no such choice"})
