"""`RequestLint`: what `lint` found in a search request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from owpc_ltr.data.html import block, line, table
from owpc_ltr.fusion.request_checks import RequestFinding
from owpc_ltr.inspection.result import WARNING
from owpc_ltr.plain_text import ShortRepr, printable_lines, wrapped_text


@dataclass(frozen=True, repr=False)
class RequestLint(ShortRepr):
    """The findings, and the index that was asked, as words; empty where none was."""

    findings: tuple[RequestFinding, ...]
    index: str = ""

    @property
    def warnings(self) -> tuple[RequestFinding, ...]:
        """The findings that are more than notes."""
        return tuple(each for each in self.findings if each.severity == WARNING)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        findings = [{**each.as_dict(), "line": each.line} for each in self.findings]
        return {"findings": findings, "index": self.index}

    def __str__(self) -> str:
        lines = [f"index {self.index}"] if self.index else []
        for each in self.findings:
            lines.append(wrapped_text(f"{each.severity}: {each.message}"))
            # A path is not broken: it is to be copied.
            lines.append(f"  at {each.place}")
            lines.append(wrapped_text(f"  {each.advice} [{each.source}]"))
            if each.example:
                lines.append(wrapped_text(f"  here: {each.example}", others="    "))
        return printable_lines("\n".join(lines if self.findings else [*lines, "nothing was found"]))

    def _repr_html_(self) -> str:
        rows = [
            (each.severity, each.message, each.place, each.advice, each.source, each.example)
            for each in self.findings
        ]
        headers = ("", "what", "where", "what to do", "source", "here")
        told = table(headers, rows) if rows else line("nothing was found")
        return block(f"request{' for ' if self.index else ''}{self.index}", told)
