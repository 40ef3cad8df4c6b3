"""Parity: whether a model scores and ranks real documents in the engine as on the laptop."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.http.responses import hits_of
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.interop.client_scored import is_client_scored
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.parity_samples import packed, unpacked
from owpc_ltr.names import check_index
from owpc_ltr.protocols import Model

_METRIC = "ndcg@10"


@dataclass(frozen=True)
class Parity:
    """How far the engine's scores of a model are from the laptop's, on judged documents.

    `largest_difference` is |engine − local| / max(1, |local|): of scores above 1 relative to them,
    of others absolute, for what is near 0 has no digits to compare. `swapped` counts pairs of
    one query that the two would order differently, `ties_broken` those that only one of them ties;
    `tau` is Kendall's tau-b, a mean over queries; `ndcg_difference` the engine's mean NDCG@10 less
    the laptop's, None where labels are not known. `absent` documents are not in the index.

    A model that the client scores has no scores in the engine: `compared` is then `features`, and
    `largest_difference` is between the features logged now and those it was trained with. Orders
    are compared all the same, by its scores of the two.
    """

    queries: int
    documents: int
    largest_difference: float
    swapped: int
    worst_query: str
    worst_document: str
    ties_broken: int = 0
    tau: float = 1.0
    ndcg_difference: float | None = None
    absent: int = 0
    compared: str = "scores"
    worst_feature: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The parity as JSON."""
        return asdict(self)

    def in_words(self) -> str:
        """The largest difference as what it is, and what it does to orders."""
        what = " from training" if self.compared == "features" else ""
        return (
            f"largest difference{what} {self.largest_difference:.2g} (relative above 1), "
            f"{self.swapped} pairs swapped"
        )

    def refusal(self, tolerance: float) -> str | None:
        """Why the model must not be used, in words; None if it may."""
        if self.largest_difference <= tolerance:
            return None
        where = f"document '{self.worst_document}' of query '{self.worst_query}'"
        by = f"by {self.largest_difference:.3g} on {where} ({tolerance:g} is allowed)"
        if self.compared == "features":
            feature = f"feature '{self.worst_feature}'"
            return f"{feature} is not what it was when the model was trained: it differs {by}"
        return f"the engine scores differently: {by}"


@dataclass(frozen=True, eq=False)
class Answered:
    """One sample and what came of it: the documents that were found, features, scores.

    `local` are the local scores of the features as they are now. Compared are `reference`, which
    are these, and `other`, the engine's; where the client scores, `reference` are the local scores
    of the features as they were, and `other` those of now.
    """

    sample: dict[str, Any]
    document_ids: tuple[str, ...]
    labels: Vector | None
    features: Matrix
    before: Matrix | None
    local: Vector
    reference: Vector
    other: Vector

    def remembered(self) -> dict[str, Any]:
        """The sample with the features of now and their local scores, to be asked again."""
        return {
            "query_id": self.sample["query_id"],
            "params": self.sample["params"],
            "document_ids": list(self.document_ids),
            **({} if self.labels is None else {"labels": self.labels.tolist()}),
            "features": packed(self.features),
            "scores": self.local.tolist(),
        }


def check_parity(
    engine: Engine,
    store: Store,
    stored: StoredModel,
    model: Model,
    index: str,
    samples: list[dict[str, Any]],
) -> tuple[Parity, list[Answered]]:
    """Score the samples' documents in the engine and here, from features logged just now."""
    answered = []
    for sample in samples:
        ids, features = logged(engine, store, stored.featureset, index, sample)
        if ids:
            answered.append(_answered(engine, store, stored, model, index, sample, ids, features))
    if not answered:
        raise Refused(
            f"none of the judged documents that the model remembers is in the index '{index}': is "
            "it the index that the features were logged from?"
        )
    asked = sum(len(sample["document_ids"]) for sample in samples)
    parity = parity_of(answered, "features" if is_client_scored(stored) else "scores")
    named = stored.featureset.feature_names
    worst = parity.worst_feature and named[int(parity.worst_feature)]
    return replace(parity, absent=asked - parity.documents, worst_feature=worst), answered


def parity_of(answered: list[Answered], compared: str) -> Parity:
    """The comparison of all samples; `worst_feature` is still a number."""
    worst, place = -1.0, (0, 0, "")
    for number, one in enumerate(answered):
        differences, columns = _differences(one, compared)
        row = int(differences.argmax())
        if differences[row] > worst:
            worst, place = float(differences[row]), (number, row, columns[row])
    orders = [_orders(one.reference, one.other) for one in answered]
    taus = [tau for _, _, tau in orders if tau is not None]
    return Parity(
        queries=len(answered),
        documents=sum(len(one.document_ids) for one in answered),
        largest_difference=worst,
        swapped=sum(swapped for swapped, _, _ in orders),
        worst_query=str(answered[place[0]].sample["query_id"]),
        worst_document=answered[place[0]].document_ids[place[1]],
        ties_broken=sum(broken for _, broken, _ in orders),
        tau=float(np.mean(taus)) if taus else 1.0,
        ndcg_difference=_ndcg_difference(answered),
        compared=compared,
        worst_feature=place[2],
    )


