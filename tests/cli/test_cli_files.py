"""Files of commands: missing input is reported first, output replaces only plain files."""

from __future__ import annotations

import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import typer
from typer.models import ArgumentInfo, ParameterInfo

from owpc_ltr import (
    OwpcLtrError,
    RankingDataset,
    load_model,
    make_dataset,
    read_dataset,
    read_judgments,
    save_dataset,
    save_model,
)
from owpc_ltr.cli.app import app
from owpc_ltr.cli.commands import COMMANDS as TABLE
from owpc_ltr.cli.generator import callback_of
from owpc_ltr.data.documents import read_json_lines
from owpc_ltr.data.external_features import read_external_features
from owpc_ltr.data.judgment_tables import read_queries, write_judgments, write_sheet
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.letor import write_letor
from owpc_ltr.data.runs import write_ranking, write_scores
from owpc_ltr.engine.evidence import read_evidence
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.judged_data import read_data
from owpc_ltr.features.feature_set import load_featureset
from owpc_ltr.files.input import read_text
from owpc_ltr.files.output import open_output, output_file, write_output
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.formats.model_reader import Columns, import_with
from owpc_ltr.host import registry
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.signatures import Reads
from tests.commands import Run

LETOR = "".join(
    f"{label} qid:{query} 1:{label + 0.1 * query} 2:{(7 * query + label) % 5} # d{label}\n"
    for query in range(1, 31)
    for label in (0, 1, 2)
)


@pytest.fixture
def run(run: Run, tmp_path: Path) -> Run:
    (tmp_path / "data.txt").write_text(LETOR)
    save_model(LinearModel(("1", "2"), np.array([1.0, 0.5])), tmp_path / "m.json")
    (tmp_path / "ranklib.txt").write_text("## Coordinate Ascent\n1:0.5 2:0.25\n")
    (tmp_path / "names.txt").write_text("a\nb\n")
    return run


COMMANDS = {
    "train": ("train", "data.txt", "--loss", "pairwise", "--set", "optimizer.C=1", "--out"),
    "average": ("average", "m.json", "m.json", "--out"),
    "import": ("import", "ranklib.txt", "--features", "names.txt", "--out"),
    "export": ("export", "m.json", "--for", "opensearch", "--version", "3.8", "--out"),
    "evaluate": ("evaluate", "m.json", "--data", "data.txt", "--split", "all", "--run"),
    "select": ("select", "data.txt", "--folds", "3", "--grid", "C=1", "--journal"),
    "judge": ("judge", "pool", "--queries", "data.txt", "--rankers", "x", "--out"),
    "log-features": (
        *("log-features", "--url", "http://127.0.0.1:1", "--judgments", "data.txt", "--out"),
    ),
}
"""Every command that writes a file which it is told, up to the file."""


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o002])
def test_a_new_file_has_the_rights_that_the_umask_leaves(
    tmp_path: Path, run: Run, mask: int
) -> None:
    """One that is replaced keeps its own."""
    (tmp_path / "own.json").touch(0o600)
    before = os.umask(mask)
    try:
        for name in ("new.json", "own.json"):
            assert run("average", "m.json", "m.json", "--out", name)[0] == 0
    finally:
        os.umask(before)
    rights = [(tmp_path / name).stat().st_mode & 0o777 for name in ("new.json", "own.json")]
    assert rights == [0o666 & ~mask, 0o600]


