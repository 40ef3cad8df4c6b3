"""Plugins from files: refused when incomplete, `owpc-ltr plugins check`, the example projects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr import save_model
from owpc_ltr.errors import BadInput, PluginError
from owpc_ltr.host.registry import KINDS, PROTOCOLS, checked_name, load
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.plugin_checks import check_plugin
from owpc_ltr.plugin_checks.promises import sample_dataset
from owpc_ltr.protocols import Run as RunExamples
from owpc_ltr.training.plan import model_plan
from tests.commands import Run

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
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
    (TARGET, "[Nowhere]", "[Nowhere()]", "is not a class: offer the class itself"),
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


@pytest.mark.parametrize("text", [LOSS, OPTIMIZER, RERANKER, READER, TARGET])
def test_a_plugin_that_lacks_nothing_is_loaded(tmp_path: Path, text: str) -> None:
    assert any(plugin.source.endswith("mine.py") for plugin in load([write(tmp_path, text)]).all())


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
    registry = load()
    assert registry.all()
    assert [checked_name(p.kind, p.cls) for p in registry.all()] == [p.name for p in registry.all()]


def test_a_class_that_is_given_to_training_is_looked_at_too(tmp_path: Path) -> None:
    path = write(tmp_path, OPTIMIZER)
    optimizer = load([path]).find("optimizer", "subgradient")
    with pytest.raises(PluginError, match="'owpc' has no needs_convex"):
        model_plan(optimizer=load().find("loss", "owpc"))
    assert model_plan(optimizer=optimizer).learner is optimizer


TEXTS = {path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*/*.py"))}
LIARS = [
    ("worst_pairs", "np.add.at(gradient, worse, pushed)",
     "np.add.at(gradient, worse, 2 * pushed)", "claims to be conservative"),
    ("worst_pairs", "return float(taken @ hinge), gradient", "return 1 / 0, gradient",
     "ZeroDivisionError: division by zero"),
    ("subgradient", "objective=lowest,", "objective=lowest + 1.0,", "reports the objective"),
    ("subgradient", "objective - 0.5 * float(subgradient @ subgradient)", "objective",
     "but one has"),
    ("list_range", ".sum(axis=1)\n\n    def as_dict", ".sum(axis=1) + np.arange(len(base_scores))"
     "\n\n    def as_dict", "is not exchangeable"),
    ("success", "1.0 - missed, np.nan", "missed, np.nan", ""),
    ("json_lines", "return head.lstrip().startswith", "return not head.startswith", "taken for"),
    ("json_lines", 'judged = {"query_id": "q1", "query": "rambo", ', 'judged = {"query_id": "q1", ',
     "must read its own"),
    ("weights_csv", "float(weight) for", "2 * float(weight) for", "scores a document"),
    ("known_looks", "(clicks + prior[0])", "(1.1 * clicks + prior[0])", "which the prior"),
]  # fmt: skip


def test_the_examples_are_of_every_kind() -> None:
    registry = load(EXAMPLES.glob("*/*.py"))
    assert {p.kind for p in registry.all() if p.source.endswith(".py")} == set(KINDS)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    "name", ["worst_pairs", "success", "json_lines", "weights_csv", "known_looks"]
)
def test_an_honest_file_holds(run: Run, name: str) -> None:
    Path("mine.py").write_text(TEXTS[name])
    code, out, err = run("plugins", "check", "mine.py")
    assert (code, err) == (0, "")
    assert out.startswith("holds   ")
    assert "every promise holds; checks made: " in out


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize(("name", "before", "after", "words"), LIARS)
def test_a_liar_of_each_kind_is_exit_5_and_said_by_its_name(
    run: Run, name: str, before: str, after: str, words: str
) -> None:
    assert before in TEXTS[name]
    Path("mine.py").write_text(TEXTS[name].replace(before, after))
    code, out, err = run("plugins", "check", "mine.py", "--json")
    assert code == 5
    result = json.loads(out)
    faults = [check["fault"] for check in result["checks"] if not check["holds"]]
    assert not result["holds"]
    assert faults
    assert all(words in fault and "\n" not in fault for fault in faults)
    assert err.startswith(f"owpc-ltr: {len(faults)} of {len(result['checks'])} checks broke; ")
    assert err.count("\n") == 1


@pytest.mark.thorough
def test_every_plugin_of_a_file_is_checked_and_what_breaks_stands_beside_what_holds(
    run: Run,
) -> None:
    honest = TEXTS["worst_pairs"]
    body = honest[honest.index("@dataclass") : honest.index("@hookimpl")]
    liar = body.replace("class WorstPairs", "class Liar").replace('"worst-pairs"', '"liar"')
    liar = liar.replace("return float(taken @ hinge)", "return 1 + float(taken @ hinge[::-1])")
    text = honest.replace("@hookimpl", f"{liar}\n\n@hookimpl")
    Path("mine.py").write_text(text.replace("[WorstPairs]", "[WorstPairs, Liar]"))
    code, out, err = run("plugins", "check", "mine.py")
    assert code == 5
    assert "holds   loss worst-pairs, with share=20.0 margin=1.0\n" in out
    assert "BREAKS  loss liar, with share=20.0 margin=1.0\n        loss 'liar'" in out
    assert "1 of 2 checks broke" in err


def test_an_installed_plugin_is_checked_by_name_with_every_choice_of_its_settings(
    run: Run,
) -> None:
    out = run.output("plugins", "check", "pairwise", "--json")
    result = json.loads(out)
    assert len({check["given"] for check in result["checks"]}) == len(result["checks"]) > 1


def test_with_settings_a_plugin_is_checked_as_they_say(run: Run) -> None:
    code, out, _ = run("plugins", "check", "owpc", "--set", "loss.generator=inverse", "--json")
    (check,) = json.loads(out)["checks"]
    assert code == 0
    assert check["given"].startswith("generator=inverse ")


def test_a_reader_that_can_write_its_format_is_checked_on_hard_files(run: Run) -> None:
    write = (
        "    def write(self, rows):\n"
        "        keys = [dict(query_id=r.query_id, query=r.query,\n"
        "                     judged=[[r.document_id, r.grade]]) for r in rows]\n"
        "        return ''.join(f'{json.dumps(one)}\\n' for one in keys).encode()\n\n"
    )
    text = TEXTS["json_lines"]
    place = text.index("    def example(self)")
    Path("mine.py").write_text(text[:place] + write + text[place:])
    code, out, err = run("plugins", "check", "mine.py")
    assert (code, err) == (0, "")
    assert "holds   judgment-reader json-lines, with files of its writer\nevery" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing-of-this-name",), "no plugin is named 'nothing-of-this-name'"),
        (("pairwise", "--set", "optimizer.C=1"), "'optimizer.C' is a setting of no plugin that is"),
        (("pairwise", "--set", "loss.depth=1"), "has no setting 'depth'"),
        (("nowhere.py",), "nowhere.py: there is no such file"),
    ],
)
def test_what_cannot_be_checked_is_a_fault_of_usage(
    run: Run, words: tuple[str, ...], message: str
) -> None:
    err = run.refusal(2, "plugins", "check", *words)
    assert message in err
    assert err.count("\n") == 1


def test_an_exception_in_a_plugin_is_told_with_its_own_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path.cwd()))
    before = "better, worse = np.nonzero"
    broken = LOSS.replace(before, f'{{}}["lost"]\n        {before}')
    Path("mine.py").write_text(broken)
    place = f"mine.py, line {broken[: broken.index('lost')].count(chr(10)) + 1}: KeyError: 'lost'"
    code, _, err = run("plugins", "check", "mine.py")
    assert (code, err) == (5, f"owpc-ltr: 1 of 1 checks broke; the first: {place}\n")
    Path("data.txt").write_text("".join(f"{d} qid:{q} 1:{d}\n" for q in range(9) for d in (0, 1)))
    words = ("--plugin", "mine.py", "--loss", "worst-pairs", "--set", "optimizer.C=1")
    err = run.refusal(2, "train", "data.txt", *words, "--out", "model.json")
    assert f"owpc-ltr: a plugin failed: {place}; the traceback is in " in err
    assert "bug of ours" not in err


def test_an_export_target_that_returns_no_file_is_named(run: Run) -> None:
    Path("nowhere.py").write_text(TARGET)
    model_path = Path("model.json")
    save_model(LinearModel(("1",), np.ones(1)), model_path)
    words = ("export", str(model_path), "--plugin", "nowhere.py", "--for", "nowhere")
    code, _, err = run(*words, "--version", "1", "--out", "out.txt")
    message = "export target 'nowhere' returned a NoneType: return an ExportedFile"
    assert (code, err) == (2, f"owpc-ltr: {message}\n")


def test_an_installed_plugin_that_does_not_load_is_named_with_its_fault(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Path("broken-1.dist-info")
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[owpc_ltr]\nbroken = not_there_at_all\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    err = run.refusal(2, "plugins", "check", "broken")
    assert "failed to load: ModuleNotFoundError: No module named 'not_there_at_all'" in err
    assert "did you mean 'pairwise'?" in run("plugins", "check", "pairwize")[2]


def test_a_file_named_twice_is_loaded_once(run: Run) -> None:
    Path("mine.py").write_text(LOSS)
    words = ("plugins", "show", "worst-pairs", "--plugin", "mine.py", "--plugin", "mine.py")
    assert run(*words)[0] == 0


def test_optimizers_are_checked_with_the_losses_that_suit_them() -> None:
    registry = load([EXAMPLES / "owpc-ltr-subgradient" / "subgradient.py"])
    (plugin,) = [each for each in registry.all("optimizer") if each.name == "subgradient"]
    convex = {each.name for each in registry.all("loss") if each.cls().convex}
    first = next(check_plugin(plugin, registry))
    assert first.holds
    assert first.given.removeprefix("loss ") in convex
    assert "lambdarank" not in convex


FILES = [
    EXAMPLES / "owpc-ltr-subgradient" / "subgradient.py",
    EXAMPLES / "owpc-ltr-list-range" / "list_range.py",
]
REGISTRY = load(FILES)


def test_the_certificate_of_the_example_optimizer_holds_the_optimum_of_larank() -> None:
    data, loss = sample_dataset(2), REGISTRY.find("loss", "owpc")()
    larank = REGISTRY.find("optimizer", "larank")(C=0.01, tolerance=1e-6)
    optimum = larank.minimise(loss, data, RunExamples()).certificate
    fit = REGISTRY.find("optimizer", "subgradient")(C=0.01).minimise(loss, data, RunExamples())
    certificate = fit.certificate
    least = optimum.objective - optimum.gap
    assert certificate.objective - certificate.gap <= optimum.objective + 1e-9
    assert least - 1e-9 <= certificate.objective <= optimum.objective * 1.05


def test_the_example_reranker_refuses_weights_that_are_not_its_features() -> None:
    with pytest.raises(BadInput, match="2 weights for 1 features"):
        REGISTRY.find("reranker", "list-range")().load({"feature_names": ["a"], "weights": [1, 2]})
