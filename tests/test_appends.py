"""Files that grow by lines: one function appends to all of them, and no line is lost or halved."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr.engine.experiments import Experiment
from owpc_ltr.errors import BadInput, DiskFault, OwpcLtrWarning
from owpc_ltr.evaluation.attempts import AttemptsFile, sketch_of
from owpc_ltr.files.output import Journal, open_to_append, unsealed
from owpc_ltr.files.strict_json import json_lines
from tests.faults.disk import failing_disk, full_after

ROOT = Path(__file__).parent.parent
LINES = 40
Append = Callable[[int], bool]


@dataclass(frozen=True)
class Appender:
    """How a line is appended to a file, and whether it says that it was; which lines are kept."""

    file: Path
    start: Callable[[], Append]
    kept: Callable[[], list[int]]


def _journal(folder: Path, _: pytest.MonkeyPatch) -> Appender:
    path = folder / "journal"

    def start() -> Append:
        journal = Journal(path)

        def append(number: int) -> bool:
            try:
                journal.append(f"k{number}", number)
            except DiskFault:
                return False
            return True

        return append

    return Appender(path, start, lambda: [piece.value for piece in Journal(path).pieces.values()])


def _impressions(folder: Path, _: pytest.MonkeyPatch) -> Appender:
    from owpc_ltr_serve.experiment_search import Impression, ImpressionLog

    path = folder / "shown.jsonl"

    def start() -> Append:
        lost: list[int] = []
        log = ImpressionLog(path, lambda: lost.append(1))

        def append(number: int) -> bool:
            before = len(lost)
            log.write(Impression(str(number), "alien", ["d1", "d2"]))
            return len(lost) == before

        return append

    return Appender(path, start, lambda: [int(line["query_id"]) for _, line in json_lines(path)])


def _answers(folder: Path, _: pytest.MonkeyPatch) -> Appender:
    from owpc_ltr_rating.page import create_app, read_sheet
    from owpc_ltr_rating.ratings import Rating, ratings_bytes, read_ratings

    from tests.rating.grading_sheets import grading_sheet, posted

    grading_sheet(folder.parent / "sheet.csv", queries=8)
    sheet, path = read_sheet(folder.parent / "sheet.csv"), folder / "answers.jsonl"
    numbers = {pair.key: number for number, pair in enumerate(sheet.pairs)}
    assert len(numbers) == LINES

    def start() -> Append:
        app = create_app("", sheet, path)

        def append(number: int) -> bool:
            pair = sheet.pairs[number]
            rating = Rating(sheet.digest, "ann", pair.query_id, pair.query, pair.doc_id, 2.0)
            return posted(app, ratings_bytes([rating]))[0] == 204

        return append

    def kept() -> list[int]:
        return [numbers[rating.query_id, rating.doc_id] for rating in read_ratings(path).values()]

    return Appender(path, start, kept)


def _attempts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Appender:
    monkeypatch.setenv("OWPC_LTR_HOME", str(folder))
    said: list[str] = []
    monkeypatch.setattr("owpc_ltr.evaluation.attempts.give_warning", said.append)
    path = AttemptsFile().path

    def append(number: int) -> bool:
        before, values = len(said), np.random.default_rng(number).random((2, 9))
        queries = sketch_of(pa.array([f"{number} {n}" for n in range(number + 1)]))
        AttemptsFile().count(queries, "map", {("a", "b"): (values[0], values[1])})
        return len(said) == before

    def kept() -> list[int]:
        lines = path.read_bytes().splitlines(keepends=True)
        # A torn line is an attempt on the queries that were compared next.
        return [*dict.fromkeys((unsealed(line) or {})["n"] - 1 for line in lines)]

    return Appender(path, lambda: append, kept)


APPENDERS = {
    name: made
    for name, made in {
        "owpc_ltr/files/output.py: Journal": _journal,
        "owpc_ltr/evaluation/attempts.py: AttemptsFile": _attempts,
        "plugins/owpc_ltr_rating/page.py: create_app": _answers,
        "plugins/owpc_ltr_serve/experiment_search.py: ImpressionLog": _impressions,
    }.items()
    if (ROOT / name.partition(":")[0]).exists()
}
"""What appends, of the plugins that are there."""
DURABLE = [name for name in APPENDERS if "ImpressionLog" not in name]


@pytest.fixture(params=APPENDERS)
def appender(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Appender:
    (tmp_path / "disk").mkdir()
    return APPENDERS[request.param](tmp_path / "disk", monkeypatch)


def is_whole(file: Path) -> bool:
    return not file.exists() or file.read_bytes()[-1:] in {b"", b"\n"}


@pytest.mark.parametrize("size", [1100, 2048, 3000])
def test_on_a_full_disk_what_is_acknowledged_is_kept(appender: Appender, size: int) -> None:
    append = appender.start()
    with full_after(size):
        acknowledged = [number for number in range(LINES - 2) if append(number)]
        assert 0 < len(acknowledged) < LINES - 2
        assert appender.kept() == acknowledged
        assert is_whole(appender.file)
    assert append(LINES - 2)
    assert appender.start()(LINES - 1)
    assert appender.kept() == [*acknowledged, LINES - 2, LINES - 1]


def test_whichever_operation_of_the_disk_fails_what_is_acknowledged_is_kept(
    appender: Appender,
) -> None:
    folder, append = appender.file.parent, appender.start()
    assert append(0)
    with failing_disk(folder, 0) as disk:
        assert append(1)
        operations = disk.seen
    assert operations >= 3
    acknowledged = [0, 1]
    for number in range(2, operations + 2):
        with failing_disk(folder, number - 1):
            if append(number):  # a folder that is there need not be made
                acknowledged.append(number)
        assert appender.kept() == acknowledged
    assert len(acknowledged) <= 3
    assert is_whole(appender.file)


def test_what_the_disk_takes_in_parts_is_whole(appender: Appender) -> None:
    write, append = os.write, appender.start()
    with mock.patch.object(os, "write", lambda file, content: write(file, content[:7])):
        assert all(append(number) for number in range(5))
    assert appender.kept() == [*range(5)]
    with mock.patch.object(os, "write", return_value=0):
        assert not append(5)
    assert appender.kept() == [*range(5)]


class Killed(BaseException):
    """The process ends here: it takes nothing back."""


def killed_after(part: float) -> Any:
    write = os.write

    def half(file: int, content: Any) -> int:
        write(file, content[: int(len(content) * part)])
        raise Killed

    return mock.patch.multiple(os, write=half, ftruncate=mock.Mock(side_effect=OSError))


@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 0.99])
@pytest.mark.filterwarnings("ignore:.*the last line is torn")
def test_what_a_kill_leaves_of_a_line_is_cut_off(appender: Appender, part: float) -> None:
    append = appender.start()
    assert append(0)
    with pytest.raises(Killed), killed_after(part):
        append(1)
    append = appender.start()
    assert append(2)
    assert append(3)
    assert appender.kept() == [0, 2, 3]
    assert is_whole(appender.file)


def test_lines_of_several_processes_are_whole(appender: Appender) -> None:
    """Each lock is of an open file, so that threads are to one another as processes are."""

    def some(first: int) -> None:
        append = appender.start()
        assert all(append(number) for number in range(first, LINES, 4))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(some, range(4)))
    assert sorted(appender.kept()) == [*range(LINES)]


def test_only_impressions_do_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, made in APPENDERS.items():
        (tmp_path / name[-9:] / "disk").mkdir(parents=True)
        append = made(tmp_path / name[-9:] / "disk", monkeypatch).start()
        append(0)
        with mock.patch.object(os, "fsync") as synced:
            assert append(1)
        assert bool(synced.call_count) == (name in DURABLE)


def test_a_line_without_its_line_feed_is_kept_and_another_file_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for before, after in (
        (b'{"a": 1}', b'{"a": 1}\n{}\n'),
        (b'{"a": 1}\n{"a', b'{"a": 1}\n{}\n'),
        (b'{"a": 1}\n\0\0\0', b'{"a": 1}\n{}\n'),
        (b"{" * 70_000, b"{}\n"),
        (b"", b"{}\n"),
    ):
        path.write_bytes(before)
        with open_to_append(path) as file:
            file.append(b"{}\n")
        assert path.read_bytes() == after
    path.write_bytes(b"query,grade\nalien,3")
    with (
        pytest.raises(BadInput, match="its last line is not JSON: restore it"),
        open_to_append(path),
    ):
        pass
    assert path.read_bytes() == b"query,grade\nalien,3"


APPENDING = re.compile(r"[rwxbtU]*[a+][rwxbtU+]*")
WRITES = {"write", "pwrite", "writev", "pwritev"}


def appends(tree: ast.AST) -> Iterator[int]:
    """The lines of code that could append to a file by itself."""
    for node in ast.walk(tree):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if name == "O_APPEND" or name.endswith("FileHandler"):
            yield node.lineno  # type: ignore[attr-defined]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        texts = [argument.value for argument in given if isinstance(argument, ast.Constant)]
        if re.search(r"(^|[._])(fd)?open$", called) and any(
            isinstance(text, str) and APPENDING.fullmatch(text) for text in texts
        ):
            yield node.lineno
        # A descriptor that is a number is a standard stream.
        if called in {f"os.{name}" for name in WRITES} and not isinstance(given[0], ast.Constant):
            yield node.lineno


def parts_of(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for part in tree.body:
        yield getattr(part, "name", ""), part


def test_one_function_appends_to_all_files_and_each_caller_of_it_is_tested_here() -> None:
    own, callers = set(), set()
    for path in (*ROOT.glob("owpc_ltr/**/*.py"), *ROOT.glob("plugins/**/*.py")):
        file = str(path.relative_to(ROOT))
        for name, part in parts_of(ast.parse(path.read_bytes())):
            own |= {f"{file}: {name}" for _ in appends(part)}
            names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(part)}
            callers |= {f"{file}: {name}"} if "open_to_append" in names else set()
    output = "owpc_ltr/files/output.py"
    # The first line of a lock says who has it.
    assert own == {f"{output}: {name}" for name in ("LockedLines", "open_to_append", "lock_file")}
    assert callers == APPENDERS.keys()


@pytest.mark.parametrize(
    "line",
    [
        'path.open("a")',
        'open(path, mode="ab", buffering=0)',
        'os.fdopen(number, "r+b")',
        'gzip.open(path, "at")',
        "os.open(path, os.O_WRONLY | os.O_APPEND)",
        "os.write(descriptor, line)",
        "logging.FileHandler(path)",
    ],
)
def test_a_new_way_to_append_is_found(line: str) -> None:
    assert [*appends(ast.parse(line))]


def test_what_does_not_append_is_not_found() -> None:
    for line in ('path.open("rb")', 'os.write(2, b"x")', 'engine.open("a-name")', "open(path)"):
        assert not [*appends(ast.parse(line))]


Reader = tuple[Callable[[str], bytes], Callable[[Path], int]]


def _rating(document: str) -> bytes:
    from owpc_ltr_rating.ratings import Rating, ratings_bytes

    return ratings_bytes([Rating("5ee7", "ann", "q", "alien", document, 2.0)])


def _search(name: str) -> bytes:
    from tests.experiment.users import query_line

    attributes = {"experiment": {"name": "e", "leads": "a"}}
    return json.dumps(query_line(name, "c", attributes, ["d1"])).encode() + b"\n"


def _merged() -> Reader:
    from owpc_ltr_rating.merge import judge_merge

    return _rating, lambda path: judge_merge([path]).judgments.n_judgments


def _agreed() -> Reader:
    from owpc_ltr_rating.agree import judge_agree

    return _rating, lambda path: len(judge_agree([path, path.parent / "b.jsonl"]).agreements)


def _logged() -> Reader:
    return _rating, lambda path: ltr.read_judgments(path).n_judgments


def _counted() -> Reader:
    from owpc_ltr_clicks.judge_clicks import count_clicks

    return _search, lambda path: count_clicks(path, min_people=1).event_counts.read


def _observed() -> Reader:
    from owpc_ltr_experiment.experiment_log import read_files

    experiment = Experiment("e", "m-1", "m-2", "movies", "2026-01-01T00:00:00Z")
    return _search, lambda path: sum(map(len, read_files(experiment, [path]).queries))


READERS = {
    "judge merge": ("rating", _merged),
    "judge agree": ("rating", _agreed),
    "log-features": ("rating", _logged),
    "judge clicks": ("clicks", _counted),
    "experiment status": ("experiment", _observed),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_torn_last_line_is_left_out_and_said_and_any_other_is_refused(
    reader: str, tmp_path: Path
) -> None:
    plugin, made = READERS[reader]
    for needed in {plugin, "experiment"} if plugin == "clicks" else {plugin}:
        pytest.importorskip(f"owpc_ltr_{needed}")
    line, read = made()
    path = tmp_path / "a.jsonl"
    (tmp_path / "b.jsonl").write_bytes(line("d1").replace(b"ann", b"bob") + line("d2"))
    path.write_bytes(line("d1") + line("d2"))
    expected = read(path)
    assert expected > 0
    path.write_bytes(line("d1") + line("d2") + line("d3")[:60])
    with pytest.warns(OwpcLtrWarning, match="line 3: the last line is torn, and is left out"):
        assert read(path) == expected
    path.write_bytes(line("d1") + line("d3")[:60] + b"\n" + line("d2"))
    with pytest.raises(BadInput, match="line 2"):
        read(path)
