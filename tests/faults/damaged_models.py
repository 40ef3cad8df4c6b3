"""Sound model files of every kind that is read, and faults of every kind in them."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import numpy as np
import xgboost
from owpc_ltr_rerankers.exchangeable import Exchangeable, ExchangeableReordering, ReorderingShape

from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.ranklib import to_ranklib
from owpc_ltr.formats.stored_model import LINEAR, RANKLIB, XGBOOST, XGBOOST_RAW, serving_profile
from owpc_ltr.formats.xgboost_json import from_raw, to_dump
from owpc_ltr.models.combined import AverageModel, ReorderingModel
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import FORMAT, content_of
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import RankingModel

NAMES = ("a", "b", "c")
ENGINE = serving_profile("opensearch", "3.8.0")
RECORD: dict[str, Any] = {
    "imported": {"format": "lightgbm", "file": "m.txt", "missing": "zero", "notes": ["x"]},
    "source": {"data": "d", "split": {"seed": 1}},
    "fingerprint": "f",
    "probes": [],
}
FEATURES = [{"name": name, "params": [], "template": {"match_all": {}}} for name in NAMES]


def sound_files() -> dict[str, bytes]:
    """Each kind with a file of it that is read as it is."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    matrix = xgboost.DMatrix(rows, rows[:, 0] * rows[:, 1], feature_names=list(NAMES))
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, matrix, 3)
    trees = from_raw(json.loads(booster.save_raw("json"))).with_missing_as_zero()
    normalised = {"a": Normaliser("standard", 0.5, 2.0), "b": Normaliser("min_max", 0.0, 4.0)}
    linear = LinearModel(NAMES, np.array([1.0, -0.5, 0.25]), normalised, RECORD)
    layers = (Layer(np.ones((2, 3)), np.ones(2)), Layer(np.ones((1, 2)), np.ones(1)))
    network = LogisticNetwork(NAMES, layers, RECORD)
    texts = {**_ours(linear, trees, network), **_foreign(trees, network, booster)}
    contents = {kind: text.encode() for kind, text in texts.items()}
    return contents | {"xgboost binary": bytes(booster.save_raw("ubj"))}


def _ours(linear: LinearModel, trees: TreeModel, network: LogisticNetwork) -> dict[str, str]:
    tangents = NetworkModel(NAMES, np.ones((2, 3)), np.ones(2), np.ones(2), RECORD)
    average = AverageModel(NAMES, (linear, trees), np.array([0.5, 0.5]), RECORD)
    learned = ExchangeableReordering(
        NAMES, ReorderingShape("cosine,rbf"), np.ones((1, 2)), np.ones(1)
    )
    rankers: dict[str, RankingModel] = {
        "linear": linear,
        "trees": trees,
        "logistic network": network,
        "network": tangents,
        "average": average,
        "reordering": ReorderingModel(linear, Exchangeable.name, learned, RECORD),
        "no reordering": ReorderingModel(trees, "any", None, RECORD),
    }
    return {
        f"ours: {kind}": json.dumps({"format": FORMAT, "version": 1, **content_of(ranker)})
        for kind, ranker in rankers.items()
    }


def _foreign(trees: TreeModel, network: LogisticNetwork, booster: Any) -> dict[str, str]:
    dump, raw = to_dump(trees, NAMES, ENGINE), bytes(booster.save_raw("json")).decode()
    ensemble = to_ranklib(trees, NAMES, ENGINE)
    return {
        "xgboost": raw,
        "dump": f"[{','.join(booster.get_dump(dump_format='json'))}]",
        "dump with an objective": json.dumps(dump),
        "lightgbm": LIGHTGBM,
        "ranklib trees": ensemble,
        "ranklib network": to_ranklib(network, NAMES, ENGINE),
        "ranklib stumps": "## RankBoost\n1:0.5:1.5 2:-0.25:0.5",
        "ranklib sum": "## Linear Regression\n0:1.5 1:0.5 3:-2.5E-1",
        "plugin linear": _stored(LINEAR, json.dumps({"a": 0.5, "b": -1.25, "c": 3})),
        "plugin dump": _stored(XGBOOST, json.dumps(dump)),
        "plugin raw": _stored(XGBOOST_RAW, raw),
        "plugin ranklib": _stored(RANKLIB, ensemble),
    }


def _stored(kind: str, definition: str) -> str:
    """As `GET _ltr/_model/NAME` answers."""
    inner: dict[str, Any] = {"type": kind, "definition": definition}
    if kind == LINEAR:
        standard = {"mean": 0.5, "standard_deviation": 2.0}
        inner["feature_normalizers"] = {"a": {"standard": standard}}
    model = {"name": "m", "feature_set": {"name": "f", "features": FEATURES}, "model": inner}
    return json.dumps({"_source": {"name": "m", "type": "model", "model": model}})


