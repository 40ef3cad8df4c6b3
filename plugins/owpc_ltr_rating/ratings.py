"""What a rater says of the pairs of a sheet: one JSON object a line, of people and models alike.

    {"sheet": "0b5c…", "judged_by": "ann", "query_id": "q1", "query": "red shoe", "doc_id": "17",
     "grade": 2, "seconds": 3.1}

A line whose `grade` is null has a `reason`: the pair could not be rated. `repeat` marks a pair that
the same rater was shown again. Of two lines of one pair the later one counts, so that a file may be
appended to; `"undone": true` takes a rating back.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import (
    UNNAMED,
    JudgedQuery,
    JudgmentLines,
    group_judgments,
    is_machine,
    judged_lines,
    votes_of,
    whole_numbers,
)
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.input import first_lines, shown, why_no_id
from owpc_ltr.files.strict_json import Json, json_lines, json_text
from owpc_ltr.host.judgment_lists import lines_of, reader_of_file
from owpc_ltr.host.registry import installed
from owpc_ltr.protocols import JudgmentReader

_TEXTS = ("sheet", "judged_by", "query_id", "query", "doc_id")
_FURTHER = (
    *((name, str, "a text") for name in ("reason", "prompt")),
    *((name, bool, "true or false") for name in ("repeat", "undone")),
)
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Rating:
    """The grade that a rater gave to a pair, or the reason why there is none.

    `seconds` is how long a person took. `prompt` is the digest of what a model was asked.
    """

    sheet: str
    judged_by: str
    query_id: str
    query: str
    doc_id: str
    grade: float | None
    reason: str = ""
    repeat: bool = False
    seconds: float | None = None
    prompt: str = ""

    @property
    def key(self) -> tuple[str, str, str, bool]:
        """What of a file's ratings there is one of."""
        return self.judged_by, self.query_id, self.doc_id, self.repeat

    def as_dict(self) -> dict[str, Any]:
        """The rating as JSON, without what it does not have."""
        entry: dict[str, Any] = {name: getattr(self, name) for name in _TEXTS}
        (entry["grade"],) = whole_numbers([self.grade])
        further = {name: getattr(self, name) for name in ("reason", "repeat", "seconds", "prompt")}
        return entry | {name: value for name, value in further.items() if value}


def rating_of(content: Json, place: str) -> tuple[Rating, bool]:
    """A rating out of its JSON, and whether it is taken back. Raises BadInput naming the place."""
    if not isinstance(content, dict):
        raise BadInput(f"cannot read {place}: it is not a JSON object")
    for name in _TEXTS:
        value = content.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadInput(f"cannot read {place}: its '{name}' is not text: {shown(str(value))}")
    if "," in content["judged_by"] or "=" in content["judged_by"]:
        raise BadInput(
            f"cannot read {place}: the rater {shown(content['judged_by'])} has a comma or an "
            "equals sign in the name: rename the rater"
        )
    for name, kind, words in _FURTHER:
        if not isinstance(content.get(name, kind()), kind):
            value = shown(str(content[name]))
            raise BadInput(f"cannot read {place}: its '{name}' is not {words}: {value}")
    rating = Rating(
        **{name: content[name] for name in _TEXTS},
        grade=_number(content, "grade", place),
        reason=content.get("reason", ""),
        repeat=content.get("repeat", False),
        seconds=_number(content, "seconds", place),
        prompt=content.get("prompt", ""),
    )
    return rating, content.get("undone", False)


def _number(content: Mapping[str, Any], name: str, place: str) -> float | None:
    value = content.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and abs(value) <= sys.float_info.max:
        return float(value)
    what = "too large" if is_number else "not a number"
    raise BadInput(f"cannot read {place}: its '{name}' is {what}: {shown(str(value))}")


def why_no_rater(name: str) -> str | None:
    """Why a person who rates cannot be called so; None for a name.

    >>> why_no_rater("ann"), why_no_rater("model:ann")
    (None, "'model:ann' is a name for clicks or a language model")
    """
    if "," in name or "=" in name:
        return f"{shown(name)} has an equals sign or a comma"
    if len(name) > _LONGEST_NAME or not name.isprintable():
        return f"{shown(name)} is longer than {_LONGEST_NAME} characters, or not printable"
    if is_machine(name) or name.startswith(UNNAMED):
        return f"{shown(name)} is a name for clicks or a language model"
    return why_no_id(name)


def read_ratings(path: Path | str) -> dict[int, Rating]:
    """The ratings of a file by their line, the latest of each pair; those taken back are left out.

    Raises BadInput naming the line of what is no rating.
    """
    latest: dict[Any, tuple[int, Rating]] = {}
    for number, content in json_lines(Path(path), appended=True):
        rating, undone = rating_of(content, f"{path}, line {number}")
        latest.pop(rating.key, None)
        if not undone:
            latest[rating.key] = number, rating
    return dict(latest.values())


def ratings_bytes(ratings: Iterable[Rating]) -> bytes:
    """The ratings as lines of JSON."""
    return "".join(f"{json_text(rating.as_dict())}\n" for rating in ratings).encode()


