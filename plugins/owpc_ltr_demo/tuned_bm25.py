"""The baseline: BM25 with boosts tuned on training queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.metrics import parse_metric

BOOSTS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
TIE_BREAKERS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
KEYWORDS = "{{keywords}}"
_ROUNDS = 5


@dataclass(frozen=True)
class MultiMatch:
    """A full-text query: the boost of each field, and how much the lesser fields count."""

    boosts: Mapping[str, float]
    tie_breaker: float = 0.0

    def query(self, text: str = KEYWORDS) -> dict[str, Any]:
        """The query as an engine takes it; fields without a boost are left out."""
        fields = [f"{field}^{boost:g}" for field, boost in self.boosts.items() if boost]
        return {
            "multi_match": {
                "query": text,
                "type": "best_fields",
                "fields": fields,
                "tie_breaker": self.tie_breaker,
            }
        }

    def score(self, features: Matrix, columns: Mapping[str, int]) -> Vector:
        """The engine's scores of documents, from the logged scores of each field."""
        scores = _field_scores(features, [columns[field] for field in self.boosts])
        return _combined(scores, np.array(list(self.boosts.values())), self.tie_breaker)


@dataclass(frozen=True)
class TuningResult:
    """The best setting found, its metric on the training queries, and how many were tried."""

    best: MultiMatch
    value: float
    tried: int


def field_columns(featureset: FeatureSet) -> dict[str, int]:
    """The features that are the plain BM25 score of a field: field → column.

    Raises BadInput where there are none.
    """
    columns = {
        field: column
        for column, feature in enumerate(featureset.features)
        if (field := _plain_match(feature.template)) is not None
    }
    if not columns:
        raise BadInput(f"feature set '{featureset.name}' has no plain match feature to tune with")
    return columns


def tune(data: RankingDataset, columns: Mapping[str, int], metric: str) -> TuningResult:
    """The best setting on all queries of `data`, by coordinate ascent from several starts.

    One setting after the other takes the value of the grid that ranks best, until none improves.
    """
    parsed = parse_metric(metric)
    scores = _field_scores(data.features, list(columns.values()))
    tried: dict[tuple[float, ...], float] = {}

    def value(point: tuple[float, ...]) -> float:
        if point not in tried:
            combined = _combined(scores, np.array(point[:-1]), point[-1])
            tried[point] = float(parsed.mean(combined, data.labels, data.offsets))
        return tried[point]

    starts = [(*(1.0 for _ in columns), tie) for tie in (0.0, 1.0)]
    best = max((_ascend(start, value) for start in starts), key=value)
    chosen = MultiMatch(dict(zip(columns, best[:-1], strict=True)), best[-1])
    return TuningResult(chosen, value(best), len(tried))


def engine_scores(engine: Engine, index: str, query: dict[str, Any], doc_ids: list[str]) -> Vector:
    """The engine's own scores of these documents; 0 where the query does not match."""
    body = {
        "size": len(doc_ids),
        "query": {"bool": {"filter": {"ids": {"values": doc_ids}}, "must": query}},
        "_source": False,
    }
    hits = search_index(engine, index, body, "scores", scored=True).hits
    scores = {hit["_id"]: hit["_score"] for hit in hits}
    return np.array([scores.get(document, 0.0) for document in doc_ids])


def _plain_match(template: Any) -> str | None:
    """The field of a `match` query with nothing but the keywords."""
    if not isinstance(template, dict) or template.keys() != {"match"}:
        return None
    ((field, content),) = template["match"].items()
    return str(field) if content in (KEYWORDS, {"query": KEYWORDS}) else None


def _ascend(
    point: tuple[float, ...], value: Callable[[tuple[float, ...]], float]
) -> tuple[float, ...]:
    for _ in range(_ROUNDS):
        before = point
        for place in range(len(point)):
            grid = TIE_BREAKERS if place == len(point) - 1 else BOOSTS
            choices = [(*point[:place], choice, *point[place + 1 :]) for choice in grid]
            # Where nothing is better, the setting stays as it is.
            point = max([point, *(choice for choice in choices if any(choice[:-1]))], key=value)
        if point == before:
            break
    return point


def _field_scores(features: Matrix, columns: list[int]) -> NDArray[np.float32]:
    return np.nan_to_num(features[:, columns], nan=0.0)


def _combined(scores: NDArray[np.float32], boosts: Vector, tie_breaker: float) -> Vector:
    """The score of a dis_max query: the best field, and a share of the others."""
    boosted = scores.astype(np.float64) * boosts
    best = boosted.max(axis=1)
    combined: Vector = best + tie_breaker * (boosted.sum(axis=1) - best)
    return combined
