"""Whose metric a text means: plugins installed, in a file, or broken; imported when asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from owpc_ltr_metrics.average_precision import AveragePrecision
from owpc_ltr_metrics.ndcg import NDCG

from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.host.registry import Entry, Plugin, Registry, installed, load
from owpc_ltr.metrics import Metric, parse_metric

MINE = '''
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.metrics import Metric


@dataclass(frozen=True)
class Depth(Metric):
    """how many documents there are, no more than `at_most`"""

    name: ClassVar[str] = "depth"
    variants: ClassVar = {"of-one": {"at_most": 1}}
    at_most: int = 3
    half: Literal[1, 2] = 1
    shy: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.at_most < 0:
            raise ValueError("at_most may not be negative")

    def values(self, queries):
        return np.minimum(queries.lengths, self.at_most) / self.half

    @property
    def meaning(self):
        return "documents"


@hookimpl
def ltr_metrics():
    return [Depth]
'''


def imported_for(text: str) -> str:
    code = (
        "import sys; from owpc_ltr.metrics import parse_metric; "
        f"parse_metric({text!r}); "
        "print(*[name for name in sys.modules if name.startswith('owpc_ltr_')], "
        "'numba' in sys.modules)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("map", "average_precision"),
        ("ndcg-letor@10", "ndcg"),
        # `pairwise` is a loss.
        ("pairwise-error", "pairwise_error"),
    ],
)
def test_a_text_imports_the_one_metric_that_it_means(text: str, module: str) -> None:
    assert imported_for(text) == f"owpc_ltr_metrics owpc_ltr_metrics.{module} False\n"


def test_a_metric_is_read_as_itself() -> None:
    metric = NDCG(7, gain="linear")
    assert parse_metric(metric) is metric


def test_no_shipped_name_is_that_of_a_shipped_variant() -> None:
    names = [plugin.name for plugin in installed().all("metric") if plugin.shipped]
    for plugin in installed().all("metric"):
        names += [f"{plugin.name}-{suffix}" for suffix in plugin.cls.variants if plugin.shipped]
    assert len(set(names)) == len(names) > 8


def test_a_metric_of_a_file_is_read_with_options_of_any_type(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    registry = load([path])
    metric = parse_metric("depth@2,at-most=5,half=2,shy=yes,empty=one", registry)
    assert str(metric) == "depth@2,at-most=5,half=2,shy=True,empty=one"
    assert parse_metric(str(metric), registry) == metric
    one = parse_metric("depth-of-one", registry)
    assert (str(one), parse_metric("depth,at-most=1", registry)) == ("depth-of-one", one)
    for text, message in (
        ("depth,at-most=x", "'depth' cannot take at-most=x: it must be a whole number"),
        ("depth,half=3", "'depth' cannot take half=3; known: 1, 2"),
        ("depth,shy=perhaps", "'depth' cannot take shy=perhaps: it must be true or false"),
        ("depth,at-most=-1", "'depth' refuses its options: at_most may not be negative"),
    ):
        with pytest.raises(UsageError) as refusal:
            parse_metric(text, registry)
        assert str(refusal.value) == message
    with pytest.raises(UsageError, match="there is no metric 'depth'"):
        parse_metric("depth")


def test_two_metrics_of_one_name_are_refused_be_it_a_variants() -> None:
    class Twin(AveragePrecision):
        name = "ndcg-letor"

    twin = Plugin("metric", "ndcg-letor", Twin, "stranger 1.0")
    registry = Registry([Plugin("metric", "ndcg", NDCG, "owpc-ltr 0.1"), twin])
    with pytest.raises(PluginError, match=r"'ndcg-letor' of stranger 1\.0 and 'ndcg' of owpc-ltr"):
        parse_metric("ndcg-letor", registry)
    assert str(parse_metric("ndcg@3", registry)) == "ndcg@3"


def test_a_strangers_variant_of_a_shipped_name_is_refused() -> None:
    class Pairwise(AveragePrecision):
        name = "winner"
        variants = {"takes-all": {"relevant_above": 1.0}}  # noqa: RUF012 - the test's own

    shipped = installed().find("metric", "winner-takes-all")
    registry = Registry(
        [
            Plugin("metric", "winner", Pairwise, "stranger 1.0"),
            Plugin("metric", "winner-takes-all", shipped, "owpc-ltr 0.1"),
        ]
    )
    with pytest.raises(PluginError, match="two plugins offer the metric 'winner-takes-all'"):
        parse_metric("winner-takes-all", registry)


def test_a_class_that_is_no_metric_is_refused_by_name() -> None:
    registry = Registry([Plugin("metric", "number", int, "stranger 1.0")])
    with pytest.raises(PluginError, match=r"'number' of stranger 1\.0 .* int must extend"):
        parse_metric("number", registry)
    with pytest.raises(UsageError, match="known: number "):
        parse_metric("numbers", registry)


def test_a_plugin_that_cannot_be_loaded_is_named_to_who_asks_for_an_unknown_metric() -> None:
    def broken() -> ModuleType:
        raise ImportError("no module named torch")

    registry = Registry([], entries=[Entry("deep", "deep 2.0", False, broken)])
    with pytest.raises(UsageError, match=r"'deep' \(deep 2\.0\) failed to load: ImportError"):
        parse_metric("deep", registry)


def test_a_metric_without_values_cannot_be_made() -> None:
    class Silent(Metric):
        name = "silent"

    with pytest.raises(TypeError, match="abstract"):
        Silent()  # type: ignore[abstract]
