"""Versions: this one, as records and `--version` give it, and the numbers of any other."""

from __future__ import annotations

import re

from owpc_ltr.errors import UsageError

VERSION = "0.1.0"

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """The numbers of a version; what follows - or + does not count. Raises UsageError.

    >>> parse_version("3.8.0-SNAPSHOT")
    (3, 8, 0)
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6}){0,3})(?:[-+].*)?", text)
    if match is None:
        raise UsageError(f"{text[:40]!r} is not a version like 3.8.0")
    return tuple(int(part) for part in match[1].split("."))


def version_text(version: Version) -> str:
    """The numbers of a version as engines write them."""
    return ".".join(map(str, version))
