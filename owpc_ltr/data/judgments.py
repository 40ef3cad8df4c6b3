"""Judgments: lines as they stand in a file, and the queries and grades that are made of them.

The formats are plugins, which `owpc_ltr.host.judgment_lists.read_judgments` chooses from. A list
has grades; the dataset that is logged for it has labels. A line has columns of texts, numbers or
JSON, which are checked; lines are grouped by query, with weights and who judged.

Weights say how sure a judgment is, and how often its query is asked. The default is 1; judgments
and queries of weight 0 do not count.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.options import Duplicates
from owpc_ltr.errors import BadInput, PluginError
from owpc_ltr.files.input import INVISIBLE, UNFIT, shown, why_no_id
from owpc_ltr.files.strict_json import json_text, not_finite, read_json_value
from owpc_ltr.text import ShortRepr

_UNSEEN = f"{UNFIT}|{INVISIBLE}"
_OF_NUMBERS = ("grades", "weights", "importance")
_COLUMNS = ("query_ids", "doc_ids", "judged_by", *_OF_NUMBERS)


@dataclass(frozen=True, eq=False, repr=False)
class JudgmentLines(ShortRepr):
    """One entry for each judgment, in the order of the file: lists of text, or Arrow columns.

    `numbers` are those of the lines (or whatever else `place` calls them), from 1. `grades` may
    be Arrow's numbers. `params` holds, by name, the columns that say something of the query, as
    texts, where '' is no value, or as a `TypedColumn`. A negative grade is a fault, or marks spam
    and counts as 0. `notes` say what reading passed over. `weights` say how sure each judgment is
    and `importance` how often its query is asked; nothing ('' or a null) is 1. `judged_by` names
    who gave it. Columns are kept as Arrow's, without a copy of those that are.
    """

    path: Path
    numbers: Sequence[int]
    query_ids: Column
    doc_ids: Column
    grades: Column
    params: Mapping[str, Column]
    place: str = "line"
    negative: Literal["refuse", "zero"] = "refuse"
    notes: tuple[str, ...] = ()
    weights: Column | None = None
    importance: Column | None = None
    judged_by: Column | None = None

    def __post_init__(self) -> None:
        """Turn lists into columns. Raises ValueError if they differ in length."""
        # Both names of the query's text mostly hold one list, which becomes one column.
        columns = {
            id(values): values if isinstance(values, TypedColumn) else text_column(values)
            for values in self.params.values()
        }
        params = {name: columns[id(values)] for name, values in self.params.items()}
        object.__setattr__(self, "params", params)
        all_columns = [*params.values()]
        for name in _COLUMNS:
            values = getattr(self, name)
            if values is not None:
                column = number_column(values) if name in _OF_NUMBERS else text_column(values)
                object.__setattr__(self, name, column)
                all_columns.append(column)
        if any(len(column) != len(self.numbers) for column in all_columns):
            lengths = ", ".join(str(len(column)) for column in all_columns)
            raise ValueError(f"{len(self.numbers)} judgments have columns of {lengths} values")

    def bad(self, row: int, what: str) -> BadInput:
        """The error that names the line of a judgment."""
        return bad_line(self.path, self.place, self.numbers[row], what)

    def check_ids(self) -> None:
        """Refuse ids that are empty, or that could not be looked up."""
        for what, ids in (("query id", self.query_ids), ("document id", self.doc_ids)):
            # Where queries have no ids, their texts stand for them: people type what they type.
            typed = (
                ids is self.query_ids
                and "query" in self.params
                and ids.equals(self.params["query"])
            )
            pattern = UNFIT if typed else _UNSEEN
            row = pc.index(pc.match_substring_regex(ids, pattern), True).as_py()
            if row >= 0:
                raise self.bad(row, f"the {what} {why_no_id(text_at(ids, row), typed=typed)}")

    def read_grades(self) -> Vector:
        """The grades as numbers; negative ones are the caller's to judge."""
        grades, row = read_numbers(self.grades, float(np.finfo(np.float32).max))
        if row is None:
            return grades
        raise self.bad(
            row,
            f"the grade {shown(self.grade(row))} is not a number that fits: write 0, 1, 2.5 …, or "
            "give the grades of words: `convert_judgments(labels=…)`",
        )

    def refuse_negative(self, grades: Vector) -> None:
        """Refuse grades below 0."""
        if len(grades) and grades.min() < 0:
            row = int(np.flatnonzero(grades < 0)[0])
            raise self.bad(
                row,
                f"the grade {shown(self.grade(row))} is negative: 0 is irrelevant; leave unjudged "
                "documents out, or shift all grades",
            )

    def check_params(self) -> None:
        """Refuse numbers that JSON does not have."""
        for name, column in self.params.items():
            for code, value in enumerate(column.values if isinstance(column, TypedColumn) else ()):
                number = not_finite(value)
                if number is not None:
                    row = int(np.argmax(column.codes == code))
                    raise self.bad(
                        row,
                        f"the parameter {shown(name)} holds {number}, which is not a finite "
                        "number: fix it, or leave it empty",
                    )

    def grade(self, row: int) -> str:
        """A grade as the file has it, or would have it in text."""
        return text_at(self.grades, row)

    def query_id(self, row: int) -> str:
        """The query id of a judgment."""
        return text_at(self.query_ids, row)

    def check_texts(self, fault: Callable[[str], str]) -> None:
        """Refuse the first query without a text, whose `fault` is told by its id."""
        codes, texts = encode(self.params["query"])
        blank = np.array([not text.strip() for text in texts], bool)
        if blank.any():
            row = int(np.argmax(blank[codes]))
            raise self.bad(row, fault(self.query_id(row)))


