"""The command line: each fault is one line and an exit code; help and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from owpc_ltr import save_model
from owpc_ltr.cli.app import app
from owpc_ltr.data.blocks import text_table
from owpc_ltr.errors import UsageError
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.names import check_name
from tests.commands import Run
from tests.session_node import free_port

FEATURESET = '{"featureset": {"name": "f", "features": [%s]}}'
FEATURE = '{"name": "a", "params": ["keywords"], "template": {"match": {"t": "{{keywords}}"}}}'


def letor(queries: int = 40) -> str:
    generator = np.random.default_rng(0)
    lines = []
    for query in range(queries):
        for document in range(8):
            x = generator.normal(size=3)
            label = int(x[0] + generator.normal() > 1)
            values = " ".join(f"{i}:{value:.4f}" for i, value in enumerate(x, 1))
            lines.append(f"{label} qid:{query} {values} # docid = d{document}")
    return "\n".join(lines) + "\n"


def test_the_workflow_of_a_researcher(run: Run) -> None:
    Path("train.txt").write_text(letor())
    Path("vali.txt").write_text(letor(10))
    words = ("train", "train.txt", "--validation", "vali.txt", "--loss", "owpc")
    more = ("--optimizer", "larank", "--grid", "C=1e-2..1e1", "--metric", "map", "--out", "m.json")
    code, out, err = run(*words, *more)
    assert (code, "10 of 10 validation queries are in the training data" in err) == (0, True)
    assert out.count("\n") == 10
    assert "wrote m.json" in out
    out = run.output("evaluate", "m.json", "--data", "vali.txt", "--metric", "ndcg@3", "--json")
    (metric,) = json.loads(out)["rankers"][0]["metrics"]
    assert metric["mean"] > metric["all_tied_baseline"]
    assert "P HOLM" in run("evaluate", "m.json", "--data", "vali.txt", "--baseline", "feature:1")[1]


def test_an_uploaded_name_is_measured_live_and_evaluate_says_so(run: Run) -> None:
    Path("judgments.tsv").write_text("query\tdoc\tgrade\na\td1\t1\n")
    code, out, err = run("evaluate", "movies-owpc", "--data", "judgments.tsv")
    assert (code, out) == (3, "")
    assert "cannot read the model movies-owpc" in err
    assert "compare-live" in err


def test_the_version_is_told(run: Run) -> None:
    assert run("--version")[1].startswith("owpc-ltr ")


def test_plugins_are_listed_for_people_and_machines(run: Run) -> None:
    assert "owpc" in run("plugins")[1]
    listed = json.loads(run("plugins", "--json")[1])
    assert set(listed["plugins"][0]) == {
        "kind", "name", "claims", "settings", "choices", "chosen", "variants", "summary", "formula",
        "meaning", "source",
    }  # fmt: skip
    output = run("plugins", "show", "larank")[1].splitlines()
    assert output[0].startswith("optimizer larank, of owpc-ltr")
    assert "claims: needs_convex, uses_loss" in output
    assert any(line.split()[:2] == ["C", "chosen"] for line in output)
    words = " ".join(run("plugins", "show", "owpc")[1].split())
    assert "generator constant constant, top, inverse, exponential, logarithmic" in words
    assert "`generator` g gives the weights" in words
    assert "also: ndcg-letor" in run("plugins", "show", "ndcg-letor")[1]
    assert run("plugins", "show", "nosuch")[0] == 2
    assert "'owcp': did you mean 'owpc'?" in run("plugins", "show", "owcp")[2]
    assert (
        "use owpc-ltr train --loss lambdarank --optimizer boosting"
        in run("plugins", "show", "lambdamart")[2]
    )
    assert listed["failures"] == []


GOOD = "1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:0\n"


@pytest.mark.parametrize(
    ("words", "code", "fragment"),
    [
        (("train", "nowhere.txt", "--out", "m.json"), 3, "nowhere.txt"),
        (("train", "binary", "--out", "m.json"), 3, "line 1: a zero byte"),
        (("train", "good.txt"), 2, "--out"),
        (("train", "good.txt", "--out", "no/m.json"), 2, "there is no folder no"),
        (("train", "good.txt", "--out", "."), 2, "it is a folder"),
        (("train", "good.txt", "--out", "m.json", "--loss", "owcp"), 2, "installed: "),
        (("train", "good.txt", "--out", "m.json", "--set", "loss.p=x"), 2, "p=x"),
        (("train", "good.txt", "--out", "m.json", "--set", "=5"), 2, "'=5'"),
        (("train", "good.txt", "--out", "m.json", "--grid", "C=a..b"), 2, "C=a..b"),
        (("train", "good.txt", "--out", "m.json", "--metric", "ncdg@10"), 2, "ncdg"),
        (("train", "good.txt", "--out", "m.json", "--plugin", "no.py"), 2, "no.py"),
        (("train", "good.txt", "--out", "m.json", "--normalise", "z"), 2, "'z'"),
        (("train", "good.txt", "--out", "m.json", "--test-share", "2"), 2, "2.0"),
        (("evaluate", "nowhere.json", "--data", "good.txt"), 3, "nowhere.json"),
        (("evaluate", "good.txt", "--data", "good.txt"), 3, "holds data, no model"),
        (("evaluate", "model.json", "--data", "good.txt"), 3, "lacks 'title'"),
        (("evaluate", "model.json", "--data", "good.txt", "--split", "some"), 2, "'some'"),
        (
            ("evaluate", "binary", "--data", "good.txt"),
            3,
            "binary is not a model file, nor a run",
        ),
        (("import", "binary", "--out", "m.json"), 3, "it is binary"),
        (
            ("evaluate", "model.json", "--data", "good.txt", "--baseline", "bm25"),
            3,
            "to name a feature of the data, write feature:bm25",
        ),
        (("nonsense",), 2, "nonsense"),
        (("featureset", "push", "good.txt", "--index", "i"), 3, "good.txt"),
        (("featureset", "push", "twice.json", "--index", "i"), 3, "'a'"),
        (("index", "broken.jsonl", "--index", "i"), 3, "line 1"),
        (("index", "list.jsonl", "--index", "i"), 3, "not a JSON object"),
        (("index", "list.jsonl", "--index", "i", "--append", "--recreate"), 2, "choose one"),
        (("index", "good.txt", "--index", "i", "--settings", "list.jsonl"), 3, "list.jsonl"),
        (("search", "x", "--index", "a/../b", "--model", "m"), 2, "a/../b"),
        (("search", "x", "--index", "i", "--model", "m", "--url", "ftp://x"), 2, "--url is no"),
        (("models", "show", "--url", "https://me:secret@host"), 2, "OWPC_LTR_USER"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    run: Run, words: tuple[str, ...], code: int, fragment: str
) -> None:
    Path("good.txt").write_text(GOOD)
    Path("binary").write_bytes(bytes(range(256)))
    Path("broken.jsonl").write_text("{")
    Path("list.jsonl").write_text("[1]\n")
    Path("twice.json").write_text(FEATURESET % f"{FEATURE}, {FEATURE}")
    save_model(LinearModel(("title", "2"), np.ones(2)), Path("model.json"))
    before = sorted(path.name for path in Path().iterdir())
    cluster = words[0] in {"search", "models", "index", "featureset"} and "--url" not in words
    url = ("--url", f"http://127.0.0.1:{free_port()}") if cluster else ()
    exit_code, out, err = run(*words, *url)
    assert exit_code == code, err
    assert out == ""
    if url and words[0] in {"index", "featureset"}:
        # A command that writes names its cluster before it does anything.
        named, _, err = err.partition("\n")
        assert named == f"cluster: {url[1]}"
    assert err.startswith("owpc-ltr: ")
    assert err.count("\n") == 1, err
    assert fragment in err
    assert "secret" not in err
    assert sorted(path.name for path in Path().iterdir()) == before


def test_a_cluster_that_is_not_there_is_exit_4(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "0.5")
    url = ("--url", f"http://127.0.0.1:{free_port()}")
    for words in (("models", "show"), ("search", "x", "--index", "i", "--model", "m")):
        assert run.refusal(4, *words, *url).count("\n") == 1


GROUP = typer.main.get_command(app)


def groups(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "commands"):
        yield words
        for name, child in command.commands.items():
            yield from groups(child, (*words, name))


def listed(words: tuple[str, ...]) -> list[tuple[str, str]]:
    env = {"COLUMNS": "80"}
    output = CliRunner().invoke(app, [*words, "--help"], prog_name="owpc-ltr", env=env).stdout
    return re.findall(
        r"^  (\S+) +(\S.*)$", output.partition("Show this message and exit.\n")[2], re.MULTILINE
    )


@pytest.mark.parametrize("words", list(groups(GROUP)), ids=" ".join)
def test_the_summary_of_every_command_fits_its_line(words: tuple[str, ...]) -> None:
    rows = listed(words)
    assert rows
    for name, summary in rows:
        assert not summary.endswith("..."), name
        assert len(name) + len(summary) <= 76


def test_commands_stand_in_the_order_of_the_workflow() -> None:
    names = [name for name, _ in listed(())]
    workflow = ["engine", "index", "featureset", "log-features", "train", "evaluate", "upload",
            "search"]  # fmt: skip
    assert [name for name in names if name in workflow] == [
        name for name in workflow if name != "engine" or find_spec("owpc_ltr_node")
    ]
    commands = GROUP.list_commands(typer.Context(GROUP))  # type: ignore[attr-defined]
    assert {word for word in names if word[0] != "-"} == set(commands)


WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=11)


def test_columns_fit_their_content_and_numbers_stand_to_the_right() -> None:
    lines = text_table(["NAME", "N"], [("a", 1), ("long name", 20)]).splitlines()
    assert lines == ["NAME        N", "a           1", "long name  20"]


def test_a_column_of_text_that_is_too_wide_is_wrapped_under_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = text_table(["KEY", "TEXT"], [("one", "word " * 30), ("two", "short")]).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line[:3] for line in lines] == ["KEY", "one", "   ", "two"]
    assert " ".join(line[3:].strip() for line in lines[1:3]) == "word " * 29 + "word"


@given(st.lists(st.tuples(st.lists(WORD, max_size=40), st.lists(WORD, max_size=40)), max_size=4))
def test_no_line_is_wider_than_80_and_no_word_is_lost(
    texts: list[tuple[list[str], list[str]]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        table = text_table(["A", "B"], [(" ".join(a), " ".join(b)) for a, b in texts]).splitlines()
    assert all(len(line) <= 80 for line in table)
    shown = " ".join(table).split()
    words = [word for a, b in texts for word in (*a, *b)]
    assert sorted(shown) == sorted(["A", "B", *words])


@pytest.mark.parametrize(
    ("name", "meant"), [("Docs Search", "docs-search"), ("_Docs..", "docs"), ("a/../b", "a-b")]
)
def test_a_name_that_cannot_be_one_is_told_with_one_that_can(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {re.escape(meant)}\\?"):
        check_name("model", name)
    assert check_name("model", meant) == meant
