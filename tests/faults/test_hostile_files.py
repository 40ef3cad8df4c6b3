"""Whatever a file holds, its reader reads it or says one line: no traceback, bomb or escape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.hostile import CASES, READ, Case

MOST_MEMORY = 200 << 10
"""kB by which a reader may grow the process."""
GOOD = {
    "letor": b"0 qid:1 1:1\n",
    "judgments": b"query\tdoc_id\tgrade\nq\td\t1\n",
    "clicks": b"query,document,position,action,session\nx,d,1,impression,s\n",
}


def _is_large(case: Case) -> bool:
    return not isinstance(case.content, bytes)


def outcomes(folder: Path, cases: list[Case]) -> list[list[object]]:
    paths = []
    for number, case in enumerate(cases):
        path = folder / f"{number} {case.name.replace('/', ' ')}.file"
        path.write_bytes(case.bytes())
        paths.append((case.kind, str(path)))
    warm = []
    for kind, content in GOOD.items():
        (folder / f"{kind}.good").write_bytes(content)
        warm.append((kind, str(folder / f"{kind}.good")))
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.read_hostile"],
        input=json.dumps({"warm": warm, "hostile": paths}),
        capture_output=True, text=True, check=False, cwd=root,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


SMALL = [case for case in CASES if not _is_large(case)]
LIARS = (
    Case("letor", "good", GOOD["letor"], "cannot read"),
    Case("letor", "bad", b"x", READ),
    Case("letor", "other words", b"x", "it is a whale"),
)
"""A good file that must be refused, and bad ones that must be read, or refused in other words."""


@pytest.fixture(scope="module")
def of_small(tmp_path_factory: pytest.TempPathFactory) -> list[list[object]]:
    """What came of the small files, and then of the liars: one process reads them all."""
    return outcomes(tmp_path_factory.mktemp("hostile"), [*SMALL, *LIARS])


def check(cases: Sequence[Case], results: list[list[object]]) -> None:
    assert len(results) == len(cases)
    wrong = []
    for case, (what, code, message, grown) in zip(cases, results, strict=True):
        line = str(message)
        right = what == "read" if case.says is READ else what == "refused" and case.says in line
        if not right or (what == "refused" and code not in {2, 3}) or "\n" in line:
            wrong.append(f"{case.kind}: {case.name}: {what} {code} {line[:300]}")
        if len(line) > 1000 or not line.replace("\t", " ").isprintable():
            wrong.append(f"{case.kind}: {case.name}: {line[:300]!r} is not a line to print")
        if int(str(grown)) > MOST_MEMORY:
            wrong.append(f"{case.kind}: {case.name}: memory grew by {grown} kB")
            break
    assert not wrong, "\n".join(wrong)


def test_small_hostile_files_are_read_or_refused_in_one_line(of_small: list[list[object]]) -> None:
    check(SMALL, of_small[: len(SMALL)])


@pytest.mark.faults(sample=2)
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{c.kind}-{c.name}") for c in CASES if _is_large(c)]
)
def test_large_hostile_files_are_refused_in_little_memory(tmp_path: Path, case: Case) -> None:
    check([case], outcomes(tmp_path, [case]))


def test_a_check_that_is_wrong_is_noticed(of_small: list[list[object]]) -> None:
    for liar, result in zip(LIARS, of_small[len(SMALL) :], strict=True):
        with pytest.raises(AssertionError, match=liar.name):
            check([liar], [result])


@pytest.mark.parametrize(
    "kind", ["letor", "judgments", "clicks", "joined", "model", "featureset", "json", "run"]
)
def test_what_is_no_file_is_refused_at_once_by_every_reader(tmp_path: Path, kind: str) -> None:
    from owpc_ltr.errors import BadInput
    from tests.faults.read_hostile import readers

    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    read = readers()[kind]
    reading, writing = os.pipe()
    try:
        for path, why in (
            (tmp_path / "fifo", "a pipe or a device"),
            (tmp_path / "link", "a pipe or a device"),
            (Path("/dev/zero"), "a pipe or a device"),
            (Path(f"/dev/fd/{reading}"), "a pipe or a device"),
            (tmp_path, "is a folder"),
        ):
            with pytest.raises(BadInput, match=why):
                read(path)
    finally:
        os.close(reading)
        os.close(writing)
