from __future__ import annotations

import gzip
import lzma
import resource
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_svmlight_file

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.letor import powers_of_ten, read_letor, write_letor
from owpc_ltr.data.letor_kernel import BAD, READ, UNSURE, nearest_float32, read_decimal
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import why_unseen
from tests.datasets import same as same_bits

POWERS = powers_of_ten()

words = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=6,
).filter(
    lambda text: "#" not in text and not set(text) & set("\x85\xa0") and why_unseen(text) is None
)


def read(content: bytes | str, tmp_path: Path, **options: int) -> RankingDataset:
    path = tmp_path / "data.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_letor(path, **options)


def same(first: RankingDataset, other: RankingDataset) -> bool:
    """Bit for bit, the kind of NaN aside."""
    plain = [
        replace(data, features=np.where(np.isnan(data.features), np.float32("nan"), data.features))
        for data in (first, other)
    ]
    return same_bits(*plain)


@st.composite
def datasets(draw: st.DrawFn) -> RankingDataset:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows, columns = sum(sizes), draw(st.integers(1, 5))
    floats = hnp.from_dtype(np.dtype(np.float32), allow_infinity=False)
    queries = draw(st.lists(words, min_size=len(sizes), max_size=len(sizes), unique=True))
    ids: list[str] = draw(st.lists(words, min_size=rows, max_size=rows))
    extra = draw(st.lists(st.sampled_from(["", " inc = 1"]), min_size=rows, max_size=rows))
    comments = [f"docid = {i}{more}" for i, more in zip(ids, extra, strict=True)]
    return make_dataset(
        draw(hnp.arrays(np.float32, (rows, columns), elements=floats)),
        np.abs(draw(hnp.arrays(np.float32, rows, elements=st.sampled_from([0, 1, 2.5, 1e-7])))),
        np.repeat(np.array(queries, object), sizes),
        doc_ids=pa.array(ids, pa.string()),
        comments=pa.array(comments, pa.string()),
    )


@given(data=datasets())
def test_what_is_written_reads_back_bit_for_bit(data: RankingDataset, tmp_path: Path) -> None:
    write_letor(data, tmp_path / "a.txt")
    assert same(read_letor(tmp_path / "a.txt"), data)


@given(data=datasets(), block=st.integers(1, 80), crlf=st.booleans())
def test_chunks_and_line_ends_change_nothing(
    data: RankingDataset, block: int, crlf: bool, tmp_path: Path
) -> None:
    write_letor(data, tmp_path / "a.txt")
    content = (tmp_path / "a.txt").read_bytes()
    content = content.replace(b"\n", b"\r\n") if crlf else content
    assert same(read(content, tmp_path, block=block), data)