def bad_line(path: Path, place: str, number: int, what: str) -> BadInput:
    """The error that names a line of a file."""
    return BadInput(f"cannot read {path}, {place} {number}: {what}")


def judged_lines(lines: JudgmentLines, *, skip: bool) -> tuple[JudgmentLines, list[str]]:
    """The lines that have a grade, and a note of how many have none.

    Raises BadInput for lines without a grade unless they are to be skipped, and where none has one.
    """
    blank = _blank(lines.grades, nan=True)
    rows = np.flatnonzero(~blank)
    lacking = len(blank) - len(rows)
    if not lacking:
        return lines, []
    if not skip:
        row = int(np.argmax(blank))
        raise lines.bad(
            row,
            f"the grade {shown(lines.grade(row).strip())} is not a number that fits; {lacking} of "
            f"{len(lines.grades)} lines have none: grade them, or leave them out with "
            "`skip_unjudged=True`",
        )
    if not len(rows):
        raise BadInput(f"cannot read {lines.path}: none of its {lacking} lines has a grade yet")

    return _taken(lines, rows), [f"{lacking} lines without a grade were left out"]


def _taken(lines: JudgmentLines, rows: Numbers) -> JudgmentLines:
    """These lines alone, in this order."""
    taken = pa.array(rows)
    columns = {name: getattr(lines, name) for name in _COLUMNS}
    return replace(
        lines,
        numbers=np.asarray(lines.numbers)[rows].tolist(),
        params={name: values.take(taken) for name, values in lines.params.items()},
        **{name: column.take(taken) for name, column in columns.items() if column is not None},
    )


def by_judge(lines: JudgmentLines, grades: Mapping[str, Column]) -> JudgmentLines:
    """The lines once for each judge, with their grades; a note tells whose columns these are.

    A comma or `=` in a judge's name, which separate the votes of several, become blanks.
    """
    names = [" ".join(re.split(r"[\s,=]+", name.strip())) for name in grades]
    columns = [number_column(column) for column in grades.values()]
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.float64()) for column in columns]
    sizes = np.arange(len(lines.numbers))
    note = f"{len(names)} columns are the grades of judges: {', '.join(map(shown, names))}"
    return replace(
        _taken(lines, np.tile(sizes, len(names))),
        grades=pa.chunked_array([chunk for column in columns for chunk in column.chunks]),
        judged_by=decode(np.repeat(np.arange(len(names)), len(sizes)), names),
        notes=(*lines.notes, note),
    )


def _blank(column: Column, *, nan: bool) -> NDArray[np.bool_]:
    """Where a column says nothing: an empty text, a null or, if asked for, NaN."""
    if is_text(column):
        return np.asarray(pc.equal(pc.utf8_trim_whitespace(column), ""), np.bool_)
    return np.asarray(pc.is_null(column, nan_is_null=nan), np.bool_)


