"""Every installed plugin keeps its promises: a new one is tested here without a new line.

`make test` checks each one with its defaults, a quarter of the variants, and each loss with one
optimizer; `make test-all` checks all.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from owpc_ltr.errors import UsageError
from owpc_ltr.host import registry
from owpc_ltr.kernels.kernel import bind, evaluate_query
from owpc_ltr.metrics import Metric
from owpc_ltr.plugin_checks import (
    check_click_model,
    check_export,
    check_judgment_reader,
    check_loss,
    check_metric,
    check_optimizer,
    check_reranker,
)
from owpc_ltr.plugin_checks.check import variants
from owpc_ltr.protocols import ClickModel, ExportTarget, Loss, Optimizer
from tests.judgment_writers import WRITERS

INSTALLED = registry.load()
LOSSES = [plugin.cls for plugin in INSTALLED.all("loss")]
OPTIMIZERS = [plugin.cls for plugin in INSTALLED.all("optimizer")]
RERANKERS = [plugin.cls for plugin in INSTALLED.all("reranker")]
TARGETS = [plugin.cls for plugin in INSTALLED.all("export-target")]
READERS = [plugin.cls for plugin in INSTALLED.all("judgment-reader")]
CLICK_MODELS = [plugin.cls for plugin in INSTALLED.all("click-model")]
METRICS = [plugin.cls for plugin in INSTALLED.all("metric")]


def cases(classes: Sequence[type[Any]]) -> list[Any]:
    """The variants of all classes; `make test` takes the defaults, and others in turn."""
    return [
        pytest.param(
            variant, id=str(variant), marks=_marks(number == 0 or (number + place) % 4 == 0)
        )
        for place, cls in enumerate(classes)
        for number, variant in enumerate(variants(cls))
    ]


def _marks(quick: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if quick else (pytest.mark.thorough,)


EXTREME = np.array([0.3, -1.0, 0.7, 0.99, -0.4])
EXTREME_SCORES = {
    "zero": np.zeros(5),
    "equal": np.full(5, 3.0),
    "mixed": np.array([1e200, -1e-200, 0.0, 1e-200, -1e200]),
    **{f"{size:g}": size * EXTREME for size in (5e-324, 1e-310, 1e-200, 1e-163, 1e200, 1.7e308)},
    **{f"equal {size:g}": np.full(5, size) for size in (1e-200, 1e200)},
}
SMALL = [name for name, scores in EXTREME_SCORES.items() if np.abs(scores).max() < 10]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cls", LOSSES, ids=lambda cls: cls.name)
def test_a_loss_is_finite_at_tiny_huge_and_equal_scores_or_says_that_it_is_not(
    cls: type[Loss], capfd: pytest.CaptureFixture[str]
) -> None:
    """A value that is not finite is refused by every optimizer, by the loss's name."""
    labels, weights = np.array([2, 0, 1, 0, 1], np.float32), np.array([1, 2, 1, 0.5, 0], np.float32)
    for loss in variants(cls):
        bound = bind(loss)
        for name, scores in EXTREME_SCORES.items():
            value, *slopes = evaluate_query(bound, scores, labels, weights)
            finite = all(np.isfinite(slope).all() for slope in slopes)
            assert finite or not np.isfinite(value), (loss, name)
            assert np.isfinite(value) or name not in SMALL, (loss, name)
    # What is raised in a kernel is printed, and the rest of the gradient is not written.
    assert capfd.readouterr().err == ""


PAIRS = [
    pytest.param(
        optimizer(),
        loss(),
        id=f"{optimizer.name}-{loss.name}",
        marks=_marks((number + place) % len(OPTIMIZERS) == 0),
    )
    for number, optimizer in enumerate(OPTIMIZERS)
    for place, loss in enumerate(LOSSES)
    if loss().convex or not optimizer().needs_convex
]


SETTINGS = [
    pytest.param(plugin.cls, name, hint, id=f"{plugin.name}-{name}")
    for plugin in INSTALLED.all()
    for name, hint in get_type_hints(plugin.cls).items()
    if name in {field.name for field in dataclasses.fields(plugin.cls) if field.init}
]


NUMBERS = [case for case in SETTINGS if float in {case.values[2], *get_args(case.values[2])}]


def accepts(cls: Any, name: str, value: float) -> bool:
    try:
        cls(**{name: value})
    except (UsageError, ValueError):
        return False
    return True


@pytest.mark.parametrize(("cls", "name", "hint"), NUMBERS)
def test_a_whole_number_is_a_number_to_every_setting(cls: Any, name: str, hint: Any) -> None:
    whole = next(number for number in (1, 0, 4) if accepts(cls, name, float(number)))
    for number in (whole, np.int64(whole), np.float32(whole)):
        made = cls(**{name: number})
        assert made == cls(**{name: float(whole)})
        assert type(getattr(made, name)) is float


@pytest.mark.parametrize(("cls", "name", "hint"), SETTINGS)
def test_every_setting_refuses_another_type_in_one_line(cls: Any, name: str, hint: Any) -> None:
    wrong: dict[Any, Any] = {int: 2.5, float: "1", str: 3}
    value = "no such choice" if get_origin(hint) is Literal else wrong.get(hint, [1])
    with pytest.raises((UsageError, ValueError)) as caught:
        cls(**{name: value})
    message = str(caught.value)
    if get_origin(hint) is Literal:
        spellings = name, name.replace("_", "-")
        assert message.startswith(
            tuple(f"'{cls.name}' cannot take {spelling}=" for spelling in spellings)
        )
    else:
        assert re.match(rf"'{cls.name}' cannot take {name}={re.escape(repr(value))}: ", message)
    assert "\n" not in message


@pytest.mark.parametrize("loss", cases(LOSSES))
def test_every_loss_keeps_its_promises(loss: Loss) -> None:
    check_loss(loss)


@pytest.mark.parametrize(("optimizer", "loss"), PAIRS)
def test_every_pair_keeps_its_promises(optimizer: Optimizer, loss: Loss) -> None:
    check_optimizer(optimizer, loss)


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize("reranker", RERANKERS, ids=lambda cls: cls.name)
@pytest.mark.parametrize("loss", [cls() for cls in LOSSES if cls().conservative], ids=str)
def test_every_reranker_keeps_its_promises(reranker: type[Any], loss: Loss) -> None:
    skipped = check_reranker(reranker(), loss)
    if skipped:
        pytest.skip(f"all else holds, but {'; '.join(skipped)}")


@pytest.mark.parametrize("target", [v for cls in TARGETS for v in variants(cls)], ids=str)
def test_every_export_target_keeps_its_promises(target: ExportTarget) -> None:
    check_export(target)


@pytest.mark.parametrize("reader", READERS, ids=lambda cls: cls.name)
def test_every_judgment_reader_keeps_its_promises(reader: type[Any]) -> None:
    assert reader.name in WRITERS, "tests/judgment_writers.py needs a writer of the format"
    check_judgment_reader(reader(), WRITERS[reader.name])


@pytest.mark.parametrize("metric", cases(METRICS))
def test_every_metric_keeps_its_promises(metric: Metric) -> None:
    check_metric(metric)


@pytest.mark.parametrize("model", cases(CLICK_MODELS))
def test_every_click_model_keeps_its_promises(model: ClickModel) -> None:
    check_click_model(model)
