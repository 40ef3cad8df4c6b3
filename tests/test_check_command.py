"""`owpc-ltr check`: the contracts of all kinds that a file offers, and a liar of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owpc_ltr.host.registry import KINDS, load
from owpc_ltr.plugin_checks import check_plugin
from tests.commands import Run, commands_in

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return commands_in(tmp_path, monkeypatch, capsys)


def test_the_examples_are_of_every_kind() -> None:
    found = load(EXAMPLES.glob("*/*.py"))
    assert {p.kind for p in found.all() if p.source.endswith(".py")} == set(KINDS)


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize(
    "name", ["worst_pairs", "success", "json_lines", "weights_csv", "known_looks"]
)
def test_an_honest_file_holds(run: Run, name: str) -> None:
    Path("mine.py").write_text(TEXTS[name])
    code, out, err = run("check", "mine.py")
    assert (code, err) == (0, "")
    assert out.startswith("holds   ")
    assert "every promise holds; checks made: " in out


@pytest.mark.parametrize(("name", "before", "after", "words"), LIARS)
def test_a_liar_of_each_kind_is_exit_5_and_said_by_its_name(
    run: Run, name: str, before: str, after: str, words: str
) -> None:
    assert before in TEXTS[name]
    Path("mine.py").write_text(TEXTS[name].replace(before, after))
    code, out, err = run("check", "mine.py", "--json")
    assert code == 5
    told = json.loads(out)
    faults = [one["fault"] for one in told["checks"] if not one["holds"]]
    assert not told["holds"]
    assert faults
    assert all(words in fault and "\n" not in fault for fault in faults)
    assert err.startswith(f"owpc-ltr: {len(faults)} of {len(told['checks'])} checks broke; ")
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
    code, out, err = run("check", "mine.py")
    assert code == 5
    assert "holds   loss worst-pairs, with share=20.0 margin=1.0\n" in out
    assert "BREAKS  loss liar, with share=20.0 margin=1.0\n        loss 'liar'" in out
    assert "asymmetry " in out
    assert "1 of 2 checks broke" in err


def test_an_installed_plugin_is_checked_by_name_with_every_choice_of_its_settings(
    run: Run,
) -> None:
    code, out, _ = run("check", "pairwise", "--json")
    assert code == 0
    told = json.loads(out)
    assert len({one["given"] for one in told["checks"]}) == len(told["checks"]) > 1
    assert told["losses"][0]["name"] == "pairwise"
    assert told["losses"][0]["cost_exists"]


def test_with_settings_a_plugin_is_checked_as_they_say(run: Run) -> None:
    code, out, _ = run("check", "owpc", "--set", "loss.generator=inverse", "--json")
    (one,) = json.loads(out)["checks"]
    assert code == 0
    assert one["given"].startswith("generator=inverse ")


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
    code, out, err = run("check", "mine.py")
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
    code, _, err = run("check", *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_optimizers_are_checked_with_the_losses_that_suit_them() -> None:
    registry = load([EXAMPLES / "owpc-ltr-subgradient" / "subgradient.py"])
    (plugin,) = [found for found in registry.all("optimizer") if found.name == "subgradient"]
    convex = {found.name for found in registry.all("loss") if found.cls().convex}
    first = next(check_plugin(plugin, registry))
    assert first.holds
    assert first.given.removeprefix("loss ") in convex
    assert "lambdarank" not in convex
