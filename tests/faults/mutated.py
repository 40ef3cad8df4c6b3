"""Files that were changed at random, read in processes of their own: what came of each.

    nice python -m tests.faults.mutated [NUMBER] [KIND …]

A process that dies by a signal costs its file alone. Memory is limited while files are read.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from owpc_ltr.errors import OwpcLtrError
from tests.faults import read_hostile
from tests.faults.damaged_models import NAMES, sound_files

MEMORY = 4 << 30
"""Address space of a process: what it has mapped, more than it uses."""
SECONDS = 20
TOKENS = (
    b"\xff", b"\xed\xa0\x80", b"\\ud800", b"1e400", b"NaN", b"[" * 3000, b'{"a":' * 3000, b"\r",
    b"\r\n", b"\n", b"\0", b'"', b",", b"\t", b"\xef\xbb\xbf", b"-1", b"99999999999999999999",
    b'"query":"x","query":"y",', b"null", b"{}", b"[]", b"\xe2\x80\xae", b"=1+1", b"PAR1",
)  # fmt: skip
_EXTREMES = (0, 1, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


@dataclass
class Tally:
    """What came of files, and by how many bytes the largest process had grown."""

    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, int] = field(default_factory=dict)
    grown: int = 0

    @property
    def faults(self) -> dict[str, int]:
        """What must not be: the number of one file for each."""
        return {name: n for name, n in self.examples.items() if name not in {"read", "refused"}}


def _log() -> pa.Table:
    rows = [
        {"query": f"query {n % 5}", "doc_id": f"d{n % 11}", "position": n % 10 + 1,
         "action": "click" if n % 3 == 0 else "impression", "session_id": f"s{n // 10}",
         "client_id": f"c{n // 20}", "timestamp": f"2026-01-01T00:{n % 60:02}:00Z"}
        for n in range(120)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def _judgments() -> pa.Table:
    rows = [
        {"query_id": f"q{n // 4}", "query": f"words {n // 4}", "doc_id": f"d{n}", "grade": n % 4}
        for n in range(40)
    ]
    return pa.Table.from_pylist(rows)


def _joined() -> pa.Table:
    ids = [f"d{n}" for n in range(60)]
    return pa.table({"doc_id": ids, "ctr": np.arange(60) / 60, "sold": np.arange(60)})


def _text(table: pa.Table, delimiter: str) -> bytes:
    out = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    pyarrow.csv.write_csv(table, out, options)
    return bytes(out.getvalue())


def _jsonl(table: pa.Table) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()).encode()


def _parquet(table: pa.Table, **how: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **how)
    return bytes(out.getvalue())


def _arrow(table: pa.Table, compression: str = "uncompressed") -> bytes:
    out = pa.BufferOutputStream()
    pyarrow.feather.write_feather(table, out, compression=compression)
    return bytes(out.getvalue())


def _formats(table: pa.Table) -> dict[str, bytes]:
    return {
        "csv": _text(table, ","),
        "tsv": _text(table, "\t"),
        "jsonl": _jsonl(table),
        "parquet": _parquet(table, compression="none"),
        "parquet.zstd": _parquet(table, compression="zstd", write_page_checksum=True),
        "arrow": _arrow(table),
        "arrow.zstd": _arrow(table, "zstd"),
    }


def seeds() -> dict[str, bytes]:
    """A whole file of each kind."""
    contents = {f"clicks.{name}": content for name, content in _formats(_log()).items()}
    contents |= {f"judgments.{name}": content for name, content in _formats(_judgments()).items()}
    rows = _judgments().to_pylist()
    qrels = "".join(f"{row['query_id']} 0 {row['doc_id']} {row['grade']}\n" for row in rows)
    contents["qrels"] = qrels.encode()
    contents["runs"] = "".join(
        f"{row['query_id']} Q0 {row['doc_id']} {n % 4 + 1} {4.5 - n % 4} bm25\n"
        for n, row in enumerate(rows)
    ).encode()
    contents["rows.csv"] = _text(_judgments(), ",")
    contents["documents.jsonl"] = _jsonl(_judgments())
    sound = sound_files()
    contents |= {f"models.{name}": sound[name] for name in ("ours: trees", "xgboost", "lightgbm")}
    contents["topics"] = b"q0\tred shoe\nq1\tblue shoe\n"
    contents["joined.parquet"] = _parquet(_joined())
    contents["queries.csv"] = b"query_id,query,vector:json\nq1,red shoe,[1]\nq2,blue shoe,[2]\n"
    for name in ("clicks.csv", "clicks.tsv", "clicks.jsonl", "judgments.jsonl"):
        contents[f"{name}.gz"] = contents[name]
    return contents


def readers() -> Mapping[str, Callable[[Path], Any]]:
    """What reads a kind of file, by the first part of its name, as commands call it."""
    from owpc_ltr.data.documents import DocumentFile
    from owpc_ltr.formats.model_reader import Columns, import_with
    from owpc_ltr.host.judgment_lists import read_judgments, read_topics

    def documents(path: Path) -> None:
        DocumentFile(path, "doc_id").check(lambda _message, _done: None)

    topics = {f"q{n}": f"words {n}" for n in range(10)}
    common = read_hostile.readers()
    return {
        **common,
        "qrels": lambda path: read_judgments(path, topics=topics),
        "runs": common["run"],
        "rows": lambda path: documents(path.rename(path.with_suffix(".csv"))),
        "documents": documents,
        "models": lambda path: import_with(path, Columns(NAMES)),
        "topics": read_topics,
    }


def mutated(kind: str, content: bytes, number: int) -> bytes:
    """The file, changed in one to four places; the same for the same number."""
    rng = np.random.default_rng([number, *kind.encode()])
    packed = kind.endswith(".gz")
    if packed and rng.random() < 0.3:
        return _changed(gzip.compress(content, mtime=0), rng)
    changed = _changed(content, rng)
    return gzip.compress(changed, 1, mtime=0) if packed else changed


def _changed(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, len(changed) + 1))
        end = min(place + int(rng.integers(1, 40)), len(changed))
        way = int(rng.integers(0, 9))
        if way == 0 and place < len(changed):
            changed[place] ^= 1 << int(rng.integers(0, 8))
        elif way == 1:
            del changed[place:end]
        elif way == 2:
            changed[place:place] = changed[place:end] * int(rng.integers(1, 4))
        elif way == 3 and rng.random() < 0.3:
            del changed[place:]
        elif way == 4:
            changed[place:end] = rng.bytes(end - place)
        elif way <= 6:
            changed[place:place] = TOKENS[int(rng.integers(0, len(TOKENS)))]
        else:
            # A number of a binary format, where these mostly stand.
            width = int(rng.choice([1, 2, 4, 8]))
            place -= place % width
            value = _EXTREMES[int(rng.integers(0, len(_EXTREMES)))] % (1 << 8 * width)
            changed[place : place + width] = value.to_bytes(width, "little")
    return bytes(changed)


def run(kind: str, content: bytes, numbers: range, memory: int = MEMORY) -> Tally:
    """Read so many changed files, each process until one ends it."""
    tally, begin = Tally(), numbers.start
    while begin < numbers.stop:
        begin = _one_process(kind, content, range(begin, numbers.stop), memory, tally)
    return tally


def _one_process(kind: str, content: bytes, numbers: range, memory: int, tally: Tally) -> int:
    """The number of the first file that was not read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            _read_all(kind, content, numbers, memory, writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    done = numbers.start
    with os.fdopen(reading) as lines:
        for line in lines:
            outcome, grown = json.loads(line)
            tally.outcomes[outcome] += 1
            tally.examples.setdefault(outcome, done)
            tally.grown = max(tally.grown, grown)
            done += 1
    _, status = os.waitpid(child, 0)
    if status:
        name = f"ended by {os.waitstatus_to_exitcode(status)}"
        tally.outcomes[name] += 1
        tally.examples.setdefault(name, done)
        done += 1
    return done


def _read_all(kind: str, content: bytes, numbers: range, memory: int, to: int) -> None:
    read = readers()[kind.partition(".")[0]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
        read(path)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in numbers:
            path.write_bytes(mutated(kind, content, number))
            signal.alarm(SECONDS)
            try:
                read(path)
                outcome = "read"
            except OwpcLtrError as error:
                outcome = "refused" if error.exit_code == 3 else f"{type(error).__name__}: {error}"
                if not str(error) or "\n" in str(error) or len(str(error)) > 1500:
                    outcome = f"told in {len(str(error))} characters"
            except BaseException as error:  # noqa: BLE001 - what is looked for
                outcome = f"raised {type(error).__name__}: {error}"[:200]
            signal.alarm(0)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            os.write(to, f"{json.dumps([outcome, grown << 10])}\n".encode())


def main() -> None:
    """Print what came of each kind."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    files = seeds()
    for kind in sys.argv[2:] or files:
        begin = time.monotonic()
        tally = run(kind, files[kind], range(number))
        print(
            f"{kind:22} {dict(tally.outcomes.most_common(9))} grown by {tally.grown >> 20} MiB, "
            f"{time.monotonic() - begin:.0f} s",
            dict(tally.faults.items()) or "", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
