"""Every installed plugin keeps its promises: a new one is tested here without a new line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from owpc_ltr.host import registry
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import ExportTarget, Loss, Optimizer
from owpc_ltr.testing import (
    check_export,
    check_judgment_reader,
    check_loss,
    check_metric,
    check_optimizer,
    check_reranker,
)
from tests.judgment_writers import WRITERS

INSTALLED = registry.load()
LOSSES = [plugin.cls for plugin in INSTALLED.all("loss")]
OPTIMIZERS = [plugin.cls for plugin in INSTALLED.all("optimizer")]
RERANKERS = [plugin.cls for plugin in INSTALLED.all("reranker")]
TARGETS = [plugin.cls for plugin in INSTALLED.all("export-target")]
READERS = [plugin.cls for plugin in INSTALLED.all("judgment-reader")]
METRICS = [plugin.cls for plugin in INSTALLED.all("metric")]


def variants(cls: type[Any]) -> list[Any]:
    """The defaults, and each choice of each setting that has a list of choices."""
    return [cls()] + [
        cls(**{name: choice})
        for name, others in choices(cls).items()
        for choice in others
        if choice != getattr(cls, name)
    ]


def choices(cls: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The settings that have a list of choices."""
    hints = get_type_hints(cls)
    return {
        field.name: get_args(hints[field.name])
        for field in dataclasses.fields(cls)
        if get_origin(hints[field.name]) is Literal
    }


def metric_variants(cls: type[Any]) -> list[Metric]:
    """The defaults, and each choice where ranks below the third do not count."""
    cut = {} if cls.cutoff_use == "none" else {"cutoff": 3}
    fields = [name for name in choices(cls) if cut or name != "short"]
    return [cls()] + [
        cls(**cut, **{name: choice}) for name in fields for choice in choices(cls)[name]
    ]


VARIANTS = [loss for cls in LOSSES for loss in variants(cls)]
PAIRS = [
    (optimizer(), loss())
    for optimizer in OPTIMIZERS
    for loss in LOSSES
    if loss().convex or not optimizer().needs_convex
]


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


@pytest.mark.parametrize("target", [v for cls in TARGETS for v in variants(cls)], ids=str)
def test_every_export_target_keeps_its_promises(target: ExportTarget) -> None:
    check_export(target)


@pytest.mark.parametrize("reader", READERS, ids=lambda cls: cls.name)
def test_every_judgment_reader_keeps_its_promises(reader: type[Any]) -> None:
    assert reader.name in WRITERS, "tests/judgment_writers.py needs a writer of the format"
    check_judgment_reader(reader(), WRITERS[reader.name])


@pytest.mark.parametrize(
    "metric", dict.fromkeys(one for cls in METRICS for one in metric_variants(cls)), ids=str
)
def test_every_metric_keeps_its_promises(metric: Metric) -> None:
    check_metric(metric)
