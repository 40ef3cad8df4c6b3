"""Whether a process is the node of a record, so that no other one is ever signalled."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from typing import TYPE_CHECKING

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_node.account import PREFERRED, node_account
from owpc_ltr_node.record import Record

if TYPE_CHECKING:
    import psutil

CLOCK_SLACK = 5.0
"""How far apart two readings of one process's start may be, in seconds."""


def live_process(record: Record) -> psutil.Process | None:
    """The node's process; None if it has ended, even where another process has its pid now.

    It must bear the node's token, run its Java, and have started when the node did.
    """
    process = _bearer(record)
    return process if process is not None and not _doubt(process, record) else None


def process_to_end(record: Record) -> psutil.Process | None:
    """The node's process, if it may be ended by us; None if it has ended.

    Raises EngineUnavailable where the record is not wholly right about it, or it is not ours.
    """
    process = _bearer(record)
    if process is None:
        return None
    doubt = _doubt(process, record) or _foreign(process)
    if doubt:
        raise EngineUnavailable(
            f"cannot end the node on port {record.port} (pid {record.pid}): {doubt}"
        )
    return process


def created(pid: int) -> float:
    """When a process started, in seconds of the epoch; 0 if it has ended already."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def _bearer(record: Record) -> psutil.Process | None:
    """The process of the record's pid, if it lives and its command line has the node's token."""
    import psutil

    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        # One whole word: a part of a word may stand in any command line.
        return process if record.mark in process.cmdline() else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def _doubt(process: psutil.Process, record: Record) -> str:
    """What of a process that bears the token is not as recorded, or nothing."""
    import psutil

    if process.pid in {1, os.getpid(), *(parent.pid for parent in _ancestors())}:
        return "that is this command itself, or what started it: remove the record"
    try:
        try:
            program = process.exe()
        except psutil.AccessDenied:
            program = os.path.realpath(process.cmdline()[0])
        if program != os.path.realpath(record.java):
            return f"its process runs {program}, and not the Java it was started with: end it"
        if abs(process.create_time() - record.created) >= CLOCK_SLACK:
            return "its process started at another time than it did: end it by its pid"
    except (psutil.NoSuchProcess, IndexError):
        return "it has just ended"
    return ""


def _foreign(process: psutil.Process) -> str:
    """Whose the process is, if it is neither ours nor of an account that we start nodes as."""
    uid = process.uids().real
    if uid in _own_accounts():
        return ""
    return f"it belongs to '{process.username()}'; stop it as that user"


def _own_accounts() -> set[int]:
    own = {os.geteuid()}
    if os.geteuid() == 0:
        account = node_account()
        own |= {account.uid} if account else set()
        for name in PREFERRED:
            with suppress(KeyError):
                own.add(pwd.getpwnam(name).pw_uid)
    return own


def _ancestors() -> list[psutil.Process]:
    import psutil

    try:
        return list(psutil.Process().parents())
    except psutil.Error:
        return []
