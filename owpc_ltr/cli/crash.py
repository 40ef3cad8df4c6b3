"""A bug of ours as one line, and its traceback in a file of the user's own, without secrets."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from owpc_ltr.sanitization import printable, redacted, secrets_of
from owpc_ltr.version import VERSION

EXIT_CODE = 70
"""What sysexits.h calls EX_SOFTWARE."""
KEPT = 20
"""How many logs stay; older ones are removed."""
_LONGEST = 200


def crash_message(error: BaseException) -> str:
    """What is told of a bug; its traceback is written, or with OWPC_LTR_TRACEBACK=1 printed."""
    hidden = _secrets()
    words = redacted(" ".join(str(error).split()), hidden)
    short = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    what = f"this is a bug of ours: {type(error).__name__}: {printable(short)}"
    trace = traceback_of(error, hidden)
    if os.environ.get("OWPC_LTR_TRACEBACK") == "1":
        sys.stderr.write(trace)
        return f"{what}; the traceback is above: please report it"
    path = _written(f"{_about()}\n{trace}")
    if path is None:
        return f"{what}; OWPC_LTR_TRACEBACK=1 prints the traceback: please report it"
    return f"{what}; the traceback is in {path}: please report it"


def traceback_of(error: BaseException, hidden: Iterable[str]) -> str:
    """The traceback with what led to it, without values of variables and without secrets."""
    from traceback import TracebackException

    lines = TracebackException.from_exception(error, limit=-100, compact=True).format()
    return redacted("".join(lines), hidden)


def _about() -> str:
    # The values of options can be secrets, and the other words are what somebody searches for.
    words = [word for word in sys.argv[1:2] if re.fullmatch(r"[a-z-]+", word)]
    options = [found[0] for word in sys.argv[2:] if (found := re.match(r"--?[a-z-]+", word))]
    return (
        f"owpc-ltr {VERSION}, Python {platform.python_version()}, {platform.platform()}\n"
        f"owpc-ltr {' '.join([*words, *options])}\n"
    )


def _secrets() -> list[str]:
    """What must not be shown: of the environment, the command line and the configuration file."""
    addresses = [word.partition("=")[2] or word for word in sys.argv[1:] if "@" in word]
    return [*secrets_of(), *addresses, *_of_config_file()]


def _of_config_file() -> Sequence[str]:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    with suppress(OSError, RuntimeError, ValueError):
        file = Path(folder).expanduser() / "owpc-ltr" / "config.toml"
        text = file.read_bytes()[:100_000].decode("utf-8", "replace")
        quoted = re.findall(r"""^\s*(?:password|api_key|url)\s*=\s*["'](.*)["']""", text, re.M)
        return [value for value in quoted if "://" not in value or "@" in value]
    return ()


def _written(content: str) -> Path | None:
    """The file with the content, which only its owner can read."""
    import platformdirs

    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.log"
    with suppress(OSError, RuntimeError):
        folder = platformdirs.user_state_path("owpc-ltr", appauthor=False) / "crashes"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(folder)
        return _write(os.open(folder / name, _NEW, 0o600), folder / name, content)
    with suppress(OSError):
        descriptor, path = tempfile.mkstemp(prefix="owpc-ltr-", suffix=".log")
        return _write(descriptor, Path(path), content)
    return None


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def _write(descriptor: int, path: Path, content: str) -> Path:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode("utf-8", "backslashreplace"))
    return path


def _remove_old(folder: Path) -> None:
    for path in sorted(folder.glob("*.log"))[: -KEPT + 1]:
        path.unlink(missing_ok=True)
