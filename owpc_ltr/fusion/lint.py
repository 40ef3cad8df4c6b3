"""`lint`: what in a search request, or in its search pipeline, spoils hybrid search.

`request_checks` reads the request alone; `request_trials` asks an index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.html import block, line, table
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.fusion.request_checks import RequestFinding, SearchBody, request_findings
from owpc_ltr.host.commands import NO_STORE, ConnectsWith
from owpc_ltr.inspection.result import WARNING
from owpc_ltr.signatures import Argument, Help, Reads, job
from owpc_ltr.text import ShortRepr, printable_lines, wrapped_text

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster


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
    index: Annotated[
        str | None,
        Help(
            "Also ask this index: shards, vectors, plugins, licence, and what each trap does to "
            "the request's own hits."
        ),
        Argument.NAME,
    ] = None,
    pipeline: Annotated[
        Mapping[str, Any] | Path | str | None,
        Reads(
            "The search pipeline that the request runs with (JSON); default: the one in the "
            "request, or with --index the one that it or the index names.",
            cli=Path,
        ),
    ] = None,
    strict: Annotated[bool, Help("Exit code 5 if there is a warning.")] = False,
    cluster: Annotated[Cluster | None, NO_STORE, ConnectsWith("index")] = None,
) -> RequestLint:
    """Find what spoils hybrid search in a request or its search pipeline.

    Each finding says what happens, where (JSON path), what to do, and where that can be read:
    rescoring inside `hybrid`, windows of the size of the page, means that reward a missed
    document, weights, vector queries that find too little, licences. With an index, requests
    without places to fill in (`{{keywords}}`) are run as they are and otherwise, and the
    difference is shown. Nothing is written to the cluster.

    Python: `request` and `pipeline` are also dictionaries, and `cluster` is what `connect` returns.
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
    if cluster is None or index is None:
        result = RequestLint(tuple(request_findings(search)))
    else:
        result = _with_index(cluster, index, search)
    if strict and result.warnings:
        raise Refused(f"{result.warnings[0].line}").with_result(result)
    return result


def _with_index(cluster: Cluster, index: str, search: SearchBody) -> RequestLint:
    """The findings about the request, and about the index that it is for."""
    from owpc_ltr.fusion.request_trials import IndexFacts, index_findings, with_examples

    facts = IndexFacts.of(cluster.engine, index)
    name = search.pipeline_name
    if search.pipeline is None and name is None:
        name = facts.default_pipeline
    stored = facts.stored_pipeline(name) if name and name != "_none" else None
    search = search if stored is None else SearchBody(search.body, stored)
    findings = [*index_findings(facts, search), *request_findings(search)]
    # Of the licence the cluster knows more than the request.
    findings = [finding for finding in findings if finding.check != "licence"]
    return RequestLint(tuple(with_examples(facts, search, findings)), str(facts))


def _read(source: Mapping[str, Any] | Path | str) -> dict[str, Any]:
    from owpc_ltr.files.strict_json import read_json_object

    return dict(source) if isinstance(source, Mapping) else read_json_object(Path(source))


@dataclass(frozen=True, repr=False)
class RequestLint(ShortRepr):
    """The findings, and the index that was asked, as words; empty where none was."""

    findings: tuple[RequestFinding, ...]
    index: str = ""

    @property
    def warnings(self) -> tuple[RequestFinding, ...]:
        """The findings that are more than notes."""
        return tuple(finding for finding in self.findings if finding.severity == WARNING)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        findings = [{**finding.as_dict(), "line": finding.line} for finding in self.findings]
        return {"findings": findings, "index": self.index}

    def __str__(self) -> str:
        lines = [f"index {self.index}"] if self.index else []
        for finding in self.findings:
            lines.append(wrapped_text(f"{finding.severity}: {finding.message}"))
            # A path is not broken: it is to be copied.
            lines.append(f"  at {finding.place}")
            lines.append(wrapped_text(f"  {finding.advice} [{finding.source}]"))
            if finding.example:
                lines.append(wrapped_text(f"  here: {finding.example}", others="    "))
        return printable_lines("\n".join(lines if self.findings else [*lines, "nothing was found"]))

    def _repr_html_(self) -> str:
        rows = [
            (part.severity, part.message, part.place, part.advice, part.source, part.example)
            for part in self.findings
        ]
        headers = ("", "what", "where", "what to do", "source", "here")
        content = table(headers, rows) if rows else line("nothing was found")
        return block(f"request{' for ' if self.index else ''}{self.index}", content)
