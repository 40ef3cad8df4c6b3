"""`owpc-ltr.toml`: what a command takes from it is what its options would give."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest

from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.options import Option, options_of
from owpc_ltr.errors import BadInput
from owpc_ltr.host.commands import Command, ConnectsWith, plugin_commands
from owpc_ltr.host.project import KEYS, PROJECT_FILE, read_project
from owpc_ltr.signatures import described, marks_of, project_key
from tests.commands import Run

IN_FILE = {
    "url": '"http://127.0.0.1:9"',
    "index": '"docs"',
    "alias": '"docs-ranker"',
    "featureset": '"features"',
    "query_template": '"query.json"',
    "window": "50",
    "title_field": '"title"',
    "judgments": '"judgments.tsv"',
    "columns": '{query = "q", doc_id = "sku"}',
    "judged_by": '"people"',
    "metric": '"map,ndcg@10"',
    "data": '"data.parquet"',
    "model": '"model.json"',
}
TYPED = {key: text.strip('"') for key, text in IN_FILE.items()} | {
    "columns": "query=q,doc_id=sku",
}
OTHER = (
    TYPED
    | {"window": "60", "columns": "query=z", "url": "http://127.0.0.1:8"}
    | {
        key: f"other-{TYPED[key]}"
        for key in ("index", "alias", "featureset", "query_template", "title_field", "judgments")
    }
    | {"judged_by": "clicks", "metric": "mrr", "data": "other.parquet", "model": "other.json"}
)
CONNECTS = {"explain": ("--search", "words"), "featureset try": ("new.json",)}
"""What makes a command connect that need not."""


def needs_no_cluster(command: Command) -> bool:
    """Whether it connects only for some arguments, which are not given."""
    marks = marks_of(described(inspect.unwrap(command.load())).parameters["cluster"])
    return command.name not in CONNECTS and any(isinstance(mark, ConnectsWith) for mark in marks)


def all_options(command: Command) -> list[Option]:
    return [option for options in options_of(command.load()) for option in options]


def marked(command: Command) -> dict[str, str]:
    """The keys of a command by parameter."""
    options = all_options(command)
    return {it.name: key for it in options if (key := project_key(it.parameter))}


TAKES = [
    command
    for command in (*COMMANDS, *plugin_commands().commands)
    if command.function and marked(command)
]
"""The commands that take values from the file."""


def write(**changes: str) -> None:
    """The project file, in the test's own folder, and files that it names."""
    lines = (f"{key} = {text}\n" for key, text in {**IN_FILE, **changes}.items() if text)
    Path(PROJECT_FILE).write_text("".join(lines))
    for key in ("data", "model"):
        Path(IN_FILE[key].strip('"')).touch()


def words_of(command: Command, typed: Mapping[str, str] | None = None) -> list[str]:
    """A command line with what is required, and with these values for marked parameters."""
    words, arguments = command.name.split(), list[str]()
    for option in all_options(command):
        key = project_key(option.parameter)
        if key == "url" and needs_no_cluster(command):
            continue
        kind = get_args(option.kind)[0] if get_origin(option.kind) is list else option.kind
        if key and typed is not None:
            value = typed[key]
        elif option.required and not key:
            choices = get_args(kind) or getattr(kind, "__members__", {})
            value = str(next(iter(choices), "3"))
        else:
            continue
        if option.argument:
            arguments.append(value)
        else:
            words += [option.flag, value]
    return [*words, *CONNECTS.get(command.name, ()), *arguments]


