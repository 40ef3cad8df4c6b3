"""The parts of a search request that concern fusion, each with its JSON path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

DEFAULT_SIZE = 10
"""How many hits an engine returns where the request does not say."""

PROCESSORS = ("normalization-processor", "score-ranker-processor")
FUSING_RETRIEVERS = ("rrf", "linear")
RERANKING_RETRIEVERS = ("text_similarity_reranker", "rescorer", "rule", "diversify", "pinned")
VECTOR_QUERIES = ("knn", "neural", "neural_sparse")

_NEURAL_K = 10
"""The k of OpenSearch's `neural` where the request does not say."""


@dataclass(frozen=True)
class Located:
    """A value of the request, and its JSON path."""

    place: str
    value: Any

    def get(self, key: str) -> Located | None:
        """What an object has under a key; None where it has not, or is no object."""
        if not isinstance(self.value, Mapping) or key not in self.value:
            return None
        return Located(f"{self.place}.{key}", self.value[key])

    def at(self, *keys: str) -> Located | None:
        """The same, several keys deep."""
        found: Located | None = self
        for key in keys:
            found = found and found.get(key)
        return found

    @property
    def items(self) -> list[Located]:
        """The elements of a list; an object is a list of itself, as engines have it."""
        if isinstance(self.value, Mapping):
            return [self]
        if not isinstance(self.value, list):
            return []
        return [Located(f"{self.place}[{number}]", each) for number, each in enumerate(self.value)]

    def all_of(self, *keys: str) -> Iterator[Located]:
        """What stands under these keys, at any depth."""
        if isinstance(self.value, Mapping):
            for key in self.value:
                inner = Located(f"{self.place}.{key}", self.value[key])
                if key in keys:
                    yield inner
                yield from inner.all_of(*keys)
        elif isinstance(self.value, list):
            for inner in self.items:
                yield from inner.all_of(*keys)


@dataclass(frozen=True)
class VectorQuery:
    """A `knn` or `neural` query: its field, its k, and the length of the query's vector."""

    place: str
    field: str
    k: int | None
    length: int | None
    k_place: str

    @classmethod
    def of(cls, found: Located) -> VectorQuery | None:
        """None where it is not written as either engine has it."""
        value, kind = found.value, found.place.rpartition(".")[2]
        if not isinstance(value, Mapping):
            return None
        is_elastic = isinstance(value.get("field"), str)
        field = value["field"] if is_elastic else next(iter(value), "")
        inner = found if is_elastic else found.get(field)
        if inner is None or not isinstance(inner.value, Mapping):
            return None
        vector = inner.value.get("query_vector" if is_elastic else "vector")
        by_distance = {"min_score", "max_distance"} & inner.value.keys()
        default = _NEURAL_K if kind == "neural" and not by_distance else None
        k = whole(inner.value.get("k", default))
        length = len(vector) if isinstance(vector, list) else None
        return cls(found.place, str(field), k, length, f"{inner.place}.k")


class SearchBody:
    """A search request (the body of `_search`), and the search pipeline that it runs with.

    `pipeline` is that of a file, or the one that an index has by default; without it, that of the
    request's `search_pipeline` where it stands there whole.
    """

    def __init__(self, body: Mapping[str, Any], pipeline: Mapping[str, Any] | None = None) -> None:
        if pipeline is None and "phase_results_processors" in body:
            body, pipeline = {}, body
        self.root = Located("$", body)
        self._pipeline = pipeline

    @property
    def body(self) -> dict[str, Any]:
        """The request."""
        return dict(self.root.value)

    @cached_property
    def pipeline(self) -> Located | None:
        """The search pipeline, where it is known."""
        if self._pipeline is not None:
            return Located("pipeline $", self._pipeline)
        inline = self.root.get("search_pipeline")
        return inline if inline and isinstance(inline.value, Mapping) else None

    @property
    def pipeline_name(self) -> str | None:
        """The name of a stored pipeline that the request asks for; `_none` asks for none."""
        name = self.root.value.get("search_pipeline")
        return name if isinstance(name, str) and self._pipeline is None else None

    @cached_property
    def processors(self) -> list[Located]:
        """The processors of the pipeline that fuse."""
        phase = self.pipeline and self.pipeline.get("phase_results_processors")
        found = [each.get(kind) for each in (phase.items if phase else []) for kind in PROCESSORS]
        return [each for each in found if each]

    @cached_property
    def hybrids(self) -> list[Located]:
        """OpenSearch's `hybrid` queries."""
        query = self.root.get("query")
        found = query.all_of("hybrid") if query else ()
        # A field may have that name too.
        return [each for each in found if each.get("queries")]

    @property
    def legs(self) -> list[Located]:
        """The queries that `hybrid` fuses."""
        queries = self.hybrids[0].get("queries") if self.hybrids else None
        return queries.items if queries else []

    @cached_property
    def rescorers(self) -> list[Located]:
        """The elements of `rescore`."""
        rescore = self.root.get("rescore")
        return rescore.items if rescore else []

    @cached_property
    def retrievers(self) -> list[Located]:
        """Elasticsearch's retrievers that fuse or rerank, and the older `rank`."""
        names = FUSING_RETRIEVERS + RERANKING_RETRIEVERS
        parts = [self.root.get("retriever"), self.root.get("rank")]
        found = (each for part in parts if part for each in part.all_of(*names))
        return [each for each in found if isinstance(each.value, Mapping)]

    @property
    def first(self) -> int:
        """How many hits are skipped: `from`."""
        return whole(self.root.value.get("from")) or 0

    @property
    def size(self) -> int:
        """How many hits are shown."""
        size = whole(self.root.value.get("size"))
        return DEFAULT_SIZE if size is None else size

    @property
    def depth(self) -> int | None:
        """The `pagination_depth` of `hybrid`."""
        depth = self.hybrids[0].get("pagination_depth") if self.hybrids else None
        return whole(depth.value) if depth else None

    @property
    def window(self) -> int:
        """How many documents of each query, and shard, `hybrid` fuses."""
        return self.depth or self.first + self.size

    @property
    def vector_queries(self) -> list[VectorQuery]:
        """All vector queries of the request."""
        found = map(VectorQuery.of, self.root.all_of(*VECTOR_QUERIES))
        return [each for each in found if each is not None]


def whole(value: Any) -> int | None:
    """A whole number of a request, or None for anything else: a place to fill in, say."""
    return value if type(value) is int else None
