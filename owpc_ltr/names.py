"""Names of models, stores and indices: checked before they reach a URL; what a mistyped one means.

A model has the name that its upload gave, which is an alias, and a name of its own, NAME-HASH.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence

from owpc_ltr.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}")

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,118}")

_INDEX = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.@-]{0,254}")

_IMMUTABLE = re.compile(r"(.+)-([0-9a-f]{8})")

_BESIDE = re.compile(r"(.+?)(-owpc-ltr-[0-9a-f]{8})+")

_STAGING = re.compile(r".+-owpc-ltr-[0-9a-f]{8}-filling")

_LONGEST_MARKED = 220


def check_name(what: str, name: str) -> str:
    """The name, if it may stand in a URL; `what` says in the message whose name it is.

    Feature sets and models may be called `movies`, `movies-owpc-1f3a9c07` or `v1.2`. Raises
    UsageError.

    >>> check_name("model", "movies-owpc-1f3a9c07")
    'movies-owpc-1f3a9c07'
    """
    if not name:
        raise UsageError(f"a {what} needs a name, and this one is empty")
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError(
            f"{name!r} cannot name a {what}: use up to 128 letters, digits, '_', '-', '@' and "
            f"single dots, a letter or digit first{_suggested(name)}"
        )
    return name


def _suggested(name: str) -> str:
    """The name with dashes for all that cannot stand in one, if that makes a name."""
    plain = re.sub(r"[^a-z0-9_@-]*\.[^a-z0-9_@-]*|[^a-z0-9_@-]+", "-", name.lower()).strip("-_@")
    return f": did you mean {plain}?" if _NAME.fullmatch(plain) else ""


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like a mistyped one, if any is.

    >>> closest("shop-rankr", ["shop-ranker", "movies"]), closest("x", ["movies"])
    ('shop-ranker', None)
    >>> closest("Owcp", ["listnet", "owpc"]), closest("ndcg10", ["map", "ndcg@10"])
    ('owpc', 'ndcg@10')
    """
    from difflib import get_close_matches

    by_lower = {candidate.lower(): candidate for candidate in sorted(set(names) - {name})}
    close = get_close_matches(name.lower(), by_lower, 1, cutoff=0.7)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """The question that ends a message of a mistyped name, or else `otherwise`."""
    close = closest(name, names)
    return otherwise if close is None else f"did you mean '{close}'?"


def check_alias(name: str) -> str:
    """A name that an upload may give: without '@', which comes before an index (live:NAME@INDEX).

    It leaves room for the hash, so that what it is stored under is a name too. Raises UsageError.
    """
    if "@" in name:
        raise UsageError(
            f"{name!r} cannot be given to a model: an '@' comes before an index, as in "
            "live:NAME@INDEX; leave it out"
        )
    if check_name("model", name) and not _ALIAS.fullmatch(name):
        raise UsageError(
            f"{name!r} is too long for a model: use up to 119 characters, as the name that it is "
            "stored under has nine more"
        )
    return name


def immutable(name: str, digest: str) -> str:
    """`NAME-HASH`, a model's own name: only letters, digits, '_' and '-', as every client takes.

    >>> immutable("movies", "3d3573b3")
    'movies-3d3573b3'
    """
    return f"{name.replace('.', '_')}-{digest[:8]}"


def split_immutable(model: str) -> tuple[str, str] | None:
    """The two parts of what looks like a model's own name, NAME-HASH.

    >>> split_immutable("movies-3d3573b3"), split_immutable("movies-v2")
    (('movies', '3d3573b3'), None)
    """
    parts = _IMMUTABLE.fullmatch(model)
    return (parts[1], parts[2]) if parts else None


def is_model_of(name: str, model: str) -> bool:
    """Whether a model's own name is one that uploads as `name` give.

    >>> is_model_of("x", "x-3d3573b3"), is_model_of("x", "x-11111111-3d3573b3")
    (True, False)
    """
    parts = split_immutable(model)
    return parts is not None and parts[0] in {name, name.replace(".", "_")}


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


def index_beside(index: str) -> str:
    """A new name for an index that is to take the place of another: `INDEX-owpc-ltr-HASH`.

    Templates and rights for names that begin with the index's hold for it too.
    """
    return f"{index}-owpc-ltr-{uuid.uuid4().hex[:8]}"


def base_index(index: str) -> str:
    """The name by which an index is known: that of one made beside another is the other's.

    >>> base_index("movies-owpc-ltr-3d3573b3"), base_index("movies")
    ('movies', 'movies')
    """
    parts = _BESIDE.fullmatch(index)
    return parts[1] if parts else index


def staging_mark(index: str) -> str:
    """A new alias that marks a staging index."""
    return f"{index_beside(base_index(index)[:_LONGEST_MARKED])}-filling"


def is_staging_mark(alias: str) -> bool:
    """Whether an alias marks a staging index."""
    return _STAGING.fullmatch(alias) is not None


def only_one(names: Sequence[str], what: str, option: str, where: str) -> str:
    """The only name that there is. Raises UsageError, naming those that there are."""
    if len(names) == 1:
        return names[0]
    choices = f"there are {', '.join(names[:8])}" if names else "there is none"
    raise UsageError(f"say which {what} is meant, with {option}: in {where} {choices}")