def with_labels(lines: JudgmentLines, labels: Mapping[str, float]) -> JudgmentLines:
    """The lines whose grades, as words, are these numbers. Raises BadInput for any other word."""
    if not is_text(lines.grades):
        raise BadInput(f"the grades of {lines.path} are numbers: leave out `labels`")
    codes, texts = encode(lines.grades)
    named = {label.strip().lower(): repr(grade) for label, grade in labels.items()}
    for code, text in enumerate(texts):
        if text.strip() and text.strip().lower() not in named:
            raise lines.bad(
                int(np.argmax(codes == code)),
                f"the label {shown(text)} is none of {', '.join(map(shown, labels))}: give its "
                "grade too",
            )
    return replace(lines, grades=decode(codes, [named.get(t.strip().lower(), "") for t in texts]))


Column = Any
"""A `pyarrow.ChunkedArray`; functions that make one take sequences of Python values too."""

Numbers = NDArray[np.int64]


def text_column(values: Sequence[str] | Column) -> Column:
    """The texts as a column; what has no value is empty."""
    column: Column = values if _is_arrow(values) else pa.array(values, pa.string())
    return _chunked(pc.fill_null(column, "") if column.null_count else column)


def number_column(values: Sequence[str] | Column) -> Column:
    """Numbers as a column: Arrow's as they are, all else as texts."""
    return _chunked(values) if _is_arrow(values) and not is_text(values) else text_column(values)


def is_text(column: Column) -> bool:
    """Whether the values of the column are texts, and not numbers."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def encode(column: Column) -> tuple[Numbers, list[str]]:
    """A number for each value, and the values in the order of their first appearance."""
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def decode(codes: Numbers, values: Sequence[str]) -> Column:
    """The texts that the codes number."""
    return text_column(pa.array(values, pa.string()).take(pa.array(codes)))


def text_at(column: Column, row: int) -> str:
    """A value as the file has it, or would have it in text."""
    return column[row].cast(pa.string()).as_py() or ""


def _is_arrow(values: object) -> bool:
    return isinstance(values, pa.Array | pa.ChunkedArray)


def _chunked(column: Column) -> Column:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def read_numbers(column: Column, largest: float) -> tuple[Vector, int | None]:
    """The numbers of a column, and the first row that has none between ±`largest`, if any."""
    if is_text(column):
        row = pc.index(pc.match_substring_regex(column, NUMBER), False).as_py()
        if row >= 0:
            return np.zeros(0), row
    numbers = _numbers(column)
    # NaN fits nowhere.
    unfit = np.flatnonzero(~(np.abs(numbers) <= largest))
    return numbers, int(unfit[0]) if len(unfit) else None


def _numbers(column: Column) -> Vector:
    try:
        return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)
    except pa.ArrowInvalid:
        # Arrow does not know '+1', '1.' and '1e400'.
        return np.array([float(value) for value in column.to_pylist()])


JSON = ":json"
"""The end of the name of a column of JSON; the part before it is the name of the parameter."""

Refuse = Callable[[int, str], BadInput]
"""Makes the error for a judgment, by its row (from 0) and its fault."""


@dataclass(frozen=True, eq=False, repr=False)
class TypedColumn(ShortRepr):
    """One JSON value a judgment; None is no value.

    `values` are the different ones and `codes` number them, so that a query's vector is held and
    compared once, however many judgments the query has. Two codes of a query are two values.
    """

    codes: Numbers
    values: Sequence[Any]
    declared: bool = False
    """Whether the name of the column says that it is a parameter, as `vector:json`."""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any] | pa.Array) -> TypedColumn:
        """The values of these judgments; `rows` are Arrow's or NumPy's numbers."""
        return replace(self, codes=self.codes[np.asarray(rows)])

    def to_pylist(self) -> list[Any]:
        """Every judgment's value."""
        return [self.values[code] for code in self.codes.tolist()]

    def json_at(self, row: int) -> str:
        """A judgment's value as JSON, for messages."""
        value = self.values[int(self.codes[row])]
        return "" if value is None else json_text(value)


def json_column(cells: Sequence[str] | Column, name: str, refuse: Refuse) -> TypedColumn:
    """The values of cells in JSON, each different cell read once; an empty cell is no value.

    Raises what `refuse` makes, for the first line whose cell is no JSON.
    """
    codes, texts = encode(text_column(cells))
    values: list[Any] = []
    for number, text in enumerate(texts):
        try:
            values.append(read_json_value(text) if text.strip() else None)
        except ValueError as error:
            row = int(np.flatnonzero(codes == number)[0])
            raise refuse(row, no_json(name, text, error)) from error
    # Numbers and lists may be written in several ways, and are one value.
    return distinct_values(values).take(codes)


