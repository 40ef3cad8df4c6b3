"""TREC runs: rankings as `query Q0 document rank score tag` lines, written and read.

Lines without the tag are read too, and so is MS MARCO's `query document rank`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import NUMBER, bad_line
from owpc_ltr.data.options import RUN_TAG
from owpc_ltr.errors import BadInput, UsageError, give_warning
from owpc_ltr.files.input import open_regular, read_text, shown
from owpc_ltr.files.output import write_output
from owpc_ltr.signatures import public

_BLANK = r"\s|^$"
_FIELDS, _UNTAGGED, _SHORT = 6, 5, 3
"""TREC's fields, those without the tag, and MS MARCO's."""
_BETWEEN = "\n"
"""Separates query and document in a key: no id of a run contains it."""


class RankedDocuments(NamedTuple):
    """What a run has for the queries of a dataset.

    `scores` has one entry a document of the dataset, NaN where the run lacks it. `rows` are the
    run's entries of these queries, `query` the number of each one's query, and `judged` whether the
    dataset has the document.
    """

    scores: Vector
    rows: NDArray[np.int64]
    query: NDArray[np.int64]
    judged: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TrecRun:
    """The scores of a run: one entry a line, in the order of the file.

    It ranks the documents of a dataset by query and document id.
    """

    query_ids: pa.StringArray
    doc_ids: pa.StringArray
    scores: Vector
    tag: str
    name: str

    def __repr__(self) -> str:
        queries = len(self.query_ids.unique())
        return (
            f"TrecRun '{self.tag}': {queries:,} queries, {len(self.scores):,} lines of {self.name}"
        )

    def score_dataset(self, data: RankingDataset) -> Vector:
        """The run's scores of a dataset's documents; NaN for those that it did not retrieve.

        An OwpcLtrWarning says how many these are, and how many of the run's documents the data
        does not judge, which are left out. Raises BadInput where the run has none of the data's.
        """
        ranked = self.ranked(data)
        missing = int(np.isnan(ranked.scores).sum())
        if missing == data.n_documents:
            raise self.of_other_data(data.n_documents)
        unjudged = int((~ranked.judged).sum())
        counts = {
            f"{missing} of {data.n_documents} documents are not in it: they are not retrieved": (
                missing
            ),
            f"{unjudged} of its documents are not in the data: they are left out": unjudged,
        }
        if any(counts.values()):
            messages = "; ".join(message for message, count in counts.items() if count)
            give_warning(f"{self.name}: {messages}")
        return ranked.scores

    def ranked(self, data: RankingDataset) -> RankedDocuments:
        """The scores of a dataset's documents, and what else the run has for its queries."""
        keys = _keys(_repeated(data), document_names(data))
        matches = pc.index_in(keys, value_set=self._entries)
        scores = np.append(self.scores, np.nan)
        lines = pc.fill_null(matches, -1).to_numpy().astype(np.int64)
        matching_queries = pc.index_in(self.query_ids, value_set=data.query_ids)
        queries = np.array(pc.fill_null(matching_queries, -1)).astype(np.int64)
        judged = np.zeros(len(self.scores) + 1, np.bool_)
        judged[lines] = True
        rows = np.flatnonzero(queries >= 0)
        return RankedDocuments(np.asarray(scores[lines]), rows, queries[rows], judged[rows])

    @cached_property
    def _entries(self) -> pa.StringArray:
        return _keys(self.query_ids, self.doc_ids)

    def lists(self) -> dict[str, list[str]]:
        """The documents of each query, best first; equal scores as they stand."""
        codes = self.query_ids.dictionary_encode()
        order = np.lexsort((-self.scores, codes.indices.to_numpy()))
        documents = self.doc_ids.take(pa.array(order)).to_pylist()
        ends = np.cumsum(np.bincount(codes.indices.to_numpy())).tolist()
        return {
            query: documents[start:end]
            for query, start, end in zip(
                codes.dictionary.to_pylist(), [0, *ends], ends, strict=False
            )
        }

    def of_other_data(self, documents: int) -> BadInput:
        """The error for a run that ranks none of the data's documents."""
        return BadInput(
            f"{self.name} ranks none of the data's {documents} documents "
            f"({shown(str(self.query_ids[0]))}, {shown(str(self.doc_ids[0]))} is its "
            "first): is it a run of other queries, or of other document ids?"
        )


