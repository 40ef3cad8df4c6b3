"""Pieces of a LETOR text read side by side, each of whole queries, and put together in order.

Only what is right is taken over from a piece. What is not, a query or a line that goes through a
whole piece, and the end of the text are read by the one reader that all of it is put together in:
what it refuses, and how, does not depend on threads.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from owpc_ltr.data.letor import codes
from owpc_ltr.data.letor.pieces import TextPiece, last_query
from owpc_ltr.data.letor.reader import Reader
from owpc_ltr.data.letor.source import Source
from owpc_ltr.errors import BadInput

PIECE = 8 << 20
_LONGEST = 4
"""Pieces through which a query may go before the rest is left to one reader."""
_LINES = 5000
"""Lines from the end of a piece in which it may be cut: a query may have millions of short ones."""


def read_side_by_side(whole: Reader, source: Source, block: int, threads: int) -> None:
    """Read everything into `whole`, by so many threads. Raises BadInput, as it does."""
    if threads == 1:
        whole.read(source, block)
        return
    buffer, kept, line = memoryview(bytearray(PIECE)), b"", 0
    waiting: deque[tuple[bytes, Future[Reader | None]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while got := source.readinto(buffer):
                text = kept + bytes(buffer[:got])
                if got < len(buffer) or len(text) > _LONGEST * PIECE:
                    kept = text
                    break
                cut = last_query(text, _LINES)
                if not cut:
                    kept = text
                    continue
                piece, kept = text[:cut], text[cut:]
                waiting.append((piece, pool.submit(_apart, whole, piece, line, block)))
                line += piece.count(b"\n")
                if len(waiting) > threads:
                    _take(whole, *waiting.popleft(), source, block)
            while waiting:
                _take(whole, *waiting.popleft(), source, block)
        finally:
            for _, future in waiting:
                future.cancel()
    whole.read(TextPiece(kept, source), block)


def _apart(whole: Reader, piece: bytes, line: int, block: int) -> Reader | None:
    """A piece by itself, whose first line follows so many others; None where it is not right."""
    reader = whole.beside(line)
    try:
        reader.read(TextPiece(piece), block)
    except BadInput:
        return None
    return reader


def _take(
    whole: Reader, piece: bytes, future: Future[Reader | None], source: Source, block: int
) -> None:
    """Put the next piece behind what is there."""
    reader = future.result()
    if reader is None:
        whole.read(TextPiece(piece), block)
        whole.state[codes.QUERY_LENGTH] = -1
    else:
        whole.take(reader, len(piece), source.share)
