"""Delimited text with a header, CSV and TSV: rows as they stand, each with its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.data.judgments.roles import find_roles, lines_by_role
from owpc_ltr.errors import BadInput
from owpc_ltr.files.spreadsheets import read_cell
from owpc_ltr.files.text import shown

_NUMBER = re.compile(r"-?\d+(\.\d*)?")


def parse_table(
    text: str,
    path: Path,
    delimiter: str,
    topics: Mapping[str, str] | None,
    *,
    unjudged_queries: bool = False,
) -> JudgmentLines:
    """The judgments of a delimited text; fields may be quoted.

    With `unjudged_queries` a row of one field is a query that nobody judged: a note counts them.
    Raises BadInput, naming the line, where rows and header do not fit together.
    """
    header, fields, numbers, alone = _rows(text, path, delimiter, alone=unjudged_queries)
    roles = find_roles(header, path, topics is not None)
    if not numbers:
        raise BadInput(f"cannot read {path}: it has a header, and no judgment below it")
    _refuse_swallowed(text, path, numbers, delimiter, len(header), roles["grade"])
    values = [fields[column :: len(header)] for column in range(len(header))]
    lines = lines_by_role(path, numbers, header, values, roles, topics)
    return replace(lines, notes=(f"{alone} queries have no rating",)) if alone else lines


def header_delimiter(text: str) -> str:
    """What stands between the names of the first line: a tab, a comma or a semicolon."""
    header = text.lstrip("\r\n").partition("\n")[0]
    return next((mark for mark in "\t,;" if mark in header), ",")


def _rows(
    text: str, path: Path, delimiter: str, *, alone: bool
) -> tuple[list[str], list[str], list[int], int]:
    """The header, the fields of all other rows one after the other, and each row's first line.

    Rows of one field are counted, where there may be any.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    fields: list[str] = []
    begins: list[int] = []
    begin = 1
    lone = 0
    try:
        for row in reader:
            if not header:
                header = row
            elif alone and len(row) == 1:
                lone += 1
            elif row:
                if len(row) != len(header):
                    raise BadInput(
                        f"cannot read {path}, line {begin}: {len(row)} fields where the header has "
                        f"{len(header)}: {shown(delimiter.join(row))}; quote a field that has the "
                        "delimiter in it"
                    )
                fields += row
                begins.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(
            f"cannot read {path}, line {begin}: {error}: double the quotes within a field, and "
            "quote the field"
        ) from error
    if "'" in text:
        header, fields = list(map(read_cell, header)), list(map(read_cell, fields))
    return [name.strip() for name in header], fields, begins, lone


def _refuse_swallowed(
    text: str, path: Path, numbers: list[int], delimiter: str, width: int, grade: int
) -> None:
    """Refuse a field that begins with a stray quote and runs over the rows after it."""
    if '"' not in text:
        return
    lines = io.StringIO(text, newline="").readlines()
    begins = np.array([*numbers, len(lines) + 1])
    for row in np.flatnonzero(np.diff(begins) > 1):
        for line in lines[begins[row] : begins[row + 1] - 1]:
            fields = line.rstrip("\r\n").split(delimiter)
            if len(fields) == width and _NUMBER.fullmatch(fields[grade]):
                raise BadInput(
                    f"cannot read {path}, line {begins[row]}: a quote that opens there runs over "
                    f"the line {shown(line)}: double the quotes within a field, and quote the field"
                )
