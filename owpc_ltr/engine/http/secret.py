"""Passwords and keys as text that is sent and never shown: `Secret`."""

from __future__ import annotations


class Secret(str):
    """A password, a key, or a header that carries one: its repr does not tell it.

    >>> Secret("s3cret")
    '***'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"
