"""A scripted agent: the SDK's own client in the process of the test, with a session of its own."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_mcp.server import Session, server_of
from owpc_ltr_mcp.tools import JobTool, folder_at, job_tools

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

all_tools = functools.cache(job_tools)


@dataclass(frozen=True)
class Reply:
    """What a tool answers."""

    text: str
    content: Any
    is_error: bool


class Agent:
    """Calls tools of one session."""

    def __init__(
        self, folder: Path, *, allow_changes: bool = False, tools: dict[str, JobTool] | None = None
    ) -> None:
        self.session = Session(tools or all_tools(), folder_at(folder), allow_changes)
        self.server = server_of(self.session)
        self.progress: list[str] = []

    def tools(self) -> dict[str, Tool]:
        """The tools that the client is offered."""
        import anyio
        from mcp.client import Client

        async def listed() -> list[Tool]:
            async with Client(self.server) as client:
                return (await client.list_tools()).tools

        return {tool.name: tool for tool in anyio.run(listed)}

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        """The answer to a call; an argument that is a word of Python ends with `_`."""
        import anyio
        from mcp.client import Client

        given = {key.rstrip("_"): value for key, value in arguments.items()}

        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(str(message))

        async def called() -> CallToolResult:
            async with Client(self.server) as client:
                return await client.call_tool(tool, given, progress_callback=note)

        result = anyio.run(called)
        (part,) = result.content
        return Reply(getattr(part, "text", ""), result.structured_content, result.is_error)

    def do(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that must succeed."""
        reply = self.call(tool, **arguments)
        assert not reply.is_error, reply.text
        return reply.text

    def refused(self, tool: str, /, **arguments: Any) -> str:
        """The first line of a call that must not succeed."""
        reply = self.call(tool, **arguments)
        assert reply.is_error, reply.text
        return reply.text.splitlines()[0]
