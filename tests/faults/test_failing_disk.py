"""Whichever file operation fails: what was there stays whole, and one line tells of it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.commands import Run, commands_in

LETOR = "".join(
    f"{label} qid:{query} 1:{label + 0.1 * query} 2:{(7 * query + label) % 5} # d{label}\n"
    for query in range(1, 31)
    for label in (0, 1, 2)
)
OUT = "out.file"
EARLIER = b"earlier"
COMMANDS = {
    "train": ("train", "data.txt", "--loss", "pairwise", "--set", "optimizer.C=1", "--out", OUT),
    "average": ("average", "m.json", "m.json", "--out", OUT),
    "import": ("import", "ranklib.txt", "--features", "names.txt", "--out", OUT),
    "export": ("export", "m.json", "--for", "opensearch", "--version", "3.8", "--out", OUT),
    "evaluate": ("evaluate", "m.json", "--data", "data.txt", "--split", "all", "--run", OUT),
    "select": ("select", "data.txt", "--folds", "3", "--grid", "C=1", "--journal", OUT),
}
FAULTS = ("ENOSPC", "EIO", "EACCES", "EROFS")


@dataclass
class Disk:
    """Counts operations on files of a folder, and makes one, or all from then on, fail."""

    folder: str = "/nowhere"
    error: int = errno.ENOSPC
    fail_at: int = 0
    lasting: bool = False
    seen: int = 0

    def __call__(self, what: str, arguments: tuple[Any, ...]) -> None:
        names = {"open", "os.rename", "os.remove", "os.chmod", "os.truncate", "write", "fsync"}
        if self.folder == "/nowhere" or what not in names or not self._is_here(arguments[0]):
            return
        self.seen += 1
        if self.seen == self.fail_at or (self.lasting and self.seen > self.fail_at > 0):
            raise OSError(self.error, os.strerror(self.error), str(arguments[0]))

    def _is_here(self, name: object) -> bool:
        if isinstance(name, int):
            try:
                name = Path(f"/proc/self/fd/{name}").readlink()
            except OSError:
                return False
        return str(Path.cwd() / str(name)).startswith(self.folder)


class _Raw(io.FileIO):
    """A file whose writes are counted: no audit event tells of these."""

    disk: Disk

    def write(self, content: Any) -> int:
        self.disk("write", (self.fileno(),))
        return super().write(content)


@pytest.fixture(scope="module")
def audited() -> Disk:
    """An audit hook cannot be taken out again; outside of its tests it watches nowhere."""
    disk = Disk()
    sys.addaudithook(disk)
    return disk


@pytest.fixture
def disk(audited: Disk, monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(_Raw, "disk", audited, raising=False)
    plain, sync = os.fdopen, os.fsync

    def opened(descriptor: int, mode: str = "r", *more: Any, **options: Any) -> IO[Any]:
        if mode == "wb":
            return io.BufferedWriter(_Raw(descriptor, "wb"))
        return plain(descriptor, mode, *more, **options)

    def synced(descriptor: int) -> None:
        audited("fsync", (descriptor,))
        sync(descriptor)

    monkeypatch.setattr(os, "fdopen", opened)
    monkeypatch.setattr(os, "fsync", synced)
    return audited


@contextmanager
def failing(disk: Disk, folder: Path, number: int, error: int, lasting: bool) -> Iterator[None]:
    disk.folder, disk.fail_at, disk.error = str(folder), number, error
    disk.lasting, disk.seen = lasting, 0
    try:
        yield
    finally:
        disk.folder = "/nowhere"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    (tmp_path / "data.txt").write_text(LETOR)
    save_model(LinearModel(("1", "2"), np.array([1.0, 0.5])), tmp_path / "m.json")
    (tmp_path / "ranklib.txt").write_text("## Coordinate Ascent\n1:0.5 2:0.25\n")
    (tmp_path / "names.txt").write_text("a\nb\n")
    return commands_in(tmp_path, monkeypatch, capsys)


def visible(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")
    }


def first_state(folder: Path, command: str) -> None:
    """The output as it was before: a file to replace, but for the journal, which goes on."""
    for path in folder.glob(".*"):
        path.unlink()
    if command == "select":
        (folder / OUT).unlink(missing_ok=True)
    else:
        (folder / OUT).write_bytes(EARLIER)


@pytest.mark.faults(sample=2)
@pytest.mark.parametrize("lasting", ["once", "lasting"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_whichever_operation_fails_the_output_is_the_earlier_or_the_whole_new_one(
    tmp_path: Path, run: Run, disk: Disk, command: str, fault: str, lasting: str
) -> None:
    words = COMMANDS[command]
    first_state(tmp_path, command)
    with failing(disk, tmp_path, 0, 0, lasting=False):
        assert run(*words)[0] == 0
    operations, clean = disk.seen, visible(tmp_path)
    assert operations > 3
    told = 0
    for number in range(1, operations + 1):
        first_state(tmp_path, command)
        before = visible(tmp_path)
        with failing(disk, tmp_path, number, getattr(errno, fault), lasting == "lasting"):
            code, _, error = run(*words)
        after = visible(tmp_path)
        last = error.splitlines()[-1] if error else ""
        assert "Traceback" not in error, (number, error)
        if code:
            told += 1
            assert code in {3, 4}, (number, error)
            assert last.startswith("owpc-ltr: cannot "), (number, error)
            assert os.strerror(getattr(errno, fault)).lower() in last.lower(), (number, last)
        if command != "select":
            assert after in (before, clean) if code else after == clean, number
        assert run(*words)[0] == 0
        assert visible(tmp_path) == clean or command == "select"
    assert told > operations // 2


FULL = Path("/dev/full")


@pytest.mark.faults(sample=2)
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        ("plugins",),
        ("plugins", "--json"),
        ("--help",),
        ("average", "m.json", "m.json", "--out", "a.json"),
        ("average", "m.json", "m.json", "--out", "-"),
        ("evaluate", "m.json", "--data", "data.txt", "--split", "all", "--run", "-"),
    ],
)
def test_a_full_standard_output_is_one_line_and_exit_4(
    tmp_path: Path, run: Run, words: tuple[str, ...]
) -> None:
    program = "from owpc_ltr.cli import main; main()"
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    lines = [line for line in ended.stderr.splitlines() if line.startswith("owpc-ltr:")]
    assert (ended.returncode, len(lines)) == (4, 1), ended.stderr
    assert "standard output could not be written: no space left on device" in lines[0]
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_an_input_that_goes_while_it_is_read_is_one_line(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: Callable[..., Any] = Path.stat

    def gone(path: Path, **options: Any) -> Any:
        found = checked(path, **options)
        if path.name == "m.json":
            path.unlink()
        return found

    monkeypatch.setattr(Path, "stat", gone)
    code, out, error = run(*COMMANDS["average"])
    assert (code, out) == (3, "")
    assert "cannot read the model m.json: No such file or directory" in error