def logged(
    engine: Engine, store: Store, featureset: FeatureSet, index: str, sample: dict[str, Any]
) -> tuple[list[str], Matrix]:
    """The ids of a probe's documents that are in the index, and their features now."""
    request = store.log_search(featureset, sample["params"], sample["document_ids"])
    hits = _hits(engine, index, request.body, request.params)
    found = {hit["_id"]: store.features_of(featureset, hit) for hit in hits}
    ids = [document for document in sample["document_ids"] if document in found]
    rows = [found[document] for document in ids]
    matrix = np.array(rows, dtype=np.float32).reshape(len(rows), len(featureset.features))
    return ids, matrix


def features_before(sample: dict[str, Any], ids: list[str], width: int) -> Matrix | None:
    """The features of these documents as the sample remembers them, if it does."""
    if "features" not in sample:
        return None
    rows = _rows(sample, ids)
    return unpacked(sample["features"], len(sample["document_ids"]), width)[rows]


def _answered(
    engine: Engine,
    store: Store,
    stored: StoredModel,
    model: Model,
    index: str,
    sample: dict[str, Any],
    ids: list[str],
    features: Matrix,
) -> Answered:
    before = features_before(sample, ids, features.shape[1])
    local = reference = other = model.score(features)
    if is_client_scored(stored):
        if before is None:
            raise Refused(
                "the model remembers no features of its judged documents, and as the client scores "
                "it there is nothing else to compare: train it again, or give --data"
            )
        reference = model.score(before)
    else:
        other = _engine_scores(engine, store, stored, index, sample["params"], ids)
    labels = None
    if "labels" in sample:
        labels = np.array(sample["labels"], dtype=np.float64)[_rows(sample, ids)]
    return Answered(sample, tuple(ids), labels, features, before, local, reference, other)


def _rows(sample: dict[str, Any], ids: list[str]) -> list[int]:
    places = {document: row for row, document in enumerate(sample["document_ids"])}
    return [places[document] for document in ids]


def _differences(one: Answered, compared: str) -> tuple[Vector, list[str]]:
    """The largest difference of each document, relative above 1, and the column of it."""
    if compared == "scores" or one.before is None:
        difference = np.abs(one.other - one.reference) / np.maximum(1.0, np.abs(one.reference))
        # A score that is not a number must not slip through a comparison.
        return np.where(np.isfinite(difference), difference, np.inf), [""] * len(difference)
    now, then = one.features.astype(np.float64), one.before.astype(np.float64)
    difference = np.abs(now - then) / np.maximum(1.0, np.abs(then))
    difference = np.where(np.isfinite(difference), difference, np.inf)
    difference[np.isnan(now) & np.isnan(then)] = 0.0
    return difference.max(axis=1), [str(column) for column in difference.argmax(axis=1)]


def _orders(reference: Vector, other: Vector) -> tuple[int, int, float | None]:
    """Pairs ordered the other way, pairs tied in one only, and tau-b where there is an order."""
    one, two = _signs(reference), _signs(other)
    ordered = np.abs(one).sum() * np.abs(two).sum()
    tau = float((one * two).sum() / np.sqrt(ordered)) if ordered > 0 else None
    return int((one * two < 0).sum()), int(((one == 0) != (two == 0)).sum()), tau


def _signs(scores: Vector) -> Vector:
    """Of every pair, which is above; 0 also where a score is no number."""
    first, second = np.triu_indices(len(scores), 1)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.sign(scores[first] - scores[second]))


def _ndcg_difference(answered: list[Answered]) -> float | None:
    labels = [one.labels for one in answered if one.labels is not None]
    numbers = all(np.isfinite([one.other, one.reference]).all() for one in answered)
    if len(labels) < len(answered) or not numbers:
        return None
    metric = parse_metric(_METRIC)
    offsets = np.cumsum([0, *(len(each) for each in labels)])
    together = np.concatenate(labels).astype(np.float32)
    other, reference = (
        metric.mean(np.concatenate(scores), together, offsets)
        for scores in ([one.other for one in answered], [one.reference for one in answered])
    )
    difference = float(other - reference)
    return difference if np.isfinite(difference) else None


def _engine_scores(
    engine: Engine,
    store: Store,
    stored: StoredModel,
    index: str,
    params: dict[str, Any],
    ids: list[str],
) -> Vector:
    """The engine's model scores of these documents, in this order, through a real rescore."""
    body = {
        "size": len(ids),
        "query": {"bool": {"filter": [{"ids": {"values": ids}}]}},
        "rescore": store.rescore(stored, params, len(ids)),
        "_source": False,
        "track_total_hits": True,
    }
    scores = {hit["_id"]: hit.get("_score") for hit in _hits(engine, index, body, {})}
    # What is no number, as a score that the engine gives for none, must not pass for one.
    return np.array([_score(scores.get(document)) for document in ids], dtype=np.float64)


def _score(value: Any) -> float:
    return float(value) if type(value) in (int, float) else np.nan


def _hits(
    engine: Engine, index: str, body: dict[str, Any], params: dict[str, str]
) -> list[dict[str, Any]]:
    answer = engine.request(
        "POST",
        f"/{check_index(index)}/_search",
        params={**params, "allow_partial_search_results": "false"},
        body=body,
    )
    return hits_of(answer, "judged documents", "_id")
