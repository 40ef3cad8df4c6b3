"""Every installed plugin keeps its promises: a new one is tested here without a new line."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from owpc_ltr.errors import UsageError
from owpc_ltr.host import registry
from owpc_ltr.protocols import Loss, Optimizer
from owpc_ltr.testing import check_loss, check_optimizer, check_reranker

INSTALLED = registry.load()
LOSSES = [plugin.cls for plugin in INSTALLED.all("loss")]
OPTIMIZERS = [plugin.cls for plugin in INSTALLED.all("optimizer")]
RERANKERS = [plugin.cls for plugin in INSTALLED.all("reranker")]


def variants(cls: type[Any]) -> list[Any]:
    """The defaults, and each choice of each setting that has a list of choices."""
    hints = get_type_hints(cls)
    return [cls()] + [
        cls(**{field.name: choice})
        for field in dataclasses.fields(cls)
        if get_origin(hints[field.name]) is Literal
        for choice in get_args(hints[field.name])
        if choice != field.default
    ]


VARIANTS = [loss for cls in LOSSES for loss in variants(cls)]
PAIRS = [
    (optimizer(), loss())
    for optimizer in OPTIMIZERS
    for loss in LOSSES
    if loss().convex or not optimizer().needs_convex
]


SETTINGS = [
    pytest.param(plugin.cls, name, hint, id=f"{plugin.name}-{name}")
    for plugin in INSTALLED.all()
    for name, hint in get_type_hints(plugin.cls).items()
    if name in {field.name for field in dataclasses.fields(plugin.cls) if field.init}
]


NUMBERS = [case for case in SETTINGS if float in {case.values[2], *get_args(case.values[2])}]


@pytest.mark.parametrize(("cls", "name", "hint"), NUMBERS)
def test_a_whole_number_is_a_number_to_every_setting(cls: Any, name: str, hint: Any) -> None:
    for number in (1, np.int64(1), np.float32(1.0)):
        made = cls(**{name: number})
        assert made == cls(**{name: 1.0})
        assert type(getattr(made, name)) is float


@pytest.mark.parametrize(("cls", "name", "hint"), SETTINGS)
def test_every_setting_refuses_another_type_in_one_line(cls: Any, name: str, hint: Any) -> None:
    wrong: dict[Any, Any] = {int: 2.5, float: "1", str: 3}
    value = wrong.get(hint, [1])
    with pytest.raises((UsageError, ValueError)) as caught:
        cls(**{name: value})
    message = str(caught.value)
    if get_origin(hint) is Literal:
        assert message.startswith(f"{name} must be one of ")
    else:
        assert re.match(rf"'{cls.name}' cannot take {name}={re.escape(repr(value))}: ", message)
    assert "\n" not in message


@pytest.mark.parametrize("loss", VARIANTS, ids=str)
def test_every_loss_keeps_its_promises(loss: Loss) -> None:
    check_loss(loss)


@pytest.mark.parametrize(("optimizer", "loss"), PAIRS, ids=lambda plugin: plugin.name)
def test_every_pair_keeps_its_promises(optimizer: Optimizer, loss: Loss) -> None:
    check_optimizer(optimizer, loss)


@pytest.mark.parametrize("reranker", RERANKERS, ids=lambda cls: cls.name)
@pytest.mark.parametrize("loss", [cls() for cls in LOSSES if cls().conservative], ids=str)
def test_every_reranker_keeps_its_promises(reranker: type[Any], loss: Loss) -> None:
    skipped = check_reranker(reranker(), loss)
    if skipped:
        pytest.skip(f"all else holds, but {'; '.join(skipped)}")
