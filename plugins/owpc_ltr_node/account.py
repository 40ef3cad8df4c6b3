"""The user account that runs the node: ourselves, or an unprivileged one when we are root."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable

PREFERRED = ("opensearch", "nobody", "daemon")


@dataclass(frozen=True)
class Account:
    """A user of this system."""

    name: str
    uid: int
    gid: int


def node_account() -> Account | None:
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
    return Account(user.pw_name, user.pw_uid, user.pw_gid)


def closed_folder(path: Path, account: Account) -> Path | None:
    """The topmost folder on the way to `path` that the account cannot enter, if there is one.

    Judged by owner, group and mode; a folder that does not exist yet is ours to open.
    """
    for folder in reversed(path.absolute().parents):
        try:
            status = folder.stat()
        except FileNotFoundError:
            return None
        if not _may_enter(status, account):
            return folder
    return None


def give(path: Path, account: Account | None) -> None:
    """Hand a folder of ours to the account; the caller has just made it or owns its parent."""
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _may_enter(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)
