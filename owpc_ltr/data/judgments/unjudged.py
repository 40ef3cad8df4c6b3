"""Judgments without a grade: documents of a sheet that nobody has judged yet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.judgments.columns import is_text
from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.errors import BadInput


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
