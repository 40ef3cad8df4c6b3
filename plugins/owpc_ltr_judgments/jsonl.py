"""Judgment lists as JSON lines: one object a judgment, whose parameters have JSON's types.

    {"query_id": "q1", "query": "red shoe", "document_id": "17", "grade": 2, "vector": [0.1, 0.7]}

Keys have the names that csv knows: `query_id` (qid), `query` (keywords, query_text), `doc_id`
(document_id, docid), `grade` (label, relevance, rating), and maybe `weight`, `query_weight` and
`judged_by`. All further keys are parameters of the query: numbers, true or false, lists (a query
vector), objects, texts; dates are texts, and null is no value. A key that a line does not have says
nothing: what another line of the query says holds, so that a long vector can stand once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgedQuery, JudgmentLines, Judgments, TypedColumn
from owpc_ltr.data.judgments.grouping import JUDGED_BY, decimal
from owpc_ltr.data.judgments.lines import Column, decode, whole_numbers
from owpc_ltr.data.judgments.tables import SHOWN, TAKEN, find_roles, further_params, lines_by_role
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text, shown
from owpc_ltr.files.strict_json import as_id, kind_of, read_json_value
from owpc_ltr.protocols import JudgmentReader

_ROLES = ("query_id", "query", "doc_id", "grade")
_WEIGHTS = ("weight", "query_weight")
_OPTIONAL = (*_WEIGHTS, JUDGED_BY)
_UNSAID = -1


@dataclass(frozen=True)
class Jsonl:
    """One JSON object a judgment; keys beside those that csv knows are parameters of any type."""

    name: ClassVar[str] = "jsonl"
    precedence: ClassVar[int] = 30

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line that is not blank begins an object."""
        return any(line.startswith("{") for line in first_lines(head)[:1])

    def read(
        self,
        path: Path,
        topics: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentLines:
        """The judgments. Raises BadInput for a line that is no object with the keys of one."""
        lines = _LinesRead(path, topics, columns or {})
        # Unicode has more line ends than one, which may stand inside a text.
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if line.strip():
                lines.add(number, line)
        return lines.judgments()

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The same lines; a query's parameters stand on its first one."""
        names = further_params(judgments)
        reserved = [name for name in names if name.lower() in TAKEN]
        if reserved:
            raise BadInput(f"a line's {shown(reserved[0])} is no parameter: write tsv")
        lines = [
            json.dumps(line, ensure_ascii=False)
            for query in judgments.queries
            for line in _lines_of(query, names)
        ]
        return "".join(f"{line}\n" for line in lines).encode()

    def example(self) -> bytes:
        """Two judgments of one query, which has a vector."""
        return (
            b'{"query_id": "q1", "query": "rambo", "doc_id": "7555", "grade": 4, '
            b'"vector": [0.5, -1]}\n{"query_id": "q1", "query": "rambo", "doc_id": "1370", '
            b'"grade": 0.5}\n'
        )


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `jsonl`."""
    return [Jsonl]


def _lines_of(query: JudgedQuery, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    params = {name: query.params[name] for name in names if name in query.params}
    ids = {"query_id": query.query_id, "query": query.params.get("query", "")}
    weights = [None] * len(query.grades) if query.weights is None else _numbers(query.weights)
    importance = {} if query.importance is None else {"query_weight": query.importance}
    judges = [None] * len(query.grades) if query.judged_by is None else query.judged_by
    judged = zip(query.doc_ids, _numbers(query.grades), weights, judges, strict=True)
    for number, (document, grade, weight, judge) in enumerate(judged):
        weighed = {} if weight is None else {"weight": weight}
        judged_by = {} if judge is None else {JUDGED_BY: judge}
        extra = params if number == 0 else {}
        yield {**ids, "doc_id": document, "grade": grade} | weighed | importance | judged_by | extra


def _numbers(values: Any) -> list[Any]:
    """The shortest decimals, whole ones as integers."""
    return whole_numbers([float(decimal(value)) for value in values])


@dataclass
class _LinesRead:
    """The columns of the lines so far."""

    path: Path
    topics: Mapping[str, str] | None
    columns: Mapping[str, str]
    numbers: list[int] = field(default_factory=list)
    texts: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By role; the query's id is its text where it has no other."""
    queries: dict[str, int] = field(default_factory=dict)
    query_of: list[int] = field(default_factory=list)
    params: dict[str, _Param] = field(default_factory=dict)
    layouts: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)
    """By the keys of a line: which of them has which role."""

    def add(self, number: int, line: str) -> None:
        """Take in one line."""
        place = f"{self.path}, line {number}"
        try:
            content = read_json_value(line)
        except ValueError as error:
            raise BadInput(f"cannot read {place}: {shown(line)} is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise BadInput(
                f"cannot read {place}: {shown(line)} is {kind_of(content)}, not an object: write "
                '{"query": …, "doc_id": …, "grade": …}'
            )
        keys = tuple(content)
        roles = self.layouts.get(keys)
        if roles is None:
            roles = self.layouts[keys] = self._roles(keys, place)
        row = len(self.numbers)
        self.numbers.append(number)
        values = ((role, content.pop(key)) for role, key in roles.items())
        texts = {role: _text(value, role, place) for role, value in values if value is not None}
        texts["query_id"] = texts.get("query_id", texts.get("query", ""))
        for role in (*_ROLES, *_OPTIONAL):
            self.texts[role].append(texts.get(role, ""))
        query = self.queries.setdefault(texts["query_id"], len(self.queries))
        self.query_of.append(query)
        for name, value in content.items():
            if not name.startswith(SHOWN) and name.lower() not in TAKEN:
                self.params.setdefault(name, _Param()).add(row, query, value)

    def judgments(self) -> JudgmentLines:
        """All of it. Raises BadInput where there is none, or a query has no text."""
        if not self.numbers:
            raise BadInput(f"cannot read {self.path}: it has no judgment")
        queries = np.array(self.query_of, np.int64)
        columns: dict[str, Any] = dict(self.texts)
        if self.topics is not None and not any(self.texts["query"]):
            del columns["query"]
        for role in _OPTIONAL:
            if not any(columns[role]):
                del columns[role]
        roles = {role: place for place, role in enumerate(columns)}
        for name, param in self.params.items():
            columns[name] = param.column(queries)
        return lines_by_role(
            self.path,
            self.numbers,
            names=list(columns),
            values=list(columns.values()),
            roles=roles,
            topics=self.topics,
        )

    def _roles(self, keys: tuple[str, ...], place: str) -> dict[str, str]:
        roles = find_roles(
            keys, place, self.topics is not None, "each line", column="key", columns=self.columns
        )
        return {role: keys[position] for role, position in roles.items()}


