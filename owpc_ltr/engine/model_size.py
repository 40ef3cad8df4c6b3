"""What a model takes of an engine: room in the LTR plugin's cache, and clauses in a query.

A model larger than the plugin's cache of compiled models is compiled again for every search, and
each time evicts all others. Trees are the only large models: a node of one, split or leaf, takes 32
bytes, a tree 8 more.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.stores import Store, cluster_setting, most_clauses
from owpc_ltr.engine.stores.feature_queries import count_clauses, render
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.features.feature_set import MUSTACHE, FeatureSet
from owpc_ltr.formats.ltr_plugin import import_linear
from owpc_ltr.formats.plugin_free import plugin_free_model
from owpc_ltr.formats.stored_model import XGBOOST, StoredModel

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

CACHE_SETTING = "ltr.caches.max_mem"
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
NODE, TREE = 32, 8
USUAL_LIMIT = 10 << 20
"""The size of the cache on a node with default settings."""
_ROOM = 0.5
"""The share of the cache that leaves room for another model, as a challenger or the one before."""


@dataclass(frozen=True)
class Capacity:
    """What a model or feature set takes, and what there is; None where it does not apply.

    `clauses` is the least that the features are in a search without the plugin, `most_clauses` what
    the engine takes (Elasticsearch has no number: it reckons with its heap). The cache is that
    of compiled models on a node with the plugin: all models in use there share it, and one that
    does not fit is compiled again for each search.
    """

    model_bytes: int | None = None
    clauses: int | None = None
    most_clauses: int | None = None
    cache_bytes: int | None = None
    cache_used_bytes: int | None = None
    cached_models: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The capacity as JSON."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """The capacity for people, one sentence a line."""
        lines = []
        if self.model_bytes is not None:
            lines.append(f"the model's definition has {self.model_bytes:,} bytes")
        if self.clauses is not None:
            most = "" if self.most_clauses is None else f"of {self.most_clauses} "
            lines.append(f"its features are at least {self.clauses} {most}clauses")
        if self.cache_used_bytes is not None:
            room = "unknown" if self.cache_bytes is None else f"{self.cache_bytes:,}"
            lines.append(
                f"{self.cached_models} compiled models take {self.cache_used_bytes:,} bytes of the "
                f"engine's cache, over all nodes ({CACHE_SETTING} of one node: {room})"
            )
        return lines


def capacity(
    engine: Engine,
    store: Store,
    featureset: FeatureSet,
    model: StoredModel | None,
    params: dict[str, Any],
) -> Capacity:
    """The size of a model (or of a set's features) for these params, and the room there is."""
    size = None if model is None else len(json.dumps(model.definition, separators=(",", ":")))
    if store.kind == "ltr-plugin":
        return Capacity(size, None, None, cache_limit(engine), *_cache_use(engine))
    used = set(featureset.feature_names) if model is None else used_features(model)
    queries = [
        render(feature.template, params)
        for feature in featureset.features
        if feature.template_language == MUSTACHE and feature.name in used
    ]
    return Capacity(size, count_clauses(queries), most_clauses(engine))


def used_features(model: StoredModel) -> set[str]:
    """The features that a model reads without the plugin: of a linear one, those with a weight."""
    form = plugin_free_model(model)
    if form is not None:
        return set(form.features)
    linear = import_linear(model)
    weights = zip(linear.feature_names, linear.weights, strict=True)
    return {name for name, weight in weights if weight}


def cache_limit(engine: Engine) -> int | None:
    """Bytes that compiled models may take on a node; None where the engine does not say."""
    text = (cluster_setting(engine, CACHE_SETTING) or "").lower()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(b|kb|mb|gb|%)", text)
    if match is None:
        return None
    amount = float(match[1])
    if match[2] != "%":
        return int(amount * _UNITS[match[2]])
    nodes = _within(engine.request("GET", "/_nodes/stats/jvm"), "nodes") or {}
    heaps = [_within(node, "jvm", "mem", "heap_max_in_bytes") for node in nodes.values()]
    sizes = [heap for heap in heaps if isinstance(heap, int)]
    return int(min(sizes) * amount / 100) if sizes else None


def _cache_use(engine: Engine) -> tuple[int | None, int | None]:
    """Bytes and number of the compiled models in the caches of all nodes."""
    try:
        models = _within(engine.request("GET", "/_ltr/_cachestats"), "all", "models")
    except EngineRefusal:
        return None, None
    ram, count = (_within(models, key) for key in ("ram", "count"))
    return (ram, count) if isinstance(ram, int) and isinstance(count, int) else (None, None)


def _within(answer: Json, *keys: str) -> Any:
    """What lies at this place of an answer; None where it has no such place."""
    for key in keys:
        answer = answer.get(key) if isinstance(answer, dict) else None
    return answer


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
    """A warning if a model takes most of the cache; Refused where it does not fit."""
    compiled = compiled_trees(stored) if store.kind == "ltr-plugin" else None
    if compiled is None:
        return ()
    configured = None
    # Reading settings needs a permission of its own, which an upload does not require.
    with suppress(EngineRefusal, EngineUnavailable):
        configured = cache_limit(engine)
    limit = USUAL_LIMIT if configured is None else configured
    if compiled.size <= _ROOM * limit:
        return ()
    cache = "a cache of the default size" if configured is None else "the engine's cache of models"
    smaller = compiled.smaller(_ROOM * limit)
    size = (
        f"compiled, '{stored.name}' takes {_megabytes(compiled.size)} of the {_megabytes(limit)} "
        f"of {cache}{smaller and f' ({smaller} would leave room)'}"
    )
    # A limit that is only assumed is no reason to refuse.
    if compiled.size <= limit or configured is None:
        return (f"{size}: together with another one of its size, every search would compile it",)
    slow = f"{size}: every search would compile it, and evict all other models"
    if allow_slow:
        return (slow,)
    allowed = "`allow_slow`"
    raise Refused(f"{slow}; raise {CACHE_SETTING}, train a smaller model, or give {allowed}")


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


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.3g} MB"