HUGE = 10**400
VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, "", "x", 0, 1, -1, 2, 0.5, -0.0, 1e308, 1e39, -1e-320, 2**31),
    *(2**63, 10**30, HUGE, -HUGE, float("nan"), float("inf"), [[]], [{}], {"a": None}, ["x"], "1"),
    *("a\x1b[31m\n", "\ud800", "\u202e", "0x1", "9" * 400, "1e999", [0] * 50, "-", {"kind": []}),
    *("linear", "trees", "average", "reordering", "standard", "model/linear", "a", "b", "\x00"),
)
DEEP = ("[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 300)
PLACE = "@@deep@@"


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The file with a fault, of its bytes, of its text or of its JSON."""
    way = chance.randrange(5)
    if way == 0:
        return _bytes_changed(content, chance)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _bytes_changed(content, chance)
    if way == 1:
        return mutant(text, chance).encode("utf-8", "surrogatepass")
    try:
        tree = json.loads(text)
    except ValueError:
        return mutant(text, chance).encode("utf-8", "surrogatepass")
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        tree = _changed(tree, chance)
    written = json.dumps(tree, ensure_ascii=chance.random() < 0.5)
    return written.replace(f'"{PLACE}"', chance.choice(DEEP)).encode("utf-8", "surrogatepass")


def _bytes_changed(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice((1, 1, 4, 50, 1000)))
        way = chance.randrange(5)
        if way == 0:
            del changed[start:end]
        elif way == 1:
            changed[start:start] = changed[start:end]
        elif way == 2:
            changed[start:end] = chance.randbytes(end - start)
        elif way == 3:
            del changed[start:]
        elif start < len(changed):
            changed[start] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _changed(tree: Any, chance: random.Random) -> Any:
    """A JSON value with one place of it changed; texts that hold JSON are looked into."""
    places = list(_places(tree))
    if not places or chance.random() < 0.01:
        return chance.choice(VALUES)
    holder, key = chance.choice(places)
    way, value = chance.randrange(8), holder[key]
    if way == 0:
        del holder[key]
    elif way == 1:
        holder[key] = PLACE
    elif way == 2:
        other, its_key = chance.choice(places)
        holder[key] = json.loads(json.dumps(other[its_key]))
    elif way == 3 and isinstance(holder, list):
        holder.insert(key, chance.choice(VALUES))
    elif way == 4 and isinstance(holder, dict):
        holder[str(chance.choice(VALUES))] = holder.pop(key)
    elif isinstance(value, str) and value[:1] in {"{", "["} and chance.random() < 0.9:
        holder[key] = json.dumps(_changed(json.loads(value), chance))
    elif type(value) in {int, float} and way == 5:
        factor = chance.choice((-1, 1e30, 1e-30, 1e300, 0.5, 3))
        holder[key] = value * factor if abs(value) < 1e300 else -value
    else:
        holder[key] = json.loads(json.dumps(chance.choice(VALUES)))
    return tree


def _places(tree: Any) -> Any:
    keys: Any = ()
    if isinstance(tree, dict):
        keys = list(tree)
    elif isinstance(tree, list):
        keys = range(len(tree))
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


FEATURE_SET = FeatureSet("f", tuple(Feature(name, (), {"match_all": {}}) for name in NAMES))


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NASTY = (
    *("-1", "0", "1", "2", "-0.0", "1e39", "-1e999", "1e400", "NaN", "Infinity", "-Infinity"),
    *("2147483648", "-2147483649", "9" * 30, "0.5", "1e-46", "null", "true", '"x"', "[]", "{}"),
    *("[[]]", "", " ", "0x1", "1_0", "٣", "inf", "1:2", "\x00", "</split>", "&amp;", "\n"),
)
LIGHTGBM = """tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=2
objective=lambdarank
feature_names=a b c

Tree=0
num_leaves=4
num_cat=0
split_feature=0 1 2
threshold=0.5 1.0000000180025095e-35 -0.25
decision_type=10 6 0
left_child=1 -1 -2
right_child=2 -3 -4
leaf_value=0.1 -0.2 0.3 0.4
is_linear=0

Tree=1
num_leaves=1
leaf_value=0.125

end of trees
"""


def mutant(text: str, chance: random.Random) -> str:
    """The text with one to three faults."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        numbers = list(NUMBER.finditer(text))
        kind = chance.randrange(7)
        if kind <= 2 and numbers:
            hit = chance.choice(numbers)
            value = chance.choice((*NASTY, chance.choice(numbers)[0], str(chance.randrange(20))))
            text = text[: hit.start()] + value + text[hit.end() :]
            continue
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((1, 2, 5, 20, 100)))
        if kind == 3:
            text = text[:start] + text[end:]
        elif kind == 4:
            text = text[:end] + text[start:]
        elif kind == 5:
            text = text[:start] + chance.choice(NASTY) + text[start:]
        else:
            place = chance.randrange(len(text) + 1)
            text = text[:place] + text[start:end] + text[place:]
    return text
