"""`lint`: what in a search request, or in its search pipeline, spoils hybrid search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.data.html import block, line, table
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.fusion.request_checks import (
    PIPELINE_KEY,
    RequestFinding,
    SearchBody,
    request_findings,
)
from owpc_ltr.inspection.result import WARNING
from owpc_ltr.signatures import Help, Reads, job
from owpc_ltr.text import ShortRepr, printable_lines, wrapped_text


@job
def lint(
    request: Annotated[
        Mapping[str, Any] | Path | str,
        Reads(
            "A search request (the body of _search), or a search pipeline, as JSON.",
            cli=Path,
            metavar="REQUEST.json",
        ),
    ],
    *,
    pipeline: Annotated[
        Mapping[str, Any] | Path | str | None,
        Reads(
            "The search pipeline that the request runs with, as GET /_search/pipeline/NAME "
            "answers it (JSON); default: the one in the request.",
            cli=Path,
        ),
    ] = None,
    strict: Annotated[bool, Help("Exit code 5 if there is a warning.")] = False,
) -> RequestLint:
    """Find what spoils hybrid search in a request or its search pipeline.

    Each finding says what happens, where (JSON path), what to do, and where that can be read:
    rescoring inside `hybrid`, windows of the size of the page, means that reward a missed
    document, weights, vector queries that find too little, licences. The request is not run, and no
    cluster is asked.

    Python: `request` and `pipeline` are also dictionaries.
    Raises BadInput for a file that is not a JSON object, and Refused, with the `result`, for a
    warning where that is `strict`.

    >>> import owpc_ltr as ltr
    >>> legs = [{"match": {"title": "red"}}, {"knn": {"v": {"vector": [1, 0], "k": 100}}}]
    >>> found = ltr.lint({"query": {"hybrid": {"queries": legs, "pagination_depth": 100}}})
    >>> [finding.check for finding in found.findings]
    ['no-pipeline']
    """
    from owpc_ltr.features.feature_set import load_featureset

    body = _read(request)
    if "featureset" in body:
        # Its own faults first, such as templates that are refused.
        name = load_featureset(json.dumps(body)).name
        raise BadInput(
            f"'{name}' is a feature set, not a search request: featureset push checks it"
        )
    search = SearchBody(body, None if pipeline is None else _read(pipeline))
    result = RequestLint(tuple(request_findings(search)))
    if strict and result.warnings:
        raise Refused(f"{result.warnings[0].line}").with_result(result)
    return result


def _read(source: Mapping[str, Any] | Path | str) -> dict[str, Any]:
    """The object of a file, without the name that a cluster's answer has around a pipeline."""
    from owpc_ltr.files.strict_json import read_json_object

    content = dict(source) if isinstance(source, Mapping) else read_json_object(Path(source))
    inner = next(iter(content.values())) if len(content) == 1 else None
    if isinstance(inner, Mapping) and PIPELINE_KEY in inner:
        return dict(inner)
    return content


@dataclass(frozen=True, repr=False)
class RequestLint(ShortRepr):
    """The findings, warnings first."""

    findings: tuple[RequestFinding, ...]

    @property
    def warnings(self) -> tuple[RequestFinding, ...]:
        """The findings that are more than notes."""
        return tuple(finding for finding in self.findings if finding.severity == WARNING)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        findings = [{**finding.as_dict(), "line": finding.line} for finding in self.findings]
        return {"findings": findings}

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(wrapped_text(f"{finding.severity}: {finding.message}"))
            # A path is not broken: it is to be copied.
            lines.append(f"  at {finding.place}")
            lines.append(wrapped_text(f"  {finding.advice} [{finding.source}]"))
        return printable_lines("\n".join(lines or ["nothing was found"]))

    def _repr_html_(self) -> str:
        rows = [
            (part.severity, part.message, part.place, part.advice, part.source)
            for part in self.findings
        ]
        headers = ("", "what", "where", "what to do", "source")
        content = table(headers, rows) if rows else line("nothing was found")
        return block("request", content)
