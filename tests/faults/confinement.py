"""A process that may write in one folder only, as nobody, in namespaces of its own.

Everything else is mounted read-only, and every attempt to write there, to start a program or to
speak to somebody is remembered. Linux 5.12 or later, where users may have namespaces of their own.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from tests.faults.cells import small_chunks
from tests.faults.running import Ended, run

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK = 0x10000000, 0x00020000, 0x40000000
_PRIVATE, _RECURSIVE, _BIND = 1 << 18, 1 << 14, 1 << 12
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_MOUNT_SETATTR, _CAPSET = 442, {"x86_64": 126, "aarch64": 91}
_NOBODY = 65534
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod"}
_PROGRAMS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork"}


class NoNamespaces(Exception):
    """This machine does not give namespaces to a user."""


def _writes(given: tuple[Any, ...]) -> bool:
    """Whether a file is opened, as the audit event tells it, to be written."""
    return isinstance(given[2], int) and bool(given[2] & _WRITING)


@dataclass
class Attempts:
    """What a process tried outside of its folder."""

    folder: str
    events: list[str] = field(default_factory=list)
    peers: set[Any] = field(default_factory=set)

    def watch(self) -> None:
        """From now on, to the end of the process."""
        sys.addaudithook(self._look)

    def _look(self, event: str, given: tuple[Any, ...]) -> None:
        if event in _PROGRAMS:
            self.events.append(f"{event} {given[0]}")
        elif event == "socket.connect":
            self.peers.add(given[1][:2] if isinstance(given[1], tuple) else given[1])
        elif event in _CHANGES or (event == "open" and _writes(given)):
            self._look_at(event, given[0])

    def _look_at(self, event: str, path: object) -> None:
        if not isinstance(path, str | bytes | Path):
            return
        whole = str(Path.cwd() / os.fsdecode(path))
        # Bytecode is kept beside its source, compiled code in the user's cache.
        cache = os.environ.get("NUMBA_CACHE_DIR") or str(user_cache_path("owpc-ltr"))
        kept = (self.folder, cache)
        own = whole.startswith(kept) or "__pycache__" in whole or whole == os.devnull
        if not own:
            self.events.append(f"{event} {whole}")


def confined(
    commands: Sequence[Sequence[str]],
    folder: Path,
    environ: Mapping[str, str],
    pipe: Any,
    network: bool,
) -> None:
    """Run commands in a child, confined; told are how each ended, and what was attempted."""
    attempts = Attempts(str(folder))
    try:
        confine(folder, network=network)
    except NoNamespaces as none:
        pipe.send((none, attempts.events, attempts.peers))
        return
    attempts.watch()
    ended: list[Ended] = []
    with small_chunks():
        for words in commands:
            ended.append(run(words, folder, environ))
            if ended[-1].code:
                break
    pipe.send((ended, attempts.events, attempts.peers))


def confine(folder: Path, *, network: bool) -> None:
    """Take everything from this process but reading, and writing in the folder."""
    outer = os.getuid(), os.getgid()
    _call("unshare", _NEW_USER | _NEW_MOUNTS | (0 if network else _NEW_NETWORK))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_NOBODY} {outer[0]} 1"),
        ("gid_map", f"{_NOBODY} {outer[1]} 1"),
    ):
        try:
            Path("/proc/self", name).write_text(text)
        except OSError as error:
            raise NoNamespaces(f"{name}: {error}") from error
    own = os.fsencode(folder)
    _call("mount", None, b"/", None, _PRIVATE | _RECURSIVE, None)
    _call("mount", own, own, None, _BIND | _RECURSIVE, None)
    _set_attributes(b"/", _AT_RECURSIVE, on=_READ_ONLY)
    _set_attributes(own, _AT_RECURSIVE, off=_READ_ONLY)
    _drop_capabilities()


def _set_attributes(path: bytes, flags: int, *, on: int = 0, off: int = 0) -> None:
    attributes = (ctypes.c_uint64 * 4)(on, off, 0, 0)
    _call("syscall", _MOUNT_SETATTR, _AT_FDCWD, path, flags, attributes, 32)


def _drop_capabilities() -> None:
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        raise NoNamespaces(f"unknown machine {os.uname().machine}")
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _call("syscall", number, header, (ctypes.c_uint32 * 6)())


def _call(name: str, *given: Any) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*given) != 0:
        raise NoNamespaces(f"{name}: {os.strerror(ctypes.get_errno())}")
