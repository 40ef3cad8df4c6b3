"""Where the local node keeps its downloads, its records and its data."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_node.account import Account, closed_folder

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


def find_places(account: Account | None, environ: Mapping[str, str] = os.environ) -> Places:
    """OWPC_LTR_HOME if set; else the platform's folders; for root, system-wide ones.

    Root's own folders are closed to the account that must run the node. Raises
    EngineUnavailable where OWPC_LTR_HOME is.
    """
    own = environ.get("OWPC_LTR_HOME")
    if own:
        home = Path(own).expanduser().absolute()
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


def _check_open(home: Path, account: Account | None) -> None:
    if account is None:
        return
    closed = closed_folder(home, account)
    if closed is not None:
        raise EngineUnavailable(
            f"OWPC_LTR_HOME={home} cannot hold the node: as root it runs as '{account.name}', who "
            f"cannot enter {closed}; name a folder outside it, such as /var/lib/{NAME}"
        )
