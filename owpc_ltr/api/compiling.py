"""Who is told while loops are compiled, and whether what was compiled is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from owpc_ltr.compiling.work import WORK, Listener


@contextmanager
def compiling_told(slow: Callable[[], None], lost: Callable[[], None]) -> Iterator[None]:
    """Within the block `slow` is called once compiling takes a while; at its end `lost`, once.

    `lost` is called where nothing of what was compiled could be kept for the next process.
    """
    with WORK.listening(Listener(slow=slow)):
        try:
            yield
        finally:
            if not WORK.kept:
                lost()