def run_of_scores(scores: Vector, data: RankingDataset) -> TrecRun:
    """Scores of all documents of a dataset, as the run that `write_scores` would write.

    Raises BadInput where there is not one finite score a document.
    """
    checked = _checked(scores, data, None)
    return TrecRun(_repeated(data), document_names(data), checked, RUN_TAG, "the scores")


def write_scores(
    scores: Vector,
    data: RankingDataset,
    path: Path | str,
    tag: str = RUN_TAG,
    depth: int | None = None,
    retrieved: NDArray[np.bool_] | None = None,
) -> None:
    """Write the ranking of a dataset's documents as a TREC run, `depth` documents a query at most.

    Only those `retrieved`, if that is given. Best first; documents of equal scores in the order of
    the dataset, with equal scores. Scores have as many digits as tell them apart. Documents without
    ids are named by their number in the query, from 0, and an OwpcLtrWarning says so. Raises
    BadInput for scores that are not finite and ids with blanks, UsageError for a tag or a depth
    that cannot be written.
    """
    if re.search(_BLANK, tag):
        raise UsageError(f"the tag {shown(tag)} is one word: leave its blanks out")
    if depth is not None and depth < 1:
        raise UsageError(f"a run of depth {depth} has no lines: give 1 or more, or None for all")
    scores = _checked(scores, data, retrieved)
    if data.doc_ids is None:
        note = "the documents have no ids: each is named by its number in its query, from 0"
        give_warning(note)
    queries, documents = _repeated(data), document_names(data)
    _check_ids(data.query_ids, "query id")
    _check_ids(documents, "document id")
    if (repeated := _second(_keys(queries, documents))) is not None:
        row = repeated[1]
        raise BadInput(
            f"document {shown(str(documents[row]))} occurs twice in query "
            f"{shown(str(queries[row]))}: a run tells documents apart by their ids"
        )
    order = np.lexsort((-scores, np.repeat(np.arange(data.n_queries), np.diff(data.offsets))))
    # Documents that were not retrieved are the last ones of their query: NaN is sorted last.
    ranks = _within(data)
    selected = ~np.isnan(scores[order])
    if depth is not None:
        selected &= ranks < depth
    order, ranks = order[selected], ranks[selected]
    columns = (
        queries.take(pa.array(order)),
        "Q0",
        documents.take(pa.array(order)),
        pa.array(ranks + 1).cast(pa.string()),
        pa.array(scores[order]).cast(pa.string()),
        tag,
    )
    lines = pc.binary_join_element_wise(*columns, " ")
    write_output(path, ("\n".join(lines.to_pylist()) + "\n").encode())


def write_ranking(query_id: str, ranked: Sequence[tuple[str, float]], path: Path | str) -> None:
    """Write one query's documents, best first with their scores, as a TREC run.

    Raises BadInput for ids with blanks.
    """
    documents = pa.array([document for document, _ in ranked], pa.string())
    _check_ids(pa.array([query_id]), "query id")
    _check_ids(documents, "document id")
    lines = [
        f"{query_id} Q0 {document} {rank} {score!r} {RUN_TAG}\n"
        for rank, (document, score) in enumerate(ranked, 1)
    ]
    write_output(path, "".join(lines).encode())


def is_run(path: Path) -> bool:
    """Whether a file begins like a run; False if there is none."""
    if not path.is_file():
        return False
    with open_regular(path) as file:
        first = file.readline(10_000).split()
    if len(first) == _SHORT:
        return first[2].isdigit()
    return len(first) >= _UNTAGGED and first[1].upper() == b"Q0"


