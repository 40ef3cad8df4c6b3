"""The calls of one client: what it may call, and how often it tried on the same queries."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_experiment.record import QUERY, Experiments

from owpc_ltr.cli.generator import run_job
from owpc_ltr.errors import OwpcLtrWarning, Refused, UsageError
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.looks import comparisons_on, corrected_for, same_queries, sketch_of
from owpc_ltr.names import did_you_mean
from owpc_ltr.plain_text import ShortRepr
from owpc_ltr.signatures import Progress, spelled_as
from owpc_ltr_mcp.answers import content_of, error_line, text_of
from owpc_ltr_mcp.evidence import check_digests, check_upload, promotable
from owpc_ltr_mcp.folder import Folder
from owpc_ltr_mcp.tools import JobTool

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from owpc_ltr.engine.cluster import Cluster

_LISTED = 5
"""Earlier attempts that a result lists."""


@dataclass(repr=False)
class Session(ShortRepr):
    """The tools of a client, its folder, and its attempts so far. One call runs at a time.

    An attempt is a sketch of the queries that rankers were compared on, and the call.
    """

    tools: Mapping[str, JobTool]
    folder: Folder
    allow_changes: bool = False
    attempts: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)

    @property
    def offered(self) -> list[JobTool]:
        """The tools that may be called."""
        return [one for one in self.tools.values() if self.allow_changes or not one.changes_cluster]

    def call(self, name: str, arguments: Mapping[str, Any], show: Progress) -> CallToolResult:
        """Run a job. What it raises is an answer, too, unless it ends the process."""
        from mcp_types import CallToolResult, TextContent

        tool, warned = self.tools.get(name), list[str]()
        # Relative paths are those of the folder, also within texts, as NAME=@FILE.
        with spelled_as({} if tool is None else tool.spellings), contextlib.chdir(self.folder.root):
            try:
                with _collected(warned):
                    result = self._run(name, arguments, show)
                error: BaseException | None = getattr(result, "refusal", None)
            except Exception as fault:  # noqa: BLE001 - what ends a command must not end the server
                result, error = getattr(fault, "result", None), fault
            else:
                shows = getattr(tool and tool.function, "shows", None)
                result = result if shows is None else shows(result)
            lines = [] if error is None else [error_line(error)]
            comparison = getattr(result, "gate", None) or result
            if isinstance(comparison, RankerComparison) and comparison.pairs:
                lines.append(self._count(comparison, f"{name} {json.dumps(dict(arguments))}"))
            if result is not None or warned:
                lines.append(text_of(result, warned))
            return CallToolResult(
                content=[TextContent(text="\n".join(lines) or "done")],
                structured_content=content_of(result),
                is_error=error is not None,
            )

    def attempts_on(self, queries: Mapping[str, Any]) -> int:
        """How many comparisons were made on the queries of a sketch, by anybody or this session."""
        return max(len(self._earlier(queries)), comparisons_on(queries))

    def _run(self, name: str, arguments: Mapping[str, Any], show: Progress) -> Any:
        tool = self.tools.get(name)
        if tool is None:
            raise UsageError(
                f"there is no tool '{name}': {did_you_mean(name, self.tools, 'list the tools')}"
            )
        if tool not in self.offered:
            raise Refused(
                f"{name} changes the cluster, which this session may not: ask whoever starts the "
                "server to do it, or for owpc-ltr mcp --allow-changes"
            )
        values = tool.values(arguments, self.folder)
        self._check(tool, values)
        return run_job(tool.about, tool.function, values, tool.connection, show)

    def _check(self, tool: JobTool, values: dict[str, Any]) -> None:
        """Refuse what only people may do, or only with evidence."""
        files = any(Path(str(value)).suffix == ".py" for value in values.values())
        if (files or "plugins" in values) and not self.allow_changes:
            raise Refused(
                "a plugin file runs as code, which this session may not: use an installed plugin, "
                "or ask for owpc-ltr mcp --allow-changes"
            )
        if tool.about.name == "models promote":
            values["name"] = promotable(_cluster(tool, values), values["name"], self.attempts_on)
        elif tool.about.name == "upload":
            check_upload(values)
        elif tool.about.name == "experiment stop" and "promote_if" in values:
            cluster = _cluster(tool, values)
            experiment = Experiments(cluster.engine).find(values["name"])
            if experiment is not None and experiment.b != QUERY:
                check_digests(cluster, experiment.b)

    def _count(self, comparison: RankerComparison, call: str) -> str:
        """Note an attempt; the line that says which one it is on these queries."""
        queries = sketch_of(comparison.query_ids)
        earlier = self._earlier(queries)
        self.attempts.append((queries, call))
        number = max(len(earlier), comparison.looks) + 1
        if number == 1:
            return "attempt 1 on these queries"
        listed = "".join(f"\n- {text[:200]}" for text in earlier[-_LISTED:])
        return (
            f"attempt {number} on these queries: p counts {corrected_for(number - 1):.1f} times "
            f"for a promotion{'; earlier in this session:' if listed else ''}{listed}"
        )

    def _earlier(self, queries: Mapping[str, Any]) -> list[str]:
        """The calls of this session that compared rankers on the queries of a sketch."""
        return [call for sketch, call in self.attempts if same_queries(sketch, queries)]


def _cluster(tool: JobTool, values: Mapping[str, Any]) -> Cluster:
    """The cluster that a job will change."""
    from owpc_ltr.engine.connect import connect

    return connect(**{name: values[name] for name in tool.connection & values.keys()})


@contextlib.contextmanager
def _collected(warned: list[str]) -> Iterator[None]:
    """Warnings of the library are collected, and what is printed goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OwpcLtrWarning)
        try:
            yield
        finally:
            told = [one for one in caught if issubclass(one.category, OwpcLtrWarning)]
            warned += [str(one.message) for one in told]
