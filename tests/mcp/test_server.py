"""The command `owpc-ltr mcp`: the protocol on standard streams, and how it ends."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_mcp.server import mcp
from owpc_ltr_mcp.tools import JobTool

from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.generator import run_job
from owpc_ltr.errors import PluginError, Stopped, UsageError
from owpc_ltr.host.commands import Command, plugin_commands
from owpc_ltr.signatures import Progress, job, silent
from tests.mcp.agent import Agent
from tests.mcp.test_tools import Painted, painting

COMMAND = [sys.executable, "-m", "owpc_ltr", "mcp"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}


def test_a_client_starts_it_and_ends_it_and_what_jobs_print_is_not_on_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyio
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    (tmp_path / "loud.py").write_text("print('from a plugin, on standard output')")
    command = shlex.join([*COMMAND, "--folder", str(tmp_path), "--allow-changes"])
    ended = tmp_path / "ended"
    # The shell keeps the exit code, which the SDK does not tell. On a busy machine it ends late.
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 60.0)
    script_of_shell = f"{command}; echo $? >{shlex.quote(str(ended))}"
    server = StdioServerParameters(command="sh", args=["-c", script_of_shell])

    async def script() -> tuple[set[str], Any, Any]:
        async with Client(stdio_client(server)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            loud = await client.call_tool("plugins_show", {"plugin": ["loud.py"]})
            return names, loud, await client.call_tool("plugins_metrics", {})

    names, loud, metrics = anyio.run(script)
    assert {"evaluate", "models_promote"} <= names
    assert "from a plugin" not in loud.content[0].text
    assert "MEANS" in metrics.content[0].text
    assert not metrics.is_error
    assert ended.read_text() == "0\n"


def test_it_ends_when_a_signal_comes(tmp_path: Path) -> None:
    with subprocess.Popen(
        COMMAND, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(HELLO)}\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert "data, not instructions" in answer["result"]["instructions"]
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
        assert process.stdout.read() == ""


SIGNALLED_IN_A_CALLBACK = """
import asyncio, os, signal, sys
from owpc_ltr_mcp import server
from owpc_ltr.cli.program import main

async def serve(_):
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
    await asyncio.sleep(30)

# Without tools and a protocol there is nothing to import, which takes a second.
server._serve, server.server_of, server.job_tools = serve, lambda _: None, dict
sys.argv = ["owpc-ltr", "mcp"]
sys.exit(main())
"""


def test_a_signal_in_a_callback_of_the_event_loop_ends_it(tmp_path: Path) -> None:
    """The loop discards what is raised there."""
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED_IN_A_CALLBACK],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stderr == "owpc-ltr: interrupted\n"


BEGUN, STOPPED = threading.Event(), threading.Event()


@job
def wait(progress: Progress = silent) -> Painted:
    """Wait until it is stopped."""
    BEGUN.set()
    try:
        for _ in range(2000):
            progress("waiting", None)
            time.sleep(0.01)
    except Stopped:
        STOPPED.set()
        raise
    return Painted()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_that_is_cancelled_stops_its_job_and_the_next_one_runs(
    tmp_path: Path, mode: str
) -> None:
    import anyio
    from mcp.client import Client

    BEGUN.clear()
    STOPPED.clear()
    tools = {
        "wait": JobTool(Command("wait", "", ""), wait, {}, frozenset()),
        **painting(),
    }
    agent = Agent(tmp_path, tools=tools)
    (tmp_path / "wall").touch()

    async def script() -> Any:
        async with Client(agent.server, mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "wait", {})
                assert await anyio.to_thread.run_sync(BEGUN.wait, 20)
                tasks.cancel_scope.cancel()
            return await client.call_tool("wall_paint", {"wall": "wall", "colour": ["red"]})

    assert "n_coats=2" in anyio.run(script).content[0].text
    assert STOPPED.wait(1)


def test_without_the_sdk_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    (about,) = (command for command in plugin_commands().commands if command.name == "mcp")
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    with pytest.raises(PluginError, match=r"^mcp needs mcp, .*: pip install 'owpc-ltr\[mcp\]'$"):
        run_job(about, mcp, {}, ())
    assert "mcp" not in {command.name for command in COMMANDS}


def test_a_folder_is_there_and_is_not_that_of_all_files(tmp_path: Path) -> None:
    for everything in ("/", Path.home()):
        with pytest.raises(UsageError, match="has all files: name a folder"):
            mcp(folder=everything)
    with pytest.raises(UsageError, match=r"there is no folder .*: create it"):
        mcp(folder=tmp_path / "nowhere")
