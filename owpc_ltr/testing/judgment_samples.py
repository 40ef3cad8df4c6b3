"""The judgment lists on which readers are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from owpc_ltr.files.text import shown


@dataclass(frozen=True)
class Judged:
    """One judgment, as a writer of samples is given it: the grade is text, which may be wrong."""

    query_id: str
    query: str
    document_id: str
    grade: str


PLAIN = (
    Judged("q1", "rambo", "7555", "4"),
    Judged("q1", "rambo", "1370", "0"),
    Judged("q2", "rocky", "60375", "3"),
    Judged("q2", "rocky", "7555", "1"),
    Judged("q3", "first blood", "1368", "2"),
)
LISTS = {
    "grades that are fractions": tuple(replace(row, grade=row.grade + ".375") for row in PLAIN),
    "ids with quotes": tuple(replace(row, document_id=f"'a\"{row.grade}") for row in PLAIN),
    "ids with blanks": tuple(replace(row, document_id=f"a {row.grade}  b") for row in PLAIN),
    "ids with a comma, a semicolon, a tab": tuple(
        replace(row, document_id=f"a,{row.grade};b\tc") for row in PLAIN
    ),
    "ids beyond ASCII": tuple(
        replace(row, query_id=f"é{row.query_id}", document_id=f"\u65e5\U0001f3ac{row.grade}")
        for row in PLAIN
    ),
    "ids that look like numbers": tuple(
        replace(row, document_id=f"00{row.grade}.10") for row in PLAIN
    ),
    "queries whose judgments lie apart": (*PLAIN[::2], *PLAIN[1::2]),
}
NO_TEXT = (b"\xff\xfe\x00\x80\n\xe9", b"\x00", b"\n \n")
BAD_AT = 3
BAD_GRADES = ("nan", "inf", "1e39", "-1", "good", "")
BAD_IDS = ("", " 7", "7 ")


def bad_lists() -> list[tuple[str, tuple[Judged, ...], str]]:
    """The plain list with one value that must be refused, and what the value is."""
    return [
        *((f"the grade {shown(bad)}", changed(grade=bad), bad) for bad in BAD_GRADES),
        *((f"the document id {shown(bad)}", changed(document_id=bad), bad) for bad in BAD_IDS),
        *((f"the query id {shown(bad)}", changed(query_id=bad), bad) for bad in BAD_IDS),
    ]


def changed(**values: str) -> tuple[Judged, ...]:
    """The plain list with other values in the row `BAD_AT`."""
    return (*PLAIN[:BAD_AT], replace(PLAIN[BAD_AT], **values), *PLAIN[BAD_AT + 1 :])


TOPICS = {
    row.query_id: row.query
    for rows in (PLAIN, *LISTS.values(), *(rows for _, rows, _ in bad_lists()))
    for row in rows
}