def test_writing_what_was_read_is_canonical(tmp_path: Path) -> None:
    loose = "+1.0\tqid:a  1:0.50 3:1e1\t# 7555 rambo\n\n# a remark\n0 qid:a 2:NULL 3:-.0 #x\r\n"
    tight = "1 qid:a 1:0.5 2:0 3:10 # 7555 rambo\n0 qid:a 1:0 2:NULL 3:-0 #x\n"
    for content in (loose, tight):
        write_letor(read(content, tmp_path), tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == tight


def test_features_that_a_line_leaves_out_are_zero_and_null_is_missing(tmp_path: Path) -> None:
    data = read("1 qid:1 2:5\n0 qid:1 1:NULL 4:-1\n2 qid:2\n", tmp_path)
    assert np.array_equal(
        data.features,
        np.array([[0, 5, 0, 0], [np.nan, 0, 0, -1], [0, 0, 0, 0]], np.float32),
        equal_nan=True,
    )
    assert data.feature_names == ("1", "2", "3", "4")
    assert data.offsets.tolist() == [0, 2, 3]


def test_the_number_of_features_can_be_asked_for(tmp_path: Path) -> None:
    assert read("1 qid:1 2:5\n", tmp_path, n_features=4).features.tolist() == [[0, 5, 0, 0]]
    with pytest.raises(BadInput, match="line 2: the feature '5:1' is beyond the 4 features"):
        read("1 qid:1 2:5\n0 qid:1 1:1 5:1\n", tmp_path, n_features=4)


@pytest.mark.parametrize(
    ("comment", "document"),
    [
        ("#docid = GX000-00-0000000 inc = 1 prob = 0.08", "GX000-00-0000000"),
        ("# docid=7", "7"),
        ("#docid =\t7 x", "7"),
        ("# 7555 rambo", "7555"),
        ("#docids are fun", "docids"),
        ("# docid", "docid"),
        ("#docid = ", "1"),
        ("#", "1"),
        ("", "1"),
    ],
)
def test_the_document_id_is_found_in_the_comment(
    comment: str, document: str, tmp_path: Path
) -> None:
    data = read(f"1 qid:1 1:5 {comment}\n", tmp_path)
    assert data.doc_ids is not None
    assert data.doc_ids.to_pylist() == [document]
    write_letor(data, tmp_path / "again.txt")
    assert same(read_letor(tmp_path / "again.txt"), data)


def test_rows_without_an_id_are_numbered_and_a_comment_without_it_gets_it(tmp_path: Path) -> None:
    data = read("".join(f"0 qid:{i // 11} 1:{i}\n" for i in range(22)), tmp_path)
    assert data.doc_ids is not None
    assert data.doc_ids.to_pylist() == [str(i % 11 + 1) for i in range(22)]
    assert data.comments is None
    comments = pa.array(["by hand", ""])
    named = make_dataset([[1], [2]], [0, 1], ["q", "q"], doc_ids=["a", "b"], comments=comments)
    write_letor(named, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == (
        "0 qid:q 1:1 #docid = a by hand\n1 qid:q 1:2 #docid = b\n"
    )


def exactly_nearest(token: str) -> float:
    """The oracle: by fractions, over the neighbours of Python's own reading."""
    exact = Fraction(Decimal(token))
    with np.errstate(over="ignore"):
        guess = np.float32(float(token))
    near = [guess, *(np.nextafter(guess, np.float32(end)) for end in (-np.inf, np.inf))]

    def distance(value: np.float32) -> tuple[Fraction, int]:
        infinite = Fraction(2) ** 128 * int(np.sign(value))
        number = infinite if np.isinf(value) else Fraction(float(value))
        return abs(number - exact), int(value.view(np.uint32)) & 1

    return float(min(near, key=distance))


def compiled(token: str) -> tuple[float, int]:
    results = set()
    # What stands behind a token must not matter.
    for tail in ("\n", "\n1234567", " 12:0.5\n", "\n" + "9" * 16):
        text = np.frombuffer((token + tail).encode(), np.uint8)
        value, end, status = read_decimal(text, 0, POWERS)
        assert status == BAD or end == len(token)
        results.add((value, status))
    ((value, status),) = results
    return (nearest_float32(token) if status == UNSURE else value), status


decimals = st.from_regex(
    r"[+-]?(0{0,24}[0-9]{1,22}\.?0{0,24}[0-9]{0,22}|\.[0-9]{1,30})([eE][+-]?0{0,12}[0-9]{1,2})?",
    fullmatch=True,
)


@given(token=decimals)
def test_every_decimal_becomes_the_nearest_float32(token: str) -> None:
    value, status = compiled(token)
    assert status != BAD
    assert value == exactly_nearest(token)


@given(digits=st.integers(1, 2**64), shift=st.integers(-60, 40))
def test_python_rounds_the_rest_to_the_nearest_float32_too(digits: int, shift: int) -> None:
    for token in (f"{digits}e{shift}", f"-{digits}e{shift}"):
        assert nearest_float32(token) == exactly_nearest(token)


@given(value=hnp.from_dtype(np.dtype(np.float32), allow_nan=False, allow_infinity=False))
def test_decimals_agree_with_python_and_floats_survive_their_shortest_form(
    value: np.float32,
) -> None:
    assert np.float32(compiled(str(value))[0]).view(np.uint32) == value.view(np.uint32)
    token = f"{float(value):.6f}"
    assert np.float32(compiled(token)[0]) == np.float32(float(token))


@pytest.mark.parametrize("bits", [0x3F800001, 0x4B800001, 0x00000001, 0x7F7FFFFE, 0x33D6BF95])
def test_ties_go_to_even_and_a_hair_decides(bits: int) -> None:
    low, high = (Fraction(float(np.array(bits + i, np.uint32).view(np.float32))) for i in range(2))
    middle = (low + high) / 2
    digits = 200
    scaled = middle * 10**digits
    assert scaled.denominator == 1
    for hair in (-1, 0, 1):
        token = f"{scaled.numerator * 10 + hair}e-{digits + 1}"
        assert compiled(token)[0] == nearest_float32(token) == exactly_nearest(token)
    even = low if bits % 2 == 0 else high
    assert compiled(f"{scaled.numerator}e-{digits}")[0] == float(even)


@pytest.mark.parametrize("token", ["", ".", "+", "-.", "e5", "1e", "1e+", "nan", "inf", "x"])
def test_what_is_no_decimal_is_not_read(token: str) -> None:
    assert compiled(token)[1] == BAD


def test_extreme_exponents_are_read_in_no_time() -> None:
    for token in ("1e-400", "1e-99999999999999999999", "0e99999999999"):
        assert compiled(token)[0] == 0.0
    assert compiled("1e400")[0] == np.inf


def test_common_tokens_need_no_second_look() -> None:
    seen = 0
    for i in range(1, 10**6, 997):
        for token in (f"{i / 1e6:.6f}", repr(i / 1e6 / 3), f"{i / 3e6:.18f}", f"{i / 3e6:.17e}"):
            text = np.frombuffer(f"{token}\n".encode(), np.uint8)
            seen += bool(read_decimal(text, 0, POWERS)[2] == READ)
    assert seen >= 4 * 1000


HOSTILE: list[tuple[str, bytes, str]] = [
    ("empty", b"", "it has no line with a document"),
    ("only remarks", b"# nothing\n\n", "it has no line with a document"),
    ("no features", b"4 qid:1 # 7555 rambo\n", "its lines have no features"),
    ("no qid", b"1 1:2\n", "line 1: '1:2' is in the place of qid:ID"),
    ("qid missing once", b"1 qid:1 1:2\n1 1:2\n", "line 2: '1:2' is in the place of qid:ID"),
    ("label alone", b"1\n", "line 1: the end of the line is in the place of qid:ID"),
    ("empty qid", b"1 qid: 1:2\n", "line 1: the query id after 'qid:' is empty"),
    ("QID", b"1 QID:1 1:2\n", "'QID:1' is in the place of"),
    ("hash in qid", b"1 qid:c#1 1:2\n", "line 1: the query id 'qid:c#1' has a '#'"),
    ("long qid", b"1 qid:" + b"9" * 5000 + b" 1:2\n", "a query id is longer than 4096 bytes"),
    ("qid twice", b"1 qid:1 qid:2 1:2\n", "line 1: 'qid:2' is not a feature"),
    ("label garbage", b"x qid:1 1:2\n", "line 1: the label 'x' is not a number"),
    ("label is nan", b"nan qid:1 1:2\n", "the label 'nan' is not a number"),
    ("label is inf", b"inf qid:1 1:2\n", "the label 'inf' is not a number"),
    ("negative label", b"-1 qid:1 1:2\n", "line 1: the label '-1' is negative"),
    ("tiny negative label", b"-1e-400 qid:1 1:2\n", "the label '-1e-400' is negative"),
    ("huge label", b"1e39 qid:1 1:2\n", "the label '1e39' is beyond float32"),
    ("label after blank line", b"\n\nx qid:1 1:2\n", "line 3: the label 'x'"),
    ("label glued", b"1qid:1 1:2\n", "the label '1qid:1' is not a number"),
    ("index 0 again", b"1 qid:1 0:2 0:3\n", "line 1: the feature '0:3' repeats the index"),
    ("index twice", b"1 qid:1 1:2 1:3\n", "the feature '1:3' repeats the index"),
    ("index falls", b"1 qid:1 2:2 1:3\n", "the feature '1:3' has a smaller index"),
    ("index negative", b"1 qid:1 -1:2\n", "'-1:2' is not a feature"),
    ("index huge", b"1 qid:1 1000001:2\n", "'1000001:2' is beyond index 1,000,000"),
    ("index overflows", b"1 qid:1 18446744073709551617:2\n", "is beyond index 1,000,000"),
    ("index alone", b"1 qid:1 1\n", "'1' is not a feature"),
    ("index 1.5", b"1 qid:1 1.5:2\n", "'1.5:2' is not a feature"),
    ("no value", b"1 qid:1 1: 2:3\n", "the feature '1:' has no decimal number"),
    ("nan", b"1 qid:1 1:nan\n", "the feature '1:nan' has no decimal number"),
    ("inf", b"1 qid:1 1:2 2:-inf\n", "the feature '2:-inf' has no decimal number"),
    ("hex", b"1 qid:1 1:0x1p3\n", "the feature '1:0x1p3' has no decimal number"),
    ("underscore", b"1 qid:1 1:1_000\n", "the feature '1:1_000' has no decimal number"),
    ("comma", b"1 qid:1 1:0,5\n", "the feature '1:0,5' has no decimal number"),
    ("1e400", b"1 qid:1 1:1e400\n", "line 1: the feature '1:1e400' has a value beyond float32"),
    ("1e39", b"0 qid:1 1:1\n1 qid:1 1:1e39\n", "line 2: the feature '1:1e39' has a value beyond"),
    ("unsure 1e400", b"0 qid:1 1:1\n1 qid:1 1:2 2:-1e999\n", "line 2: the feature"),
    ("NULLS", b"1 qid:1 1:NULLS\n", "the feature '1:NULLS' has no decimal number"),
    ("garbage", b"1 qid:1 1:2 hello\n", "'hello' is not a feature"),
    ("a line of words", b"1 qid:1 1:2\nhello world\n", "line 2: the label 'hello'"),
    ("NUL in a value", b"1 qid:1 1:2\x00\n", "line 1: a zero byte"),
    ("control in a value", b"1 qid:1 1:2\x07\n", "'1:2\\x07' has no decimal number"),
    ("control in a comment", b"1 qid:1 1:2 # a\x1b[31m\n", "control character, byte 0x1b"),
    ("control in a qid", b"1 qid:a\x07 1:2\n", "control character"),
    ("lone CR", b"1 qid:1 1:2\r2 qid:1 1:3\n", "line 1: a control character, byte 0x0d"),
    ("BOM", b"\xef\xbb\xbf1 qid:1 1:2\n", "line 1: it begins with a byte order mark"),
    ("UTF-16", "1 qid:1 1:2\n".encode("utf-16"), "UTF-16 text: save it as UTF-8"),
    ("UTF-16 without mark", "1 qid:1 1:2\n".encode("utf-16-le"), "a zero byte"),
    (
        "latin-1 comment",
        b"0 qid:1 1:2\n1 qid:1 1:2 # caf\xe9 x\n",
        "line 2: ':2 # caf\\\\xe9 x' is not",
    ),
    ("latin-1 qid", b"1 qid:\xe9 1:2\n", "is not UTF-8"),
    ("split rune", b"1 qid:1 1:2 #\xc3\n1 qid:1 1:2 #\xa9\n", "is not UTF-8"),
    (
        "no line end",
        b"1 qid:1 1:2\n0 qid:1 1:0.12",
        "line 2: the last line, '0 qid:1 1:0.12', has no",
    ),
    ("cut label", b"1 qid:1 1:2\n0", "line 2: the last line, '0', has no line end"),
    ("split query", b"1 qid:a 1:2\n1 qid:b 1:2\n1 qid:a 1:2\n", "line 3: query 'a' comes back"),
    ("zip", b"PK\x03\x04....", "it is a zip archive"),
    ("bzip2", b"BZh91AY", "compressed with bzip2"),
    ("parquet", b"PAR1....", "a Parquet file, where text is asked for"),
    ("binary", bytes(range(256)), "line 1: a zero byte"),
    ("gzip twice", gzip.compress(gzip.compress(b"1 qid:1 1:2\n")), "compressed twice"),
    ("cut gzip", gzip.compress(b"1 qid:1 1:2\n")[:-3], "the compressed file is cut or damaged"),
    ("damaged gzip", gzip.compress(b"1 qid:1 1:2\n")[:-8] + b"12345678", "cut or damaged"),
    ("junk after gzip", gzip.compress(b"1 qid:1 1:2\n") + b"junk", "cut or damaged"),
    ("cut xz", lzma.compress(b"1 qid:1 1:2\n")[:-3], "the compressed file is cut or damaged"),
    ("gzip of junk", gzip.compress(b"junk"), "line 1: the last line, 'junk', has no line end"),
    ("bidi", "\u202e1 qid:1 1:2\n".encode(), "line 1: the label '\\\\u202e1' is not a number"),
]


@pytest.mark.parametrize(
    ("content", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_bad_text_is_named_by_file_line_and_value(
    content: bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as raised:
        read(content, tmp_path)
    text = str(raised.value)
    assert text.startswith(f"cannot read {tmp_path / 'data.txt'}")
    assert message.replace("\\\\", "\\") in text
    assert len(text) < 400
    assert text.isprintable()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path, "it is a folder"),
        (tmp_path / "pipe", "it is a pipe or a device"),
        (Path("/dev/null"), "it is a pipe or a device"),
        (tmp_path / "absent", "no such file or directory"),
        (Path("a\0b"), "embedded null byte"),
    ):
        with pytest.raises(BadInput, match=message):
            read_letor(path)


@pytest.mark.parametrize("line", [b"\n", b"# 0\n", b"0 qid:1 1:1\n", b"0"])
def test_a_decompression_bomb_is_refused_in_little_memory(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    # Members of a gzip file are read as one text: a mebibyte is packed once.
    path.write_bytes(96 * gzip.compress(line * ((1 << 20) // len(line))))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match=r"inflate more than 200-fold|line is longer than 32 MiB"):
        read_letor(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10


def test_text_that_needs_more_memory_than_there_is_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    import psutil

    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 20))
    with pytest.raises(BadInput, match="rows of 1,000,000 features take"):
        read(
            "".join(f"0 qid:1 {i + 1}:1 1000000:1\n" for i in range(17)),
            tmp_path,
            max_feature_number=10**6,
        )


def test_a_sparse_file_grows_wider_without_loss(tmp_path: Path) -> None:
    indices = [1, 5, 3, 40, 39, 700, 2, 701, 5000]
    lines = [f"{i % 3} qid:{i // 2} {k}:{k}.5\n" for i, k in enumerate(indices)]
    data = read("".join(lines), tmp_path, block=20)
    expected = np.zeros((len(indices), 5000), np.float32)
    expected[np.arange(len(indices)), np.array(indices) - 1] = np.array(indices) + 0.5
    assert np.array_equal(data.features, expected)


def test_more_rows_than_were_expected_are_kept(tmp_path: Path) -> None:
    # Long lines first, so that the file seems to have few rows; then many short ones.
    long = [f"0 qid:a 1:{i} # {'x' * 900}\n" for i in range(1100)]
    short = [f"1 qid:b 1:{i}\n" for i in range(60_000)]
    data = read("".join(long + short), tmp_path)
    assert data.offsets.tolist() == [0, 1100, 61_100]
    assert np.array_equal(data.features[1100:, 0], np.arange(60_000, dtype=np.float32))
    assert data.features.flags.c_contiguous


def test_a_line_may_be_longer_than_a_block(tmp_path: Path) -> None:
    values = np.arange(1, 200_001)
    line = "1 qid:1 " + " ".join(f"{i}:{i}" for i in values) + "\n"
    data = read("0 qid:1 1:1\n" + line, tmp_path, max_feature_number=200_000)
    assert np.array_equal(data.features[1], values.astype(np.float32))


@given(content=st.binary(max_size=200) | st.text("01 qid:#\n\r\t.e-x", max_size=80).map(str.encode))
def test_any_bytes_are_a_dataset_or_one_line_of_error(content: bytes, tmp_path: Path) -> None:
    try:
        data = read(content, tmp_path)
    except BadInput:
        pass
    else:
        write_letor(data, tmp_path / "again.txt")
        assert same(read_letor(tmp_path / "again.txt"), data)


@pytest.mark.parametrize(
    ("query", "change", "message"),
    [
        ("q", {"doc_ids": ["a b"]}, "the document id 'a b'"),
        ("q", {"doc_ids": [""]}, "the document id ''"),
        ("q", {"comments": pa.array(["a\nb"])}, "the comment 'a\\\\nb'"),
        ("q", {"comments": pa.array(["a\r"])}, "the comment 'a\\\\r'"),
        *((query, {}, "the query id") for query in ("a b", "a#b", "", "a\tb")),
    ],
)
def test_what_the_text_cannot_hold_is_not_written(
    query: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        write_letor(make_dataset([[1]], [0], [query], **change), tmp_path / "a.txt")
    with pytest.raises(BadInput, match=r"feature '2' of row 1 \(index 0\) is infinite"):
        write_letor(make_dataset([[1, np.inf]], [0], ["q"]), tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.gz", "a.xz", "a.txt.gz"])
def test_a_name_of_a_compressed_file_is_taken_at_its_word(name: str, tmp_path: Path) -> None:
    data = make_dataset([[1.5, np.nan], [2, 3]], [0, 1], ["a", "b"])
    for path in (tmp_path / name, tmp_path / f"other {name}"):
        write_letor(data, path)
    content = (tmp_path / name).read_bytes()
    assert content[:2] in (b"\x1f\x8b", b"\xfd7")
    # It depends on neither time nor name.
    assert content == (tmp_path / f"other {name}").read_bytes()
    assert name.endswith("xz") or content[4:8] == b"\0\0\0\0"
    assert np.array_equal(read_letor(tmp_path / name).features, data.features, equal_nan=True)


def test_zstandard_is_read_too(tmp_path: Path) -> None:
    with pa.output_stream(tmp_path / "a.zst", compression="zstd") as file:
        file.write(b"1 qid:1 1:2\n")
    assert read_letor(tmp_path / "a.zst").features.tolist() == [[2]]


@pytest.mark.parametrize(
    ("name", "queries", "shape"),
    [("letor3-ohsumed", 21, (2570, 45)), ("letor2-ohsumed", 21, (2570, 25))],
)
def test_real_letor_reads_as_scikit_learn_reads_it(
    shared_data: Path, name: str, queries: int, shape: tuple[int, int], tmp_path: Path
) -> None:
    path = shared_data / name / "S1.txt.xz"
    data = read_letor(path)
    plain = tmp_path / "S1.txt"
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    features, labels, query_ids = load_svmlight_file(
        str(plain), dtype=np.float64, query_id=True, n_features=shape[1]
    )
    assert data.features.shape == shape
    assert data.n_queries == queries
    assert np.array_equal(data.features, features.toarray().astype(np.float32))
    assert np.array_equal(data.labels, labels)
    assert np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets)).astype(int).tolist() == (
        query_ids.tolist()
    )
    assert same(read_letor(plain), data)


def test_the_documents_of_gov_keep_their_ids(shared_data: Path) -> None:
    data = read_letor(shared_data / "letor3-np2004-partial" / "S4.txt.xz")
    assert data.doc_ids is not None
    assert data.doc_ids[0].as_py() == "G00-43-3417672"
    assert data.query_ids[0].as_py() == "WT04-132"
    assert data.features.shape == (15_000, 64)
    assert float(data.labels.sum()) == 15