@dataclass(frozen=True)
class RatingReader:
    """What raters said of a sheet: exports of the page, and what a language model was asked."""

    name: ClassVar[str] = "ratings"
    precedence: ClassVar[int] = 25

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line is an object with a sheet and a rater."""
        try:
            first = json.loads(next(iter(first_lines(head)), ""))
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and {"sheet", "judged_by"} <= first.keys()

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:  # noqa: ARG002
        """The grades; what could not be rated or was shown twice is left out and counted."""
        return _lines_of(path, read_ratings(path))

    def example(self) -> bytes:
        """Two ratings of one query."""
        pairs = (("7555", 4.0), ("1370", 0.5))
        return ratings_bytes(
            Rating("0b5c5a1d", "ann", "q1", "rambo", doc_id=document, grade=grade)
            for document, grade in pairs
        )


def _lines_of(path: Path, ratings: Mapping[int, Rating]) -> JudgmentLines:
    graded = {line: rating for line, rating in ratings.items() if rating.grade is not None}
    first = {line: rating for line, rating in graded.items() if not rating.repeat}
    if not first:
        raise BadInput(f"cannot read {path}: none of its {len(ratings)} ratings has a grade")
    rows = list(first.values())
    queries = [row.query for row in rows]
    left_out = {
        "pairs could not be rated": len(ratings) - len(graded),
        "second ratings by the same rater": len(graded) - len(first),
    }
    return JudgmentLines(
        path,
        list(first),
        [row.query_id for row in rows],
        [row.doc_id for row in rows],
        grades=[repr(row.grade) for row in rows],
        params={"keywords": queries, "query": queries},
        judged_by=[row.judged_by for row in rows],
        notes=tuple(f"{n} {what}: left out" for what, n in left_out.items() if n),
    )


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `ratings`."""
    return [RatingReader]


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


def read_votes(
    paths: Sequence[Path | str], columns: Mapping[str, str] | None = None
) -> list[Votes]:
    """The votes of each list, the queries of all called by one id.

    A list without query ids has the texts as ids; another list that has the text tells the id.
    `columns` are those of lists that have them; a list of others is read by its own.
    Raises BadInput where one text has two ids, naming both; or UsageError, where no list has the
    columns.
    """
    read, faults = [], []
    for path in map(Path, paths):
        try:
            read.append(_read(path, columns))
        except (BadInput, UsageError) as fault:
            faults.append(fault)
            if not columns or len(faults) == len(paths):
                raise faults[0] from None
            try:
                read.append(_read(path))
            except BadInput:
                raise fault from None
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


def _read(path: Path, columns: Mapping[str, str] | None = None) -> Votes:
    reader = reader_of_file(installed(), path)
    # Read once: a torn last line is told once.
    ratings = read_ratings(path) if isinstance(reader, RatingReader) and not columns else {}
    lines = _lines_of(path, ratings) if ratings else lines_of(reader, path, columns=columns)
    judged, left_out = judged_lines(lines, skip=True)
    # Duplicates are other raters' votes; the queries are checked as in every judgment list.
    checked = group_judgments(judged, "first")
    grades: dict[Key, dict[str, float]] = {}
    name = f"{UNNAMED}{path.name.partition('.')[0]}"
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
    # Several votes and second ratings are what these commands are for.
    unnamed = [
        "it does not name who judged: its grades are those of one rater, for whom nobody vouches; "
        "add a column judged_by, or give `compare_live(judged_by=…)`"
    ] * ("" in raters)
    notes = (note for note in checked.notes if not re.search("duplicates|second ratings", note))
    return Votes(
        path,
        {query.query_id: query for query in checked.queries},
        grades,
        notes=(*notes, *left_out, *unnamed),
        repeats=tuple(_repeats(list(ratings.values()))),
        sheets=frozenset(rating.sheet for rating in ratings.values()),
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
    """The grades of each rater over all lists; of two by one rater the later list's.

    A list that names no rater is one, called as its file.
    """
    raters: dict[str, dict[Key, float]] = {}
    for votes in lists:
        for key, grades in votes.grades.items():
            for rater, grade in grades.items():
                raters.setdefault(rater.removeprefix(UNNAMED), {})[key] = grade
    return raters


_ENOUGH = 20
"""With fewer grades, a rater may not have met what the highest or lowest grade is for."""


def rater_warnings(raters: Mapping[str, Mapping[Key, float]], enough: int = _ENOUGH) -> list[str]:
    """Whether raters share no pair, or use different scales; see `scale_warnings`.

    Raters of fewer than `enough` grades are not looked at.
    """
    counted = {name: of for name, of in raters.items() if len(of) >= enough}
    alone = [
        name
        for name, of in counted.items()
        if len(counted) > 1
        and not any(of.keys() & others.keys() for other, others in raters.items() if other != name)
    ]
    lonely = (
        f"{' and '.join(alone)} graded no pair that another rater graded, so that nothing tells "
        "who is stricter: give raters common pairs (`judge_page(overlap=…)`, "
        "`judge_pool(judged=…)`)"
    )
    return [lonely] * bool(alone) + scale_warnings(raters, enough)


def scale_warnings(raters: Mapping[str, Mapping[Key, float]], enough: int = _ENOUGH) -> list[str]:
    """Whether raters seem to use different scales, or no grade is 0: grades stay as they are.

    Raters of fewer than `enough` grades are not looked at.
    """
    scales = {
        name: (min(of.values()), max(of.values()))
        for name, of in raters.items()
        if len(of) >= enough
    }
    listed = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in scales.items())
    warnings = []
    if len({high for _, high in scales.values()}) > 1:
        warnings.append(f"raters may use different scales ({listed}): grades count as they are")
    graded = [grade for of in raters.values() for grade in of.values()]
    if len(graded) >= _ENOUGH and 0 < min(graded) < max(graded):
        warnings.append(
            f"the grades are {min(graded):g} to {max(graded):g}, and none is 0: metrics take every "
            f"grade above 0 for relevant; subtract {min(graded):g} from all"
        )
    return warnings


def query_texts(lists: Sequence[Votes]) -> dict[str, str]:
    """The text of each query."""
    return {
        query_id: str(query.params.get("query", query_id))
        for votes in lists
        for query_id, query in votes.queries.items()
    }
