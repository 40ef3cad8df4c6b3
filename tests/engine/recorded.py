"""Recorded exchanges with the LTR plugin: read, replayed, and what their refusals must say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from owpc_ltr.features.feature_set import FeatureSet, parse_featureset
from owpc_ltr.formats.ltr_plugin import export_linear, import_linear
from owpc_ltr.formats.ranklib import from_ranklib, to_ranklib
from owpc_ltr.formats.stored_model import LINEAR, RANKLIB, XGBOOST, StoredModel, serving_profile
from owpc_ltr.formats.xgboost_json import from_dump, from_raw, to_dump
from owpc_ltr.models.trees import TreeModel
from tests.engine.fake_engine import Asked, FakeEngine, Reply

# Every recorded "no", and the words by which a reader knows what is wrong or what to do.
REFUSALS = {
    "002": "not there",
    "004": "`owpc-ltr featureset push` makes it",
    "006": "already exists",
    "008": "must not start with",
    "009": "must be lowercase",
    "010": "not yet supported",
    "015": "already exists",
    "019": "not there",
    "021": "expected [f2] but got [title_bm25]",
    "022": "[template] is mandatory",
    "023": "unknown field [foo]",
    "024": "Unexpected end-of-input",
    "025": "Missing content",
    "026": "expected [f2] but got [fs1]",
    "030": "already exists",
    "033": "not there",
    "035": "give one of them another name",
    "037": "[tag]",
    "038": "fix this feature's template",
    "040": "check the name of the index",
    "041": "unexpected token",
    "042": "features of its set and its own params",
    "047": "give one of them another name",
    "049": "none provided",
    "057": "[zzz]",
    "058": "[tag]",
    "059": "[params] is mandatory",
    "061": "check the name of the feature set",
    "062": "the store is not there",
    "064": "[zzz]",
    "065": "out of bounds",
    "066": "must be set",
    "068": "must be set",
    "069": "check the name of the model",
    "070": "fix this feature's template",
    "080": "[nosuch]",
    "081": "Expected a float",
    "082": "'NaN'",
    "083": "Expected start object",
    "084": "take another one",
    "085": "[model/lightgbm]",
    "086": "nosuch not found",
    "087": "[robust]",
    "088": "a minimum of 0 or more",
    "089": "a standard deviation above 0",
    "090": "a larger maximum",
    "091": "push it first",
    "092": "[model.type] is mandatory",
    "093": "[model.definition] is mandatory",
    "094": "[model]",
    "095": "modelName must be set",
    "097": "give every parameter",
    "099": "take another one",
    "121": "[reg:squarederror]",
    "122": "[reg:squarederror]",
    "139": "[gain]",
    "140": "[int]",
    "143": "fix the model file",
    "144": "[f0]",
    "145": "same length",
    "146": "[title_bm25_z]",
    "147": "[zzz]",
    "160": "fix the model file",
    "163": "[c]",
    "173": "at lease one tree",
    "174": "required fields",
    "175": "[reg:gamma]",
    "176": "[splits]",
    "177": "Cannot parse model",
    "178": "[START_ARRAY]",
    "179": "[learner]",
    "190": "fix the model file",
    "191": "fix the model file",
    "193": "fid=99",
    "201": "[tag]",
    "203": "use a smaller window",
    "215": "check the name of the model",
    "217": "not there",
    "220": "must not start with",
    "223": "[zzz]",
    "229": "`store_kind='plugin-free'`",
    "230": "`store_kind='plugin-free'`",
    "233": "not there",
    "234": "check the name of the model",
    "240": "the store is not there",
}


@dataclass(frozen=True)
class Exchange:
    """One recorded request and its answer."""

    method: str
    path: str
    params: dict[str, Any]
    body: Any
    status: int
    answer: Any


@dataclass
class Replay:
    """A server that knows only some recorded exchanges, each request as it was recorded."""

    fake: FakeEngine
    exchanges: list[Exchange] = field(default_factory=list)
    unexpected: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Reply:
        # Lists are asked for in pages, and without the bodies of what they list.
        params = asked.params.keys() - {"from", "size", "filter_path"}
        for exchange in self.exchanges:
            if (
                (asked.method, asked.path) == (exchange.method, exchange.path)
                and plain(asked.body) == plain(exchange.body)
                and params == exchange.params.keys() - {"from", "size"}
            ):
                return Reply(exchange.answer, exchange.status)
        self.unexpected.append(asked)
        return Reply({"error": f"not a recorded request: {asked}"}, 400)


def load_exchanges(folder: Path) -> dict[str, Exchange]:
    """The recorded exchanges by number."""
    exchanges = {}
    for path in sorted(folder.glob("[0-9]*.json")):
        content = json.loads(path.read_text())
        request, response = content["request"], content["response"]
        exchanges[path.name[:3]] = Exchange(
            request["method"],
            request["path"],
            request.get("params") or {},
            request.get("body"),
            response["status"],
            response["body"],
        )
    return exchanges


def plain(body: Any) -> Any:
    """A body in which what may be left out is there."""
    if isinstance(body, dict) and "featureset" in body and "features" in body["featureset"]:
        featureset = {"name": None, **body["featureset"]}
        featureset["features"] = [
            {"params": [], "template_language": "mustache", **feature}
            for feature in featureset["features"]
        ]
        return {**body, "featureset": featureset}
    return body


def featureset_of(exchange: Exchange, name: str | None = None) -> FeatureSet:
    return parse_featureset(exchange.body, "recorded", name=name)


def with_name(exchange: Exchange, name: str) -> Exchange:
    """The exchange as it is with the set's name in its body too, which is optional there."""
    body = {**exchange.body, "featureset": {**exchange.body["featureset"], "name": name}}
    return Exchange(
        exchange.method, exchange.path, exchange.params, body, exchange.status, exchange.answer
    )


