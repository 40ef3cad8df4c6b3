"""One world of a scheme in a real OpenSearch node, asked by the commands that search it.

A document of the index has, for every query that brings it, the query's text and the scores of the
query alone (`text`) and of both rankers (`old`, `new`). Models read one score each, so that live
lists are the rankers' lists.
"""

from __future__ import annotations

import itertools
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from owpc_ltr_node.engine import node_status, start_node, stop_node
from owpc_ltr_node.settings import LocalNode
from verdict_paths import NEW, OLD, REFUSED, Answer, Team, ask, no_earlier_comparisons
from verdict_worlds import DOCUMENTS, METRIC, Matrix, Scheme

import owpc_ltr as ltr
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.options import RESAMPLES
from owpc_ltr.features.feature_set import Feature, FeatureSet

_PORT = 9399
_QUERIES = 300
"""Of a scheme that names no number: it takes about 10 seconds."""
_NAME = "verdicts"


def _score(field: str, boost_mode: str = "replace") -> dict[str, Any]:
    """The query that scores the documents of `{{keywords}}` by a field."""
    scored = {
        "query": {"match": {"of.query": "{{keywords}}"}},
        "field_value_factor": {"field": f"of.{field}"},
        "boost_mode": boost_mode,
    }
    return {"nested": {"path": "of", "score_mode": "max", "query": {"function_score": scored}}}


# By the similarity of `_TEXT` a match has the score 1, which is multiplied.
_TEMPLATE = _score("text", "multiply")
_FEATURE_SET = FeatureSet(
    _NAME,
    tuple(
        Feature(name, ("keywords",), template)
        for name, template in (("text", _TEMPLATE), (OLD, _score(OLD)), (NEW, _score(NEW)))
    ),
)
_TEXT = {"type": "text", "analyzer": "keyword", "similarity": "boolean"}
_FIELDS = {"query": _TEXT, **{name: {"type": "float"} for name in ("text", OLD, NEW)}}
_INDEX = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0},
    "mappings": {"properties": {"of": {"type": "nested", "properties": _FIELDS}}},
}


@dataclass(frozen=True, eq=False)
class _World:
    """A team whose documents are in an index, and what its judged documents are there."""

    team: Team
    cluster: Cluster
    index: str

    @cached_property
    def scores(self) -> Mapping[str, Matrix]:
        """What the fields contain: an engine's scores are not negative."""
        case = self.team.case
        whole = {"text": self.team.text, OLD: case.old, NEW: case.new}
        least = min(float(one.min()) for one in whole.values())
        return {name: one - least + 1.0 for name, one in whole.items()}

    def fill(self) -> None:
        """Index every document that a list shows: where lists are cut, the judged ones alone."""
        case, fields = self.team.case, self.scores
        shown = self.team.listed(case.old)
        of: dict[str, list[dict[str, Any]]] = {}
        for number, (name, text) in enumerate(zip(case.names, case.words, strict=True)):
            listed = set(shown[name])
            for place, document in enumerate(case.documents[number]):
                if document in listed:
                    values = {field: float(each[number, place]) for field, each in fields.items()}
                    of.setdefault(document, []).append({"query": text, **values})
        request = self.cluster.engine.request
        request("PUT", f"/{self.index}", body=_INDEX)
        pairs = [({"index": {"_id": document}}, {"of": each}) for document, each in of.items()]
        lines = list(itertools.chain(*pairs))
        answer = request("POST", f"/{self.index}/_bulk", ndjson=lines, params={"refresh": "true"})
        assert not answer["errors"]

    @property
    def asked(self) -> dict[str, Any]:
        """The index, and an application's query."""
        return {
            "index": self.index, "query_template": _TEMPLATE,
            "window": DOCUMENTS, "featureset": _NAME,
        }  # fmt: skip

    @cached_property
    def judgments(self) -> Judgments:
        """The judged queries."""
        return Judgments(self.team.judged)

    def compare_live(self) -> Answer:
        """`compare-live` of the two models."""
        found = self.cluster.compare_live(
            self.team.models, judgments=self.judgments, metrics=METRIC, baseline=OLD, **self.asked
        )
        return Answer.of(found.pairs[0].verdict)


_PATHS: Mapping[str, Callable[[_World], Answer]] = {
    "live": _World.compare_live,
}
"""By the names of the same paths where lists are simulated."""


def team_of(scheme: Scheme, world: int = 0) -> Team:
    """A team of a scheme, with as many queries as that says, or 300."""
    rng = np.random.default_rng([world, *scheme.name.encode()])
    queries = _QUERIES if scheme.queries == Scheme.queries else scheme.queries
    return Team(scheme.make(rng, queries), rng, RESAMPLES)


def answers_of(team: Team, cluster: Cluster) -> Iterator[tuple[str, Answer, Answer]]:
    """Each path with its answer on the node and, of the same world, where lists are simulated."""
    world = _World(team, cluster, f"{_NAME}-{uuid.uuid4().hex[:8]}")
    try:
        world.fill()
        for path, on_node in _PATHS.items():
            with warnings.catch_warnings(), no_earlier_comparisons():
                warnings.simplefilter("ignore")
                try:
                    found = on_node(world)
                except Refused as refused:
                    found = Answer(REFUSED, (type(refused).__name__,))
                yield path, found, ask(path, team)
    finally:
        with suppress(EngineRefusal):
            cluster.engine.request("DELETE", f"/{world.index}")


@contextmanager
def cluster_of(url: str) -> Iterator[Cluster]:
    """A cluster with an empty store, on the node at this address or on one of its own."""
    store = f"{_NAME}-{uuid.uuid4().hex[:8]}"
    with ExitStack() as kept:
        if not url:
            ours = not node_status(_PORT).running
            url = start_node(LocalNode(port=_PORT)).url
            if ours:
                kept.callback(stop_node, _PORT)
        cluster = ltr.connect(url, store_kind="plugin-free", store=store)
        cluster.store.put_featureset(_FEATURE_SET)
        kept.callback(cluster.engine.request, "DELETE", f"/owpc-ltr-store-{store}")
        yield cluster
