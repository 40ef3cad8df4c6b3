"""What another user has put into a folder is neither written through nor read as one's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from owpc_ltr_node import folders as node_lock
from owpc_ltr_node.report import Silent

from owpc_ltr import partition
from owpc_ltr.engine.feature_log.run_folder import open_run
from owpc_ltr.errors import Refused
from owpc_ltr.files.lock import lock_folder

MINE = "what is not to be lost"


def _run(folder: Path) -> None:
    with open_run(folder / "out", {"a": 1}, restart=False):
        pass


def _ubi(folder: Path) -> None:
    os.close(lock_folder(folder / "out.run", folder / "out.run"))


def _node(folder: Path) -> None:
    with node_lock.locked(folder / "out.run" / "lock", "a start", Silent()):
        pass


def _partition(folder: Path) -> None:
    partition(folder / "data.txt", out=folder / "out.run", buckets=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a dataset, a file of mine, and the folder that is written."""
    (tmp_path / "data.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    (tmp_path / "mine").write_text(MINE)
    (tmp_path / "out.run").mkdir()
    return tmp_path


PLANTED = [
    (_run, "lock"), (_ubi, "lock"), (_node, "lock"),
    (_partition, "_unfinished"),
]  # fmt: skip


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize(("write", "name"), PLANTED)
def test_a_planted_link_is_not_written_through(
    folder: Path,
    write: Callable[[Path], None],
    name: str,
    link: Callable[[Path, Path], None],
) -> None:
    link(folder / "out.run" / name, folder / "mine")
    with pytest.raises(Refused, match="is a link, or no plain file"):
        write(folder)
    assert (folder / "mine").read_text() == MINE


@pytest.mark.parametrize("write", [_run, _ubi])
def test_a_run_folder_that_is_a_link_is_refused(
    folder: Path, write: Callable[[Path], None]
) -> None:
    (folder / "out.run").rename(folder / "elsewhere")
    (folder / "out.run").symlink_to("elsewhere")
    with pytest.raises(Refused, match="is a link or a file"):
        write(folder)
    assert list((folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("write", [_run, _ubi, _partition])
def test_a_folder_of_others_is_refused(folder: Path, write: Callable[[Path], None]) -> None:
    (folder / "out.run").chmod(0o777)
    with pytest.raises(Refused, match=r"every user can write to .*: run chmod o-w"):
        write(folder)
    if os.geteuid() == 0:
        (folder / "out.run").chmod(0o755)
        os.chown(folder / "out.run", 65534, -1)
        with pytest.raises(Refused, match=r"belongs to another user \(number 65534\)"):
            write(folder)
    assert list((folder / "out.run").iterdir()) == []


def test_a_new_run_folder_is_for_its_owner_alone(folder: Path) -> None:
    (folder / "out.run").rmdir()
    with open_run(folder / "out", {"a": 1}, restart=False) as run:
        assert run.path.stat().st_mode & 0o777 == 0o700