def special_files(folder: Path) -> dict[str, tuple[str, str]]:
    """Names that are no place for a file, and what is said of each."""
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.path.relpath(folder / "socket"))
    bound.close()
    for name in ("page.pdf", "table.TSV.GZ"):
        (folder / name).write_text("somebody's")
    for link in ("fifo", "folder"):
        (folder / f"to-{link}").symlink_to(link)
    (folder / "loop").symlink_to("loop")
    kind = "it is a pipe, a socket or a device"
    return {
        "fifo": ("fifo", kind),
        "folder": ("folder", "it is a folder"),
        "socket": ("socket", kind),
        "link to a fifo": ("to-fifo", kind),
        "link to a folder": ("to-folder", "it is a folder"),
        "link to itself": ("loop", "links lead nowhere"),
        "null device": ("/dev/null", kind),
        "full device": ("/dev/full", kind),
        "another format": ("page.pdf", "no output is a .pdf file"),
        "packed": ("table.TSV.GZ", "no output is a .gz file"),
        "standard output by name": ("/dev/stdout", "- for standard output"),
        "descriptor": ("/proc/self/fd/1", "- for standard output"),
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_plain_file_is_refused_before_the_work_and_stays(
    tmp_path: Path, run: Run, command: str
) -> None:
    for name, why in special_files(tmp_path).values():
        before = os.lstat(name)
        code, out, error = run(*COMMANDS[command], name)
        assert (code, out) == (2, ""), (name, error)
        assert why in error
        assert error.count("\n") == 1
        assert os.path.samestat(before, os.lstat(name))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_over_its_own_input_by_whatever_name(
    tmp_path: Path, run: Run, command: str
) -> None:
    words = COMMANDS[command]
    source = next(word for word in reversed(words) if (tmp_path / word).is_file())
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "hard").hardlink_to(tmp_path / source)
    (tmp_path / "twice").symlink_to("link")
    content = (tmp_path / source).read_bytes()
    for name in (source, f"./{source}", str(tmp_path / source), "link", "hard", "twice"):
        code, _, error = run(*words, name)
        assert code == 2, (name, error)
        assert "it is the input" in error
        assert (tmp_path / source).read_bytes() == content
    assert (tmp_path / "link").is_symlink()


def test_an_option_names_an_input_too(tmp_path: Path, run: Run) -> None:
    (tmp_path / "n.json").write_bytes((tmp_path / "m.json").read_bytes())
    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
        for part in ("train", "vali", "test"):
            (tmp_path / name / f"{part}.txt").write_text(LETOR)
    for words in (
        ("train", "data.txt", "--validation", "1/vali.txt", "--out", "1/vali.txt"),
        ("import", "ranklib.txt", "--features", "names.txt", "--out", "names.txt"),
        ("average", "m.json", "n.json", "--out", "n.json"),
        ("evaluate", "m.json", "--data", "data.txt", "--run", "m.json"),
        ("select", "1", "2", "3", "--journal", "2/vali.txt"),
    ):
        content = (tmp_path / words[-1]).read_bytes()
        assert "it is the input" in run.refusal(2, *words)
        assert (tmp_path / words[-1]).read_bytes() == content


