"""Commands are made from signatures: types, checks, panels, groups, and commands of plugins."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest
from typer.testing import CliRunner

import owpc_ltr as ltr
from owpc_ltr.cli.app import app
from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.generator import PANELS, command_of, help_text
from owpc_ltr.cli.options import command_line_type
from owpc_ltr.errors import BadInput, PluginError, Refused, UsageError
from owpc_ltr.host.commands import Command, Plugins, plugin_commands
from owpc_ltr.signatures import (
    Argument,
    Help,
    Progress,
    Reads,
    Seed,
    Writes,
    job,
    silent,
)
from tests.commands import Run
from tests.without_plugins import ABSENT

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


class Colour(StrEnum):
    red = "red"
    green = "green"


@dataclass(frozen=True)
class DatasetFacts:
    """A result that shows what the function was given."""

    values: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {name: str(value) for name, value in self.values.items()}

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items())


def doubled(number: int) -> int:
    return 2 * number


@job
def everything(
    data: Annotated[Unknown | Path | str, Reads("The data.")],
    more: Annotated[str | None, Help("More.")] = None,
    *,
    names: Annotated[Sequence[str], Help("Names.", flag="--one-name")] = (),
    columns: Annotated[Sequence[str] | Path, Reads("A file of names.", cli=Path)] = (),
    count: Annotated[int, Help("How many.", min=1, panel="Data")] = 3,
    twice: Annotated[float | None, Help("Doubled.", cli=int, parse=doubled)] = None,
    colour: Annotated[Colour, Help("Its colour.")] = Colour.red,
    kind: Annotated[Literal["a", "b"] | None, Help("Its kind.")] = None,
    loud: Annotated[bool, Help("Say it loudly.")] = False,
    training: Annotated[bool, Help("Do not train.")] = True,
    curve: Annotated[bool | None, Help("Draw it.")] = None,
    out: Annotated[Path | str | None, Writes("Where it goes.", required=True)] = None,
    page: Annotated[Path | str | None, Writes("A page.")] = None,
    plugins: Plugins = (),
    seed: Seed = 0,
    only_python: Unknown[int] | None = None,
    progress: Progress = silent,
) -> DatasetFacts:
    """Do everything. That is
    a lot.

    A second paragraph. Raises UsageError.

    >>> 1 + 1
    2
    """
    progress("working", None)
    given = locals()
    del given["progress"]
    return DatasetFacts(given)


@job
def refused(data: Annotated[Path, Reads("The data.")]) -> DatasetFacts:
    """Find something, and refuse it."""
    raise Refused("it is not good").with_result(DatasetFacts({"data": data}))


@job
def greet(*, name: Annotated[str, Help("Whom to greet."), Argument.NAME] = "all") -> None:
    """Greet.

    Python: nothing.
    """
    print(f"hello {name}")


@dataclass(frozen=True)
class Steps:
    """A result."""

    count: int

    def as_dict(self) -> dict[str, int]:
        return {"count": self.count}


@job
def printing() -> Steps:
    """Print while it works."""
    print("step 1")
    return Steps(1)


@job
def untyped(*, data: Annotated[Unknown, Help("What?")] = None) -> None:
    """Have no type."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.txt").write_text("1 qid:1 1:1\n2 qid:1 1:2\n2 qid:1 1:3\n")