@dataclass
class _Param:
    """The values of one parameter, each held once a query."""

    values: list[Any] = field(default_factory=lambda: [None])
    rows: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)

    def add(self, row: int, query: int, value: Any) -> None:
        """Take in what a line says; most lines say what the query's last one did."""
        code = self.latest.get(query, _UNSAID)
        if value is None:
            code = 0
        elif code == _UNSAID or not _same(self.values[code], value):
            code = len(self.values)
            self.values.append(value)
        self.latest[query] = code
        self.rows.append(row)
        self.codes.append(code)

    def column(self, queries: Any) -> TypedColumn | Column:
        """A value a judgment: where its line says none, what another of the query does."""
        codes = np.full(len(queries), _UNSAID, np.int64)
        codes[self.rows] = self.codes
        first = np.zeros(queries.max() + 1, np.int64)
        # In reverse, so that the first line of a query is the last to be written.
        first[queries[self.rows[::-1]]] = self.codes[::-1]
        codes = np.where(codes == _UNSAID, first[queries], codes)
        if all(isinstance(value, str) for value in self.values[1:]):
            return decode(codes, ["", *self.values[1:]])
        return TypedColumn(codes, self.values)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one: True is no 1, though Python thinks so."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _text(value: Any, role: str, place: str) -> str:
    """An id, a query or a grade as it stands in the line."""
    numeric = role in {"grade", *_WEIGHTS}
    if numeric and isinstance(value, float):
        return repr(value)
    try:
        return as_id(value, "a number") if numeric else as_id(value)
    except ValueError as error:
        raise BadInput(f"cannot read {place}: the {role} {error}") from error
