"""Judgments as they stand in a file, one a line: columns of texts, numbers or JSON, and checks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
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

    def row_without_text(self) -> int | None:
        """The first judgment whose query has no text, if there is one."""
        codes, texts = encode(self.params["query"])
        blank = np.array([not text.strip() for text in texts], bool)
        return int(np.argmax(blank[codes])) if blank.any() else None


def bad_line(path: Path, place: str, number: int, what: str) -> BadInput:
    """The error that names a line of a file."""
    return BadInput(f"cannot read {path}, {place} {number}: {what}")


def judged_lines(lines: JudgmentLines, *, skip: bool) -> tuple[JudgmentLines, list[str]]:
    """The lines that have a grade, and a note of how many have none.

    Raises BadInput for lines without a grade unless they are to be skipped, and where none has one.
    """
    blank = _blank(lines.grades)
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


def _blank(grades: Column) -> NDArray[np.bool_]:
    """Where there is no grade: an empty text, a null or NaN."""
    if is_text(grades):
        return np.asarray(pc.equal(pc.utf8_trim_whitespace(grades), ""), np.bool_)
    return np.asarray(pc.is_null(grades, nan_is_null=True), np.bool_)


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
