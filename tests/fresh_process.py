"""Python in a process of its own: what a fresh interpreter prints, and ranx without compiling."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

Evaluate = Callable[[str, Any], Any]
"""Runs code that makes `found` of `given`, and returns it."""

_SERVE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ranx
for line in sys.stdin:
    code, given = json.loads(line)
    names = {"ranx": ranx, "given": given}
    exec(code, names)
    print(json.dumps(names["found"]), flush=True)
"""


def printed_by(
    code: str, environ: dict[str, str] | None = None, arguments: Sequence[str] = ()
) -> str:
    """What the code prints in a fresh interpreter, which must end well and report nothing."""
    line = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(line, env=environ, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return ended.stdout


@pytest.fixture(scope="session")
def ranx() -> Iterator[Evaluate]:
    """One process that has ranx, as Python: compiled it takes a minute to begin."""
    if importlib.util.find_spec("ranx") is None:
        pytest.skip("ranx is not installed")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None

        def evaluate(code: str, given: Any) -> Any:
            asked.write(json.dumps([code, given]) + "\n")
            asked.flush()
            answer = answers.readline()
            assert answer, "ranx ended"
            return json.loads(answer)

        yield evaluate
        asked.close()
