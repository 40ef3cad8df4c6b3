"""What decides the bits of a sum: the versions of what reckons it, the same on all machines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from owpc_ltr.errors import Refused
from owpc_ltr.version import VERSION

_RECKONING = ("numpy", "numba", "pyarrow")


def versions() -> dict[str, str]:
    """The versions of this process."""
    return {
        "owpc-ltr": VERSION,
        "Python": ".".join(map(str, sys.version_info[:2])),
        **{name: _version(name) for name in _RECKONING},
    }


def check_versions(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Refuse a process in which anything is of another version than where the command runs."""
    for name, one in wanted.items():
        other = found.get(name, "none")
        if one != other:
            raise Refused(
                f"it has {name} {other}, and the command has {one}: install the same on all "
                "machines, for another version may give other models"
            )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
