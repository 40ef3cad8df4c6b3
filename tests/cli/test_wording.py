"""One language for parameters: backticks in the library, options at the edge of the shell."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import owpc_ltr as ltr
from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.generator import help_text
from owpc_ltr.cli.options import named_options
from owpc_ltr.cli.wording import as_typed, running
from owpc_ltr.data.blocks import text_table, wrapped_text
from owpc_ltr.host.commands import plugin_commands
from tests.commands import Run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([*ROOT.glob("owpc_ltr/**/*.py"), *ROOT.glob("plugins/**/*.py")])
ALL = [command for command in (*COMMANDS, *plugin_commands().commands) if command.function]
OPTION = re.compile(r"(?<![\w-])--[a-z]")


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("`folds` and `dask`", "--folds and --dask"),
        ("`data` and `runs_in`", "DATA and --in"),
        ('`normalise="scale"`', "--normalise scale"),
        ("`missing='zero', folds=5`", "--missing zero --folds 5"),
        ('`settings={"C": 10, "p": "a b"}`', "--set C=10 --set p='a b'"),
        ("`piecewise_linear=True`", "--piecewise-linear"),
        ("`folds=…`", "--folds …"),
        ("`data='a.txt'`", "a.txt"),
        ("`evaluate(model, data)`", "owpc-ltr evaluate MODEL --data FILE"),
        ("`cluster.log_features(judgments=…)`", "owpc-ltr log-features --judgments …"),
        ("`featuresets.push('f.json')`", "owpc-ltr featureset push f.json"),
        ("`judge_pool(sample=N)`", "owpc-ltr judge pool --sample N"),
        ("`cluster.compare_live(['a', 'b'])`", "owpc-ltr compare-live a b"),
        ("`cluster.models.promote(require=…)`", "owpc-ltr models promote --require …"),
        ("`experiment_status(out=…)`", "owpc-ltr experiment status --out …"),
        ("`plugins()`", "owpc-ltr plugins"),
        ("`models.show('m')`", "owpc-ltr models show m"),
        ("`plugins`", "--plugin"),
    ],
)
def test_a_parameter_is_typed_as_its_option(text: str, typed: str) -> None:
    assert as_typed(f"x {text}: y", named_options(ltr.train)) == f"x {typed}: y"


@pytest.mark.parametrize(
    "text",
    [
        "`absent`",
        "`evaluate(absent=1)`",
        "`nothing(data)`",
        "`owpc-ltr demo`",
        "`a b`",
        "`(`",
        "``",
    ],
)
def test_other_code_stays(text: str) -> None:
    assert as_typed(text, named_options(ltr.train)) == text


def test_data_stay_as_they_are() -> None:
    """A title or a query of a user may hold what looks like a parameter."""
    with running(named_options(ltr.train), {}):
        assert (
            as_typed("'say `folds`' is no file: give `data`")
            == "'say `folds`' is no file: give DATA"
        )
        assert as_typed("the models' `folds` of 'a'") == "the models' --folds of 'a'"
        assert "`folds`" in text_table(["TITLE"], [["how to use `folds`"]])


def test_a_parameter_of_another_command_is_named_with_it(run: Run, tmp_path: Path) -> None:
    """Such texts are read by commands that lack the parameter: none shows its backticks."""
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n")
    (tmp_path / "b.tsv").write_text("query\tdoc_id\tgrade\nred shoes\ta\t1\n")
    for command, typed in {
        "merge {0}/qrels {0}/b.tsv": "add these with owpc-ltr judge convert --topics FILE",
        "convert {0}/qrels": "add these with --topics FILE",
    }.items():
        words = f"judge {command} -o {{0}}/out.tsv".format(tmp_path).split()
        assert run.refusal(3, *words).strip().endswith(typed)


def test_outside_of_a_command_nothing_is_an_option() -> None:
    assert as_typed("`folds`") == "`folds`"
    with running(named_options(ltr.train), {"data": "data in a file"}):
        assert as_typed("`folds` of `data`") == "--folds of data in a file"


def test_a_command_does_not_name_itself_before_its_own_options() -> None:
    options = named_options(ltr.train)
    for text, typed in {
        "`train(folds=5)`": "--folds 5",
        "`train('d.txt', folds=5)`": "owpc-ltr train d.txt --folds 5",
        "`judge_convert(topics=FILE)`": "owpc-ltr judge convert --topics FILE",
    }.items():
        assert as_typed(text, options) == typed


def test_options_are_in_a_text_before_it_is_wrapped() -> None:
    text = "x" * 30 + " give `piecewise_linear=True` or `log_features(extra_features=…)` then"
    with running(named_options(ltr.train), {}):
        lines = wrapped_text(text).split("\n")
    assert "owpc-ltr log-features" in " ".join(lines)
    assert max(map(len, lines)) <= 80
    assert "`log_features(extra_features=…)`" in wrapped_text(text)


def test_an_error_names_what_its_caller_wrote(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    given: dict[str, Any] = {"folds": 2, "validation": data}
    with pytest.raises(ltr.UsageError, match=r"^`folds` and `validation` do not go together"):
        ltr.train(data, **given)
    words = f"train {data} -o m.json --folds 2 --validation {data}"
    assert run.refusal(2, *words.split()).startswith(
        "owpc-ltr: --folds and --validation do not go together"
    )


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
def test_no_parameter_is_left_in_a_help_page(command: Any) -> None:
    options = named_options(command.load())
    everywhere = {name for other in ALL for name in named_options(other.load())}
    texts = [help_text(command.load()), *(option.help.text for option in options.values())]
    for text in texts:
        left = re.findall(r"`(\w+)(?:=[^`]*)?`", as_typed(text, options))
        commands = {other.public_name for other in ALL}
        assert not (everywhere - commands) & set(left), text


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            yield path, node


def test_no_error_names_an_option() -> None:
    for path, node in nodes():
        if isinstance(node, ast.Raise) and "cli" not in path.parts:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    assert not OPTION.search(part.value), f"{path}:{part.lineno}: {part.value}"


def test_no_help_and_no_public_docstring_names_an_option() -> None:
    for path, node in nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"Help", "Reads", "Writes"}:
            given = [
                *node.args,
                *(k.value for k in node.keywords if k.arg not in {"flag", "short"}),
            ]
            for part in (part for value in given for part in ast.walk(value)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    assert not OPTION.search(part.value), f"{path}:{part.lineno}: {part.value}"
    for command in ALL:
        text = inspect.getdoc(inspect.unwrap(command.load())) or ""
        assert not OPTION.search(text), command.name


def test_all_commands_are_listed_by_help_all(run: Run) -> None:
    text = " ".join(run.output("--help-all").split())
    for command in ALL:
        assert f" {command.name} " in text
    assert "Judgments by people, clicks and models: agree, ask, clicks, convert" in " ".join(
        run.output("--help").split()
    )
