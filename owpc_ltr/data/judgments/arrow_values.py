"""Arrow columns of numbers, true and false, lists and objects → a JSON value for each judgment."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.data.judgments.columns import Column
from owpc_ltr.data.judgments.typed import TypedColumn, whole_numbers


def is_json_type(kind: Any) -> bool:
    """Whether values of an Arrow type have a place in JSON: numbers, text, lists, objects."""
    if _is_list(kind):
        return is_json_type(kind.value_type)
    if pa.types.is_struct(kind):
        return all(is_json_type(kind.field(number).type) for number in range(kind.num_fields))
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return text or _is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)


def typed_values(column: Column) -> TypedColumn:
    """The values of a column of such a type, a null being none.

    Each different one is made a Python value once. Floats of 32 bits have their shortest decimals,
    and whole ones alone in their cell are integers.
    """
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = values.type
    if _is_number(kind) or pa.types.is_boolean(kind):
        return _scalars(values)
    if _is_list(kind) and _is_number(kind.value_type) and not values.flatten().null_count:
        return _vectors(values)
    return _structures(values)


def _scalars(values: Any) -> TypedColumn:
    encoded = values.dictionary_encode()
    found = whole_numbers(_decimals(encoded.dictionary))
    return TypedColumn(_codes(encoded.indices, len(found)), [*found, None])


def _vectors(values: Any) -> TypedColumn:
    """Lists of numbers, told apart by their bytes."""
    flat = np.ascontiguousarray(values.flatten().to_numpy(zero_copy_only=False))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.append(0, np.cumsum(lengths, dtype=np.int64)) * flat.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(flat)]
    as_bytes = pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    encoded = as_bytes.dictionary_encode()
    found = [
        _decimals(pa.array(np.frombuffer(content, flat.dtype)))
        for content in encoded.dictionary.to_pylist()
    ]
    codes = _codes(encoded.indices, len(found))
    codes[values.is_null().to_numpy(zero_copy_only=False)] = len(found)
    return TypedColumn(codes, [*found, None])


def _structures(values: Any) -> TypedColumn:
    known: dict[str, int] = {}
    found: list[Any] = []
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values.to_pylist()):
        key = json.dumps(value, sort_keys=True)
        codes[row] = known.setdefault(key, len(found))
        if codes[row] == len(found):
            found.append(value)
    return TypedColumn(codes, found)


def _codes(indices: Any, of_nulls: int) -> Any:
    return pc.fill_null(indices.cast(pa.int64()), of_nulls).to_numpy(zero_copy_only=False).copy()


def _decimals(values: Any) -> list[Any]:
    """The numbers, each float by the shortest decimal that is it in its own precision."""
    kind = values.type
    if pa.types.is_float16(kind):
        values, kind = values.cast(pa.float32()), pa.float32()
    if pa.types.is_float32(kind):
        values = values.cast(pa.string()).cast(pa.float64())
    found: list[Any] = values.to_pylist()
    return found


def _is_list(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
