"""Omitted arguments of cluster jobs: inferred where only one value can be meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.stores.store import Store

Progress = Callable[[str, float | None], None]
_OURS = "owpc-ltr"


def the_index(engine: Engine, given: str | None) -> str:
    """The index of this name, or the only one of the cluster that is no store or system index."""
    from owpc_ltr.engine.client.responses import AnswerPart
    from owpc_ltr.names import check_index

    if given is not None:
        return check_index(given)
    answer = engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    listed = AnswerPart(answer, "its list of indices")
    names = [row["index"].text for row in listed]
    own = [name for name in names if not name.startswith((".", _OURS))]
    return only_one(_as_known(engine, own), "index", "--index", engine.settings.url)


def _as_known(engine: Engine, indices: list[str]) -> list[str]:
    """By what names these are known: what was made anew by its alias, what is half filled not."""
    from owpc_ltr.engine.staging_index import indices_behind
    from owpc_ltr.names import base_index

    known = set()
    for index in indices:
        base = base_index(index)
        if base == index or base in indices_behind(engine, index).get(index, {}):
            known.add(base)
    return sorted(known)


def the_featureset(store: Store, given: str | None, wanted_hash: str | None = None) -> str:
    """The feature set of this name, the one with this hash, or the only one of the store."""
    from owpc_ltr.names import check_name

    if given is not None:
        return check_name("feature set", given)
    names = store.list_featuresets()
    if wanted_hash is not None:
        names = [name for name in names if store.get_featureset(name).hash == wanted_hash]
        if not names:
            raise UsageError(
                f"no feature set in the {store.kind} store is the one that the model was trained "
                "on: push it there, or name another with --featureset, or its store with "
                "--store-kind"
            )
        return names[0]
    return only_one(names, "feature set", "--featureset", f"the {store.kind} store")


def only_one(names: Sequence[str], what: str, option: str, where: str) -> str:
    """The only name that there is. Raises UsageError, naming those that there are."""
    if len(names) == 1:
        return names[0]
    found = f"there are {', '.join(names[:8])}" if names else "there is none"
    raise UsageError(f"say which {what} is meant, with {option}: in {where} {found}")


def tables_of(extra_features: Any) -> tuple[ExternalTable, ...]:
    """The tables of `extra_features`; where there are none, what reads them is not imported."""
    if extra_features is None or (isinstance(extra_features, list | tuple) and not extra_features):
        return ()
    from owpc_ltr.data.external_features.reading import read_external_features

    return read_external_features(extra_features)


def silent(_message: str, _done: float | None = None) -> None:
    """Show nothing."""
