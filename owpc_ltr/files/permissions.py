"""Whether others can change what is at a path."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def why_unsafe(path: Path) -> str:
    """Why others can replace or change what is at a path that exists; empty where they cannot.

    It and all folders above it belong to the user or to root, and nobody else can write them;
    folders that many may write, as /tmp, are safe where each may only remove what is their own.
    """
    if not hasattr(os, "getuid"):
        return ""
    path = path.resolve()
    for place in (path, *path.parents):
        status = place.stat()
        if status.st_uid not in {0, os.getuid()}:
            return f"'{place}' belongs to another user"
        shared = place != path and status.st_mode & stat.S_ISVTX
        if _others_write(status) and not shared:
            return f"others can write '{place}'"
    return ""


def _others_write(status: os.stat_result) -> bool:
    """Whether anybody but the owner can write; a user's own group, of nobody else, is the user."""
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP or status.st_gid == 0:
        return False
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    alone = set(group.gr_mem) <= {user.pw_name}
    return not (alone and group.gr_gid == user.pw_gid and group.gr_name == user.pw_name)
