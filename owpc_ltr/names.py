"""Names that reach a URL, checked before they do: none can become another path or a wildcard."""

from __future__ import annotations

import re

from owpc_ltr.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}")
_INDEX = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.@-]{0,254}")


def check_name(what: str, name: str) -> str:
    """The name, if it may stand in a URL; `what` says in the message whose name it is.

    Feature sets and models may be called `movies`, `movies-owpc@1f3a9c` or `v1.2`. Raises
    UsageError.

    >>> check_name("model", "movies-owpc@1f3a9c")
    'movies-owpc@1f3a9c'
    """
    if not name:
        raise UsageError(f"a {what} needs a name, and this one is empty")
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError(
            f"{name!r} cannot name a {what}: use up to 128 letters, digits, '_', '-', '@' and "
            "single dots, a letter or digit first"
        )
    return name


def check_store(name: str) -> str:
    """The name of a store, which becomes part of an index's name: in lower case."""
    if check_name("store", name) != name.lower():
        raise UsageError(f"{name!r} cannot name a store: engines want it in lower case")
    return name


def check_index(name: str) -> str:
    """The name of one index or alias: no pattern, no list of several."""
    if not name:
        raise UsageError("an index needs a name, and this one is empty")
    if not _INDEX.fullmatch(name) or ".." in name or name == ".":
        raise UsageError(
            f"{name!r} cannot name an index or alias: no wildcards, lists, spaces or paths; it "
            "begins with a letter, a digit or a dot"
        )
    return name