@public
def read_run(path: Path | str) -> TrecRun:
    """Read a TREC run. Raises BadInput naming the file, the line and the value."""
    path = Path(path)
    numbers, columns = _columns(path)
    if len(columns) == _SHORT:
        queries, documents, ranks = columns
        scores, tags = pc.binary_join_element_wise("-", ranks, ""), []
    else:
        queries, _, documents, ranks, scores, *tags = columns

    def bad(row: int, what: str) -> BadInput:
        return bad_line(path, "line", int(numbers[row]), what)

    for column, pattern, what in ((ranks, r"^[0-9]+$", "rank"), (scores, NUMBER, "score")):
        row = pc.index(pc.match_substring_regex(column, pattern), False).as_py()
        if row >= 0:
            raise bad(row, f"the {what} {shown(str(column[row]))} is not a number")
    values = np.array(scores.cast(pa.float64()))
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise bad(row, f"the score {shown(str(scores[row]))} is too large")
    tag = str(tags[0][0]) if tags else path.name
    for column in tags:
        row = pc.index(pc.equal(column, tag), False).as_py()
        if row >= 0:
            change = f"the tag {shown(str(column[row]))} after {shown(tag)}"
            raise bad(row, f"{change}: keep one run a file")
    duplicate = _second(_keys(queries, documents))
    if duplicate is not None:
        before, row = duplicate
        raise bad(
            row,
            f"document {shown(str(documents[row]))} of query {shown(str(queries[row]))} is ranked "
            f"on line {numbers[before]} already: keep one",
        )
    return TrecRun(queries, documents, values, tag, str(path))


def _columns(path: Path) -> tuple[NDArray[np.int64], list[pa.StringArray]]:
    """The line numbers of a run's entries, and its six, five or three columns as text."""
    lines = pc.ascii_trim_whitespace(pa.array(read_text(path).split("\n"), pa.string()))
    filled = np.flatnonzero(pc.not_equal(lines, "").to_numpy(zero_copy_only=False))
    if not len(filled):
        raise BadInput(f"cannot read {path}: it is empty")
    lines = lines.take(pa.array(filled))
    # A tag may have blanks.
    fields = pc.ascii_split_whitespace(lines, max_splits=_FIELDS - 1)
    width = len(fields[0])
    known = width in {_FIELDS, _UNTAGGED, _SHORT}
    row = pc.index(pc.equal(pc.list_value_length(fields), width), False).as_py() if known else 0
    if row >= 0:
        line = shown(str(lines[row]))
        raise bad_line(
            path, "line", int(filled[row]) + 1, f"{line} is not 'query Q0 document rank score tag'"
        )
    flat = fields.flatten()
    firsts = np.arange(0, len(flat), width)
    return filled + 1, [flat.take(pa.array(firsts + field)) for field in range(width)]


def document_names(data: RankingDataset) -> pa.StringArray:
    """The document ids; where there are none, each document's number in its query."""
    if data.doc_ids is not None:
        return data.doc_ids
    return pa.array(_within(data)).cast(pa.string())


def _checked(scores: Vector, data: RankingDataset, retrieved: NDArray[np.bool_] | None) -> Vector:
    """The scores; NaN where a document was not retrieved."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (data.n_documents,):
        raise BadInput(
            f"scores have shape {scores.shape} where {data.n_documents} documents need one each"
        )
    malformed = np.flatnonzero(~np.isfinite(scores) & (True if retrieved is None else retrieved))
    if len(malformed):
        raise BadInput(
            f"scores[{malformed[0]}] is {scores[malformed[0]]}, which has no place in a run: fix "
            "the model or its features"
        )
    # One zero: a reader may order −0 and 0, which are equal here.
    return scores + 0.0 if retrieved is None else np.where(retrieved, scores + 0.0, np.nan)


def _check_ids(ids: pa.StringArray, what: str) -> None:
    row = pc.index(pc.match_substring_regex(ids, _BLANK), True).as_py()
    if row >= 0:
        raise BadInput(
            f"the {what} {shown(str(ids[row]))} is empty or has a blank, which separates the "
            "fields of a run: rename it"
        )


def _second(keys: pa.StringArray) -> tuple[int, int] | None:
    """The first repeated entry: the rows of its first occurrence and of the repetition, or None."""
    codes = keys.dictionary_encode()
    if len(codes.dictionary) == len(keys):
        return None
    indices = codes.indices.to_numpy()
    _, first = np.unique(indices, return_index=True)
    repeated = np.ones(len(indices), dtype=bool)
    repeated[first] = False
    row = int(np.flatnonzero(repeated)[0])
    return int(np.flatnonzero(indices == indices[row])[0]), row


def _keys(queries: pa.StringArray, documents: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(queries, documents, _BETWEEN)


def _repeated(data: RankingDataset) -> pa.StringArray:
    """The query id of each document."""
    queries = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    return data.query_ids.take(pa.array(queries))


def _within(data: RankingDataset) -> NDArray[np.int64]:
    """The number of each document in its query, from 0."""
    return np.arange(data.n_documents) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
