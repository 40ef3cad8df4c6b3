"""`judge merge`: one judgment list that grows, with who judged what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal, get_args

import numpy as np

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.judgments import Judgments, is_machine, raters_cell
from owpc_ltr.data.options import DEFAULT_FORMAT, Columns, JudgmentFormat
from owpc_ltr.errors import BadInput, Refused, UsageError, give_warnings
from owpc_ltr.files.input import shown
from owpc_ltr.host.judgment_lists import write_judgments
from owpc_ltr.signatures import Help, Reads, Writes, job
from owpc_ltr_rating.page import read_sheet
from owpc_ltr_rating.ratings import (
    Key,
    Votes,
    all_votes,
    rater_warnings,
    read_votes,
    scale_warnings,
)

Conflicts = Literal["median", "latest", "refuse"]
_SHOWN = 10


@dataclass(frozen=True)
class Conflict:
    """A pair whose raters disagree: what each said, and the grade that it has now."""

    query_id: str
    doc_id: str
    grades: Mapping[str, float]
    grade: float


@dataclass(frozen=True, repr=False)
class MergedJudgments(BlockResult):
    """The merged list, how many judgments each file brought, and what was decided.

    `corrected` are grades that a rater gave again in a later file; `overruled` are grades of
    machines where a person has graded, too.
    """

    judgments: Judgments
    files: Mapping[str, int]
    conflicts: tuple[Conflict, ...]
    corrected: int
    overruled: int
    rule: str
    out: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The counts, and every conflict, as JSON."""
        return {
            **self.judgments.as_dict(),
            "files": dict(self.files),
            "rule": self.rule,
            "corrected": self.corrected,
            "overruled": self.overruled,
            "conflicts": [
                {**vars(conflict), "grades": dict(conflict.grades)} for conflict in self.conflicts
            ],
            "out": self.out,
        }

    def _blocks(self) -> Iterator[Block]:
        yield Table(["FILE", "JUDGMENTS"], list(self.files.items()))
        yield str(self.judgments)
        if self.conflicts:
            rows = [
                (
                    conflict.query_id,
                    conflict.doc_id,
                    raters_cell(conflict.grades),
                    f"{conflict.grade:g}",
                )
                for conflict in sorted(self.conflicts, key=_spread, reverse=True)[:_SHOWN]
            ]
            more = f", the {len(rows)} largest" if len(rows) < len(self.conflicts) else ""
            yield ""
            yield f"{len(self.conflicts):,} conflicts, settled by {self.rule}{more}:"
            yield Table(["QUERY", "DOCUMENT", "GRADES", "NOW"], rows)
        if self.corrected:
            yield f"{self.corrected:,} grades were replaced by a later one of the same rater"
        if self.overruled:
            yield (
                f"{self.overruled:,} grades of clicks or models give way to a person's, and stay "
                "named"
            )


@job
def judge_merge(
    lists: Annotated[
        Sequence[Path | str],
        Reads(
            "Judgment lists of any format, exports of the page, filled-in sheets; later files "
            "correct earlier ones.",
            metavar="LIST",
            cli=list[Path],
        ),
    ],
    *,
    out: Annotated[Path | str | None, Writes("The merged list.", required=True)] = None,
    to: JudgmentFormat = DEFAULT_FORMAT,
    columns: Columns = None,
    sheet: Annotated[
        Path | str | None,
        Reads("The sheet that was rated: ratings of any other sheet are refused."),
    ] = None,
    conflicts: Annotated[
        Conflicts,
        Help("Where people disagree: their median, the grade of the latest file, or an error."),
    ] = "median",
) -> MergedJudgments:
    """Merge judgments of several raters into one list.

    The list says who judged what (judged_by), and may be merged again. A person's grade counts
    before one of clicks or a language model; several people's are settled by `conflicts`, and
    every vote stays in the list. Grades that a rater corrects in a later file are counted.

    Raises BadInput for a file that is no judgment list, Refused for conflicts with `refuse`.
    """
    if conflicts not in get_args(Conflicts):
        raise UsageError(f"`conflicts` is {', '.join(get_args(Conflicts))}, not {conflicts!r}")
    read = read_votes(lists, columns)
    if sheet is not None:
        _refuse_other_sheets(read, read_sheet(sheet, columns).digest, sheet)
    give_warnings([f"{votes.path}: {note}" for votes in read for note in votes.notes])
    raters = all_votes(read)
    people = {name: of for name, of in raters.items() if not is_machine(name)}
    # A model's scale counts beside those of people.
    give_warnings(dict.fromkeys([*rater_warnings(people), *scale_warnings(raters)]))
    merged = _merged(read, conflicts)
    if out is not None:
        write_judgments(merged.judgments, out, format=to)
        merged = replace(merged, out=str(out))
    return merged


def _refuse_other_sheets(read: Sequence[Votes], digest: str, sheet: Path | str) -> None:
    for votes in read:
        if others := votes.sheets - {digest}:
            raise BadInput(
                f"{votes.path} rates another sheet ({min(others)}) than {sheet} ({digest}): merge "
                "it with its own sheet, or without one"
            )


def _merged(read: Sequence[Votes], rule: Conflicts) -> MergedJudgments:
    grades: dict[Key, dict[str, float]] = {}
    corrected = 0
    for votes in read:
        for key, of_file in votes.grades.items():
            of_raters = grades.setdefault(key, {})
            for rater, grade in of_file.items():
                # The latest rater is the last one.
                corrected += of_raters.pop(rater, grade) != grade
                of_raters[rater] = grade
    disagreements: list[Conflict] = []
    settled: dict[str, list[tuple[str, float, str]]] = {}
    overruled = 0
    for (query_id, doc_id), of_raters in grades.items():
        people = {rater: vote for rater, vote in of_raters.items() if not is_machine(rater)}
        counted = people or of_raters
        overruled += len(of_raters) - len(counted)
        values = list(counted.values())
        grade = values[-1] if rule == "latest" else float(median(values))
        if len(set(values)) > 1:
            disagreements.append(Conflict(query_id, doc_id, dict(of_raters), grade))
        settled.setdefault(query_id, []).append((doc_id, grade, raters_cell(of_raters)))
    if rule == "refuse" and disagreements:
        first = disagreements[0]
        raise Refused(
            f"raters disagree on {len(disagreements):,} documents, first on {shown(first.doc_id)} "
            f"of query {shown(first.query_id)} ({raters_cell(first.grades)}): choose with "
            f"`conflicts`: median or latest"
        )
    about = {
        query_id: query for votes in reversed(read) for query_id, query in votes.queries.items()
    }
    queries = []
    for query_id, rows in settled.items():
        doc_ids, values, raters = map(list, zip(*rows, strict=True))
        queries.append(
            replace(
                about[query_id],
                query_id=query_id,
                doc_ids=doc_ids,
                grades=np.array(values, np.float32),
                weights=None,
                judged_by=raters,
            )
        )
    files = {str(votes.path): sum(map(len, votes.grades.values())) for votes in read}
    return MergedJudgments(
        Judgments(queries),
        files=files,
        conflicts=tuple(disagreements),
        corrected=corrected,
        overruled=overruled,
        rule=rule,
    )


def _spread(conflict: Conflict) -> float:
    return max(conflict.grades.values()) - min(conflict.grades.values())