@pytest.fixture
def taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command that does nothing; returns its arguments and what it says."""
    seen: list[dict[str, Any]] = []

    def record(_about: Any, _function: Any, arguments: dict[str, Any], _connection: Any) -> None:
        seen.append(arguments)

    monkeypatch.setattr("owpc_ltr.cli.generator.run_job", record)

    def arguments(*words: str) -> tuple[dict[str, Any], str]:
        code, _, err = run(*words)
        assert code == 0, err
        return seen.pop(), err

    return arguments


@pytest.mark.parametrize("command", TAKES, ids=lambda command: command.name)
def test_the_file_gives_what_options_give_options_win_and_it_can_be_ignored(
    command: Command, taken: Any
) -> None:
    keys = marked(command)
    from_options, silence = taken(*words_of(command, TYPED))
    assert silence == ""
    write()
    from_file, line = taken(*words_of(command))
    named = {it.split(" ")[0] for it in line.removeprefix(f"{PROJECT_FILE}: ").strip().split(", ")}
    applies = {key for key in keys.values() if key in named}
    assert {name: from_file.get(name) for name, key in keys.items() if key in applies} == {
        name: from_options[name] for name, key in keys.items() if key in applies
    }
    # The columns of judgments, and an address, apply to what is there.
    assert set(keys.values()) - applies <= {"columns", "judged_by", "url"}
    from_others, line = taken(*words_of(command, OTHER))
    assert line == ""
    assert (from_others, line) == taken(*words_of(command, OTHER), "--no-project")
    write(columns="3")
    assert taken(*words_of(command, TYPED), "--no-project") == (from_options, "")


def test_every_key_is_taken_by_a_command_but_that_of_keep() -> None:
    assert {key for command in TAKES for key in marked(command).values()} == {*KEYS} - {"keep"}
    assert set(IN_FILE) == {*KEYS} - {"keep"}


def test_what_deletes_or_switches_by_name_needs_the_name() -> None:
    for command in TAKES:
        if command.name.split()[-1] in {"delete", "promote", "rollback", "stop", "push", "index"}:
            assert set(marked(command).values()) <= {"url", "index"}, command.name
    assert {key for it in TAKES if it.name == "index" for key in marked(it).values()} == {"url"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("search words", "alias docs-ranker"),
        ("search words --reranker r.json", ""),
        ("log-features", "columns query=q,doc_id=sku"),
        ("log-features --judgments other.tsv", ""),
        ("compare-live", "judged_by people"),
        ("compare-live --judgments other.tsv", ""),
        ("compare-live --proxy-labels clicks.tsv", ""),
        ("evaluate", "data data.parquet"),
        ("explain model.json", ""),
    ],
)
def test_a_value_is_taken_only_where_it_is_of_what_is_used(
    words: str, expected: str, taken: Any
) -> None:
    write()
    line = taken(*words.split())[1]
    for key in ("alias", "columns", "judged_by", "data"):
        if expected.startswith(key):
            assert expected in line
    if not expected:
        assert not re.search("alias|judged_by", line)
        assert ("columns" in line) is ("proxy" in words)
    assert ("url" in line) is (not words.startswith(("explain", "evaluate")))


def test_the_address_of_the_environment_comes_before_that_of_the_file(
    taken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert taken("models")[0]["url"] == "http://127.0.0.1:9"
    monkeypatch.setenv("OWPC_LTR_URL", "http://127.0.0.1:7")
    assert "url" not in taken("models")[0]


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('indx = "docs"', r"there is no key 'indx': did you mean 'index'\?"),
        ("[train]\nfolds = 5", "there is no key 'train': use alias, "),
        (f'password = "{SECRET}"', "'password' is a secret, .* set OWPC_LTR_USER and"),
        (f'api-key = "{SECRET}"', "'api-key' is a secret"),
        (f'[keep]\ntoken = "{SECRET}"', "'token' is a secret"),
        (f'url = "https://me:{SECRET}@host"', "url carries a user or password"),
        (f'url = ["https://me:{SECRET}@host"]', "url must be a text"),
        ("index = 3", "index = 3 must be a text"),
        ("window = 1.5", "window = 1.5 must be a whole number"),
        ('index = ""', "index is empty: give it a value"),
        ('columns = "query=q"', r"'columns' is a table: write \[columns\]"),
        ("columns = {query = 3}", r"\[columns\]: query = 3 must be a text"),
        ('keep = "plan.toml"', r"'keep' is a table: write \[keep\]"),
        ('index = "docs"\nalias = ', r"cannot read owpc-ltr.toml: .*line 2"),
        ('index = "a"\nindex = "b"', r"cannot read owpc-ltr.toml: .*line 2"),
        ("a = " + "[" * 5_000, "cannot read owpc-ltr.toml"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_key_or_line_and_no_secret(
    text: str, complaint: str, run: Run
) -> None:
    Path(PROJECT_FILE).write_text(f"{text}\n")
    err = run.refusal(3, "train")
    assert re.search(f"^owpc-ltr: (owpc-ltr.toml|cannot).*{complaint}|{complaint}", err)
    assert PROJECT_FILE in err
    assert SECRET not in err
    with pytest.raises(BadInput):
        read_project()


def test_a_file_that_cannot_be_read_is_not_taken_for_none(run: Run, tmp_path: Path) -> None:
    link = tmp_path / PROJECT_FILE
    for target in ("nowhere.toml", PROJECT_FILE, "/dev/zero"):
        link.symlink_to(target)
        assert PROJECT_FILE in run.refusal(3, "inspect")
        link.unlink()
    link.mkdir()
    assert "it is a folder" in run.refusal(3, "inspect")
    link.rmdir()
    (tmp_path / "shared.toml").write_text('data = "shared.parquet"\n')
    link.symlink_to("shared.toml")
    assert "data shared.parquet" in run.refusal(3, "inspect")


@pytest.mark.parametrize(
    ("text", "words", "complaint"),
    [
        ("window = 0", "upload m.json", "owpc-ltr.toml: window: Input should be greater"),
        ('index = "a,b"', "log-features --judgments j.tsv --out d.parquet", "'a,b' cannot name"),
        ('metric = "ndgc@10"', "evaluate feature:a --data data.txt", "ndgc"),
        ('url = "search:9200"', "models", "owpc-ltr.toml: url is not an address of an engine"),
        (
            'columns = {document = "sku"}\njudgments = "j.tsv"',
            "log-features --out d.parquet",
            "columns in owpc-ltr.toml names the unknown role 'document'",
        ),
        ('data = "j.tsv"\njudgments = "j.tsv"', "log-features", "j.tsv"),
    ],
)
def test_a_value_is_checked_as_the_option_is_and_named_by_its_key(
    text: str, words: str, complaint: str, run: Run
) -> None:
    Path("j.tsv").write_text("query\tdoc_id\tgrade\nq\td\t1\n")
    Path("data.txt").write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:0\n")
    Path(PROJECT_FILE).write_text(text)
    _, _, err = run(*words.split())
    assert complaint in err.splitlines()[-1]


def test_an_error_names_no_value_of_the_file_that_does_not_apply(run: Run) -> None:
    """Columns of the file are those of its judgments, and not of a file of queries."""
    Path(PROJECT_FILE).write_text('columns = {query = "q"}\njudgments = "j.csv"\n')
    Path("asked.csv").write_text("words,year\nred shoes,1982\n")
    refusal = run.refusal(
        3, "judge", "pool", "--queries", "asked.csv", "--rankers", "query", "-o", "s.csv",
        "--url", "http://127.0.0.1:9",
    )  # fmt: skip
    assert refusal.strip().endswith("or others do: --columns query=q")


@pytest.mark.parametrize(
    ("words", "writer"), [("train", "log-features"), ("upload", "train"), ("compare-live", "train")]
)
def test_what_is_not_written_yet_is_named_with_the_command_that_writes_it(
    words: str, writer: str, run: Run
) -> None:
    Path("j.tsv").write_text("query\tdoc_id\tgrade\nq\td\t1\n")
    Path(PROJECT_FILE).write_text('data = "d.parquet"\nmodel = "m.json"\njudgments = "j.tsv"\n')
    assert run.refusal(3, words).strip().endswith(f"not there yet: owpc-ltr {writer} writes it")
    assert "yet" not in run.refusal(3, "train", "x.parquet")


def test_a_command_that_lacks_a_value_says_that_the_file_can_give_it(run: Run) -> None:
    err = run.refusal(2, "train")
    assert "missing argument 'DATA'. Give it, or write data into owpc-ltr.toml" in err


def test_python_reads_no_file(run: Run) -> None:
    import owpc_ltr as ltr

    assert run  # whose folder this is
    write()
    with pytest.raises(TypeError, match="data"):
        ltr.train()  # type: ignore[call-arg]
    assert ltr.connect().engine.settings.url != "http://127.0.0.1:9"
