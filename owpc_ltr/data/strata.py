"""Strata of queries: a CSV with a row a query, which tells what a drawn sample stands for."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import write_output
from owpc_ltr.files.spreadsheets import read_cell, sheet_bytes
from owpc_ltr.files.text import read_text

HEADER = ["query_id", "stratum"]


def read_strata(given: Mapping[str, str] | Path | str | None) -> Mapping[str, str] | None:
    """Each query's stratum by its id. Raises BadInput for a file that is none of judge next."""
    if given is None or isinstance(given, Mapping):
        return given
    rows = list(csv.reader(io.StringIO(read_text(Path(given)))))
    if not rows or rows[0] != HEADER:
        raise BadInput(f"cannot read {given}: its first line is not {','.join(HEADER)}")
    found: dict[str, str] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(HEADER) or read_cell(row[0]) in found:
            raise BadInput(f"cannot read {given}, line {number}: one query and its stratum a line")
        found[read_cell(row[0])] = read_cell(row[1])
    return found


def write_strata(query_ids: Sequence[str], strata: Sequence[str], path: Path) -> None:
    """Write the stratum of each query."""
    write_output(path, sheet_bytes([HEADER, *zip(query_ids, strata, strict=True)]))
