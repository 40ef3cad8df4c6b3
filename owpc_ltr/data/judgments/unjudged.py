"""Judgments without a grade: documents of a sheet that nobody has judged yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.errors import BadInput


def judged_lines(lines: JudgmentLines, *, skip: bool) -> tuple[JudgmentLines, list[str]]:
    """The lines that have a grade, and a note of how many have none.

    Raises BadInput for lines without a grade unless they are to be skipped, and where none has one.
    """
    rows = [row for row, grade in enumerate(lines.grades) if str(grade).strip()]
    lacking = len(lines.grades) - len(rows)
    if not lacking:
        return lines, []
    if not skip:
        first = next(row for row, grade in enumerate(lines.grades) if not str(grade).strip())
        raise lines.bad(
            first,
            f"the grade '' is not a number that fits; {lacking} of {len(lines.grades)} lines have "
            "none: grade them, or leave them out with --skip-unjudged",
        )
    if not rows:
        raise BadInput(f"cannot read {lines.path}: none of its {lacking} lines has a grade yet")

    def kept(values: Sequence[str]) -> list[str]:
        return [values[row] for row in rows]

    graded = replace(
        lines,
        numbers=[lines.numbers[row] for row in rows],
        query_ids=kept(lines.query_ids),
        document_ids=kept(lines.document_ids),
        grades=kept(lines.grades),
        params={name: kept(values) for name, values in lines.params.items()},
    )
    return graded, [f"{lacking} lines without a grade were left out"]
