"""Whether the LTR plugin's cache of compiled models has room for a model, and what would fit.

A model larger than the cache is compiled anew for every search, and each time drives all others
out. Trees are the only large models: a node of one, split or leaf, takes 32 bytes, a tree 8 more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.search.capacity import CACHE_SETTING, cache_limit
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.formats.engine_versions import XGBOOST
from owpc_ltr.formats.stored_model import StoredModel

NODE, TREE = 32, 8
USUAL_LIMIT = 10 << 20
"""What the cache holds on a node where nobody set it."""
_ROOM = 0.5
"""The share of the cache that leaves room for another model, as a challenger or the one before."""


@dataclass(frozen=True)
class CompiledTrees:
    """What a forest takes in the cache: `levels` has the number of nodes at each depth."""

    levels: tuple[int, ...]

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return self.levels[0]

    @property
    def depth(self) -> int:
        """How many splits there are, at most, from a root to a leaf."""
        return len(self.levels) - 1

    @property
    def size(self) -> int:
        """Bytes in the cache, of all trees."""
        return self.size_at(self.depth)

    def size_at(self, depth: int) -> int:
        """Bytes of the same trees if they ended at this depth."""
        return NODE * sum(self.levels[: depth + 1]) + TREE * self.trees

    def smaller(self, room: float) -> str:
        """Which smaller models would take no more than this, in words."""
        fewer = int(self.trees * room / self.size)
        depth = max((d for d in range(1, self.depth) if self.size_at(d) <= room), default=0)
        ways = [f"{fewer:,} trees like its {self.trees:,}"] if fewer else []
        ways += [f"as many of depth {depth}"] if depth else []
        return " or ".join(ways)


def check_room(
    engine: Engine, store: Store, stored: StoredModel, *, allow_slow: bool
) -> tuple[str, ...]:
    """What should be known of the room for a model; Refused where there is none for it."""
    compiled = compiled_trees(stored) if store.kind == "ltr-plugin" else None
    if compiled is None:
        return ()
    limit = _limit(engine)
    known = USUAL_LIMIT if limit is None else limit
    if compiled.size <= _ROOM * known:
        return ()
    words = _in_words(stored, compiled, known, told=limit is not None)
    # What nobody knows for certain is no reason to refuse.
    if compiled.size <= known or limit is None:
        return (f"{words}: with another of its size it would be compiled again and again",)
    slow = f"{words}: every search would compile it anew, and drive all other models out"
    if allow_slow:
        return (slow,)
    raise Refused(f"{slow}; raise {CACHE_SETTING}, train a smaller one, or --allow-slow")


def compiled_trees(stored: StoredModel) -> CompiledTrees | None:
    """The trees of a model as the plugin compiles them; None for what takes next to nothing.

    Of RankLib's trees the cache counts nothing.
    """
    if stored.type != XGBOOST:
        return None
    definition: Any = stored.definition
    if isinstance(definition, str):
        definition = json.loads(definition)
    level: list[Any] = definition["splits"] if isinstance(definition, dict) else definition
    levels = []
    while level:
        levels.append(len(level))
        level = [child for node in level for child in node.get("children", ())]
    return CompiledTrees(tuple(levels)) if levels else None


def _limit(engine: Engine) -> int | None:
    try:
        return cache_limit(engine)
    except (EngineRefusal, EngineUnavailable):
        # To ask for settings is a right of its own, which an upload does without.
        return None


def _in_words(stored: StoredModel, compiled: CompiledTrees, limit: int, *, told: bool) -> str:
    whose = "of the engine's cache of models" if told else "of a cache that is as it comes"
    smaller = compiled.smaller(_ROOM * limit)
    instead = f" ({smaller} would leave room)" if smaller else ""
    return (
        f"compiled, '{stored.name}' takes {_megabytes(compiled.size)} of the "
        f"{_megabytes(limit)} {whose}{instead}"
    )


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.3g} MB"
