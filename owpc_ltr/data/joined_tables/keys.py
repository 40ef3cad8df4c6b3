"""Keys as numbers: 64 bits made of the texts of a row, compiled.

Equal texts have equal numbers. Others may, which is seldom, and looked for by who uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.compiling import compiled

Hashes = NDArray[np.uint64]


def hashed(columns: Sequence[pa.StringArray], seed: int) -> Hashes:
    """A number a row, from its text in each of the columns; another `seed` gives others."""
    hashes = np.full(len(columns[0]), seed, np.uint64)
    for column in columns:
        offsets, content = _buffers(column)
        _add_texts(offsets, content, hashes)
    return hashes


def _buffers(column: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Where each text begins and ends, and the bytes of all of them."""
    _, offsets, content = column.buffers()
    whole = np.frombuffer(offsets, np.int32) if offsets is not None else np.zeros(1, np.int32)
    used = whole[column.offset : column.offset + len(column) + 1]
    # An empty buffer may be absent, and compiled code is made for one kind of array.
    data = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
    for array in (used, data):
        array.flags.writeable = False
    return used, data


@compiled
def _add_texts(offsets: Any, content: Any, hashes: Any) -> None:
    """Mix a text into each row's number: FNV-1a, then the finaliser of SplitMix64."""
    for row in range(len(hashes)):
        number = hashes[row] ^ np.uint64(0xCBF29CE484222325)
        for place in range(offsets[row], offsets[row + 1]):
            number = (number ^ np.uint64(content[place])) * np.uint64(0x100000001B3)
        # The length parts the texts of two columns: "a", "bc" is not "ab", "c".
        number ^= np.uint64(offsets[row + 1] - offsets[row])
        number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[row] = number ^ (number >> np.uint64(31))