def distinct_values(values: Sequence[Any]) -> TypedColumn:
    """Values, each different one held once."""
    numbers: dict[str, int] = {}
    distinct: list[Any] = []
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        if row and value is values[row - 1]:
            codes[row] = codes[row - 1]
            continue
        codes[row] = numbers.setdefault(json.dumps(value, sort_keys=True), len(distinct))
        if codes[row] == len(distinct):
            distinct.append(value)
    return TypedColumn(codes, distinct)


def table_column(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """The column of a parameter in a table: its name and its cells; None is an empty cell.

    Texts are written as they are, unless the column would have another role.

    >>> table_column("vector", [[0.5, 1], None])
    ('vector:json', ['[0.5,1]', ''])
    """
    texts = all(value is None or isinstance(value, str) for value in values)
    if texts and name.lower() not in {"weight", "query_weight"}:
        return name, [value or "" for value in values]
    return f"{name}{JSON}", ["" if value is None else json_text(value) for value in values]


def whole_numbers(values: Sequence[Any]) -> list[Any]:
    """Whole floats as integers: tables with empty cells turn integers into floats.

    >>> whole_numbers([2010.0, 0.5, None, 1e300])
    [2010, 0.5, None, 1e+300]
    """
    return [
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        else value
        for value in values
    ]


def declared(name: str) -> str | None:
    """The parameter that a column's name declares to be JSON, if it does so.

    >>> declared("vector:json"), declared("vector")
    ('vector', None)
    """
    return name[: -len(JSON)].strip() if name.lower().endswith(JSON) else None


def no_json(name: str, text: str, error: ValueError) -> str:
    """The fault of a cell that is declared to be JSON."""
    return (
        f"the cell {shown(text)} of the column {shown(name)} is not JSON ({error}): write 0.5, "
        'true, [0.1, 0.2], {"a": 1} or "text", or leave it empty'
    )


@dataclass(frozen=True, repr=False)
class JudgedQuery(ShortRepr):
    """A query and its judged documents.

    `params` is what its feature templates may name: `keywords` and `query`, both the query's
    text, and every further column of the list, as text or as a JSON value. `grades` is float32,
    one for each document, 0 for irrelevant. `weights`, float32, say how sure each judgment is, and
    `importance` how often the query is asked; None where nothing was said, which counts as 1.
    `judged_by` names who gave each judgment, as far as the list says: '' is nobody by name.
    """

    query_id: str
    params: dict[str, Any]
    doc_ids: list[str]
    grades: Labels
    weights: Labels | None = None
    importance: float | None = None
    judged_by: list[str] | None = None


@dataclass(frozen=True)
class Judgments:
    """Judged queries in the order of their first appearance, and what reading them changed."""

    queries: list[JudgedQuery]
    notes: tuple[str, ...] = ()

    @property
    def n_judgments(self) -> int:
        """Number of judged documents, over all queries."""
        return sum(len(query.doc_ids) for query in self.queries)

    def __str__(self) -> str:
        return f"{self.n_judgments:,} judgments of {len(self.queries):,} queries"

    def __repr__(self) -> str:
        return "\n  ".join([f"Judgments: {self}", *self.notes])

    def as_dict(self) -> dict[str, int]:
        """The counts as JSON."""
        return {"queries": len(self.queries), "judgments": self.n_judgments}


JUDGED_BY = "judged_by"
"""The name of a table's column, and of a manifest's entry."""
CLICKS = "clicks"
UNNAMED = "unnamed:"
"""Begins the name of a list's votes where it does not say who gave them."""
_SEVERAL = re.compile(r"[^,=]+=-?[0-9.e+]+(, [^,=]+=-?[0-9.e+]+)*")
"""Several raters with their grades."""


_MODELS = re.compile(
    r"(?i)(?:[\w.-]+[/:])?(?:models?|llms?|ai|(?:chat)?gpt|claude|gemini|gemma|llama|mistral|mixtral"
    r"|qwen|deepseek|openai|anthropic|umbrela)(?![a-z])"
)
"""Matches the beginning of a language model's name, as in `model:NAME` or `vendor/gpt4`."""


def machines_among(judged: Any) -> dict[str, float]:
    """The share of the judgments that each machine gave (clicks, models), by its name.

    `judged` is a dataset, whose manifest tells, or judged queries. Empty where no machine is named.
    """
    if isinstance(judged, Sequence):
        counts = judges_of(judged).get(JUDGED_BY, {})
    else:
        counts = counts_by_judge(getattr(judged, "manifest", None))
    total = max(sum(counts.values()), 1)
    return {name: count / total for name, count in counts.items() if is_machine(name)}


def is_machine(judges: str) -> bool:
    """Whether whoever judged is clicks or a language model, by name, and no person did, too."""
    return all(
        name.partition(":")[0] == CLICKS or _MODELS.match(name) for name in votes_of(judges, 0.0)
    )


def is_unnamed(judges: str) -> bool:
    """Whether nobody is named for one of the votes: clicks may have given it."""
    return any(not name or name.startswith(UNNAMED) for name in votes_of(judges, 0.0))


def grade_by_people(cell: str, grade: float) -> float | None:
    """A judgment's grade within the votes of people; None where a machine alone judged.

    >>> grade_by_people("ann=1, model:m=3", 2.0), grade_by_people("ann=1, bob=2", 1.5)
    (1.0, 1.5)
    >>> grade_by_people("clicks", 2.0)
    """
    people = [vote for name, vote in votes_of(cell, grade).items() if not is_machine(name)]
    return min(max(grade, min(people)), max(people)) if people else None


def raters_cell(grades: Mapping[str, float]) -> str:
    """Who judged: one name, or several with their grades.

    >>> raters_cell({"ann": 3.0}), raters_cell({"bob": 2.0, "ann": 3.0})
    ('ann', 'ann=3, bob=2')
    """
    if len(grades) == 1:
        return next(iter(grades))
    return ", ".join(f"{rater}={decimal(grade)}" for rater, grade in sorted(grades.items()))


def votes_of(cell: str, grade: float, otherwise: str = "") -> dict[str, float]:
    """What `raters_cell` was given.

    >>> votes_of("ann=3, bob=2", 2.5), votes_of("ann", 3.0), votes_of("", 1.0, "list")
    ({'ann': 3.0, 'bob': 2.0}, {'ann': 3.0}, {'list': 1.0})
    """
    if _SEVERAL.fullmatch(cell):
        parts = (part.rpartition("=") for part in cell.split(", "))
        return {rater: float(number) for rater, _, number in parts}
    return {cell or otherwise: grade}


def judges_of(queries: Iterable[JudgedQuery]) -> dict[str, Any]:
    """The entry of a manifest: judgments by judge, '' for none named; none where no judge is."""
    counts: Counter[str] = Counter()
    for query in queries:
        counts.update(query.judged_by or {"": len(query.doc_ids)})
    return _entry(counts)


def joined_judges(manifests: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The judges of several logs together, as the entry "judgments" of a manifest."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        judged = (manifest or {}).get("judged")
        unnamed = {"": judged} if isinstance(judged, int) else {}
        counts.update(counts_by_judge(manifest) or unnamed)
    entry = _entry(counts)
    return {"judgments": entry} if entry else {}


def _entry(counts: Counter[str]) -> dict[str, Any]:
    named = any(count for judge, count in counts.items() if judge)
    return {JUDGED_BY: dict(sorted(counts.items()))} if named else {}


def counts_by_judge(manifest: Mapping[str, Any] | None) -> dict[str, int]:
    """The number of judgments by judge, from a manifest; empty if it has none."""
    about = (manifest or {}).get("judgments")
    counts = about.get(JUDGED_BY) if isinstance(about, Mapping) else None
    if not isinstance(counts, Mapping):
        return {}
    return {judge: n for judge, n in counts.items() if isinstance(n, int) and n > 0}


def group_judgments(lines: JudgmentLines, duplicates: Duplicates = "refuse") -> Judgments:
    """The judgments by query, checked; a query's documents keep their order.

    Raises BadInput, naming the line, for grades, weights and ids that cannot be right, where a
    parameter or the importance of a query has two values, and where a document is judged twice
    unless `duplicates` says what to do: `mean` weighs the grades, and the weight is the mean of
    theirs; with `max` it is the largest of those of the largest grade.
    """
    if not len(lines.numbers):
        raise BadInput(f"cannot read {lines.path}: it has no judgment")
    notes = list(lines.notes)
    grades = lines.read_grades()
    if lines.negative == "zero":
        spam = int((grades < 0).sum())
        notes += [f"{spam} negative grades were read as 0"] if spam else []
        grades = grades.clip(min=0)
    lines.refuse_negative(grades)
    lines.check_ids()
    lines.check_params()
    codes, names = encode(lines.query_ids)
    further = _of_documents(lines, codes, names)
    if further:
        params = {name: column for name, column in lines.params.items() if name not in further}
        lines = replace(lines, params=params)
        notes.append(
            f"{', '.join(map(shown, further))}: what differs by document is no parameter of the "
            "query, and was left out"
        )
    queries = _group(lines, codes, names, grades, duplicates)
    remaining = sum(len(query.doc_ids) for query in queries)
    if remaining < len(grades):
        notes.append(f"{len(grades) - remaining} duplicates were merged by '{duplicates}'")
    return Judgments(queries, tuple(notes))


def _group(
    lines: JudgmentLines,
    codes: Numbers,
    queries: list[str],
    grades: Vector,
    duplicates: Duplicates,
) -> list[JudgedQuery]:
    importance = read_importance(lines, codes, queries)
    rows, grades, weights = _settle_duplicates(lines, codes, grades, duplicates)
    order = rows[np.argsort(codes[rows], kind="stable")]
    ends = np.cumsum(np.bincount(codes[rows], minlength=len(queries)))
    begins = np.append(0, ends[:-1]).astype(np.int64)
    documents = lines.doc_ids.take(pa.array(order)).to_pylist()
    labels: Labels = grades[order].astype(np.float32)
    document_weights = None if weights is None else weights[order].astype(np.float32)
    judges = None if lines.judged_by is None else lines.judged_by.take(pa.array(order)).to_pylist()
    firsts = pa.array(order[begins])
    params = {name: values.take(firsts).to_pylist() for name, values in lines.params.items()}
    return [
        JudgedQuery(
            query_id,
            # 0, false and an empty list are values too.
            {name: values[n] for name, values in params.items() if values[n] not in (None, "")},
            documents[begin:end],
            labels[begin:end],
            weights=None if document_weights is None else document_weights[begin:end],
            importance=importance[n],
            judged_by=None if judges is None else judges[begin:end],
        )
        for n, (query_id, begin, end) in enumerate(
            zip(queries, begins.tolist(), ends.tolist(), strict=True)
        )
    ]


def _of_documents(lines: JudgmentLines, queries: Numbers, names: list[str]) -> list[str]:
    """The further columns with several values in most queries that have several documents.

    Raises BadInput where another parameter has two values in a query.
    """
    _, first = np.unique(queries, return_index=True)
    several = int((np.bincount(queries) > 1).sum())
    further: list[str] = []
    checked: list[object] = []
    for name, column in lines.params.items():
        if any(column is earlier for earlier in checked):
            continue
        checked.append(column)
        typed = isinstance(column, TypedColumn)
        codes, values = (column.codes, column.values) if typed else encode(column)
        differing = np.flatnonzero(codes != codes[first][queries])
        if len(differing) and name not in {"keywords", "query"} and _may_be_of_documents(column):
            filled = ~np.isin(codes, [n for n, value in enumerate(values) if value in (None, "")])
            pairs = np.unique(np.column_stack([queries, codes])[filled], axis=0)
            if 2 * int((np.bincount(pairs[:, 0]) > 1).sum()) > several:
                further.append(name)
                continue
        if len(differing):
            row, before = int(differing[0]), int(first[queries[differing[0]]])
            value, earlier = (
                shown(column.json_at(place) if typed else column[place].as_py())
                for place in (row, before)
            )
            raise lines.bad(
                row,
                f"query {shown(names[queries[row]])} has {name} {value}, and {earlier} on "
                f"{lines.place} {lines.numbers[before]}: give it one",
            )
    return further


def _may_be_of_documents(column: Column) -> bool:
    """Whether the column is not declared as JSON, and has texts, numbers, true and false alone."""
    if not isinstance(column, TypedColumn):
        return True
    return not (column.declared or any(isinstance(value, list | dict) for value in column.values))


def _settle_duplicates(
    lines: JudgmentLines, queries: Numbers, grades: Vector, duplicates: Duplicates
) -> tuple[Numbers, Vector, Vector | None]:
    """The rows to keep, in file order, and the grades and weights of all rows, settled."""
    weights = read_weights(lines)
    documents, names = encode(lines.doc_ids)
    keys = queries * len(names) + documents
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
    if not len(repeated):
        return np.arange(len(keys)), grades, weights
    if duplicates == "refuse":
        worst = repeated[np.argmin(order[repeated])]
        row, before = int(order[worst]), int(order[worst - 1])
        earlier, grade = lines.grade(before), lines.grade(row)
        how = (
            f"as {grade}, and as {earlier}" if grades[row] != grades[before] else f"as {grade}, as"
        )
        raise lines.bad(
            row,
            f"document {shown(names[documents[row]])} of query {shown(lines.query_id(row))} is "
            f"judged {how} on {lines.place} {lines.numbers[before]}: keep one of them, or "
            "choose with `judge_convert(duplicates=…)`: first, max or mean",
        )
    starts = np.setdiff1d(np.arange(len(order)), repeated, assume_unique=True)
    rows = order[starts]
    if duplicates == "max":
        grades, weights = _largest(grades, weights, order, starts)
    elif duplicates == "mean":
        grades, weights = _means(grades, weights, order, starts)
    return np.sort(rows), grades, weights


def _largest(
    grades: Vector, weights: Vector | None, order: Numbers, starts: Numbers
) -> tuple[Vector, Vector | None]:
    """The largest grade of each group, and the largest weight that it was given with."""
    settled, rows = grades.copy(), order[starts]
    best = np.maximum.reduceat(grades[order], starts)
    settled[rows] = best
    if weights is None:
        return settled, None
    is_best = grades[order] == np.repeat(best, _sizes(order, starts))
    settled_weights = weights.copy()
    settled_weights[rows] = np.maximum.reduceat(np.where(is_best, weights[order], 0.0), starts)
    return settled, settled_weights


def _means(
    grades: Vector, weights: Vector | None, order: Numbers, starts: Numbers
) -> tuple[Vector, Vector | None]:
    """The mean grade of each group, weighted where any weight is above 0, and the mean weight."""
    settled, rows, sizes = grades.copy(), order[starts], _sizes(order, starts)
    settled[rows] = np.add.reduceat(grades[order], starts) / sizes
    if weights is None:
        return settled, None
    sums = np.add.reduceat(weights[order], starts)
    weighted = np.add.reduceat((weights * grades)[order], starts)
    settled[rows] = np.divide(weighted, sums, out=settled[rows], where=sums > 0)
    settled_weights = weights.copy()
    settled_weights[rows] = sums / sizes
    return settled, settled_weights


def _sizes(order: Numbers, starts: Numbers) -> Numbers:
    return np.diff(np.append(starts, len(order)))


def what_is_lost(written: Judgments, read: Judgments, name: str) -> list[str]:
    """A sentence on what the format `name` does not hold, if there is anything.

    Raises PluginError if documents or grades differ, which no format may change.
    """
    pairs = list(zip(written.queries, read.queries, strict=False))
    if len(written.queries) != len(read.queries) or not all(
        a.doc_ids == b.doc_ids and np.array_equal(a.grades, b.grades) for a, b in pairs
    ):
        raise PluginError(
            f"what judgment reader '{name}' wrote reads back as other judgments: report this to "
            "its author, and write tsv"
        )
    changed_params = dict.fromkeys(
        param
        for a, b in pairs
        for param in a.params
        if a.params[param] != b.params.get(param) and a.params[param] != ""
    )
    differences: dict[str, Iterable[Any]] = {
        "the ids of queries": (a.query_id != b.query_id for a, b in pairs),
        **{f"the parameter {shown(param)} of queries": (True,) for param in changed_params},
        "the weights of judgments": ((weights_of(a) != weights_of(b)).any() for a, b in pairs),
        "the importance of queries": (importance_of(a) != importance_of(b) for a, b in pairs),
        "who judged": (judges_by_document(a) != judges_by_document(b) for a, b in pairs),
    }
    lost = [what for what, differ in differences.items() if any(differ)]
    return [f"the format {name} does not hold {', '.join(lost)}"] if lost else []


WEIGHT, IMPORTANCE = "weight", "query_weight"
"""The names of the columns of tables."""

_LARGEST = float(np.finfo(np.float64).max)
_NO_WEIGHT = (
    "is not a number from 0 up that fits: write 0.5, 1, 2 …, or nothing for 1; 0 counts for nothing"
)


class UsedWeights(NamedTuple):
    """Whether any document, and whether any query, has a weight other than 1."""

    documents: bool
    queries: bool

    @classmethod
    def among(cls, queries: Sequence[JudgedQuery]) -> UsedWeights:
        """Of these queries."""
        return cls(
            any(query.weights is not None and (query.weights != 1).any() for query in queries),
            any(query.importance not in {None, 1.0} for query in queries),
        )


def weights_of(query: JudgedQuery) -> Labels:
    """The weights of a query's documents; ones by default."""
    if query.weights is None:
        return np.ones(len(query.doc_ids), np.float32)
    return query.weights


def judges_by_document(query: JudgedQuery) -> list[str]:
    """The judge of each of a query's documents; '' if none is named."""
    return query.judged_by or [""] * len(query.doc_ids)


def judges_column(queries: Iterable[JudgedQuery]) -> pa.StringArray:
    """The judge of each document of all queries: a field of a dataset's documents."""
    judges = [judge for query in queries for judge in judges_by_document(query)]
    return pa.array(judges, pa.string())


def judges_in(data: Any) -> list[dict[str, str]]:
    """By query of a dataset, the judge of each document; empty where the data do not know."""
    judges = (data.document_fields or {}).get(JUDGED_BY)
    if judges is None or data.doc_ids is None:
        return []
    ids, names = data.doc_ids.to_pylist(), judges.to_pylist()
    return [
        dict(zip(ids[begin:end], names[begin:end], strict=True))
        for begin, end in pairwise(data.offsets.tolist())
    ]


def importance_of(query: JudgedQuery) -> float:
    """How often a query is asked; 1 by default."""
    return 1.0 if query.importance is None else query.importance


def decimal(number: float | np.float32) -> str:
    """The shortest decimal that is the number in its own precision.

    >>> decimal(2.0), decimal(np.float32(0.1))
    ('2', '0.1')
    """
    return np.format_float_positional(number, trim="-")


def said_weight(cell: str) -> float | None:
    """The weight that a cell of text says, None for none. Raises ValueError for what is no weight.

    >>> said_weight("2.5"), said_weight(" ")
    (2.5, None)
    """
    if not cell.strip():
        return None
    numbers, unfit = read_numbers(text_column([cell]), _LARGEST)
    if unfit is not None or numbers[0] < 0:
        raise ValueError(f"{shown(cell)} {_NO_WEIGHT}")
    return float(numbers[0])


def read_weights(lines: JudgmentLines) -> Vector | None:
    """The weight of each judgment, if the list has any. Raises BadInput, naming the line."""
    if lines.weights is None:
        return None
    largest = float(np.finfo(np.float32).max)
    return _read(lines, lines.weights, WEIGHT, largest)[0]


def read_importance(
    lines: JudgmentLines, queries: Numbers, names: Sequence[str]
) -> list[float | None]:
    """The importance of each query; `queries` numbers those of the judgments.

    The importance on one line of a query holds for lines without any. Raises BadInput for cells
    that are no weights, and for a query that has two.
    """
    if lines.importance is None:
        return [None] * len(names)
    numbers, filled = _read(lines, lines.importance, IMPORTANCE, _LARGEST)
    rows = np.flatnonzero(filled)
    firsts = np.full(len(names), -1, np.int64)
    # In reverse, so that the first line of a query is the last to be written.
    firsts[queries[rows[::-1]]] = rows[::-1]
    differing = rows[numbers[rows] != numbers[firsts[queries[rows]]]]
    if len(differing):
        pair = int(differing[0]), int(firsts[queries[differing[0]]])
        values = [text_at(lines.importance, row) for row in pair]
        why = f"how sure a judgment is stands in a column '{WEIGHT}'"
        query_id = names[queries[pair[0]]]
        value, earlier = map(shown, values)
        raise lines.bad(
            pair[0],
            f"query {shown(query_id)} has the {IMPORTANCE} {value}, and {earlier} on "
            f"{lines.place} {lines.numbers[pair[1]]}: give it one; {why}",
        )
    return [None if row < 0 else float(numbers[row]) for row in firsts.tolist()]


def _read(
    lines: JudgmentLines, column: Column, name: str, largest: float
) -> tuple[Vector, NDArray[np.bool_]]:
    """The weights of a column, 1 where nothing is said, and where something is."""
    blank = _blank(column, nan=False)
    filled = pc.if_else(pa.array(blank), pa.scalar("1").cast(column.type), column)
    numbers, unfit = read_numbers(filled, largest)
    if unfit is None and len(numbers) and numbers.min() < 0:
        unfit = int(np.flatnonzero(numbers < 0)[0])
    if unfit is not None:
        raise lines.bad(unfit, f"the {name} {shown(text_at(column, unfit))} {_NO_WEIGHT}")
    return numbers, ~blank