def stored(protocol: dict[str, Exchange], number: str) -> StoredModel:
    """The model of a recorded creation."""
    model = protocol[number].body["model"]
    ranker = model["model"]
    return StoredModel(
        model["name"],
        ranker["type"],
        ranker["definition"],
        featureset_of(protocol["029"]),
        ranker.get("feature_normalizers", {}),
    )


def answer_of_model(protocol: dict[str, Exchange], model: StoredModel) -> Exchange:
    """What the plugin answers when a model is read back, in the form of the recorded 216."""
    answer = json.loads(json.dumps(protocol["216"].answer))
    ranker = {"type": model.type, "definition": model.definition}
    if model.feature_normalizers:
        ranker["feature_normalizers"] = model.feature_normalizers
    answer["_source"]["name"] = answer["_source"]["model"]["name"] = model.name
    answer["_source"]["model"]["model"] = ranker
    return Exchange("GET", f"/_ltr/_model/{model.name}", {}, None, 200, answer)


PROFILE = replace(serving_profile("opensearch", "3.8.0"), missing_as_zero=True)
SETS = {"fs1": "029", "fs2": "044", "fsnan": "205"}


@dataclass(frozen=True)
class Recorded:
    """A creation: its number, the model as it would lie in a store, whether it was taken."""

    number: str
    model: StoredModel
    taken: bool


def creations(exchanges: dict[str, Exchange]) -> Iterator[Recorded]:
    """Every creation that states a type and a definition, in order."""
    for number, exchange in exchanges.items():
        match = re.search(r"/_featureset/(\w+)/_createmodel|/_model/(direct)$", exchange.path)
        body = exchange.body
        if isinstance(body, str) and body.startswith('{"model"'):
            body = json.loads(body)
        made = body.get("model", {}) if isinstance(body, dict) else {}
        ranker = made.get("model") if isinstance(made, dict) else None
        if match is None or not isinstance(ranker, dict) or exchange.method == "DELETE":
            continue
        if not {"type", "definition"} <= ranker.keys():
            continue
        if match[1]:
            recorded = exchanges[SETS.get(match[1], "029")].body
            featureset = parse_featureset(recorded, "recorded", name=match[1])
        else:
            featureset = parse_featureset({"featureset": made["feature_set"]}, "recorded")
        normalisers = ranker.get("feature_normalizers", {})
        stored = StoredModel(
            str(made.get("name")), ranker["type"], ranker["definition"], featureset, normalisers
        )
        yield Recorded(number, stored, exchange.status == 201)


def scores_of(exchange: Exchange) -> dict[str, float]:
    """The model's own scores in an answer, of each document."""
    hits = exchange.answer["hits"]["hits"]
    if exchange.body.get("rescore") is None and "should" in str(exchange.body["query"]):
        return {hit["_id"]: hit["matched_queries"]["m"] for hit in hits}
    return {hit["_id"]: hit["_score"] for hit in hits}


def written_here(stored: StoredModel) -> bool:
    """Whether the model is of a form that we write."""
    text = str(stored.definition)
    return stored.type in {LINEAR, XGBOOST} or (stored.type == RANKLIB and "LambdaMART" in text)


def our_own(stored: StoredModel) -> Any:
    """The recorded model as one of ours."""
    names, definition = stored.featureset.feature_names, stored.definition
    if stored.type == RANKLIB:
        return from_ranklib(definition, names)
    if stored.type == LINEAR:
        return import_linear(stored)
    content = json.loads(definition) if isinstance(definition, str) else definition
    if stored.type == XGBOOST:
        return from_dump(content, names)
    return from_raw(content, slice_best=False)


def exports(stored: StoredModel, model: Any) -> dict[str, Any]:
    """The model in every format that we write it in."""
    names = stored.featureset.feature_names
    if stored.type == LINEAR:
        return {LINEAR: export_linear(model, stored.featureset, "m").definition}
    if not isinstance(model, TreeModel):
        return {}
    definitions: dict[str, Any] = {XGBOOST: to_dump(model, names, PROFILE)}
    if stored.type == RANKLIB:
        definitions[RANKLIB] = to_ranklib(model, names, PROFILE)
    return definitions


def exported(models: list[Recorded]) -> Iterator[tuple[StoredModel, Any, str, Any]]:
    """Each recorded model that was taken, as ours, and what we write for it in each format."""
    for each in models:
        stored = each.model
        # Only linear models of ours keep normalisers.
        kept = stored.type == LINEAR or not stored.feature_normalizers
        if each.taken and kept and each.number != "192":
            model = our_own(stored)
            for model_type, definition in exports(stored, model).items():
                yield stored, model, model_type, definition
