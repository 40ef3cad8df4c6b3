from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import open_bytes, read_text, shown


def test_text_is_read_whole_whatever_its_dress(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in (
        b"caf\xc3\xa9\r\n",
        b"\xef\xbb\xbfcaf\xc3\xa9\r\n",
        gzip.compress(b"caf\xc3\xa9\r\n"),
    ):
        path.write_bytes(content)
        assert read_text(path) == "café\r\n"


def test_text_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"abc\n" * (1 << 20)))
    with pytest.raises(BadInput, match="it is larger than 2 MiB"):
        read_text(path, largest=2 << 20)


def test_the_share_read_goes_up_to_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    with open_bytes(path) as source:
        shares = []
        while source.readinto(memoryview(bytearray(30))):
            shares.append(source.share)
    assert shares == [0.3, 0.6, 0.9, 1.0]


def test_a_shown_value_is_one_short_printable_line() -> None:
    assert shown("a\nb\x1b\u202e") == "'a\\nb\\x1b\\u202e'"
    assert shown(b"\xff\0") == "'\\xff\\x00'"
    assert shown("x" * 100) == f"'{'x' * 48}…'"
