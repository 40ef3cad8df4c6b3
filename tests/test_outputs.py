"""Where output goes: a plain file is replaced, `-` is standard output, all else is refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.judgments import Judgments, write_judgments, write_qrels
from owpc_ltr.data.judgments.pools import read_queries, write_sheet
from owpc_ltr.data.letor import write_letor
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.runs import write_ranking, write_scores
from owpc_ltr.errors import UsageError
from owpc_ltr.files.output import open_output, output_file, write_output
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model, save_model
from tests.commands import Run, commands_in

LETOR = "".join(
    f"{label} qid:{query} 1:{label + 0.1 * query} 2:{(7 * query + label) % 5} # d{label}\n"
    for query in range(1, 31)
    for label in (0, 1, 2)
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    (tmp_path / "data.txt").write_text(LETOR)
    save_model(LinearModel(("1", "2"), np.array([1.0, 0.5])), tmp_path / "m.json")
    (tmp_path / "ranklib.txt").write_text("## Coordinate Ascent\n1:0.5 2:0.25\n")
    (tmp_path / "names.txt").write_text("a\nb\n")
    return commands_in(tmp_path, monkeypatch, capsys)


COMMANDS = {
    "train": ("train", "data.txt", "--loss", "pairwise", "--set", "optimizer.C=1", "--out"),
    "average": ("average", "m.json", "m.json", "--out"),
    "import": ("import", "ranklib.txt", "--features", "names.txt", "--out"),
    "export": ("export", "m.json", "--for", "opensearch", "--version", "3.8", "--out"),
    "evaluate": ("evaluate", "m.json", "data.txt", "--split", "all", "--run"),
    "select": ("select", "data.txt", "--folds", "3", "--grid", "C=1", "--journal"),
    "judge": ("judge", "pool", "--queries", "data.txt", "--rankers", "x", "--out"),
    "log-features": ("log-features", "--judgments", "data.txt", "--out"),
}
"""Every command that writes a file which it is told, up to the file."""


def special_files(folder: Path) -> dict[str, tuple[str, str]]:
    """Names that are no place for a file, and what is said of each."""
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.path.relpath(folder / "socket"))
    bound.close()
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
    (tmp_path / "vali.txt").write_text(LETOR)
    (tmp_path / "n.json").write_bytes((tmp_path / "m.json").read_bytes())
    for words in (
        ("train", "data.txt", "--validation", "vali.txt", "--out", "vali.txt"),
        ("import", "ranklib.txt", "--features", "names.txt", "--out", "names.txt"),
        ("average", "m.json", "n.json", "--out", "n.json"),
        ("evaluate", "m.json", "data.txt", "--run", "m.json"),
    ):
        content = (tmp_path / words[-1]).read_bytes()
        code, _, error = run(*words)
        assert (code, "it is the input" in error) == (2, True), error
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
    (tmp_path / "there.csv").write_text("earlier")
    (tmp_path / "link.csv").symlink_to("there.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "there.csv")
    (tmp_path / "gone.csv").symlink_to("new.csv")
    again = [("there.csv", other) for other in ("there.csv", "./there.csv", "link.csv", "hard.csv")]
    for one, other in [*again, ("new.csv", str(tmp_path / "new.csv")), ("gone.csv", "new.csv")]:
        code, out, error = run(*words, one, "--report", other)
        assert (code, out) == (2, ""), (one, other, error)
        assert f"{words[-1]} {one} and --report {Path(other)} are one file" in error
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


def test_a_fold_may_not_be_the_journal(tmp_path: Path, run: Run) -> None:
    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
        for part in ("train", "vali", "test"):
            (tmp_path / name / f"{part}.txt").write_text(LETOR)
    code, _, error = run("select", "1", "2", "3", "--journal", "2/vali.txt")
    assert (code, "it is the input" in error) == (2, True)


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
    code, said, _ = run(*words, "a.file")
    assert code == 0
    said = said.replace("a.file", "")
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
    assert (code, out) == (2, "")
    assert "name a file, not -" in error


def data() -> RankingDataset:
    return make_dataset([[1.0], [2.0]], [0, 1], ["q", "q"], document_ids=["a", "b"])


def _sheet(path: Path) -> None:
    queries = Path("queries.txt")
    queries.write_text("rambo\n")
    write_sheet(read_queries(queries), (), {}, path)


def judged() -> Judgments:
    from owpc_ltr.host.judgment_lists import read_judgments

    table = Path("table.tsv")
    table.write_text("query_id\tquery\tdoc_id\tgrade\nq\trambo\td\t1\n")
    return read_judgments(table)


WRITERS: dict[str, Callable[[Path], object]] = {
    "save_dataset": lambda path: save_dataset(data(), path),
    "write_letor": lambda path: write_letor(data(), path),
    "save_model": lambda path: save_model(LinearModel(("1",), np.ones(1)), path),
    "write_scores": lambda path: write_scores(np.ones(2), data(), path),
    "write_ranking": lambda path: write_ranking("q", [("d", 1.0)], path),
    "write_judgments": lambda path: write_judgments(judged(), path),
    "write_qrels": lambda path: write_qrels(judged(), path),
    "write_sheet": _sheet,
}
"""Every function of the package that writes a file which it is told."""


@pytest.mark.parametrize("writer", WRITERS)
def test_functions_refuse_what_commands_refuse_and_follow_links(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write = WRITERS[writer]
    for name, _ in special_files(tmp_path).values():
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
