"""`models prune`: which models no alias points to or can go back to, and their removal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from owpc_ltr.engine.deployment.aliases import Aliases
from owpc_ltr.engine.deployment.certificates import Certificates
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import BadInput, Refused

_OURS = re.compile(r".+@[0-9a-f]{8}")


def prunable(engine: Engine, store: Store) -> list[str]:
    """Models of ours in the store that no alias points to, pointed to, or may come to point to."""
    used = Aliases(engine).pointed_to()
    return [name for name in store.list_models() if name not in used and _OURS.fullmatch(name)]


def prune(engine: Engine, store: Store, names: Sequence[str]) -> None:
    """Remove these models and their certificates, or none if an alias points to one of them."""
    there = set(store.list_models())
    for name in names:
        if name not in there:
            raise BadInput(f"there is no model '{name}' in the store: type its exact name")
        _check_unused(engine, name)
    certificates = Certificates(engine)
    for name in names:
        # Looked at again: another upload of the same model may have given it a name meanwhile.
        _check_unused(engine, name)
        store.delete_model(name)
        certificates.delete(name)


def _check_unused(engine: Engine, name: str) -> None:
    users = [p.name for p in Aliases(engine).all() if name in p.models]
    if users:
        raise Refused(
            f"'{users[0]}' points to '{name}', or can go back to it: nothing that a name "
            "points to is removed"
        )