Call = Callable[..., str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a function of this file as a command: what it prints."""

    def run(function: Callable[..., Any], words: str) -> str:
        command_of(about(function)).main(words.split(), standalone_mode=False)
        return capsys.readouterr().out

    return run


def about(function: Callable[..., Any]) -> Command:
    return Command("it", f"{__name__}:{function.__name__}", "")


def test_a_function_gets_what_the_options_say(call: Call) -> None:
    assert call(everything, "data.txt --out o") == (
        "data=data.txt more=None names=() columns=() count=3 twice=None colour=red kind=None "
        "loud=False training=True curve=None out=o page=None plugins=() seed=0 "
        "only_python=None\nwrote o\n"
    )
    Path("p.py").write_text("")
    words = (
        "data.txt x -o o --one-name a --one-name b --count 7 --twice 4 --colour green --kind b "
        "--loud --no-training --curve --page p --plugin p.py --seed 9"
    )
    assert call(everything, words) == (
        "data=data.txt more=x names=['a', 'b'] columns=() count=7 twice=8 colour=green kind=b "
        "loud=True training=False curve=True out=o page=p plugins=[PosixPath('p.py')] seed=9 "
        "only_python=None\nwrote o\nwrote p\n"
    )
    assert json.loads(call(everything, f"{words} --json"))["twice"] == "8"


def test_what_is_printed_is_the_result_or_its_json_or_nothing(call: Call) -> None:
    assert call(greet, "--name x") == "hello x\n"
    with pytest.raises(Exception, match="No such option: --json"):
        call(greet, "--json")
    assert call(printing, "") == "step 1\nSteps(count=1)\n"
    assert json.loads(call(printing, "--json")) == {"count": 1}
    # Standard output has the file alone.
    assert call(everything, "data.txt --out -") == ""


def test_a_result_is_shown_before_the_error_that_carries_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Refused, match="it is not good"):
        command_of(about(refused)).main(["data.txt"], standalone_mode=False)
    assert capsys.readouterr().out == "data=data.txt\n"
    with pytest.raises(Refused) as caught:
        refused(Path("data.txt"))
    assert isinstance(caught.value.result, DatasetFacts)


@pytest.mark.parametrize(
    ("words", "given", "error", "shell", "python"),
    [
        ("none.txt -o o", {"data": "none.txt"}, BadInput, "cannot read none.txt: no such file", ""),
        ("data.txt -o no/o", {"out": "no/o"}, UsageError, "there is no folder no", ""),
        ("data.txt -o data.txt", {"out": "data.txt"}, UsageError, "it is the input data.txt", ""),
        (
            "data.txt -o o --page o",
            {"out": "o", "page": "o"},
            UsageError,
            "--out o and --page o are one file",
            "`out` o and `page` o are one file",
        ),
        ("data.txt -o o --plugin x", {"plugins": ["x"]}, PluginError, "x: there is no such", ""),
    ],
)
def test_marks_are_checked_from_the_shell_and_from_python(
    call: Call, words: str, given: dict[str, Any], error: type[Exception], shell: str, python: str
) -> None:
    with pytest.raises(error, match=shell):
        call(everything, words)
    with pytest.raises(error, match=python or shell):
        everything(**{"data": "data.txt", **given})


def test_names_are_not_empty(call: Call) -> None:
    with pytest.raises(UsageError, match=r"^--name is empty: give it a name, or leave it out"):
        call(greet, "--name=")
    with pytest.raises(UsageError, match=r"^`name` is empty"):
        greet(name="")


def test_python_may_leave_out_what_the_shell_demands_and_gives_objects_for_files(
    call: Call,
) -> None:
    with pytest.raises(Exception, match="Missing parameter: out"):
        call(everything, "data.txt")
    assert everything("data.txt").values["out"] is None
    for data in (object(), np.zeros(3)):
        assert everything(data).values["data"] is data


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Path | str | None, Path),
        (str | Path, Path),
        (int | None, int),
        (Literal["a"] | None, Literal["a"]),
        (Sequence[float], list[float]),
        (str | tuple[Path | str, ...] | None, list[Path]),
        (Colour, Colour),
        (dict[str, int], None),
        (object, None),
    ],
)
def test_the_type_on_the_command_line(annotation: Any, expected: Any) -> None:
    assert command_line_type(annotation) == expected


def test_a_parameter_without_a_type_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="the parameter 'data' needs cli="):
        command_of(about(untyped))


def page_of(function: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> str:
    command_of(about(function)).main(["-h"], prog_name="owpc-ltr it", standalone_mode=False)
    return capsys.readouterr().out


def test_the_help_has_panels_and_no_types_of_python(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = page_of(everything, capsys)
    assert page.startswith(
        "Usage: owpc-ltr it [OPTIONS] DATA [MORE]\n\n  Do everything.\n\n  That is a lot.\n\n"
        "  A second paragraph.\n\nArguments:\n  DATA  The data.  [required]\n"
    )
    titles = re.findall(r"^(\S.*):$", page, re.MULTILINE)
    assert titles == ["Arguments", "Options", "Data options", "Advanced options"]
    for line in (
        "  --one-name TEXT     Names; may be repeated.\n",
        "  --colour red|green  Its colour.  [default: red]\n",
        "  --kind a|b          Its kind.\n",
        "  --no-training       Do not train.\n",
        "  -o, --out FILE      Where it goes.  [required]\n",
        "  --count N  How many.  [default: 3; x>=1]\n",
        "  --seed N          Seed of all randomness.  [default: 0]\n",
    ):
        assert line in page
    assert "only" not in page
    assert "<" not in page


def test_the_help_ends_where_python_begins() -> None:
    assert help_text(everything) == "Do everything.\n\nThat is\na lot.\n\nA second paragraph."
    assert help_text(greet) == "Greet."


OURS = [command for command in COMMANDS if command.function]
"""Of groups there is no function."""


@pytest.mark.parametrize("command", OURS, ids=lambda command: command.name)
def test_the_table_says_what_the_docstring_says_and_every_option_has_another_name(
    command: Command,
) -> None:
    assert help_text(command.load()).partition("\n")[0] == command.summary
    spellings = [text for option in command_of(command).params for text in option.opts]
    assert len(spellings) == len(set(spellings))


EVERY = (*COMMANDS, *plugin_commands().commands)

PLUGIN = """
from owpc_ltr.host.commands import Command

def wave():
    'Wave.'
    print("a wave")

def draw():
    'Draw.'
    import no_such_package

def ltr_commands():
    return [
        Command("parade", "", "What a parade has."),
        Command("parade wave", "a_plugin:wave", "Wave."),
        Command("judge wave", "a_plugin:wave", "Wave."),
        Command("draw", "a_plugin:draw", "Draw.", extra="parade[draw]"),
        Command("inspect", "a_plugin:wave", "Wave."),
    ]
"""


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs commands beside two plugins, the second of which is broken."""
    plugin_commands.cache_clear()
    for name, source in {"a_plugin": PLUGIN, "b_plugin": "raise ValueError('broken')"}.items():
        (tmp_path / f"{name}.py").write_text(source)
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[owpc_ltr.commands]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield run
    plugin_commands.cache_clear()
    for name in ("a_plugin", "b_plugin"):
        sys.modules.pop(name, None)


def test_plugins_bring_commands_and_groups(run: Run) -> None:
    assert run("parade", "wave")[:2] == (0, "a wave\n")
    assert run("judge", "wave")[:2] == (0, "a wave\n")
    code, page, error = run("--help")
    assert code == 0
    for line in ("What a parade has.", "Draw.", "Other:\n"):
        assert re.search(line, page)
    assert "warning: plugin 'b_plugin' (b_plugin) failed to load: ValueError: broken\n" in error
    assert "a plugin's command 'inspect' is not there" in error
    assert "  wave  Wave.\n" in run("parade", "--help")[1]


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    for words in ((), ("judge",), ("parade",)):
        code, out, error = run(*words)
        assert (code, out) == (2, "")
        assert run(*words, "-h")[1] in error
        assert error.endswith("\n")
    assert run("plugins") == run("plugins", "show")


def test_a_command_of_ours_imports_no_plugin(run: Run, tmp_path: Path) -> None:
    assert run("inspect", "none.txt")[0] == 3
    assert "a_plugin" not in sys.modules


def test_a_package_that_is_missing_is_told_in_one_line(run: Run) -> None:
    code, out, error = run("draw")
    assert (code, out) == (2, "")
    assert error.endswith(
        "owpc-ltr: draw needs no_such_package, which is not installed: pip install 'parade[draw]'\n"
    )


def test_the_functions_of_plugins_are_public_names(run: Run) -> None:
    assert ltr.parade_wave.__doc__ == "Wave."
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ltr.nothing  # noqa: B018


def test_the_panels_of_every_command_stand_in_one_order_without_types_of_python() -> None:
    for about in EVERY:
        if not about.function:
            continue
        lines = CliRunner().invoke(app, [*about.name.split(), "--help"]).output.splitlines()
        panels = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
        known = ["Arguments:", "Options:", *(f"{panel} options:" for panel in PANELS[1:])]
        assert panels == [panel for panel in known if panel in panels], about.name
        assert not [line for line in lines if re.search(r"\bNone\b|<class|Sequence|Path\b", line)]


@pytest.mark.parametrize(
    "command", [command for command in EVERY if command.function], ids=lambda command: command.name
)
def test_the_first_page_has_fifteen_options_none_that_connects_and_another_has_all(
    command: Command,
) -> None:
    words = command.name.split()
    printed = [
        CliRunner().invoke(app, [*words, option]).stdout for option in ("--help", "--help-all")
    ]
    pages = [page[page.index("\nOptions:") :] if page else "" for page in printed]
    first, whole = (len(re.findall(r"^  (?:-\w, )?--", page, re.MULTILINE)) for page in pages)
    assert 0 < first <= 15
    assert "--url" not in pages[0]
    more = re.search(r"and (\d+) more \(.*\) in owpc-ltr .* --help-all", " ".join(pages[0].split()))
    assert whole == (first + int(more[1]) if more else 0)
    assert "more (" not in pages[1]


def test_the_options_that_connect_are_shown_once() -> None:
    page = CliRunner().invoke(app, ["--help"]).stdout
    for option in ("--url URL", "--store-kind", "--store ", "--ca FILE", "--insecure"):
        assert len(re.findall(f"^  {option}", page, re.MULTILINE)) == 1


@pytest.mark.skipif(bool(ABSENT), reason="texts name commands of all plugins")
def test_every_command_of_a_group_that_a_text_of_ours_names_is_there() -> None:
    there = {about.name for about in EVERY}
    groups = "|".join(about.name for about in EVERY if not about.function)
    named = {
        command
        for folder in ("owpc_ltr", "plugins")
        for path in (Path(__file__).parents[2] / folder).rglob("*.py")
        # Parsing takes most of the time, and few files name a command.
        if "owpc-ltr " in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for command in re.findall(rf"owpc-ltr ((?:{groups}) [a-z][a-z-]*)", node.value)
    }
    assert len(named) > 5
    assert named <= there
