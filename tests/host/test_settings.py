"""Settings, choices and grids: text becomes plugin objects, and invalid text one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pytest

from owpc_ltr.errors import UsageError
from owpc_ltr.host.settings import (
    check_settings,
    choice_number,
    configure,
    describe_settings,
    named_grids,
    named_settings,
    values_of,
)
from owpc_ltr.training.plan import combinations, full_name, grid_values


@dataclass(frozen=True)
class Example:
    name: ClassVar[str] = "example"

    kind: Literal["a", "b"] = "a"
    C: float = 1.0
    count: int = 3
    exact: bool = False
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.C <= 0:
            raise ValueError("C must be positive")


@dataclass(frozen=True)
class Other:
    name: ClassVar[str] = "other"

    C: float = 1.0


def test_text_is_converted_by_the_fields_types() -> None:
    made = configure(
        Example, {"kind": "b", "C": "1e-3", "count": "7", "exact": "yes", "limit": "2"}
    )
    assert made == Example("b", 0.001, 7, True, 2.0)
    assert configure(Example, {"limit": "none"}).limit is None


@dataclass(frozen=True)
class Checked(Example):
    text: str = ""
    either: int | str = 0

    def __post_init__(self) -> None:
        check_settings(self)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"C": 2}, 2.0),
        ({"C": np.float32(0.5)}, 0.5),
        ({"limit": 3}, 3.0),
        ({"limit": None}, None),
        ({"count": np.int64(4)}, 4),
        ({"exact": True}, True),
        ({"text": "3"}, "3"),
        ({"either": 2.5}, 2.5),
    ],
)
def test_a_value_has_its_settings_type_however_the_plugin_is_made(
    given: dict[str, Any], kept: object
) -> None:
    (name,) = given
    for made in (Checked(**given), configure(Checked, given)):
        assert getattr(made, name) == kept
        assert type(getattr(made, name)) is type(kept)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": "1"}, "'example' cannot take C='1': it must be a number"),
        ({"C": True}, "'example' cannot take C=True: it must be a number"),
        ({"C": None}, "'example' cannot take C=None: it must be a number"),
        ({"limit": "1"}, "'example' cannot take limit='1': it must be a number"),
        ({"count": 3.0}, "'example' cannot take count=3.0: it must be a whole number"),
        ({"count": False}, "'example' cannot take count=False: it must be a whole number"),
        ({"exact": 1}, "'example' cannot take exact=1: it must be true or false"),
        ({"text": 3}, "'example' cannot take text=3: it must be text"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_line(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Checked(**given)
    assert str(caught.value) == message
    if not isinstance(next(iter(given.values())), str):
        # Also of a plugin that does not check its settings itself; a text is converted.
        with pytest.raises(UsageError) as caught:
            configure(Example if "text" not in given else Checked, given)
        assert str(caught.value) == message


def test_settings_are_listed_with_their_defaults() -> None:
    assert describe_settings(Example) == ["kind=a", "C=1.0", "count=3", "exact=False", "limit="]
    assert values_of(Example(C=2.0))["C"] == 2.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"c": "1"}, "'example' has no setting 'c'; its settings: kind=a, C=1.0"),
        ({"kind": "z"}, "cannot take kind=z: it must be one of a, b"),
        ({"kind": 3}, "cannot take kind=3: it must be one of a, b"),
        ({"count": "2.5"}, "cannot take count=2.5: it must be a whole number"),
        ({"exact": "maybe"}, "cannot take exact=maybe: it must be true or false"),
        ({"C": "-1"}, "'example' refuses its settings: C must be positive"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        configure(Example, values)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["=top", "loss.generator", "loss.=top", ""])
def test_a_setting_that_cannot_be_read_is_shown(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the setting"):
        named_settings([text])


@dataclass(frozen=True)
class KindLoss:
    name: ClassVar[str] = "kind-loss"

    kind: str = "a"


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("C=1e-3..1e3", "optimizer.C", ("0.001", "0.01", "0.1", "1", "10", "100", "1000")),
        ("C=.1..1*2", "optimizer.C", ("0.1", "0.316228", "1")),
        ("kind=a,b", "loss.kind", ("a", "b")),
        ("optimizer.C=5", "optimizer.C", ("5",)),
    ],
)
def test_grids_count_in_decades_or_list_values(
    text: str, name: str, values: tuple[str, ...]
) -> None:
    ((given, listed),) = named_grids([text]).items()
    assert full_name(given, {"loss": KindLoss, "optimizer": Other}) == name
    assert grid_values(listed) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C", "cannot read the grid"),
        ("optimizer.C=1..x", "cannot read the grid"),
        ("optimizer.C=-1..1", "small positive number"),
        ("optimizer.C=10..1", "small positive number"),
    ],
)
def test_a_grid_that_cannot_be_read_is_shown(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        [grid_values(values, name) for name, values in named_grids([text]).items()]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("C", "write loss.C or optimizer.C"),
        ("Kind", "did you mean 'kind'?"),
        ("cuont", "did you mean 'count'?"),
        ("nothing", "have no setting 'nothing'; their settings: loss.kind, loss.C"),
    ],
)
def test_a_bare_name_is_a_setting_of_one_plugin(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        full_name(name, {"loss": Example, "optimizer": Other})


def test_the_innermost_setting_varies_fastest() -> None:
    grid = {"C": (1, 2), "kind": ("a", "b")}
    listed = [(row["kind"], row["C"]) for row in combinations(grid, "C")]
    assert listed == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


Shade = Literal["dark", "light", "none"]


@dataclass(frozen=True)
class Painted:
    names: ClassVar[tuple[str, ...]] = ("not", "a", "choice")
    shade: Shade = "light"
    coats: int = 1

    def __post_init__(self) -> None:
        check_settings(self)


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
        ({"shade": "pink"}, "cannot take shade='pink': it must be one of dark, light, none"),
        ({"shade": "a\x1b\n"}, r"cannot take shade='a\\x1b\\n': it must be one of dark"),
        ({"finish": "wet"}, "cannot take finish='wet': it must be one of mat, gloss"),
    ],
)
def test_what_is_no_choice_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Varnished(**settings)
