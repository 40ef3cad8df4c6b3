"""Dataset → LETOR text, in one canonical form."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import open_output
from owpc_ltr.files.text import shown

_CELLS = 1 << 20
_DOCID = r"^[ \t]*docid[ \t]*=[ \t]*(?P<id>[^ \t]*)"
_FIRST_WORD = r"^[ \t]*(?P<id>[^ \t]*)"


def write_letor(dataset: RankingDataset, path: Path | str) -> None:
    """Write `label qid:ID 1:value … N:value #comment`, whole or not at all.

    Every feature is written, with the shortest digits that read back as the same float32, and a
    missing value as NULL; a name in .gz or .xz is compressed. Comments are written as they are
    where the document id can be read from them; elsewhere `docid = X` is put before them; a row
    number needs none. What LETOR text cannot hold is left out: feature names, parameters, weights.
    Raises BadInput for an id or a comment that could not be read back, and for infinite values.
    """
    path = Path(path)
    _refuse_infinite(dataset)
    labels = pc.cast(pa.array(dataset.labels), pa.string())
    if dataset.n_documents and float(dataset.labels.min()) < 0:
        raise _unwritable(path, "label", str(dataset.labels.min()), "labels must not be negative")
    rows = pa.array(np.repeat(np.arange(dataset.n_queries), np.diff(dataset.offsets)))
    _refuse(path, "query id", dataset.query_ids, r"[\x00-\x20#]|^$")
    comments = _comments(dataset, path)
    step = max(_CELLS // max(dataset.n_features, 1), 1)
    with open_output(path) as file, _compressing(path, file) as out:
        for start in range(0, dataset.n_documents, step):
            part = slice(start, start + step)
            queries = dataset.query_ids.take(rows[part])
            out.write(_lines(labels[part], queries, dataset.features[part], comments[part]))


def _lines(labels: Any, queries: Any, features: NDArray[np.float32], comments: Any) -> Any:
    """The bytes of these rows."""
    parts: list[Any] = [labels, " qid:", queries]
    for column in range(features.shape[1]):
        values = pa.array(np.ascontiguousarray(features[:, column]), from_pandas=True)
        parts += [f" {column + 1}:", pc.fill_null(pc.cast(values, pa.string()), "NULL")]
    text = pc.binary_join_element_wise(*parts, comments, "\n", "")
    offsets = np.frombuffer(text.buffers()[1], np.int32)
    return memoryview(text.buffers()[2])[: offsets[len(text)]]


def _comments(dataset: RankingDataset, path: Path) -> Any:
    """Per row ` #…`, from which its document id can be read, or nothing."""
    empty = pa.array([""]).take(pa.array(np.zeros(dataset.n_documents, np.int64)))
    comments = empty if dataset.comments is None else dataset.comments
    _refuse(path, "comment", comments, r"[\x00-\x08\x0a-\x1f]")
    numbers = _row_numbers(dataset)
    ids = numbers if dataset.document_ids is None else dataset.document_ids
    readable = pc.equal(_ids_in(comments, numbers), ids)
    _refuse(path, "document id", pc.filter(ids, pc.invert(readable)), r"[\x00-\x20]|^$")
    named = pc.binary_join_element_wise(
        "docid = ", ids, pc.if_else(pc.equal(comments, ""), "", " "), comments, ""
    )
    text = pc.if_else(readable, comments, named)
    return pc.if_else(pc.equal(text, ""), "", pc.binary_join_element_wise(" #", text, ""))


def _ids_in(comments: Any, numbers: Any) -> Any:
    """The document id that reading these comments gives."""
    named = pc.struct_field(pc.extract_regex(comments, _DOCID), "id")
    word = pc.struct_field(pc.extract_regex(comments, _FIRST_WORD), "id")
    found = pc.fill_null(named, word)
    return pc.if_else(pc.equal(found, ""), numbers, found)


def _row_numbers(dataset: RankingDataset) -> Any:
    """The row's number within its query, from 1, as text."""
    starts = np.repeat(dataset.offsets[:-1], np.diff(dataset.offsets))
    return pc.cast(pa.array(np.arange(dataset.n_documents) - starts + 1), pa.string())


def _refuse(path: Path, what: str, values: Any, pattern: str) -> None:
    bad = pc.index(pc.match_substring_regex(values, pattern), True).as_py()
    if bad >= 0:
        raise _unwritable(
            path, what, values[bad].as_py(), "LETOR text cannot hold it; write Parquet"
        )


def _refuse_infinite(dataset: RankingDataset) -> None:
    infinite = np.isinf(dataset.features)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise BadInput(
            f"cannot write LETOR text: feature '{dataset.feature_names[column]}' of row {row + 1} "
            "is infinite, which it does not hold: fix the feature"
        )


def _unwritable(path: Path, what: str, value: str, why: str) -> BadInput:
    return BadInput(f"cannot write {path}: the {what} {shown(value)}: {why}")


@contextmanager
def _compressing(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    if path.suffix == ".gz":
        # No name and no time in the header: equal datasets are equal files.
        with gzip.GzipFile("", "wb", 6, fileobj=file, mtime=0) as out:
            yield cast("IO[bytes]", out)
    elif path.suffix == ".xz":
        with lzma.LZMAFile(file, "wb") as compressed:
            yield compressed
    else:
        yield file
