"""JSON lines as Arrow tables, in blocks of lines; lines that are no objects are counted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.errors import BadInput
from owpc_ltr.files.columnar import MOST_COLUMNS
from owpc_ltr.files.input import bad_line_of
from owpc_ltr.files.strict_json import DEEPEST_NESTING, NoJson, json_text, kind_of, read_json_value

_SAMPLE = 1 << 17
_WITH_DECIMALS = frozenset({"position", "time"})
"""Roles whose numbers may be rounded, as they are no ids."""
JsonObject = Mapping[str, Any]


def sample_of(
    path: Path, line: int, block: bytes, roles: Iterable[Collection[str]]
) -> list[JsonObject]:
    """The objects at the beginning of a block, to infer columns and types from.

    For each role that none of them has, also the first later object that names it.
    """
    begin = block.rfind(b"\n", 0, _SAMPLE) + 1 or len(block)
    rows, _ = _objects(path, line, block[:begin])
    have = {name for row in rows for name in _paths(row)}
    for name in (name for names in roles if have.isdisjoint(names) for name in names):
        last = name.rpartition(".")[2]
        place = block.find(f'"{last}"'.encode(), begin)
        if place >= 0:
            start, end = block.rfind(b"\n", 0, place) + 1, block.find(b"\n", place) + 1
            number = line + block.count(b"\n", 0, start)
            rows += _objects(path, number, block[start : end or len(block)])[0]
    return rows


def names_of(path: Path, rows: Sequence[JsonObject]) -> list[str]:
    """The keys of objects, each with its whole path. Raises BadInput for too many of them."""
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(_paths(row)))
        if len(found) > MOST_COLUMNS:
            raise BadInput(
                f"cannot read {path}: its lines have more than {MOST_COLUMNS} different keys: "
                "leave out those that are not needed"
            )
    return list(found)


class ObjectBlocks:
    """Blocks of lines as tables of those columns that have a role."""

    def __init__(self, path: Path, roles: Mapping[str, str], sample: Sequence[JsonObject]) -> None:
        self._path = path
        self._roles = roles
        self._schema = self._learned(sample)
        """The columns' types in the lines before; None where a column has two types."""

    def read(self, line: int, block: bytes) -> tuple[pa.Table, int]:
        """The columns of a block, and the number of its lines that are no objects.

        Raises BadInput, naming the line, for what JSON readers disagree on: a repeated key, a
        number that is not finite, a lone surrogate, deep nesting.
        """
        table = self._parsed(line, block)
        if table is not None:
            return table, 0
        # A line that is no object, or a column of two types: parse line by line, scalars as text.
        rows, bad = _objects(self._path, line, block)
        self._schema = self._learned(rows)
        texts = {
            name: pa.array([_text(_value(row, name)) for row in rows], pa.string())
            for name in dict.fromkeys(self._roles.values())
        }
        return pa.table(texts), bad

    def _parsed(self, line: int, block: bytes) -> pa.Table | None:
        """The table as Arrow parses it; None where it cannot, or should not."""
        import pyarrow.json

        if self._schema is None or not _is_plain(block):
            return None
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        # Columns without a role are not built: there may be as many as there are lines.
        only = pyarrow.json.ParseOptions(
            explicit_schema=self._schema, unexpected_field_behavior="ignore"
        )
        try:
            table = pyarrow.json.read_json(pa.BufferReader(block), options, only)
        except pa.ArrowException:
            return None
        try:
            table.validate(full=True)
        except pa.ArrowException as error:
            raise bad_line_of(self._path, line, block) from error
        return table

    def _learned(self, rows: Sequence[JsonObject]) -> pa.Schema | None:
        fields: dict[str, Any] = {}
        for role, name in self._roles.items():
            kind = _type_of([_value(row, name) for row in rows], role)
            whole = any(name in row for row in rows)
            apart = not whole or any(_value(row, name, whole=False) is not None for row in rows)
            if kind is None or ("." in name and whole and apart):
                return None
            inner = fields
            *above, last = [name] if whole else name.split(".")
            for part in above:
                inner = inner.setdefault(part, {})
                if not isinstance(inner, dict):
                    return None
            if last in inner and inner[last] != kind:
                return None
            inner[last] = kind
        return pa.schema(_fields(fields))


def _objects(path: Path, line: int, block: bytes) -> tuple[list[JsonObject], int]:
    """The objects of a block, and how many lines are none."""
    rows: list[JsonObject] = []
    bad = 0
    for number, text in enumerate(block.split(b"\n"), line):
        if not text.strip():
            continue
        try:
            content = read_json_value(text.decode())
        except UnicodeDecodeError as error:
            raise bad_line_of(path, number, text) from error
        except NoJson:
            content = None
        except ValueError as error:
            raise BadInput(f"cannot read {path}, line {number}: {error}") from error
        if isinstance(content, dict):
            rows.append(content)
        else:
            bad += 1
    return rows, bad


def _paths(row: JsonObject, above: str = "") -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}"


def _value(row: JsonObject, name: str, whole: bool = True) -> Any:
    """What stands under a whole name, or where its dots lead; an object says nothing."""
    found: Any = row.get(name) if whole else None
    if found is None and "." in name:
        found = row
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    return None if isinstance(found, dict) else found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)


def _type_of(values: Sequence[Any], role: str) -> Any:
    """Arrow's type of all values, None where there is none."""
    kinds = {kind_of(value) for value in values} - {"null"}
    if kinds == {"a list"} and role == "shown":
        inner = _type_of([one for value in values if value is not None for one in value], "shown")
        return None if inner is None or pa.types.is_nested(inner) else pa.list_(inner)
    if kinds <= {"a text"}:
        return pa.string()
    if kinds != {"a number"}:
        return None
    if not any(isinstance(value, float) for value in values):
        return pa.int64()
    return pa.float64() if role in _WITH_DECIMALS else None


def _fields(types: Mapping[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_fields(kind)) if isinstance(kind, dict) else kind)
        for name, kind in types.items()
    ]


def _is_plain(block: bytes) -> bool:
    """Whether each line begins and ends as an object does, and none is nested deep.

    Arrow's reader takes a value for one that goes on in the next line, to any depth of its stack.
    """
    content = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(content))
    starts = np.append(0, ends[:-1] + 1)
    starts, ends = starts[starts < ends], ends[starts < ends]
    last = ends - 1
    last = np.where((content[last] == ord("\r")) & (last > starts), last - 1, last)
    if not ((content[starts] == ord("{")) & (content[last] == ord("}"))).all():
        return False
    opened = (content | 0x20) == ord("{")  # [ too
    if np.count_nonzero(opened) < len(starts) + DEEPEST_NESTING:
        return True
    line = np.searchsorted(ends, np.flatnonzero(opened))
    return not (line[DEEPEST_NESTING:] == line[:-DEEPEST_NESTING]).any()
