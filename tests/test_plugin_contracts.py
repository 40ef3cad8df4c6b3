"""A plugin that lacks what its kind asks for is refused when it is loaded, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from owpc_ltr.errors import PluginError
from owpc_ltr.host.contracts import PROTOCOLS, checked_name
from owpc_ltr.host.registry import KINDS, load
from owpc_ltr.training.plan import model_plan

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
LOSS, OPTIMIZER, RERANKER = (
    (EXAMPLES / name).read_text()
    for name in (
        "owpc-ltr-worst-pairs/worst_pairs.py",
        "owpc-ltr-subgradient/subgradient.py",
        "owpc-ltr-list-range/list_range.py",
    )
)
READER = '''
"""Reads nothing."""
from dataclasses import dataclass
from typing import ClassVar
from owpc_ltr import hookimpl

@dataclass(frozen=True)
class Nothing:
    """Nothing."""
    name: ClassVar[str] = "nothing"
    precedence: ClassVar[int] = 10

    def recognises(self, path, head): return False
    def read(self, path, topics=None): return None
    def example(self): return b""

@hookimpl
def ltr_judgment_readers(): return [Nothing]
'''
TARGET = '''
"""Writes nothing."""
from dataclasses import dataclass
from typing import ClassVar
from owpc_ltr import hookimpl

@dataclass(frozen=True)
class Nowhere:
    """Nowhere."""
    name: ClassVar[str] = "nowhere"
    versions: ClassVar[tuple[str, ...]] = ("1",)

    def export(self, model, name, version, featureset=None): return None
    def scores(self, exported, feature_names, features): return None

@hookimpl
def ltr_export_targets(): return [Nowhere]
'''
METRIC = '''
"""Measures nothing."""
from dataclasses import dataclass
from typing import ClassVar
from owpc_ltr import hookimpl

@dataclass(frozen=True)
class Alone:
    """Alone."""
    name: ClassVar[str] = "alone"

@hookimpl
def ltr_metrics(): return [Alone]
'''
FAULTS = [
    (OPTIMIZER, "    needs_convex: ClassVar[bool] = True\n", "",
     "'subgradient' has no needs_convex: ClassVar[bool]"),
    (OPTIMIZER, "start: Fit | None = None", "start: Fit | None",
     "'subgradient' must take minimise(loss, data, run, start=None), and called with those needed: "
     "missing a required argument: 'start'"),
    (OPTIMIZER, ", start: Fit | None = None", "",
     "'subgradient' must take minimise(loss, data, run, start=None), and called with all of them: "
     "too many positional arguments"),
    (OPTIMIZER, "def minimise", "def minimize",
     "'subgradient' has no minimise(loss, data, run, start=None)"),
    (OPTIMIZER, "uses_loss: ClassVar[bool] = True", 'uses_loss: ClassVar[str] = "yes"',
     "'subgradient' has uses_loss = 'yes', which must be bool"),
    (OPTIMIZER, "    C: float = 1.0", "    C: float",
     "'subgradient' has no default for its setting 'C'"),
    (OPTIMIZER, "C: float = 1.0", "C: float = 0.0",
     "'subgradient' cannot be made with its default settings: ValueError: C and steps must be"),
    (LOSS, "    smooth: ClassVar[bool] = False\n", "",
     "'worst-pairs' has no smooth: ClassVar[bool]"),
    (LOSS, ", labels: Labels, weights: Labels", ", labels: Labels",
     "'worst-pairs' must take value_and_gradient(scores, labels, weights)"),
    (LOSS, "convex: ClassVar[bool] = True", "convex: ClassVar[int] = 1",
     "'worst-pairs' has convex = 1, which must be bool"),
    (RERANKER, "    has_objective: ClassVar[bool] = True\n", "",
     "'list-range' has no has_objective: ClassVar[bool]"),
    (RERANKER, "    def load(", "    def read_back(", "'list-range' has no load(content)"),
    (READER, "    precedence: ClassVar[int] = 10\n", "",
     "'nothing' has no precedence: ClassVar[int]"),
    (READER, "precedence: ClassVar[int] = 10", "precedence: ClassVar[bool] = True",
     "'nothing' has precedence = True, which must be int"),
    (READER, "path, topics=None", "path", "'nothing' must take read(path, topics=None)"),
    (TARGET, '("1",)', '"1"', "'nowhere' has versions = '1', which must be tuple[str, ...]"),
    (METRIC, "", "", "'alone' does not extend owpc_ltr.metrics.Metric"),
    (TARGET, "[Nowhere]", "Nowhere", "ltr_export_targets() returns <class"),
    (TARGET, "return [Nowhere]", "pass", "ltr_export_targets() returns None: return a list"),
    (TARGET, "[Nowhere]", "[Nowhere()]", "is no class: offer the class itself"),
]  # fmt: skip


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "before", "after", "words"), FAULTS, ids=[f[3] for f in FAULTS])
def test_what_a_plugin_lacks_is_one_line_that_says_what_to_add(
    tmp_path: Path, text: str, before: str, after: str, words: str
) -> None:
    assert before in text
    path = write(tmp_path, text.replace(before, after) if before else text)
    with pytest.raises(PluginError) as caught:
        load([path])
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [LOSS, OPTIMIZER, RERANKER, READER, TARGET])
def test_a_plugin_that_lacks_nothing_is_loaded(tmp_path: Path, text: str) -> None:
    assert any(found.source.endswith("mine.py") for found in load([write(tmp_path, text)]).all())


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    text = LOSS.replace("    smooth: ClassVar[bool] = False\n", "")
    text = text.replace("    convex: ClassVar[bool] = True\n", "")
    with pytest.raises(PluginError, match=r"no convex: ClassVar\[bool\]; it has no smooth: Class"):
        load([write(tmp_path, text)])


def test_a_claim_may_be_a_property_and_one_that_breaks_is_named(tmp_path: Path) -> None:
    claim = "    @property\n    def convex(self) -> bool:\n        return {}\n"
    plain = "    convex: ClassVar[bool] = True\n"
    load([write(tmp_path, LOSS.replace(plain, claim.format("self.share > 1")))])
    with pytest.raises(PluginError, match="cannot tell its convex: ZeroDivisionError"):
        load([write(tmp_path, LOSS.replace(plain, claim.format("bool(1 / 0)")))])


def test_every_kind_is_looked_at_and_what_is_installed_passes() -> None:
    assert {*PROTOCOLS, "metric"} == set(KINDS)
    found = load()
    assert found.all()
    assert [checked_name(p.kind, p.cls) for p in found.all()] == [p.name for p in found.all()]


def test_a_class_that_is_given_to_training_is_looked_at_too(tmp_path: Path) -> None:
    path = write(tmp_path, OPTIMIZER)
    optimizer = load([path]).find("optimizer", "subgradient")
    with pytest.raises(PluginError, match="'owpc' has no needs_convex"):
        model_plan(load(), optimizer=load().find("loss", "owpc"))
    assert model_plan(load(), optimizer=optimizer).optimizer is optimizer
