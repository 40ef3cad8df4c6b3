"""Judgments as they stand in a file, one a line, and their checks, the same for all formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.judgments.columns import (
    Column,
    TypedColumn,
    encode,
    is_text,
    number_column,
    read_numbers,
    text_at,
    text_column,
)
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import not_finite
from owpc_ltr.files.text import INVISIBLE, shown, why_unseen

_UNFIT = r"^$|^[ \t]|[ \t]$|[\x00-\x08\x0a-\x1f]"
_UNSEEN = f"{_UNFIT}|{INVISIBLE}"


@dataclass(frozen=True, eq=False)
class JudgmentLines:
    """One entry a judgment, in the order of the file: lists of text, or Arrow columns.

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
    document_ids: Column
    grades: Column
    params: Mapping[str, Column]
    place: str = "line"
    negative: Literal["refuse", "zero"] = "refuse"
    notes: tuple[str, ...] = ()
    weights: Column | None = None
    importance: Column | None = None
    judged_by: Column | None = None

    def __post_init__(self) -> None:
        """Make columns of the lists. Raises ValueError where they differ in length."""
        # Both names of the query's text mostly hold one list, which becomes one column.
        columns = {id(values): _param_column(values) for values in self.params.values()}
        params = {name: columns[id(values)] for name, values in self.params.items()}
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "query_ids", text_column(self.query_ids))
        object.__setattr__(self, "document_ids", text_column(self.document_ids))
        object.__setattr__(self, "grades", number_column(self.grades))
        held = [self.query_ids, self.document_ids, self.grades, *params.values()]
        for name in ("weights", "importance"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, number_column(getattr(self, name)))
                held.append(getattr(self, name))
        if self.judged_by is not None:
            object.__setattr__(self, "judged_by", text_column(self.judged_by))
            held.append(self.judged_by)
        if any(len(column) != len(self.numbers) for column in held):
            lengths = ", ".join(str(len(column)) for column in held)
            raise ValueError(f"{len(self.numbers)} judgments have columns of {lengths} values")

    def bad(self, row: int, what: str) -> BadInput:
        """The error that names the line of a judgment."""
        return bad_line(self.path, self.place, self.numbers[row], what)

    def check_ids(self) -> None:
        """Refuse ids that are empty, or that would not be found as they stand."""
        for what, ids in (("query id", self.query_ids), ("document id", self.document_ids)):
            # Where queries have no ids, their texts stand for them: people type what they type.
            typed = (
                ids is self.query_ids
                and "query" in self.params
                and ids.equals(self.params["query"])
            )
            pattern = _UNFIT if typed else _UNSEEN
            row = pc.index(pc.match_substring_regex(ids, pattern), True).as_py()
            if row >= 0:
                value = text_at(ids, row)
                why = why_unseen(value) or (
                    "begins or ends with a blank, or has a control character in it"
                )
                raise self.bad(
                    row, f"the {what} is empty" if not value else f"the {what} {shown(value)} {why}"
                )

    def read_grades(self) -> Vector:
        """The grades as numbers; negative ones are the caller's to judge."""
        grades, row = read_numbers(self.grades, float(np.finfo(np.float32).max))
        if row is None:
            return grades
        raise self.bad(
            row, f"the grade {shown(self.grade(row))} is not a number that fits: write 0, 1, 2.5 …"
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
                    raise self.bad(row, no_number(name, number))

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


def no_number(name: str, number: float) -> str:
    """What is wrong with a parameter that holds NaN or infinity."""
    return (
        f"the parameter {shown(name)} holds {number}, which is no finite number: fix it, or leave "
        "it empty"
    )


def _param_column(values: Column | TypedColumn) -> Column | TypedColumn:
    return values if isinstance(values, TypedColumn) else text_column(values)


def judged_lines(lines: JudgmentLines, *, skip: bool) -> tuple[JudgmentLines, list[str]]:
    """The lines that have a grade, and a note of how many have none.

    Raises BadInput for lines without a grade unless they are to be skipped, and where none has one.
    """
    graded = _graded(lines)
    rows = np.flatnonzero(graded)
    lacking = len(graded) - len(rows)
    if not lacking:
        return lines, []
    if not skip:
        raise lines.bad(
            int(np.flatnonzero(~graded)[0]),
            f"the grade '' is not a number that fits; {lacking} of {len(lines.grades)} lines have "
            "none: grade them, or leave them out with --skip-unjudged",
        )
    if not len(rows):
        raise BadInput(f"cannot read {lines.path}: none of its {lacking} lines has a grade yet")

    taken = pa.array(rows)
    kept = replace(
        lines,
        numbers=np.asarray(lines.numbers)[rows].tolist(),
        query_ids=lines.query_ids.take(taken),
        document_ids=lines.document_ids.take(taken),
        grades=lines.grades.take(taken),
        params={name: values.take(taken) for name, values in lines.params.items()},
        weights=None if lines.weights is None else lines.weights.take(taken),
        importance=None if lines.importance is None else lines.importance.take(taken),
        judged_by=None if lines.judged_by is None else lines.judged_by.take(taken),
    )
    return kept, [f"{lacking} lines without a grade were left out"]


def _graded(lines: JudgmentLines) -> NDArray[np.bool_]:
    """Which lines have a grade: numbers always have."""
    if not is_text(lines.grades):
        return np.ones(len(lines.grades), dtype=np.bool_)
    blank = pc.equal(pc.utf8_trim_whitespace(lines.grades), "")
    return ~np.asarray(blank.to_numpy(zero_copy_only=False), dtype=np.bool_)
