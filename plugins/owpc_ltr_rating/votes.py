"""Who gave which grade: votes out of judgment lists of any format.

A list names its raters in the column `judged_by`; one that names none is by the rater that its file
is called after. A cell with several raters says what each said, as `ann=3, bob=2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.judgments.grouping import decimal, group_judgments
from owpc_ltr.data.judgments.lines import judged_lines
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.host.judgment_lists import reader_of_file
from owpc_ltr.host.registry import installed
from owpc_ltr_rating.ratings import Rating, RatingReader, read_ratings

_SEVERAL = re.compile(r"[^,=]+=-?[0-9.e+]+(, [^,=]+=-?[0-9.e+]+)*")
Key = tuple[str, str]
"""A query id and a document id."""


@dataclass(frozen=True)
class Votes:
    """The grades of a list by pair and rater, what is known of its queries, and what was left out.

    `repeats` are pairs that a rater graded twice: rater, key, first and second grade.
    """

    path: Path
    queries: Mapping[str, JudgedQuery]
    grades: Mapping[Key, Mapping[str, float]]
    notes: tuple[str, ...] = ()
    repeats: tuple[tuple[str, Key, float, float], ...] = ()
    sheets: frozenset[str] = field(default_factory=frozenset)
    """The digests of the sheets that it answers."""


def read_votes(paths: Sequence[Path | str]) -> list[Votes]:
    """The votes of each list, the queries of all called by one id.

    A list without query ids has the texts as ids; another list that has the text tells the id.
    Raises BadInput where one text has two ids, naming both.
    """
    read = [_read(Path(path)) for path in paths]
    ids: dict[str, str] = {}
    for votes in read:
        for query_id, query in votes.queries.items():
            text = query.params.get("query", "")
            if query_id != text and ids.setdefault(text, query_id) != query_id:
                raise BadInput(
                    f"cannot merge {votes.path}: the query {shown(text)} has the ids "
                    f"{shown(ids[text])} and {shown(query_id)}: give it one"
                )
    return [_renamed(votes, ids) for votes in read]


def raters_cell(grades: Mapping[str, float]) -> str:
    """Who judged: one name, or several with their grades.

    >>> raters_cell({"ann": 3.0}), raters_cell({"bob": 2.0, "ann": 3.0})
    ('ann', 'ann=3, bob=2')
    """
    if len(grades) == 1:
        return next(iter(grades))
    return ", ".join(f"{rater}={decimal(grade)}" for rater, grade in sorted(grades.items()))


def votes_of(cell: str, grade: float, otherwise: str) -> dict[str, float]:
    """What `raters_cell` was given.

    >>> votes_of("ann=3, bob=2", 2.5, ""), votes_of("ann", 3.0, ""), votes_of("", 1.0, "list")
    ({'ann': 3.0, 'bob': 2.0}, {'ann': 3.0}, {'list': 1.0})
    """
    if _SEVERAL.fullmatch(cell):
        parts = (part.rpartition("=") for part in cell.split(", "))
        return {rater: float(number) for rater, _, number in parts}
    return {cell or otherwise: grade}


def _read(path: Path) -> Votes:
    reader = reader_of_file(installed(), path)
    lines = reader.read(path)
    judged, left_out = judged_lines(lines, skip=True)
    # Duplicates are other raters' votes; the queries are checked as in every judgment list.
    checked = group_judgments(judged, "first")
    grades: dict[Key, dict[str, float]] = {}
    name = path.name.partition(".")[0]
    raters = [""] * len(judged.numbers)
    if judged.judged_by is not None:
        raters = judged.judged_by.to_pylist()
    pairs = zip(judged.query_ids.to_pylist(), judged.doc_ids.to_pylist(), strict=True)
    for row, (key, rater, grade) in enumerate(
        zip(pairs, raters, judged.read_grades().tolist(), strict=True)
    ):
        for who, vote in votes_of(rater, grade, name).items():
            before = grades.setdefault(key, {}).setdefault(who, vote)
            if before != vote:
                raise judged.bad(
                    row,
                    f"{shown(who)} grades document {shown(key[1])} of query {shown(key[0])} as "
                    f"{vote:g}, and as {before:g} before: keep one of them",
                )
    ratings: Iterable[Rating] = ()
    if isinstance(reader, RatingReader):
        ratings = read_ratings(path).values()
    # Several votes and second ratings are what these commands are for.
    notes = (note for note in checked.notes if not re.search("duplicates|second ratings", note))
    return Votes(
        path,
        {query.query_id: query for query in checked.queries},
        grades,
        notes=(*notes, *left_out),
        repeats=tuple(_repeats(list(ratings))),
        sheets=frozenset(rating.sheet for rating in ratings),
    )


def _repeats(ratings: Sequence[Rating]) -> Iterator[tuple[str, Key, float, float]]:
    grades = {rating.key: rating.grade for rating in ratings}
    for rating in ratings:
        before = grades.get((*rating.key[:3], False)) if rating.repeat else None
        if before is not None and rating.grade is not None:
            yield rating.judged_by, (rating.query_id, rating.doc_id), before, rating.grade


def _renamed(votes: Votes, ids: Mapping[str, str]) -> Votes:
    def name(query_id: str) -> str:
        query = votes.queries[query_id]
        return ids.get(query_id, query_id) if query.params.get("query") == query_id else query_id

    return replace(
        votes,
        queries={name(query_id): query for query_id, query in votes.queries.items()},
        grades={(name(query_id), doc_id): of for (query_id, doc_id), of in votes.grades.items()},
        repeats=tuple((who, (name(key[0]), key[1]), a, b) for who, key, a, b in votes.repeats),
    )


def all_votes(lists: Sequence[Votes]) -> dict[str, dict[Key, float]]:
    """The grades of each rater over all lists; of two by one rater the later list's."""
    raters: dict[str, dict[Key, float]] = {}
    for votes in lists:
        for key, grades in votes.grades.items():
            for rater, grade in grades.items():
                raters.setdefault(rater, {})[key] = grade
    return raters


def query_texts(lists: Sequence[Votes]) -> dict[str, str]:
    """The text of each query."""
    return {
        query_id: str(query.params.get("query", query_id))
        for votes in lists
        for query_id, query in votes.queries.items()
    }
