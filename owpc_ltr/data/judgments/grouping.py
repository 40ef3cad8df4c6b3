"""Judgments grouped by query: their judges, their weights, and the resolution of duplicates.

Weights say how sure a judgment is, and how often its query is asked. The default is 1; judgments
and queries of weight 0 do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.judgments.lines import (
    Column,
    JudgmentLines,
    Numbers,
    TypedColumn,
    encode,
    is_text,
    read_numbers,
    text_at,
    text_column,
)
from owpc_ltr.data.options import Duplicates
from owpc_ltr.errors import BadInput, PluginError
from owpc_ltr.files.input import shown
from owpc_ltr.text import ShortRepr


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
    if is_text(column):
        blank = pc.equal(pc.utf8_trim_whitespace(column), "")
        filled = pc.if_else(blank, "1", column)
    else:
        blank = pc.is_null(column)
        filled = pc.fill_null(column, pa.scalar(1, column.type))
    numbers, unfit = read_numbers(filled, largest)
    if unfit is None and len(numbers) and numbers.min() < 0:
        unfit = int(np.flatnonzero(numbers < 0)[0])
    if unfit is not None:
        raise lines.bad(unfit, f"the {name} {shown(text_at(column, unfit))} {_NO_WEIGHT}")
    return numbers, ~np.asarray(blank.to_numpy(zero_copy_only=False), np.bool_)
