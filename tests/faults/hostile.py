"""Hostile files, each with what its reader must say: a part of the one line, or that it is read.

The large ones are made when they are asked for.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

READ = None
"""The verdict on what is strange and no fault."""


Content = bytes | Callable[[], bytes]


@dataclass(frozen=True)
class Case:
    """A file for one kind of reader, and what is said of it."""

    kind: str
    name: str
    content: Content
    says: str | None

    def bytes(self) -> bytes:
        """The file."""
        return self.content if isinstance(self.content, bytes) else self.content()


Row = tuple[str, Content, str | None]


def _cases(kind: str, rows: list[Row]) -> list[Case]:
    return [Case(kind, *row) for row in rows]


def _letor(name: str, content: str | Content, says: str | None) -> Case:
    return Case("letor", name, content.encode() if isinstance(content, str) else content, says)


def _row(features: str = "1:1", label: str = "1", query: str = "qid:1", more: str = "") -> str:
    return f"{label} {query} {features}{more}\n"


def _tsv(document: str = "d", grade: str = "1", query_id: str = "q", query: str = "rambo") -> bytes:
    return f"query_id\tquery\tdoc_id\tgrade\n{query_id}\t{query}\t{document}\t{grade}\n".encode()


def _zip(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, _row())
    return out.getvalue()


def _bomb(line: bytes, pack: Callable[[bytes], bytes] = gzip.compress) -> Callable[[], bytes]:
    return lambda: pack(line * ((96 << 20) // len(line)))


def _table(columns: dict[str, object] | pa.Table) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue())


def _bad_texts() -> pa.Array:
    """Two texts, the first of which is no UTF-8."""
    data = pa.py_buffer(b"\xff\xfe\x80d")
    ends = pa.py_buffer(b"\0\0\0\0\3\0\0\0\4\0\0\0")
    return pa.StringArray.from_buffers(2, ends, data)


def _not_utf8() -> bytes:
    bad = _bad_texts()
    return _table({"query_id": ["q", "q"], "query": ["r", "r"], "doc_id": bad, "grade": [1, 0]})


def _rows(count: int) -> bytes:
    """So many rows of nothing, in a few bytes."""
    nulls = pa.nulls(1 << 20)
    names = ("query", "document", "position", "action", "session")
    schema = pa.schema([(name, pa.string()) for name in names])
    table = pa.table([nulls.cast(pa.string())] * len(names), schema)
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, schema) as writer:
        for _ in range(count >> 20):
            writer.write_table(table)
    return bytes(out.getvalue())


def _twice(write: Callable[[Any], bytes]) -> bytes:
    table = pa.table(_events())
    return write(table.append_column("query", table["query"]))


def _deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


LETOR = [
    _letor("query of 4,000 digits", _row(query=f"qid:{'7' * 4000}"), READ),
    _letor("query is a path", _row(query="qid:../../etc/passwd"), READ),
    _letor("query is a formula", _row(query='qid:=cmd|"/c"!A1'), READ),
    _letor("query without blank", "1 qid:1\x001:1\n", "a zero byte"),
    _letor("query of zero width", _row(query="qid:a\u200bb"), "cannot be seen (U+200B)"),
    _letor("query turned around", _row(query="qid:a\u202eb"), "cannot be seen (U+202E)"),
    _letor("isolated query", _row(query="qid:a\u2067b"), "cannot be seen (U+2067)"),
    _letor("document of zero width", _row(more=" # d\ufeff"), "cannot be seen (U+FEFF)"),
    _letor("document turned around", _row(more=" # docid = \u202dx"), "cannot be seen (U+202D)"),
    _letor("joined letters", _row(more=" # می\u200cخواهم"), READ),
    _letor("label is hex", _row(label="0x1"), "is not a number"),
    _letor("label with underscore", _row(label="1_0"), "is not a number"),
    _letor("label of 400 digits", _row(label="9" * 400), "beyond float32"),
    _letor("label is minus zero", _row(label="-0"), READ),
    _letor("value of 10,000 digits", _row(f"1:{'9' * 10_000}"), "a value beyond float32"),
    _letor("value of 10,000 decimals", _row(f"1:0.{'3' * 10_000}"), READ),
    _letor("value is NULL", _row("1:NULL"), READ),
    _letor("value in other digits", _row("1:\u0661"), "no decimal number for a value"),
    _letor("exponent of 1,000 digits", _row(f"1:1e{'9' * 1000}"), "a value beyond float32"),
    _letor("exponent far below", _row(f"1:1e-{'9' * 1000}"), READ),
    _letor("index of 5,000 digits", _row(f"{'9' * 5000}:1"), "beyond index 1,000,000"),
    _letor("index is an id", _row("999999:1"), "beyond 10,000"),
    _letor("small file, large matrix", _row("9999:1") * 8000, "more than 400 times their text"),
    _letor("two colons", _row("1::1"), "no decimal number for a value"),
    _letor("comma between", "1,qid:1,1:1\n", "is not a number"),
    _letor("ends in CR alone", "1 qid:1 1:1\r1 qid:1 1:1\r", "has no line end"),
    _letor("CR LF", "1 qid:1 1:1\r\n", READ),
    _letor("UTF-32", _row().encode("utf-32"), "UTF-16 text"),
    _letor("surrogate in a comment", b"1 qid:1 1:1 # \xed\xa0\x80\n", "not UTF-8"),
    _letor("overlong slash", b"1 qid:1 1:1 # \xc0\xaf\n", "not UTF-8"),
    _letor("random bytes", bytes(range(1, 256)), "cannot read"),
    _letor("zip that climbs", _zip("../../a.txt"), "a zip archive"),
    _letor("7z", b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
    _letor("pickle", b"\x80\x04\x95\x0b\0\0\0\0\0\0\0.", "cannot read"),
    _letor("parquet magic and no more", b"PAR1", "complete Parquet file"),
    _letor("parquet magic twice", b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1", "complete Parquet"),
    _letor("xz in gz", gzip.compress(lzma.compress(_row().encode())), "compressed twice"),
    _letor("gz twice in a row", gzip.compress(_row().encode()) * 2, READ),
    _letor("gz head alone", b"\x1f\x8b", "cut or damaged"),
    _letor("line of 100 MB", lambda: b"1 qid:1 # " + b"x" * 100_000_000, "longer than 32 MiB"),
    _letor("foreign parquet", _table({"a": [1]}), "no dataset of owpc-ltr"),
    _letor("HTML", "<html><body>404</body></html>\n", "is not a number"),
    _letor("JSON", '{"a": 1}\n', "neither Parquet nor LETOR text"),
]

JUDGMENTS = _cases("judgments", [
        ("grade of 5,000 digits", _tsv(grade="9" * 5000), "is not a number that fits"),
        ("grade in other digits", _tsv(grade="\u0661"), "is not a number"),
        ("document of zero width", _tsv("a\u200bb"), "line 2: the document id"),
        ("document turned around", _tsv("a\u202eb"), "cannot be seen (U+202E)"),
        ("document with a mark", _tsv("\ufeffa"), "cannot be seen (U+FEFF)"),
        ("query id turned around", _tsv(query_id="\u2066q"), "cannot be seen (U+2066)"),
        ("typed text of zero width", _tsv(query="a\u200bb"), READ),
        ("document with a bell", _tsv("a\x07"), "a control character"),
        ("document is a path", _tsv("../../../etc/passwd"), READ),
        ("document is a wildcard", _tsv("*"), READ),
        ("document is a formula", _tsv("=1+1"), READ),
        ("query is mustache", _tsv(query="{{>file:///etc/passwd}}"), READ),
        ("query is a body", _tsv(query='"}}},{"match_all":{}}'), "double the quotes"),
        ("query is everything", _tsv(query="OR *:*"), READ),
        ("id of 5,000 digits", _tsv("7" * 5000), READ),
        ("gz in gz", gzip.compress(gzip.compress(_tsv())), "cannot read"),
        ("gz with junk behind", gzip.compress(_tsv()) + b"junk", "cut or damaged"),
        ("gz bomb", _bomb(b"q\trambo\td\t1\n"), "decompression bomb"),
        ("zip", _zip("a.tsv"), "cannot read"),
        ("qrels of three", b"q 0 d\n", "cannot read"),
        ("qrels of text grades", b"q 0 d good\nq 0 e bad\n", "cannot read"),
        ("ranklib without query", b"1 1:1 # d\n", "cannot read"),
        ("parquet not UTF-8", _not_utf8(), "complete Parquet"),
        ("parquet of a struct", _table({"query": [{"a": 1}], "doc_id": ["d"], "grade": [1]}),
         "must be"),
        ("parquet unseen id", _table({"query": ["q"], "doc_id": ["d\u200b"], "grade": [1]}),
         "cannot be seen"),
        ("parquet cut", _table({"query": ["q"], "doc_id": ["d"], "grade": [1]})[:-5],
         "complete Parquet"),
        ("arrow magic alone", b"ARROW1\0\0", "cannot read"),
])  # fmt: skip

_HEAD = b"query,document,position,action,session\n"
_EVENT = b'{"query": "x", "document": "d", "position": 1, "action": "click", "session": "s"'


def _events(**changes: object) -> dict[str, object]:
    """Columns of two events."""
    columns = {"query": ["x", "x"], "document": ["d", "e"], "position": [1, 2],
               "action": ["impression", "click"], "session": ["s", "s"]}  # fmt: skip
    return {**columns, **changes}


def _arrow(columns: dict[str, object] | pa.Table) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _damaged_offsets() -> bytes:
    """The end of the second text lies far behind the texts."""
    text = "a text that is found again"
    content = bytearray(_arrow(_events(query=[text, text])))
    place = content.index((0).to_bytes(4, "little") + len(text).to_bytes(4, "little"))
    content[place + 8 : place + 12] = (2**30).to_bytes(4, "little")
    return bytes(content)


def _wide(rows: int, text: str) -> bytes:
    same = {"document": ["d"] * rows, "position": [1] * rows, "action": ["click"] * rows}
    return _table(_events(query=[text] * rows, session=["s"] * rows, **same))


def _new_keys(lines: int) -> bytes:
    return b"".join(_EVENT + b', "key %d": 1}\n' % number for number in range(lines))


CLICKS = _cases("clicks", [
        ("one click", _EVENT + b"}\n", "no event says what was shown"),
        ("brackets", b'{"a": 1}\n' + b"[" * 20_000 + b"\n", "line 2: it is nested too deep"),
        ("brackets in a value", _EVENT + b', "a": ' + b"[" * 20_000 + b"\n", "nested too deep"),
        ("brackets, one a line", _EVENT + b', "a": ' + b"[\n" * 20_000,
         "line 1: expecting value at character"),
        ("new keys", lambda: _new_keys(20_000), "a session of more than 50 clicks"),
        ("keys of a line", lambda: b"{%s}\n" % b",".join(b'"k%d":1' % n for n in range(10_001)),
         "no column says the query"),
        ("key twice", _EVENT + b', "query": "y"}\n', "line 1: the key 'query' occurs twice"),
        ("id 1e400", b'{"document": 1e400}\n', "line 1: 1e400 is not a finite number"),
        ("id NaN", b'{"document": NaN}\n', "line 1: NaN is not a finite number"),
        ("half a pair", b'{"query": "\\ud800"}\n', "line 1: half a surrogate pair"),
        ("JSON not UTF-8", _EVENT + b'}\n{"query": "\xff"}\n', "line 2: byte 0xff is not UTF-8"),
        ("CSV not UTF-8", _HEAD + b"x,d,1,click,s\nx,\xff,1,click,s\n", "line 3: byte 0xff"),
        ("header not UTF-8", b"query,\xff\n", "line 1: byte 0xff is not UTF-8"),
        ("a cut line not UTF-8", _HEAD + b"x,d\xff\n", "line 2: byte 0xff is not UTF-8"),
        ("CR alone", b"query,document\rx,d\r", "line 1: its lines end in CR alone"),
        ("open quote in the header", b'query,"document\n', "no column says the position"),
        ("column twice", b"query," + _HEAD + b"x,x,d,1,click,s\n", "two columns 'query'"),
        ("many columns", lambda: b"a," * 20_000 + b"b\n", "20001 columns, more than 10000"),
        ("NUL in the header", b"query\0,document\n", "not a header that names"),
        ("gz bomb of one line", _bomb(b"0"), "line 1: it is longer than 16 MiB"),
        ("gz bomb of one object", _bomb(b"{"), "line 1: it is longer than 16 MiB"),
        ("gz bomb of lines", _bomb(_HEAD), "decompression bomb"),
        ("line of 100 MB", lambda: _HEAD + b"x" * 100_000_000, "line 2: it is longer than 16 MiB"),
        ("offsets beyond the texts", _damaged_offsets(), "complete Parquet or Arrow file"),
        ("arrow not UTF-8", _arrow(_events(query=_bad_texts())), "complete Parquet or Arrow file"),
        ("parquet not UTF-8", _table(_events(query=_bad_texts())), "complete Parquet or Arrow"),
        ("parquet cut", _table(_events())[:-5], "complete Parquet or Arrow file"),
        ("parquet magic alone", b"PAR1", "complete Parquet or Arrow file"),
        ("parquet bomb of a text", lambda: _wide(40_000, "x" * 100_000), "decompression bomb"),
        ("parquet bomb of rows", lambda: _rows(200_000_000), "decompression bomb"),
        ("parquet of many columns", lambda: _table({f"c{n}": [1] for n in range(20_000)}),
         "20000 columns, more than 10000"),
        ("parquet of one column twice", _twice(_table), "two columns 'query'"),
        ("arrow of one column twice", _twice(_arrow), "two columns 'query'"),
])  # fmt: skip

JOINED = _cases("joined", [
        ("plain", _table({"doc_id": ["d"], "ctr": [0.5]}), READ),
        ("many columns", lambda: _table({"doc_id": ["d"], **{f"c{n}": [1] for n in range(20_000)}}),
         "20001 columns, more than 10000"),
        ("a text for many rows", lambda: _table({"doc_id": ["x" * 100_000] * 40_000,
         "ctr": [1] * 40_000}), "decompression bomb"),
        ("not UTF-8", _table({"doc_id": _bad_texts(), "ctr": [1, 2]}), "complete Parquet"),
        ("arrow", _arrow({"doc_id": ["d"], "ctr": [0.5]}), "it is an Arrow file"),
        ("cut", _table({"doc_id": ["d"], "ctr": [0.5]})[:-3], "complete Parquet file"),
])  # fmt: skip

_MODEL = {
    "format": "owpc-ltr model", "version": 1, "kind": "linear", "feature_names": ["a"],
    "weights": [1.0], "normalisers": {}, "record": {},
}  # fmt: skip


def _model(**changes: object) -> bytes:
    return json.dumps({**_MODEL, **changes}).encode()


MODELS = _cases(
    "model",
    [
        ("plain", _model(), READ),
        ("digest of another", _model(digest="sha256:" + "0" * 64), 'take its line "digest" out'),
        ("digest is null", _model(digest=None), 'take its line "digest" out'),
        ("digest is a list", _model(digest=[1]), 'take its line "digest" out'),
        ("empty", b"", "is not a model file"),
        ("pickle", b"\x80\x04N.", "is not a model file"),
        ("list", b"[]", "is not a model file"),
        ("key twice", b'{"format": 1, "format": 2}', "twice"),
        ("nested deep", _deep(100_000), "is not a model file"),
        ("weight NaN", _model(weights=[float("nan")]), "damaged"),
        ("weight 1e39", _model(weights=[1e39]), "damaged"),
        ("weight text", _model(weights=["x"]), "damaged"),
        ("too many weights", _model(weights=[1.0, 2.0]), "damaged"),
        ("kind unknown", _model(kind="../x"), "known: "),
        ("UTF-16", _model().decode().encode("utf-16"), READ),
        ("50 MB", lambda: b" " * 50_000_001, "larger than 50000000 bytes"),
    ],
)

_JSON: list[Row] = [
    ("empty", b"", "empty.file"),
    ("list of numbers", b"[1]", ".file"),
    ("cut", b'{"a": ', "JSON"),
    ("nested deep", _deep(100_000), ".file"),
    ("not UTF-8", b'{"a": "\xff"}', "UTF-8"),
    ("number of 5,000 digits", b'{"a": ' + b"7" * 5000 + b"}", ".file"),
    ("NUL", b'{"a": 1}\0', ".file"),
    ("pickle", b"\x80\x04N.", "UTF-8"),
]

JSONS = [*_cases("featureset", _JSON), *_cases("json", _JSON)]

LINES = _cases(
    "documents",
    [
        ("empty", b"", "is empty"),
        ("list", b"[1]\n", "line 1: not a JSON object"),
        ("cut", b'{"a": 1}\n{"a"', "line 2: not JSON"),
        ("not UTF-8", b'{"a": "\xff"}\n', "line 1: not JSON"),
        ("gz bomb", _bomb(b'{"a": "' + b"0" * 100_000 + b'"}\n'), "decompression bomb"),
        ("UTF-16", '{"a": 1}'.encode("utf-16"), "UTF-16"),
    ],
)

RUNS = _cases("run", [("NUL", b"q Q0 d\0 1 1 t\n", "is not UTF-8 text")])

QUERIES = _cases(
    "queries",
    [
        ("empty", b"", "cannot read"),
        ("NUL", b"a\0b\n", "is not UTF-8 text"),
        ("not UTF-8", b"\xff\n", "is not UTF-8 text"),
        ("UTF-16", "rambo\n".encode("utf-16"), "UTF-16"),
        ("mustache", b"{{>file:///etc/passwd}}\n", READ),
        ("an empty line first", b"\nquery_id,query\nq1,rambo\n", READ),
        ("empty lines and a short row", b"\n\nquery_id,query\nq1\n", "line 4: 1 fields where"),
        ("open quote in the header", b'query,"a\n', "cannot read"),
        ("column twice", b"query,query\na,b\n", "two of 'query': name each column, once"),
        ("gz bomb", _bomb(b"rambo\n"), "decompression bomb"),
    ],
)

CASES = [*LETOR, *CLICKS, *JOINED, *JUDGMENTS, *MODELS, *JSONS, *LINES, *RUNS, *QUERIES]
