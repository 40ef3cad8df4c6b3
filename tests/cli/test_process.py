"""The process as a whole: whatever happens in it is one line and an exit code of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import save_model
from owpc_ltr.cli.signals import SIGNALS, Stops, finishing, handling
from owpc_ltr.errors import Stopped
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run

COMMAND = f"{sys.executable} -m owpc_ltr"
SECRET = "c4n4ry/s3cret#word"
DATA = "".join(f"{g} qid:{q} 1:{g}.5 2:{d}\n" for q in range(6) for d, g in enumerate((1, 0, 0)))
Ended = subprocess.CompletedProcess[bytes]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which no settings of the user are seen, and a folder with data."""
    monkeypatch.chdir(tmp_path)
    Path("data.txt").write_text(DATA)
    save_model(LinearModel(("1", "2"), np.ones(2)), "model.json")
    own = {name: value for name, value in os.environ.items() if not name.startswith("OWPC_LTR")}
    places = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE")}
    return {**own, **places, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    return run


def shell(line: str, environ: dict[str, str]) -> Ended:
    """A line of bash, in which a pipe fails as its first part does."""
    words = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(words, env=environ, capture_output=True, check=False)


def driven(before: str, words: list[str], environ: dict[str, str]) -> Ended:
    """A command in an interpreter where something is done first."""
    script = f"import sys\n{before}\nfrom owpc_ltr import cli\nsys.argv[0] = 'owpc-ltr'\ncli.main()"
    line = [sys.executable, "-c", script, *words]
    return subprocess.run(line, env=environ, capture_output=True, check=False)


def failing(error: str) -> str:
    """What makes `plugins` raise an error that is no fault of the user's."""
    return (
        "import owpc_ltr.host.registry as api\n"
        f"def fail(*_):\n    hidden = {SECRET!r}\n    raise {error}\n"
        "api.load = fail"
    )


def one_line(stderr: bytes) -> str:
    text = stderr.decode()
    assert text.count("\n") == 1, text
    assert text.startswith("owpc-ltr: ")
    assert text[:-1].isprintable()
    return text


def test_a_bug_is_one_line_and_a_traceback_that_only_its_owner_reads(
    environ: dict[str, str], tmp_path: Path
) -> None:
    environ |= {"OWPC_LTR_PASSWORD": SECRET, "HTTPS_PROXY": f"http://a:{SECRET}@proxy"}
    error = "KeyError('a\\x1b[31m\\n' + hidden + ' at https://me:' + hidden + '@host')"
    before = f"{failing(error)}\nimport os; os.umask(0)"
    (tmp_path / SECRET).parent.mkdir()
    (tmp_path / SECRET).write_text("")
    words = ["plugins", f"--plugin={SECRET}", SECRET]
    ended = driven(before, words, environ)
    message = one_line(ended.stderr)
    assert (ended.returncode, ended.stdout) == (70, b"")
    assert "this is a bug of ours: KeyError: " in message
    (log,) = (tmp_path / "STATE" / "owpc-ltr" / "crashes").iterdir()
    assert f"the traceback is in {log}: please report it" in message
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    written = log.read_text()
    assert "owpc-ltr plugins --plugin\n" in written
    assert "Traceback (most recent call last)" in written
    assert "in fail" in written
    printed = driven(before, words, environ | {"OWPC_LTR_TRACEBACK": "1"})
    assert printed.returncode == 70
    assert b"in fail" in printed.stderr
    for text in (message, written, printed.stderr.decode()):
        assert "s3cret" not in text
    assert list(log.parent.iterdir()) == [log]


@pytest.mark.parametrize(
    ("error", "code", "what"),
    [
        ("MemoryError()", 5, "not enough memory"),
        ('RuntimeError("can\'t start new thread")', 5, "not enough memory"),
        ("OSError(12, 'Cannot allocate memory')", 5, "not enough memory"),
        ("ImportError('libx.so: failed to map segment from shared object')", 5, "not enough"),
        ("OSError('cannot load') from OSError('x.so: failed to map segment')", 5, "not enough"),
        ("SystemError('returned NULL without setting an exception')", 70, "SystemError"),
        ("RecursionError('maximum depth')", 70, "RecursionError: maximum depth"),
        ("OSError(28, 'No space left on device', 'm.json')", 4, "m.json: no space left"),
        ("UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')", 70, "UnicodeDecodeError"),
        ("AssertionError", 70, "AssertionError: ; the traceback"),
        ("ExceptionGroup('several', [ValueError(hidden)])", 70, "ExceptionGroup"),
    ],
)
def test_what_is_no_fault_of_the_user_is_one_line_too(
    error: str, code: int, what: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    text = f"def fail(*_):\n    hidden = {SECRET!r}\n    raise {error}\n"
    exec(text, names)  # noqa: S102 - the error is written as its test's parameter
    monkeypatch.setattr("owpc_ltr.host.registry.load", names["fail"])
    ended, _, err = run("plugins")
    assert ended == code
    assert what in one_line(err.encode())


@pytest.mark.parametrize(
    "what", ["import numba", "raise SystemError('error return without exception set')"]
)
def test_too_small_an_address_space_is_not_enough_memory(
    what: str, environ: dict[str, str]
) -> None:
    """Extensions lose the error of memory, and raise SystemError, or are not loaded."""
    limits = (
        "import numpy, resource\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + 40_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))\n"
    )
    before = failing("KeyError(1)").replace("raise KeyError(1)", f"exec({limits + what!r})")
    ended = driven(before, ["plugins"], environ)
    assert ended.returncode == 5
    assert "not enough memory" in one_line(ended.stderr)


def test_a_log_that_cannot_be_kept_goes_elsewhere_or_is_left_out(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    closed = environ | {"XDG_STATE_HOME": "/dev/null/x", "TMPDIR": str(tmp_path / "tmp")}
    ended = driven(failing("KeyError(1)"), ["plugins"], closed)
    (log,) = (tmp_path / "tmp").iterdir()
    assert f"the traceback is in {log}" in one_line(ended.stderr)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    before = f"import tempfile\ntempfile.tempdir = '/dev/null'\n{failing('KeyError(1)')}"
    ended = driven(before, ["plugins"], closed)
    assert ended.returncode == 70
    assert "OWPC_LTR_TRACEBACK=1 prints the traceback" in one_line(ended.stderr)


# --- streams

PRINTING = ["plugins", "--help", "plugins --json"]
LOCALES = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
]


@pytest.mark.faults(sample=4)
@pytest.mark.parametrize("place", LOCALES)
@pytest.mark.parametrize("words", ["plugins show owpc", "--help", "plugins --json", "nonsensé"])
def test_every_encoding_can_show_what_is_printed(
    words: str, place: dict[str, str], environ: dict[str, str]
) -> None:
    ended = shell(f"{COMMAND} {words}", environ | place)
    assert ended.returncode == (2 if words == "nonsensé" else 0)
    assert b"Traceback" not in ended.stderr
    assert ended.stdout or ended.stderr
    if "--json" in words:
        json.loads(ended.stdout)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("words", PRINTING)
def test_a_reader_that_leaves_changes_nothing_of_the_ending(
    words: str, environ: dict[str, str]
) -> None:
    """Python takes far longer to start than `true` to end: there is no reader at the first byte."""
    ended = shell(f"{COMMAND} {words} | true", environ)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_work_goes_on_when_nobody_reads_of_it(environ: dict[str, str]) -> None:
    ended = shell(f"{COMMAND} train data.txt --out m.json 2>&1 | true", environ)
    assert ended.returncode == 0
    assert Path("m.json").is_file()
    ended = shell(f"{COMMAND} evaluate model.json --data nowhere.txt 2>&1 | true", environ)
    assert ended.returncode == 3


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_a_stream_that_was_closed_is_as_one_that_nobody_reads(
    closed: str, environ: dict[str, str]
) -> None:
    ended = shell(f"{COMMAND} plugins show nosuch {closed}", environ)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr
    # Nothing that is printed gets into a file that is written at the same time.
    shell(f"{COMMAND} train data.txt --out m.json {closed}", environ)
    assert json.loads(Path("m.json").read_text())["format"] == "owpc-ltr model"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_output_that_cannot_be_written_is_told(environ: dict[str, str]) -> None:
    ended = shell(f"{COMMAND} plugins > /dev/full", environ)
    assert ended.returncode == 4
    assert "no space left on device" in one_line(ended.stderr)
    ended = shell(f"{COMMAND} plugins show nosuch > /dev/full", environ)
    assert ended.returncode == 2


@pytest.mark.thorough
def test_foreign_names_steer_no_terminal(environ: dict[str, str]) -> None:
    name = "a\x1b[31m\u202eb\nc"
    save_model(LinearModel((name, "2"), np.ones(2)), "foreign.json")
    ended = shell(f"{COMMAND} evaluate foreign.json --data data.txt", environ)
    assert ended.returncode == 3
    assert r"a\x1b[31m\u202eb\nc" in one_line(ended.stderr)
    ended = shell(f"{COMMAND} evaluate {shlex.quote('feature:' + name)} --data data.txt", environ)
    assert r"\x1b[31m" in one_line(ended.stderr)
    for words in ("models show foreign.json", "plugins show --plugin foreign.py"):
        Path("foreign.py").write_text(PLUGIN.replace("'mine'", repr("m\x1b[31m\u202e")))
        ended = shell(f"{COMMAND} {words}", environ)
        assert ended.stdout or ended.stderr
        for stream in (ended.stdout, ended.stderr):
            assert b"\x1b" not in stream
            assert "\u202e".encode() not in stream


def test_a_message_is_bounded_with_its_remedy(run: Run) -> None:
    Path("data.txt").write_text(DATA)
    name = "/".join(["x" * 200] * 15)
    message = one_line(run("evaluate", name, "--data", "data.txt")[2].encode())
    assert len(message) < 1300
    assert message.startswith("owpc-ltr: cannot read the model xxx")
    assert message.endswith("(compare-live)\n")


# --- signals


@pytest.mark.faults(sample=3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "where",
    [
        "import owpc_ltr.cli.app",
        "import numba",
        "api",
    ],
)
def test_a_signal_while_modules_load_is_one_line(
    where: str, number: int, environ: dict[str, str]
) -> None:
    """The signal comes when the first module of a library is looked for, or in our own work."""
    if where == "api":
        before = failing(f"(__import__('os').kill(__import__('os').getpid(), {number}), 1)[1]")
    else:
        before = SENDING.format(full=where.split()[1], number=int(number))
    words = ["train", "data.txt", "--out", "m.json"]
    words = ["plugins"] if where in {"api", "import owpc_ltr.cli.app"} else words
    ended = driven(before, words, environ)
    assert b"Traceback" not in ended.stderr
    assert ended.returncode == 128 + number, ended.stderr
    assert one_line(ended.stderr) == "owpc-ltr: interrupted: run the same command again\n"
    assert not Path("m.json").exists()


SENDING = """
import os, signal
class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == {full!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Sender())
"""


def test_a_closed_terminal_ends_no_command_that_is_told_to_go_on(environ: dict[str, str]) -> None:
    before = failing(f"__import__('os').kill(__import__('os').getpid(), {int(signal.SIGHUP)})")
    # Whoever runs the tests may have been told to go on, too.
    heeded, ignored = (
        f"import signal\nsignal.signal(signal.SIGHUP, signal.{way})\n{before}"
        for way in ("SIG_DFL", "SIG_IGN")
    )
    assert driven(heeded, ["plugins"], environ).returncode == 128 + signal.SIGHUP
    assert b"interrupted" not in driven(ignored, ["plugins"], environ).stderr


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_when_all_is_done_tells_nothing(number: int, environ: dict[str, str]) -> None:
    before = f"import atexit, os\natexit.register(lambda: os.kill(os.getpid(), {int(number)}))"
    ended = driven(before, ["plugins"], environ)
    assert ended.stderr == b""
    assert ended.returncode in {-number, 128 + number}
    assert ended.stdout


def test_a_signal_that_is_swallowed_is_not_lost(environ: dict[str, str]) -> None:
    before = (
        "import owpc_ltr.host.registry as api\nimport os, signal\nreal = api.load\n"
        "def swallow(*asked):\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    except BaseException:\n        pass\n    return real(*asked)\n"
        "api.load = swallow"
    )
    ended = driven(before, ["plugins"], environ)
    assert ended.returncode == 143
    assert "interrupted" in one_line(ended.stderr)


@pytest.fixture
def stops() -> Iterator[Stops]:
    """Signals as a command has them, and afterwards as they were."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    made = Stops()
    yield made
    made.end()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_step_that_must_not_be_repeated_is_finished_in_spite_of_a_first_signal(
    stops: Stops,
) -> None:
    done = []
    with finishing():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("first")
        assert stops.exit_code == 130
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    assert done == ["first"]
    assert stops.exit_code == 143
    with pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_server_takes_the_signals_that_are_not_ignored_and_gives_them_back(stops: Stops) -> None:
    came: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with handling(lambda number, _frame: came.append(number)):
        for number in SIGNALS:
            os.kill(os.getpid(), number)
    assert came == [signal.SIGINT, signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in SIGNALS} == before
    assert stops.number is None


def test_a_server_in_another_thread_takes_no_signal() -> None:
    def handlers() -> list[Any]:
        with handling(lambda _number, _frame: None):
            return [signal.getsignal(number) for number in SIGNALS]

    with ThreadPoolExecutor(1) as thread:
        handlers_in_thread = thread.submit(handlers).result(20)
    assert handlers_in_thread == [signal.getsignal(number) for number in SIGNALS]


KILL = "os.kill(os.getpid(), signal.SIGTERM)"
LEFT = [
    f"{KILL}\n",
    # A library whose callback was cut raises an error of its own.
    f"try:\n            {KILL}\n        except BaseException as error:\n"
    "            raise SystemError('a result with an exception set') from error\n",
]


@pytest.mark.parametrize("left", LEFT, ids=["signal", "foreign error"])
def test_a_stop_where_nothing_can_catch_it_is_told_at_the_end(
    left: str, environ: dict[str, str]
) -> None:
    """As while an object is taken away, of which the interpreter prints a traceback."""
    before = (
        "import owpc_ltr.host.registry as api\nimport os, signal\nreal = api.load\n"
        f"class Leaving:\n    def __del__(self):\n        {left}"
        "def leave(*asked):\n    Leaving()\n    return real(*asked)\n"
        "api.load = leave"
    )
    ended = driven(before, ["plugins"], environ)
    assert ended.returncode == 143
    assert one_line(ended.stderr) == "owpc-ltr: interrupted after the work was complete\n"


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_output_is_handed_over_is_told(number: int, environ: dict[str, str]) -> None:
    """The command has returned, and its lines are on their way."""
    before = (
        "import owpc_ltr.cli.program as cli\nimport os\nreal = cli._run\n"
        "def run(stops):\n    code = real(stops)\n"
        f"    os.kill(os.getpid(), {int(number)})\n    return code\n"
        "cli._run = run"
    )
    ended = driven(before, ["plugins", "--json"], environ)
    assert ended.returncode == 128 + number
    assert one_line(ended.stderr) == "owpc-ltr: interrupted after the work was complete\n"
    assert json.loads(ended.stdout)


def test_once_a_step_is_finished_signals_end_the_command_again(stops: Stops) -> None:
    with finishing():
        pass
    with pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGINT)
    assert stops.number == signal.SIGINT


# --- plugins

PLUGIN = """
import dataclasses, typing
import numpy as np
from owpc_ltr import hookimpl

@dataclasses.dataclass(frozen=True)
class Mine:
    name: typing.ClassVar[str] = 'mine'
    convex: typing.ClassVar[bool] = True
    conservative: typing.ClassVar[bool] = True
    smooth: typing.ClassVar[bool] = False

    def value_and_gradient(self, scores, labels, weights=None):
        inside()
        upper = labels[:, None] > labels[None, :]
        wrong = upper & (scores[:, None] - scores[None, :] < 1)
        value = (wrong * (1 - scores[:, None] + scores[None, :])).sum()
        return float(value), (wrong.sum(0) - wrong.sum(1)).astype(np.float64)

def inside():
    pass

@hookimpl
def ltr_losses():
    return [Mine]
"""
LEAVING = [
    "raise SystemExit(0)",
    "raise KeyboardInterrupt",
    "raise BaseException('no')",
]
TRAIN = f"{COMMAND} train data.txt --plugin mine.py --loss mine --out m.json"


@pytest.mark.faults(sample=4)
@pytest.mark.parametrize("act", LEAVING)
@pytest.mark.parametrize("place", ["at import", "in its work"])
def test_no_plugin_ends_the_command_as_if_it_were_done(
    act: str, place: str, environ: dict[str, str]
) -> None:
    text = PLUGIN.replace("    pass\n", f"    {act}\n") if place != "at import" else PLUGIN + act
    Path("mine.py").write_text(text)
    ended = shell(TRAIN, environ)
    assert ended.returncode == 2, ended.stderr
    assert "mine.py" in one_line(ended.stderr)
    assert "end" in one_line(ended.stderr)
    assert not Path("m.json").exists()


@pytest.mark.thorough
def test_a_plugin_does_not_print_into_results(environ: dict[str, str]) -> None:
    noise = PLUGIN.replace("    pass\n", "    print('in its work')\n")
    Path("mine.py").write_text(f"{noise}\nprint('at import')\n")
    ended = shell(f"{TRAIN} --json", environ)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)
    assert b"at import" in ended.stderr


@pytest.mark.thorough
def test_two_commands_may_have_one_output(environ: dict[str, str]) -> None:
    line = f"{COMMAND} train data.txt --out m.json"
    started = [
        subprocess.Popen(["bash", "-c", line], env=environ, stdout=-3, stderr=-1) for _ in "12"
    ]
    messages = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], messages
    assert json.loads(Path("m.json").read_text())["kind"] == "linear"
    assert sorted(Path().glob(".m.json*")) == []