@pytest.mark.parametrize(
    "words",
    [
        ("train", "data.txt", "--loss", "pairwise", "--out"),
        ("compare", "m.json", "m.json", "--data", "data.txt", "--per-query"),
    ],
    ids=lambda words: words[0],
)
def test_two_outputs_are_two_files(tmp_path: Path, run: Run, words: tuple[str, ...]) -> None:
    pytest.importorskip("owpc_ltr_report")
    (tmp_path / "there.csv").write_text("earlier")
    (tmp_path / "link.csv").symlink_to("there.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "there.csv")
    (tmp_path / "gone.csv").symlink_to("new.csv")
    again = [("there.csv", other) for other in ("there.csv", "./there.csv", "link.csv", "hard.csv")]
    for first, other in [*again, ("new.csv", str(tmp_path / "new.csv")), ("gone.csv", "new.csv")]:
        code, out, error = run(*words, first, "--report", other)
        assert (code, out) == (2, ""), (first, other, error)
        assert f"{words[-1]} {first} and --report {Path(other)} are one file" in error
    assert (tmp_path / "there.csv").read_text() == "earlier"
    assert not (tmp_path / "new.csv").exists()


def test_a_link_of_another_user_in_a_folder_of_all_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "mine").write_text("mine")
    (folder / "out").symlink_to(tmp_path / "mine")
    write_output(folder / "out", b"written through my own link")
    if os.geteuid():
        pytest.skip("only root can give a file to another user")
    os.lchown(folder / "out", 65534, -1)
    with pytest.raises(UsageError, match="a link that another user has put there"):
        write_output(folder / "out", b"x")
    assert (tmp_path / "mine").read_text() == "written through my own link"
    folder.chmod(0o755)
    write_output(folder / "out", b"nobody else can write there now")


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path, run: Run) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mean.json").write_text("earlier")
    (tmp_path / "store" / "mean.json").chmod(0o600)
    (tmp_path / "new.json").symlink_to("store/new.json")
    (tmp_path / "mean.json").symlink_to("store/mean.json")
    for name in ("mean.json", "new.json"):
        assert run("average", "m.json", "m.json", "--out", name)[0] == 0
        assert (tmp_path / name).readlink() == Path("store") / name
        assert load_scoring_model(tmp_path / "store" / name).kind == "linear"
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["mean.json", "new.json"]
    assert (tmp_path / "store" / "mean.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["train", "average", "import", "export", "evaluate"])
def test_standard_output_has_the_file_and_nothing_else(
    tmp_path: Path, run: Run, command: str
) -> None:
    words = COMMANDS[command]
    said = run.output(*words, "a.file").replace("a.file", "")
    for more in ((), ("--json",)):
        reading, writing = os.pipe()
        kept = os.dup(1)
        os.dup2(writing, 1)
        os.close(writing)
        try:
            code, out, error = run(*words, "-", *more)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == (tmp_path / "a.file").read_bytes()
        assert (code, out) == (0, "")
        if not more:
            assert error.replace("-", "").startswith(said.replace("-", ""))
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("command", ["select", "log-features"])
def test_what_is_kept_for_the_next_run_goes_to_no_standard_output(run: Run, command: str) -> None:
    code, out, error = run(*COMMANDS[command], "-")
    assert (code, out, "name a file, not -" in error) == (2, "", True)


def data() -> RankingDataset:
    return make_dataset([[1.0], [2.0]], [0, 1], ["q", "q"], doc_ids=["a", "b"])


def sheet(path: Path) -> None:
    Path("queries.txt").write_text("rambo\n")
    write_sheet(read_queries(Path("queries.txt")), (), {}, path)


def judged() -> Judgments:
    Path("table.tsv").write_text("query_id\tquery\tdoc_id\tgrade\nq\trambo\td\t1\n")
    return read_judgments("table.tsv")


WRITERS: dict[str, Callable[[Path], object]] = {
    "save_dataset": lambda path: save_dataset(data(), path),
    "write_letor": lambda path: write_letor(data(), path),
    "save_model": lambda path: save_model(LinearModel(("1",), np.ones(1)), path),
    "write_scores": lambda path: write_scores(np.ones(2), data(), path),
    "write_ranking": lambda path: write_ranking("q", [("d", 1.0)], path),
    "write_judgments": lambda path: write_judgments(judged(), path),
    "write_sheet": sheet,
}
"""Every function of the package that writes a file which it is told."""


@pytest.mark.parametrize("writer", WRITERS)
def test_functions_refuse_what_commands_refuse_and_follow_links(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write = WRITERS[writer]
    for name, _ in special_files(tmp_path).values():
        if writer == "write_letor" and name.endswith("GZ"):
            continue  # It packs what it writes.
        with pytest.raises(UsageError):
            write(tmp_path / name)
    (tmp_path / "link").symlink_to("file")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    content = (tmp_path / "file").read_bytes()
    write(tmp_path / "plain")
    assert (tmp_path / "plain").read_bytes() == content


def test_binary_output_goes_to_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda _descriptor: True)
    with pytest.raises(UsageError, match="is a terminal"):
        save_dataset(data(), "-")
    assert output_file("-") is None


def test_an_output_that_is_no_input_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    write_output(tmp_path / "a", b"2", [tmp_path / "b", tmp_path / "absent", "feature:x"])
    with open_output(tmp_path / "b", [tmp_path / "a"]) as file:
        file.write(b"3")
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"2", b"3"]


