"""How often rankers were compared on the same queries: a test that is repeated finds by chance.

A file in the user's state folder has a line for each comparison: which queries (a sketch of their
ids), and a digest of what was compared, by which the same comparison is recognised. No text, id or
figure is kept. Queries of which another comparison had most, or all and some more, are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector

_SKETCH = 64
"""How many of the smallest hashes of a set's ids are kept: they tell how far two sets overlap."""
_MOSTLY = 0.5
_LONGEST = 5_000
"""Older comparisons are forgotten."""
_DIGITS = 9


def earlier_comparisons(query_ids: pa.StringArray, tests: Sequence[tuple[Vector, Vector]]) -> int:
    """How many other comparisons were made on these queries before; these are written down.

    A test has both rankers' values of each query. Where the file cannot be read or written,
    nothing is known of others.
    """
    sketch = sketch_of(query_ids)
    now = {_digest(*test) for test in tests}
    path = comparisons_file()
    try:
        lines = path.read_text().splitlines() if path.exists() else []
        same = _tests_on(sketch, lines)
        new = [json.dumps({**sketch, "test": test}) for test in sorted(now.difference(same))]
        if new:
            _write(path, lines, new)
    except OSError:
        return 0
    # Made again, a comparison says what it said the first time.
    first = min((same.index(test) for test in now if test in same), default=len(same))
    return len(set(same[:first]))


def sketch_of(query_ids: pa.StringArray) -> dict[str, Any]:
    """A set of queries as `comparisons_on` finds it again: its size, and its smallest hashes."""
    hashes = sorted(_number(one) for one in set(query_ids.to_pylist()))
    return {"n": len(hashes), "sketch": [f"{one:016x}" for one in hashes[:_SKETCH]]}


def comparisons_on(sketch: Mapping[str, Any]) -> int:
    """How many comparisons were made so far on the queries of a sketch.

    Raises OSError where the file cannot be read.
    """
    path = comparisons_file()
    return len(set(_tests_on(sketch, path.read_text().splitlines() if path.exists() else [])))


def same_queries(sketch: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether most of the queries of one of two sketches are queries of the other, too."""
    return _overlap(sketch, other) >= _MOSTLY


def corrected_for(earlier: int) -> float:
    """What p is multiplied by after so many comparisons on the same queries.

    Whoever goes on until there is a difference makes one comparison after another: their errors
    add up. Of 100 such series, 9 to 47 end in a false "better" without a factor, 3 to 13 with
    1 + k, and 3 to 8 with this one (20 variants, 20 tuned variants, 25 more queries at a time; 400
    worlds each, t-tests).
    """
    return float((1 + earlier) ** 1.5)


def comparisons_file() -> Path:
    """The file of all comparisons of this user, or that of the environment's OWPC_LTR_COMPARISONS.

    A team that shares one file counts the comparisons of all.
    """
    import platformdirs

    named = os.environ.get("OWPC_LTR_COMPARISONS")
    if named:
        return Path(named)
    return platformdirs.user_state_path("owpc-ltr", appauthor=False) / "comparisons.jsonl"


def _tests_on(sketch: Mapping[str, Any], lines: Sequence[str]) -> list[str]:
    """The comparisons of these lines that were made on the queries of a sketch."""
    comparisons = [made for line in lines if (made := _read(line)) is not None]
    return [str(made["test"]) for made in comparisons if same_queries(made, sketch)]


def _write(path: Path, lines: Sequence[str], new: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(lines) + len(new) <= _LONGEST:
        # One write at the end of the file: other processes may do the same.
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in new))
        return
    from owpc_ltr.files.output import write_output

    newest = [*lines, *new][-_LONGEST // 2 :]
    write_output(path, "".join(f"{line}\n" for line in newest).encode())


def _number(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _digest(one: Vector, other: Vector) -> str:
    """Of two rankers' values, whichever stands first."""
    parts = sorted(np.round(values, _DIGITS).tobytes() for values in (one, other))
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()


def _read(line: str) -> dict[str, Any] | None:
    """A line of the file; None where it is damaged."""
    try:
        made = json.loads(line)
        sound = isinstance(made["n"], int) and isinstance(made["sketch"], list) and made["test"]
    except (ValueError, TypeError, KeyError):
        return None
    return made if sound else None


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """About which share of the smaller set of queries is in the other one."""
    a, b = set(one["sketch"]), set(other["sketch"])
    union = sorted(a | b)[:_SKETCH]
    shared = sum(each in a and each in b for each in union) / max(1, len(union))
    sizes: int = one["n"] + other["n"]
    return shared / (1.0 + shared) * sizes / max(1, min(int(one["n"]), int(other["n"])))
