"""The store of clusters without the LTR plugin: feature sets and models in an index of ours.

Features are named queries of one search, whose scores the engine returns; linear models are a
few rescorers, sums of them. Both give what the plugin would, bit for bit or in the last one. Other
models that fit are one rescorer of scripts over the features' queries.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.client.engine import About, Engine
from owpc_ltr.engine.client.responses import (
    EngineRefusal,
    NoSuchIndex,
    NotAllowed,
    SearchAnswer,
    cause,
    check_complete,
    one_line,
    part_of,
    unexpected_answer,
)
from owpc_ltr.engine.stores import (
    USUAL_CLAUSES,
    Absent,
    Search,
    Store,
    check_window,
    check_window_scores,
    is_number,
    keep_featureset,
    keep_model,
    most_clauses,
    rescorer,
    silent_rescore,
    words_of,
)
from owpc_ltr.engine.stores.feature_queries import (
    CompiledSet,
    check_clauses,
    check_params,
    compile_featureset,
    count_clauses,
    linear_rescorers,
    named,
)
from owpc_ltr.engine.versioned_documents import VersionedDocuments
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import DOC_IDS, FeatureSet
from owpc_ltr.formats.ltr_plugin import export_linear, import_linear
from owpc_ltr.formats.plugin_free import plugin_free_model, store_plugin_free
from owpc_ltr.formats.stored_model import (
    StoredModel,
    client_model,
    is_client_scored,
    model_source,
    store_for_client,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.names import check_index, check_name

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json
    from owpc_ltr.protocols import Model

_KEPT = 16
"""Sets, and parts of sets that models look at, which are kept ready."""
_FLOATS = frozenset((float,))
_MISSING = repeat(math.nan)


INDEX = "owpc-ltr-store"
_PAGE = 1000
_BODY = {
    "settings": {"index": {"number_of_shards": 1, "auto_expand_replicas": "0-1", "hidden": True}},
    "mappings": {
        "_meta": {"owner": "owpc-ltr", "format": 1},
        "dynamic": "strict",
        "properties": {
            "name": {"type": "keyword"},
            "type": {"type": "keyword"},
            "featureset": {"type": "object", "enabled": False},
            "model": {"type": "object", "enabled": False},
        },
    },
}


class PluginFreeStore(Store):
    """A store in the index `owpc-ltr-store`, or `owpc-ltr-store-NAME`.

    Its documents are those of the plugin's own index, so that a set or model can be moved
    between the two with curl.
    """

    kind: str = "plugin-free"

    def __init__(self, engine: Engine, name: str | None = None, about: About | None = None) -> None:
        super().__init__(engine, name)
        if about is not None:
            self.about = about
        self._index = INDEX if name is None else f"{INDEX}-{name}"
        self._documents = {
            what: VersionedDocuments(
                engine,
                f"the {words_of(what)}",
                f"{what}-",
                named=words_of(what),
                index=self._index,
                body=_BODY,
            )
            for what in ("featureset", "model")
        }
        self._compiled: dict[tuple[int, frozenset[str] | None], CompiledSet] = {}

    def prepare(self) -> None:
        """Make the index if it is not there yet. Refused where the name is somebody else's."""
        if self._documents["model"].prepare():
            return
        if not _is_ours(self._engine.request("GET", f"/{self._index}/_mapping")):
            raise Refused(
                f"the index {self._index} is not a store of owpc-ltr: use another `store`"
            )

    def put_featureset(self, featureset: FeatureSet, *, replace: bool = False) -> None:
        """Keep a feature set, after trying every template on its validation index."""
        check_name("feature set", featureset.name)
        compiled = compile_featureset(featureset)
        self.prepare()
        if featureset.validation is not None:
            self._try(compiled, featureset.validation)
        name, documents = featureset.name, self._documents["featureset"]
        content = _content("featureset", name, featureset.to_body()["featureset"])
        if replace:
            documents.replace(name, content, documents.read(name))
        else:
            keep_featureset(self, featureset, lambda: documents.create(name, content))

    def put_model(self, model: StoredModel) -> None:
        """Keep a model that the engine runs, or the client, whose feature set is in the store."""
        if is_client_scored(model):
            client_model(model)
        elif plugin_free_model(model) is None:
            import_linear(model)
        self.prepare()
        content = _content("model", model.name, model_source(model))
        keep_model(self, model, lambda: self._documents["model"].create(model.name, content))

    def log_search(
        self, featureset: FeatureSet, params: dict[str, Any], doc_ids: list[str]
    ) -> Search:
        """A search for these documents in which every feature is a named query."""
        should = self._named(featureset, {**params, DOC_IDS: doc_ids})
        body = {
            "size": len(doc_ids),
            "_source": False,
            # A named range misses matches where the engine may stop counting hits (3.8.0).
            "track_total_hits": True,
            # Under constant_score nothing is scored twice: only the named queries are, for hits.
            "query": {
                "constant_score": {
                    "filter": {"bool": {"filter": [{"ids": {"values": doc_ids}}], "should": should}}
                }
            },
        }
        # In the body or a header the flag is not looked at.
        return Search(body, {"include_named_queries_score": "true"})

    def export(self, model: Model, featureset: FeatureSet, name: str) -> StoredModel:
        """The model as rescorers of this engine; for the client where none can be made of it."""
        if isinstance(model, LinearModel):
            return export_linear(model, featureset, name)
        try:
            return store_plugin_free(model, featureset, name)
        except Refused:
            return store_for_client(model, featureset, name)

    def features_of(self, featureset: FeatureSet, hit: dict[str, Any]) -> list[float]:
        """Feature values of one hit, in order; NaN where the query did not match.

        Derived features come from those before them, with 0 for what did not match.
        """
        scores = hit.get("matched_queries", {})
        if not isinstance(scores, dict):
            raise Refused(
                "the engine names the matching queries without their scores: without the LTR "
                "plugin that needs OpenSearch 2.13 or Elasticsearch 8.8 or later"
            )
        compiled = self._compile(featureset)
        if not compiled.names.issuperset(scores):
            other = min(scores.keys() - compiled.names)
            raise Refused(
                f"document '{hit.get('_id')}' came with '{other}', which is not a feature of "
                f"'{featureset.name}'"
            )
        # Hundreds of hits are read in a search: mostly all scores are floats.
        if not _FLOATS.issuperset(map(type, scores.values())):
            for name, score in scores.items():
                if not is_number(score):
                    raise Refused(
                        f"feature '{name}' of document '{hit.get('_id')}' is "
                        f"{one_line(str(score)[:60])!r}, which is not a number: fix its template"
                    )
        if compiled.derived:
            scores = compiled.with_derived(scores)
        return list(map(scores.get, featureset.feature_names, _MISSING))

    def window_log(self, featureset: FeatureSet, params: dict[str, Any], window: int) -> Search:
        """Every feature as a named query of a rescorer that changes no score.

        Raises NoWindowScores for an engine that returns nothing of it, or whose version the account
        may not ask for, and for a feature that needs the ids of the hits.
        """
        check_window_scores(self.about)
        queries = self._named(featureset, params)
        body = {
            "rescore": silent_rescore({"bool": {"should": queries}}, window),
            "track_total_hits": True,
        }
        return Search(body, {"include_named_queries_score": "true"})

    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        """A few rescorers, sums over features with a weight, that add up to the model's score.

        Sums are float32, like every score in an engine. A model that is no linear one is a single
        rescorer, whose scores are a constant above the model's (see `PluginFreeModel`). Raises
        Refused for a model or feature that needs the plugin.
        """
        form = plugin_free_model(model)
        if form is not None:
            clause = form.query(self._queries(model, params, set(form.features)))
            self._check_clauses(count_clauses([clause]), model.featureset.name)
            return [rescorer(clause, window, own_weight=0.0, weight=1.0, score_mode="total")]
        linear = import_linear(model)
        weighed = {n for n, w in zip(linear.feature_names, linear.weights, strict=True) if w}
        queries = self._queries(model, params, weighed)
        self._check_clauses(count_clauses(list(queries.values())), model.featureset.name)
        texts = [value for value in params.values() if isinstance(value, str)]
        words = max((len(text.split()) for text in texts), default=1)
        return linear_rescorers(linear, queries, check_window(window), words)

    def _queries(
        self, model: StoredModel, params: dict[str, Any], names: set[str]
    ) -> dict[str, dict[str, Any]]:
        """The queries of these features of a model, by name."""
        declared = check_params(model.featureset, params)
        compiled = self._compile(model.featureset, frozenset(names))
        if compiled.derived:
            raise Refused(
                f"feature '{compiled.derived[0].name}' is derived from others, which only the LTR "
                "plugin can do inside a search: train without it, let the client score "
                "(`client_scored`), or use a cluster with the plugin"
            )
        return {part.name: part.query(declared) for part in compiled.queries}

    def _named(self, featureset: FeatureSet, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Each feature as a query that gives its score under the feature's name."""
        declared = check_params(featureset, params)
        compiled = self._compile(featureset)
        queries = [named(part.query(declared), part.name) for part in compiled.queries]
        leaves = count_clauses(queries) if compiled.leaves is None else compiled.leaves
        self._check_clauses(leaves, featureset.name)
        return queries

    def _check_clauses(self, leaves: int, featureset: str) -> None:
        """Refuse what the engine would; its own limit is asked once, and only by large sets."""
        if leaves > USUAL_CLAUSES:
            check_clauses(leaves, self._most_clauses, featureset)

    @cached_property
    def about(self) -> About | None:
        """What the cluster says of itself, asked once; None where the account may not ask."""
        with suppress(NotAllowed):
            return self._engine.about()
        return None

    @cached_property
    def _most_clauses(self) -> int | None:
        return most_clauses(self._engine)

    def _compile(self, featureset: FeatureSet, names: frozenset[str] | None = None) -> CompiledSet:
        """The set made ready, or some features of it: those that a model looks at.

        The last ones are kept, for searches come in thousands of few models.
        """
        # What is kept holds on to its set, so that no other one has its id.
        key = id(featureset), names
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = compile_featureset(featureset, names)
            for oldest in list(self._compiled)[:-_KEPT]:
                self._compiled.pop(oldest, None)
        return compiled

    def _try(self, compiled: CompiledSet, validation: dict[str, Any]) -> None:
        """Search with each template by itself, then with all, as logging will."""
        featureset, index = compiled.featureset, check_index(validation["index"])
        declared = check_params(featureset, validation["params"])
        for part in compiled.queries:
            # One hit, because an engine that returns none computes no score.
            self._try_search(
                f"feature '{part.name}' of '{featureset.name}'",
                index,
                Search({"query": part.query(declared), "size": 1, "_source": False}),
            )
        whole = self.log_search(featureset, validation["params"], ["owpc-ltr"])
        self._try_search(f"the feature set '{featureset.name}'", index, whole)

    def _try_search(self, what: str, index: str, search: Search) -> None:
        try:
            answer = self._engine.request(
                "POST", f"/{index}/_search", params=search.params, body=search.body
            )
        except NoSuchIndex:
            raise
        except EngineRefusal as refusal:
            raise Refused(f"{what} does not work on the index '{index}': {refusal}") from refusal
        shards = part_of(answer, "_shards", what)
        if shards.get("failed"):
            reason, _ = cause({"error": {"failed_shards": shards.get("failures")}})[::-1]
            raise Refused(f"{what} does not work on the index '{index}': {reason}; fix it")
        check_complete(answer, search.body, what)

    def _get(self, what: str, name: str) -> Any:
        """A document, as it was written; BadInput if there is none."""
        document = self._documents[what].read(name)
        if document is None:
            raise Absent(words_of(what), name, self._place)
        return document.content

    def _delete(self, what: str, name: str) -> None:
        """Take out a document; BadInput if there is none."""
        if not self._documents[what].delete(name):
            raise Absent(words_of(what), name, self._place)

    def _names(self, what: str) -> list[str]:
        """Of all documents of this kind, sorted."""
        names: list[str] = []
        after: list[Any] = []
        while True:
            body = {
                "size": _PAGE,
                "_source": False,
                "query": {"term": {"type": what}},
                "sort": ["name"],
                **({"search_after": after} if after else {}),
            }
            try:
                answer = self._engine.request("POST", f"/{self._index}/_search", body=body)
            except NoSuchIndex:
                # Any other 404 is somebody's in between, and does not say that there is nothing.
                return []
            listed = f"its list of {words_of(what)}s"
            hits = SearchAnswer.read(answer, body, listed).hits
            if not all(isinstance(hit.get("sort"), list) and hit["sort"] for hit in hits):
                raise unexpected_answer(listed, "hits.hits[].sort")
            names += [str(hit["sort"][0]) for hit in hits]
            if len(hits) < _PAGE:
                return names
            after = hits[-1]["sort"]


def _content(what: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
    """A document as the plugin's own index has it."""
    return {"name": name, "type": what, what: content}


def _is_ours(mapping: Json) -> bool:
    """Whether the mapping of one index says that it is a store of ours."""
    (index,) = mapping.values() if isinstance(mapping, dict) and len(mapping) == 1 else (None,)
    for key in ("mappings", "_meta"):
        index = index.get(key) if isinstance(index, dict) else None
    return isinstance(index, dict) and index.get("owner") == "owpc-ltr"
