"""The store of clusters with the LTR plugin: feature sets and models in its `_ltr`."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.client.responses import (
    AnswerPart,
    EngineRefusal,
    SearchAnswer,
    check_acknowledged,
    check_refreshed,
    check_written,
    part_of,
)
from owpc_ltr.engine.stores import (
    Absent,
    Search,
    Store,
    is_number,
    keep_featureset,
    keep_model,
    rescorer,
    silent_rescore,
    words_of,
)
from owpc_ltr.engine.stores.feature_queries import check_params
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.features.feature_set import DOC_IDS, FeatureSet
from owpc_ltr.formats.ltr_plugin import export_to_plugin
from owpc_ltr.formats.stored_model import StoredModel, ranker_source, serving_profile
from owpc_ltr.models.linear import AdditiveModel
from owpc_ltr.names import check_name, split_immutable

if TYPE_CHECKING:
    from owpc_ltr.protocols import Model

_LOG = "main"
_QUERY = "logged"
_PAGE = 1000
_LISTED = "took,timed_out,_shards,hits.total,hits.hits._id,hits.hits._source.name"
"""What is wanted of a list: whole models would be megabytes each."""


class LtrPluginStore(Store):
    """A store of the LTR plugin: the default one, or the one called `name`."""

    kind: str = "ltr-plugin"

    def prepare(self) -> None:
        """Make the store if it is not there yet; harmless when it is."""
        try:
            answer = self._engine.request("PUT", self._path())
            check_acknowledged(answer, f"the store {self._path()}")
        except EngineRefusal as refusal:
            if refusal.type != "resource_already_exists_exception":
                raise

    def put_featureset(self, featureset: FeatureSet, *, replace: bool = False) -> None:
        """Keep a feature set; the plugin tries its templates first where it has a validation."""
        path = self._path("_featureset", check_name("feature set", featureset.name))
        if featureset.validation is not None:
            check_params(featureset, featureset.validation["params"])

        def send(method: str) -> None:
            answer = self._engine.request(method, path, body=featureset.to_body())
            done = ("created", "updated") if method == "POST" else ("created",)
            check_written(answer, words, f"featureset-{featureset.name}", *done)

        words = f"the feature set '{featureset.name}'"
        if replace:
            try:
                send("POST")
            except EngineUnavailable:
                # The answer may be all that was lost.
                if self.get_featureset(featureset.name).hash != featureset.hash:
                    raise
        else:
            keep_featureset(self, featureset, lambda: send("PUT"))

    def list_featuresets(self) -> list[str]:
        """Names, sorted."""
        names = self._names("featureset")
        # Sets that were stored beside a model, and are named as it is, are no one else's.
        models = self._names("model") if any(map(split_immutable, names)) else []
        return [name for name in names if name not in models]

    def put_model(self, model: StoredModel) -> None:
        """Keep a model made of the stored feature set; Refused where that set is another one.

        A set that is named as the model is the model's own, and is stored with it.
        """
        if model.featureset.name == model.name:
            self.put_featureset(model.featureset)
        path = self._path("_featureset", check_name("feature set", model.featureset.name))
        body = {"model": {"name": model.name, "model": ranker_source(model)}}

        def create() -> None:
            answer = self._engine.request("POST", f"{path}/_createmodel", body=body)
            check_written(answer, f"the model '{model.name}'", f"model-{model.name}", "created")

        keep_model(self, model, create)

    def delete_model(self, name: str) -> None:
        """Take out a model, and the feature set that is its own."""
        has_own_set = (
            split_immutable(name) is not None and self.get_model(name).featureset.name == name
        )
        self._delete("model", name)
        if has_own_set:
            with suppress(Absent):
                self._delete("featureset", name)

    def log_search(
        self, featureset: FeatureSet, params: dict[str, Any], doc_ids: list[str]
    ) -> Search:
        """A search for these documents in which the plugin logs the features of each."""
        sltr = self._sltr(featureset, {**params, DOC_IDS: doc_ids}) | {"_name": _QUERY}
        body = {
            "size": len(doc_ids),
            "_source": False,
            "track_total_hits": True,
            "query": {"bool": {"filter": [{"ids": {"values": doc_ids}}, {"sltr": sltr}]}},
            "ext": {"ltr_log": {"log_specs": [{"name": _LOG, "named_query": _QUERY}]}},
        }
        return Search(body)

    def export(self, model: Model, featureset: FeatureSet, name: str) -> StoredModel:
        """The model in a format that this version of the engine scores exactly."""
        if isinstance(model, AdditiveModel):
            raise Refused(
                "the LTR plugin has no additive models, and any engine runs them by scripts: push "
                "its feature set (featureset push), and upload it, both with "
                "`store_kind='plugin-free'`"
            )
        identity = self._engine.identity()
        profile = serving_profile(identity.distribution, identity.version)
        return export_to_plugin(model, featureset, name, profile)

    def features_of(self, featureset: FeatureSet, hit: dict[str, Any]) -> list[float]:
        """Feature values of one hit, in order; NaN where the query did not match."""
        logged = _logged(hit)
        if logged is None:
            raise Refused(f"document '{hit.get('_id')}' came without logged features")
        names = tuple(entry.get("name") if isinstance(entry, dict) else None for entry in logged)
        if names != featureset.feature_names:
            raise Refused(
                f"document '{hit.get('_id')}' came with the features {', '.join(map(str, names))}, "
                f"not with those of '{featureset.name}': was the set changed meanwhile?"
            )
        return [_value(entry, hit) for entry in logged]

    def window_log(self, featureset: FeatureSet, params: dict[str, Any], window: int) -> Search:
        """A rescorer that changes no score, whose features the plugin logs."""
        body = {
            "rescore": silent_rescore({"sltr": self._sltr(featureset, params)}, window),
            "ext": {"ltr_log": {"log_specs": [{"name": _LOG, "rescore_index": 0}]}},
        }
        return Search(body)

    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        """One rescore clause: the plugin runs the model."""
        sltr = {
            "model": check_name("model", model.name),
            "params": check_params(model.featureset, params),
            **self._store(),
        }
        return [rescorer({"sltr": sltr}, window, own_weight=0, weight=1)]

    def _sltr(self, featureset: FeatureSet, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "featureset": check_name("feature set", featureset.name),
            "params": check_params(featureset, params),
            **self._store(),
        }

    def _path(self, *parts: str) -> str:
        return "/".join(("/_ltr", *([self.name] if self.name else []), *parts))

    @property
    def _secret(self) -> str:
        """The plugin's own index."""
        return f".ltrstore_{self.name}" if self.name else ".ltrstore"

    def _store(self) -> dict[str, str]:
        return {"store": self.name} if self.name else {}

    def _ask(self, method: str, what: str, name: str) -> Any:
        path = self._path(f"_{what}", check_name(words_of(what), name))
        try:
            return self._engine.request(method, path)
        except EngineRefusal as refusal:
            if refusal.status == 404:
                raise Absent(words_of(what), name, self._place) from refusal
            raise

    def _get(self, what: str, name: str) -> Any:
        answer = self._ask("GET", what, name)
        return part_of(answer, "_source", f"the {words_of(what)} '{name}'")

    def _delete(self, what: str, name: str) -> None:
        answer = self._ask("DELETE", what, name)
        check_written(answer, f"the {words_of(what)} '{name}'", f"{what}-{name}", "deleted")
        # The plugin deletes without a refresh, and its lists are searches: what is gone would be
        # listed for a second more. Where its index is closed to us, it is.
        with suppress(Refused, EngineUnavailable):
            refreshed = self._engine.request("POST", f"/{self._secret}/_refresh")
            check_refreshed(refreshed, f"the refresh of {self._secret}")

    def _names(self, what: str) -> list[str]:
        names: set[str] = set()
        start, total, words = 0, 1, f"its list of {words_of(what)}s"
        while start < total:
            page = {"from": start, "size": _PAGE}
            try:
                answer = self._engine.request(
                    "GET", self._path(f"_{what}"), params={**page, "filter_path": _LISTED}
                )
            except EngineRefusal as refusal:
                if refusal.type != "index_not_found_exception":
                    raise
                return []  # nothing was ever pushed
            listed = SearchAnswer.read(answer, page, words)
            names.update(AnswerPart(hit, words)["_source"]["name"].text for hit in listed.hits)
            total = listed.exact_total()
            start += _PAGE
        return sorted(names)


def _logged(hit: dict[str, Any]) -> list[Any] | None:
    try:
        logged = hit["fields"]["_ltrlog"][0][_LOG]
    except (KeyError, IndexError, TypeError):
        return None
    return logged if isinstance(logged, list) else None


def _value(entry: dict[str, Any], hit: dict[str, Any]) -> float:
    if "value" not in entry:
        return math.nan
    value = entry["value"]
    if value in ("Infinity", "-Infinity"):
        return float(value)
    if not is_number(value):
        raise Refused(
            f"feature '{entry['name']}' of document '{hit.get('_id')}' is {value!r}, which is not "
            "a number: fix its template"
        )
    return float(value)
