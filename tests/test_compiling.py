"""Functions that numba compiles when they are first called."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from owpc_ltr import compiling
from owpc_ltr.compiling import compiled, intrinsic
from owpc_ltr.data.parquet.digest import column_sums
from owpc_ltr.data.parquet.reading import transpose_into


@compiled
def half(value: float) -> float:
    """The half of a value."""
    return value / 2


@compiled(fastmath={"contract"})
def halves(values: Any) -> float:
    total = 0.0
    for value in values:
        total += half(value)
    return total


@intrinsic
def bits_of(_typing: Any, _value: Any) -> Any:
    from llvmlite import ir
    from numba import types

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@compiled
def read_bits(value: float) -> int:
    read: int = bits_of(value)
    return read


def test_a_compiled_function_calls_others_by_name() -> None:
    assert halves(np.arange(5.0)) == 5.0
    assert half.__doc__ == "The half of a value."


def test_an_intrinsic_is_for_compiled_functions_alone() -> None:
    assert read_bits(1.5) == int(np.array(1.5).view(np.int64))
    with pytest.raises(TypeError, match="bits_of is for compiled functions"):
        bits_of(1.5)


def test_numba_is_imported_by_the_first_call_and_no_sooner() -> None:
    code = (
        "import sys; from owpc_ltr.kernels import linear, pairs; "
        "from owpc_ltr.data.letor import kernel; import owpc_ltr_losses.owpc; "
        "before = 'numba' in sys.modules; pairs.logistic.dispatcher; "
        "print(before, 'numba' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False True\n"


def test_threads_that_begin_together_make_one_function() -> None:
    def written(value: float) -> float:
        return value + 1

    made = compiled(written)
    with ThreadPoolExecutor(8) as pool:
        found = {id(one) for one in pool.map(lambda _: made.dispatcher, range(8))}
    assert len(found) == 1


matrices = arrays.arrays(
    np.float32, st.tuples(st.integers(0, 70), st.integers(1, 5)), elements=st.floats(width=32)
)


@given(matrices)
def test_numpy_and_compiled_code_come_to_the_same_bits(matrix: Any) -> None:
    """Of the digest of a file, and of the matrix that is read from it."""
    turned = np.ascontiguousarray(matrix.T)
    results = []
    for cells in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiling, "_SMALL", cells)
            sums, infinite = column_sums(matrix.view(np.uint32))
            rows = np.empty_like(matrix)
            transpose_into(rows, turned)
        results.append((sums.tolist(), infinite, rows.tobytes()))
    assert results[0] == results[1]
    assert results[0][1] == bool(np.isinf(matrix).any())
    assert results[0][2] == matrix.tobytes()
