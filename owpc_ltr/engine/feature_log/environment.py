"""What feature values depend on besides query and document: engine, index, feature set."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from owpc_ltr.engine.client.engine import about_of_nodes
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import FeatureSet

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import EngineLike
    from owpc_ltr.engine.stores.store import Store


@dataclass(frozen=True)
class Environment:
    """The engine, the index and the feature set at one moment."""

    featureset: FeatureSet
    engine: dict[str, str]
    """`version`, `distribution` and the `store` kind."""
    indices: dict[str, dict[str, str]]
    """The index, or those behind the alias: `uuid`, and `mapping_hash` of fields and analysis."""
    shards: dict[str, int] = field(default_factory=dict)
    """How many shards each of them has."""
    replicated: bool = False
    """Whether shards of one have several copies."""


def observe(engine: EngineLike, store: Store, featureset: str, index: str) -> Environment:
    """The environment now. Raises what the engine and the store raise where one is not there."""
    version, distribution = _running(engine)
    found = _part(engine.request("GET", "/" + quote(index, safe="")))
    if not found:
        raise Refused(f"no index stands behind '{index}'")
    return Environment(
        store.get_featureset(featureset),
        {"version": version, "distribution": distribution, "store": store.kind},
        {name: _identity(found, name) for name in sorted(found)},
        {name: _number(found, name, "number_of_shards", least=1) for name in sorted(found)},
        any(_number(found, name, "number_of_replicas", least=0) > 0 for name in found),
    )


def refuse_drift(before: Environment, now: Environment) -> None:
    """Refused, in words, where the environment is not the same any more."""
    change = (
        _featureset_change(before.featureset, now.featureset)
        or _change("the engine's", before.engine, now.engine)
        or _index_change(before.indices, now.indices)
    )
    if change:
        raise Refused(
            f"{change} while features were logged: values from before and after do not belong "
            "together, so nothing is published; log again with --restart"
        )


def _running(engine: EngineLike) -> tuple[str, str]:
    """The engine's version and distribution."""
    try:
        version = _part(engine.request("GET", "/"), "version")
    except EngineRefusal as refusal:
        about = about_of_nodes(engine, "the engine", refusal)
        return about.version, about.distribution
    # Elasticsearch does not name itself.
    return _text(version, "number"), str(version.get("distribution", "elasticsearch"))


def _identity(found: dict[str, Any], name: str) -> dict[str, str]:
    settings = _part(found, name, "settings", "index")
    # Analysis and similarity decide the scores as much as the fields do.
    decisive = [
        _part(found, name, "mappings"),
        settings.get("analysis"),
        settings.get("similarity"),
    ]
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"uuid": _text(settings, "uuid"), "mapping_hash": digest}


def _number(found: dict[str, Any], name: str, setting: str, *, least: int) -> int:
    number = str(_part(found, name, "settings", "index").get(setting, least))
    return max(int(number), least) if number.isdecimal() else least


def _part(answer: Any, *keys: str) -> dict[str, Any]:
    """An object inside an answer; Refused where there is none: a proxy may answer anything."""
    for key in (None, *keys):
        answer = answer if key is None else answer.get(key)
        if not isinstance(answer, dict):
            raise Refused(f"the engine's answer lacks '{key}': is an engine at this address?")
    return dict(answer)


def _text(answer: dict[str, Any], key: str) -> str:
    if not isinstance(answer.get(key), str):
        raise Refused(f"the engine's answer lacks '{key}': is an engine at this address?")
    return str(answer[key])


def _featureset_change(before: FeatureSet, now: FeatureSet) -> str | None:
    if before.hash == now.hash:
        return None
    old, new = ({f.name: f for f in each.features} for each in (before, now))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    what = ", ".join(f"'{name}'" for name in changed) or "the order of features"
    return f"{what} of the feature set '{before.name}' changed"


def _index_change(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    if before.keys() != now.keys():
        return f"the index changed from {', '.join(before)} to {', '.join(now)}"
    changes = (_change(f"the index '{name}': its", before[name], now[name]) for name in before)
    return next(filter(None, changes), None)


def _change(whose: str, before: dict[str, str], now: dict[str, str]) -> str | None:
    for name, value in before.items():
        if now[name] != value:
            return f"{whose} {name} changed from {value} to {now[name]}"
    return None
