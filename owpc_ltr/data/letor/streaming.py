"""LETOR text → datasets of whole queries, one after another, a piece of text at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import codes
from owpc_ltr.data.letor.pieces import TextPiece, last_query
from owpc_ltr.data.letor.reader import BLOCK, Reader
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import ByteSource, open_bytes

_PIECE = 32 << 20


def stream_letor(
    path: Path,
    *,
    n_features: int | None = None,
    max_features: int | None = None,
    piece: int = _PIECE,
) -> Iterator[RankingDataset]:
    """The queries of a text as `read_letor` reads it, without ever holding all of them.

    Unless `n_features` says how many there are, the text is read twice: first for the width. A
    query that comes back far from its other lines is not noticed here.
    """
    if n_features is None:
        read = _stream(path, None, max_features, piece)
        n_features = max((part.n_features for part in read), default=0)
    if not n_features:
        raise BadInput(f"cannot read {path}: it has no line with a document")
    return _stream(path, n_features, max_features, piece)


def _stream(
    path: Path, n_features: int | None, max_features: int | None, piece: int
) -> Iterator[RankingDataset]:
    lines = 0
    with open_bytes(path) as source:
        for text in _pieces(source, piece):
            reader = Reader(path, n_features, max_features)
            reader.state[codes.LINE] = lines
            reader.read(TextPiece(text), BLOCK)
            lines = int(reader.state[codes.LINE])
            if reader.state[codes.ROW]:
                yield reader.dataset()


def _pieces(source: ByteSource, size: int) -> Iterator[bytes]:
    """The text, cut before the first line of some query every so many bytes."""
    buffer, kept = memoryview(bytearray(size)), b""
    while got := source.readinto(buffer):
        text = kept + bytes(buffer[:got])
        cut = last_query(text)
        if cut:
            yield text[:cut]
        kept = text[cut:]
    if kept:
        yield kept
