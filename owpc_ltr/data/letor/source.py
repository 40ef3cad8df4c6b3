"""Source: where a reader takes bytes from: an opened file, or a piece of its text."""

from __future__ import annotations

from typing import Protocol


class Source(Protocol):
    """Bytes one after another, and how many of them were taken."""

    @property
    def taken(self) -> int:
        """Bytes that were read."""
        ...

    @property
    def share(self) -> float:
        """The share of all bytes that was read, above 0."""
        ...

    def readinto(self, buffer: memoryview) -> int:
        """Fill as much of the buffer as there is; 0 at the end."""
        ...
