"""Commands of `owpc-ltr`, run in the test's own process and in an empty folder."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from owpc_ltr import cli


@dataclass(frozen=True)
class Run:
    """Runs a command: exit code, standard output, standard error."""

    call: Callable[..., tuple[int, str, str]]

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return self.call(*words)

    def output(self, *words: str) -> str:
        """What a command prints that succeeds."""
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def refusal(self, code: int, *words: str) -> str:
        """What a command says that ends with this exit code."""
        ended, _, err = self(*words)
        assert ended == code, err
        return err


def commands_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs commands in a folder, where nothing of the user's own settings is seen."""
    monkeypatch.chdir(folder)
    for name in ("OWPC_LTR_URL", "OWPC_LTR_USER", "OWPC_LTR_PASSWORD", "OWPC_LTR_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["owpc-ltr", *words])
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with pytest.raises(SystemExit) as ended:
                cli.main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        captured = capsys.readouterr()
        return int(str(ended.value.code or 0)), captured.out, captured.err

    return Run(run)
