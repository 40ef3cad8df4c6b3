"""An index in the place of another: filled beside it, and then moved to by its alias.

One request takes the old index away, lets its name and its other aliases mean the new one, and
takes away the mark that says that this is not whole. At no moment does the name mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.half_filled import (
    Aliases,
    HalfFilled,
    half_filled,
    indices_behind,
    mark_of,
)
from owpc_ltr.engine.indexing import IndexReport, Progress, index_documents, merge_segments
from owpc_ltr.errors import Refused
from owpc_ltr.files.json_lines import Document
from owpc_ltr.names import base_index, index_beside


def replace_index(
    engine: Engine,
    name: str,
    documents: Iterable[Document],
    settings: dict[str, Any],
    progress: Progress,
    *,
    merge: bool = True,
) -> IndexReport:
    """Fill an index beside the one that `name` means now, and let it take its place."""
    old = replaceable(name, indices_behind(engine, name))
    remove_left_over(engine, name, progress)
    # An alias on both would show every document twice meanwhile.
    given = settings.get("aliases", {})
    with half_filled(engine, index_beside(name), {**settings, "aliases": {}}) as new:
        report = index_documents(engine, new.index, documents, progress, mark=new.mark)
        if merge:
            progress("merging segments", None)
            merge_segments(engine, new.index)
        progress(f"putting it in the place of '{name}'", None)
        kept = indices_behind(engine, old).get(old, {})
        _swap(new, name, old, {name: {}, **kept, **given})
    return replace(report, index=name)


def replaceable(name: str, there: dict[str, Aliases]) -> str:
    """The index that a name means, if it is one, and the name is its own or was given to it here.

    Raises Refused for an alias of somebody else's index, or of several.
    """
    if [*there] != [name] and [base_index(index) for index in there] != [name]:
        raise Refused(
            f"'{name}' is an alias of {', '.join(there)}, which is not made anew: name the index "
            "itself"
        )
    return next(iter(there))


def remove_left_over(engine: Engine, name: str, progress: Progress) -> None:
    """Take away what runs that were stopped have left beside an index; of others, the latest wins.

    A run that still goes on notices by its mark, and stops.
    """
    found = indices_behind(engine, f"{name}-owpc-ltr-%2A")
    for index, aliases in found.items():
        mark = mark_of(aliases)
        if base_index(index) == name and index != name and mark is not None:
            progress(f"taking away '{index}', which was left half filled", None)
            HalfFilled(engine, index, mark).give_up()


def _swap(new: HalfFilled, name: str, old: str, aliases: Aliases) -> None:
    added = [
        {"add": {"index": new.index, "alias": alias, **properties}}
        for alias, properties in aliases.items()
        if alias == name or mark_of({alias: {}}) is None
    ]
    new.finish({"remove_index": {"index": old}}, *added)
