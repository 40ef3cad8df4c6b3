"""The folders of local nodes, the unix user who owns them, their locks; progress reports."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.files.output import LockHeld, lock_file, write_atomically
from owpc_ltr.signatures import Progress, silent

PREFERRED = ("opensearch", "nobody", "daemon")


@dataclass(frozen=True)
class UnixUser:
    """A user of this system."""

    name: str
    uid: int
    gid: int


def node_user() -> UnixUser | None:
    """Who must run the node: None means ourselves. OpenSearch refuses to run as root."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall() if user.pw_uid != 0}
    names = [name for name in PREFERRED if name in users] + sorted(users)
    if not names:
        raise EngineUnavailable(
            "opensearch refuses to run as root, and this system has no other user: "
            "add one (useradd opensearch) or run owpc-ltr as another user"
        )
    user = users[names[0]]
    return UnixUser(user.pw_name, user.pw_uid, user.pw_gid)


def closed_folder(path: Path, account: UnixUser | None) -> Path | None:
    """The topmost folder on the way to `path` that the account cannot enter, if there is one.

    Judged by owner, group and mode; a folder that does not exist yet is ours to open. No folder is
    closed to ourselves, which is an account of None.
    """
    if account is None:
        return None
    for folder in reversed(path.absolute().parents):
        try:
            status = folder.stat()
        except FileNotFoundError:
            return None
        if not _may_enter(status, account):
            return folder
    return None


def give(path: Path, account: UnixUser | None) -> None:
    """Hand a folder of ours to the account; the caller has just made it or owns its parent."""
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _may_enter(status: os.stat_result, account: UnixUser) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


NAME = "owpc-ltr"

REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@dataclass(frozen=True)
class Places:
    """The folders of one installation.

    `cache` can be thrown away and comes back by downloading; `state` holds the nodes' records,
    indices and logs. Both must be open to the account that runs the node.
    """

    cache: Path
    state: Path

    @property
    def maven(self) -> Path:
        """Downloaded artifacts, laid out as a Maven repository."""
        return self.cache / "maven"

    @property
    def homes(self) -> Path:
        """Assembled OpenSearch homes."""
        return self.cache / "homes"

    @property
    def runtimes(self) -> Path:
        """Copies of the bundled Java runtime, where the original is out of the node's reach."""
        return self.cache / "java"

    @property
    def nodes(self) -> Path:
        """One record, one lock and one folder per port."""
        return self.state / "nodes"


def find_places(account: UnixUser | None, environ: Mapping[str, str] = os.environ) -> Places:
    """OWPC_LTR_HOME if set; else the platform's folders; for root, system-wide ones.

    Root's own folders are closed to the account that must run the node. Raises
    EngineUnavailable where OWPC_LTR_HOME is.
    """
    named = environ.get("OWPC_LTR_HOME")
    if named:
        home = Path(named).expanduser().absolute()
        _check_open(home, account)
        return Places(home / "cache", home / "state")
    import platformdirs

    if account is None:
        dirs = platformdirs.PlatformDirs(NAME, appauthor=False)
        return Places(dirs.user_cache_path, dirs.user_state_path)
    cache = Path(environ.get("XDG_CACHE_HOME") or "/var/cache").absolute() / NAME
    state = Path(environ.get("XDG_STATE_HOME") or "/var/lib").absolute() / NAME
    return Places(
        cache if closed_folder(cache, account) is None else Path("/var/cache") / NAME,
        state if closed_folder(state, account) is None else Path("/var/lib") / NAME,
    )


def make_folder(path: Path) -> Path:
    """Make a folder of ours, with those above it, open to every reader whatever the umask."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    return path


def write_readable(path: Path, content: bytes) -> None:
    """Write a file of ours whole, open to every reader whatever the umask."""
    write_atomically(path, content, 0o644)


@contextmanager
def writing_to(folder: Path, instead: str = "OWPC_LTR_HOME") -> Iterator[None]:
    """Tell in one line where the disk or a folder's owner says no; `instead` names another."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EngineUnavailable(
                f"the disk of {folder} is full: free about 200 MB there, or name a folder on "
                f"another disk with {instead}"
            ) from error
        if error.errno in REFUSALS:
            raise EngineUnavailable(
                f"cannot write to {error.filename or folder}: {error.strerror}; make it writable, "
                f"or name another folder with {instead}"
            ) from error
        raise


def _check_open(home: Path, account: UnixUser | None) -> None:
    closed = closed_folder(home, account)
    if account and closed:
        raise EngineUnavailable(
            f"OWPC_LTR_HOME={home} cannot hold the node: as root it runs as '{account.name}', who "
            f"cannot enter {closed}; name a folder outside it, such as /var/lib/{NAME}"
        )


@contextmanager
def locked(path: Path, what: str, report: Report, patience: float = 900.0) -> Iterator[None]:
    """Hold the lock file; wait, and say so, while another process does.

    Raises EngineUnavailable when it is still held after `patience` seconds.
    """
    make_folder(path.parent)
    descriptor = _acquire(path, what, report, patience)
    try:
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _acquire(path: Path, what: str, report: Report, patience: float) -> int:
    give_up = time.monotonic() + patience
    waiting = False
    while True:
        try:
            return lock_file(path, mode=0o644)
        except LockHeld as held:
            holder = held.holder
        if time.monotonic() > give_up:
            raise EngineUnavailable(
                f"{what} is still under way in {holder} after {patience:.0f} s: try again when it "
                "is done, or end it"
            )
        if not waiting:
            report.say(f"{what} is under way in {holder}; waiting for it")
            waiting = True
        time.sleep(0.1)


@dataclass(frozen=True)
class Report:
    """Where news go: `say` takes what the user should know, `progress` how far a task has come.

    By default both are dropped.
    """

    say: Callable[[str], None] = lambda _: None
    progress: Progress = silent

    def advance(self, task: str, done: float, total: float) -> None:
        """Tell how far a task has come."""
        self.progress(task, done / total if total else None)