MISSING = "there-is-none"
NOT_READ = {
    *("run", "files", "out", "per_query", "journal", "report", "latex", "folder", "home", "java"),
    *("ca", "data_out", "query_template_out"),
}
"""Paths that are written, or that no command reads as its input."""


def events_in(path: Path) -> object:
    from owpc_ltr_clicks.log_files import read_events

    return next(read_events(path, {}))


def collections_in(path: Path) -> object:
    from owpc_ltr_papers.folders import find_collections

    return find_collections(path)


READERS: dict[str, Callable[[Path], object]] = {
    "data": read_dataset,
    "validation": read_dataset,
    "model": load_scoring_model,
    "models": load_scoring_model,
    "base": load_scoring_model,
    "baseline": load_model,
    "reranker": load_model,
    "featureset": load_featureset,
    "feature_names": read_text,
    "features": read_text,
    "judgments": read_judgments,
    "judged": read_judgments,
    "queries": read_judgments,
    "topics": read_text,
    "trained_on": read_data,
    "cheap": read_dataset,
    "human": read_judgments,
    "proxy_labels": read_dataset,
    "human_labels": read_judgments,
    "query": read_json_object,
    "query_template": read_json_object,
    "extra_features": read_external_features,
    "settings": read_json_object,
    "require": read_evidence,
    "feature_cost": read_json_object,
    "events": events_in,
    "documents": lambda path: next(read_json_lines(path)),
    "plugin": lambda path: registry.load([path]),
    "plugins": lambda path: registry.load([path]),
    "letor": collections_in,
    "candidates": load_featureset,
    "leg": load_featureset,
    "legs": load_featureset,
    "request": read_json_object,
    "pipeline": read_json_object,
    "push file": load_featureset,
    "import path": lambda path: import_with(path, Columns()),
}
"""What reads the file of a parameter, by its name, or by its command and its name."""

RUN_ALL = """
import io, json, sys
from contextlib import redirect_stderr
from owpc_ltr import cli

for words in json.load(sys.stdin):
    sys.argv, error = ["owpc-ltr", *words], io.StringIO()
    with redirect_stderr(error):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code
    slow = [name for name in ("numba", "pyarrow", "scipy", "xgboost") if name in sys.modules]
    print(json.dumps([code, error.getvalue(), slow]))
"""


def commands(group: typer.Typer, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield (*path, name), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, *path, str(inner.name))


def of_all(hint: Any) -> set[Any]:
    """What a type is made of: list[Path] | None of Path, too."""
    return {part for each in get_args(hint) for part in (each, *of_all(each))}


COMMANDS_MISSING = dict(commands(app)) | {
    tuple(command.name.split()): callback_of(command) for command in TABLE if command.function
}


def options(path: tuple[str, ...]) -> dict[str, Any]:
    """The types of a command's options and arguments, without their extras, by name."""
    return get_type_hints(COMMANDS_MISSING[path])


CASES = [
    (path, name)
    for path in COMMANDS_MISSING
    for name, hint in options(path).items()
    if (Path in {hint, *of_all(hint)} and name not in NOT_READ and path[0] != "engine")
    or (path[-1], name) in {("evaluate", "baseline"), ("train-reranker", "base")}
]


def words_of(path: tuple[str, ...], absent: str) -> list[str]:
    """The shortest command line that gives all that is needed, one file of it absent."""
    words = list(path)
    extras = get_type_hints(COMMANDS_MISSING[path], include_extras=True)
    for name, parameter in inspect.signature(COMMANDS_MISSING[path]).parameters.items():
        no_value = parameter.default is inspect.Parameter.empty and name != "ctx"
        if not (no_value or name == absent):
            continue
        (info,) = (each for each in extras[name].__metadata__ if isinstance(each, ParameterInfo))
        hint, value = options(path)[name], "is-there"
        if name == absent:
            value = MISSING
        elif name == "out":
            value = "out.json"
        elif isinstance(hint, type) and issubclass(hint, StrEnum):
            value = next(iter(hint)).value
        elif get_origin(hint) is Literal:
            value = get_args(hint)[0]
        option = [] if isinstance(info, ArgumentInfo) else [_option(info, name)]
        words += [*option, value]
    return words


