"""LETOR text → dataset: blocks of whole lines, each parsed by compiled code."""

from __future__ import annotations

import os
from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor.reader import BLOCK, Reader
from owpc_ltr.data.letor.side_by_side import read_side_by_side
from owpc_ltr.files.text import open_bytes

_MOST = 4


def read_letor(
    path: Path | str,
    *,
    n_features: int | None = None,
    max_features: int | None = None,
    block: int = BLOCK,
    threads: int | None = None,
) -> RankingDataset:
    """The dataset in a LETOR/SVMrank text file: `label qid:ID 1:value 2:value … # comment`.

    Plain, gzip, xz or zstandard, told by content. A feature that a line leaves out is 0, as in
    SVMrank; `NULL` is a missing value (NaN), as in LETOR's own files. Query ids may be any text
    without blanks and '#'. The document id is X of a comment `docid = X …`, else the comment's
    first word (RankLib), else the row's number within its query. Blank lines, and lines that are
    comments, are passed over. Feature names are "1", "2", … to the largest index, or to
    `n_features`, of which 10,000 are read unless `max_features` says more: left out, a matrix more
    than 400 times as large as its text is refused too, beyond 64 MiB. The text is never held
    whole: `block` bytes of it are (more for longer lines, of up to 32 MiB). With several `threads`
    (default: the cores there are, up to four) pieces of large files are read side by side, to the
    same dataset.

    Raises BadInput, naming file, line and value, where anything is not as said, where a query's
    lines do not stand together, and where the last line has no end (the file may be cut).
    """
    path = Path(path)
    reader = Reader(path, n_features, max_features)
    with open_bytes(path) as source:
        read_side_by_side(reader, source, block, _cores() if threads is None else threads)
    return reader.dataset()


def _cores() -> int:
    """The cores that this process may use, up to as many as a disk and one thread can feed."""
    # Not every system tells which cores a process may use.
    allowed = getattr(os, "sched_getaffinity", lambda _process: range(os.cpu_count() or 1))
    return min(len(allowed(0)), _MOST)