def _option(info: ParameterInfo, name: str) -> str:
    # typer keeps the first name that an annotation gives as if it were a default.
    given = [info.default, *(info.param_decls or ())]
    return next((each for each in given if isinstance(each, str)), f"--{name.replace('_', '-')}")


def said_by_reader(path: tuple[str, ...], name: str) -> tuple[int, str]:
    reader = READERS.get(f"{path[-1]} {name}") or READERS[name]
    with pytest.raises(OwpcLtrError) as caught:
        reader(Path(MISSING))
    feature = (path[-1], name) in {("evaluate", "baseline"), ("train-reranker", "base")}
    hint = f"; to name a feature of the data, write feature:{MISSING}" if feature else ""
    return caught.value.exit_code, f"owpc-ltr: {caught.value}{hint}\n"


def test_every_command_tells_an_absent_file_as_its_reader_does_before_slow_imports(
    tmp_path: Path,
) -> None:
    (tmp_path / "is-there").write_text("{}")
    folds_missing = ["select", "none-1", "none-2"]
    asked = json.dumps([*(words_of(*case) for case in CASES), folds_missing])
    ran = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=asked,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path), "OWPC_LTR_URL": "http://127.0.0.1:1"},
        check=True,
    )
    *messages, folds = (json.loads(line) for line in ran.stdout.splitlines())
    message = "owpc-ltr: cannot read none-1: no such file or directory; check the name\n"
    assert folds == [3, message, []]
    assert len(messages) == len(CASES) >= 30
    expected = [[*said_by_reader(*case), []] for case in CASES]
    assert dict(zip(CASES, messages, strict=True)) == dict(zip(CASES, expected, strict=True))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["is-there"]


def test_the_first_absent_file_is_named_and_what_is_there_or_is_no_file_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("is-there").touch()
    given: object
    for given in (None, [], "feature:bm25", ["is-there", None], Path("is-there")):
        Reads("A file.", unless="feature:").check(given)
    with pytest.raises(BadInput, match=r"^no none-1$"):
        Reads("Files.", absent="no {path}").check(
            [Path("is-there"), Path("none-1"), Path("none-2")]
        )
    # Other faults of a file are left to its reader.
    for name in ("is-there/below-a-file", "nul\0", "x" * 5000):
        Reads("A file.").check(Path(name))
        with pytest.raises(BadInput):
            read_dataset(name)


@pytest.mark.parametrize(
    ("command", "exit_code", "why"),
    [
        (
            ("evaluate", "data.txt", "--data", "m.json"),
            2,
            "models come first: owpc-ltr evaluate MODEL --data FILE",
        ),
        (
            ("compare", "data.txt", "x", "--data", "m.json"),
            2,
            "come first: owpc-ltr compare RANKERS --data FILE",
        ),
        (("train", "m.json", "--out", "x.json"), 2, "DATA got the model file m.json: give judged"),
        (("evaluate", "other.txt", "--data", "data.txt"), 3, "other.txt holds data, no model"),
    ],
)
def test_a_model_and_data_that_are_swapped_are_told(
    run: Run, tmp_path: Path, command: tuple[str, ...], exit_code: int, why: str
) -> None:
    (tmp_path / "other.txt").write_text(LETOR)
    code, _, err = run(*command)
    assert (code, why in err) == (exit_code, True), err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (
            ("judge", "convert", "twice.csv", "--out", "x.tsv"),
            "choose with --duplicates …: first",
        ),
        (
            ("compare", "a", "b", "--data", "twice.csv"),
            "with owpc-ltr judge convert --duplicates …: first",
        ),
    ],
)
def test_the_option_for_duplicate_judgments_is_named(
    run: Run, tmp_path: Path, command: tuple[str, ...], option: str
) -> None:
    (tmp_path / "twice.csv").write_text("query,doc_id,grade\nred,1,2\nred,1,0\n")
    assert option in run.refusal(3, *command)
