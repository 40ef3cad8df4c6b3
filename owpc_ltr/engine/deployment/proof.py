"""The proof of a model: its parity and its feature drift, measured on real documents.

Both are measured on the judged documents that the model remembers, from features that are asked for
now. Statistics of an index change with every document, and with them all text scores, though
nothing is wrong: drift is in standard deviations of what a feature was, so that one limit serves
all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.feature_sources import external_names, in_words
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.client.responses import EngineRefusal, check_complete
from owpc_ltr.engine.deployment.parity import (
    CLIENT,
    ENGINE,
    METRIC,
    MIN_PROOF_COVERAGE,
    UNRELATED,
    FeatureDrift,
    Parity,
    RankAgreement,
)
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.request import rescore_clauses
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.files.strict_json import json_text
from owpc_ltr.formats.plugin_free import score_shift
from owpc_ltr.formats.stored_model import (
    XGBOOST,
    XGBOOST_RAW,
    client_model,
    is_client_scored,
    joined_in,
)
from owpc_ltr.metrics import parse_metric
from owpc_ltr.metrics.metric import pair_agreement
from owpc_ltr.models.model_file import packed, unpacked
from owpc_ltr.names import check_index

if TYPE_CHECKING:
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.models.analysis import ScoreInterval
    from owpc_ltr.protocols import Model


Scored = tuple[Vector | None, Vector, Vector]
"""One query's labels (if known), its scores, and its other scores."""
_LEAST = {"documents": 10, "queries": 2}
"""How many of them at least, where the model remembers so many."""


def rank_agreement(scored: Sequence[Scored]) -> RankAgreement:
    """The comparison of all queries."""
    pairs = [pair_agreement(before, now) for _, before, now in scored]
    swapped = sum(pair.swapped for pair in pairs)
    ties_broken = sum(pair.ties_broken for pair in pairs)
    taus = [pair.tau for pair in pairs if pair.tau is not None]
    return RankAgreement(
        swapped=swapped,
        ties_broken=ties_broken,
        tau=float(np.mean(taus)) if taus else 1.0,
        ndcg_difference=_ndcg_difference(scored, same_rankings=not swapped and not ties_broken),
    )


def _ndcg_difference(scored: Sequence[Scored], *, same_rankings: bool) -> float | None:
    """Over the queries whose labels are known; None where there are none, or a score is none."""
    labelled = [(labels, before, now) for labels, before, now in scored if labels is not None]
    numbers = all(np.isfinite([before, now]).all() for _, before, now in labelled)
    if not labelled or len(labelled) < len(scored) or not numbers:
        return None
    if same_rankings:
        return 0.0

    metric = parse_metric(METRIC)
    labels = [labels_and_scores[0] for labels_and_scores in labelled]
    offsets = np.cumsum([0, *(len(part) for part in labels)])
    together = np.concatenate(labels).astype(np.float32)
    reference, other = (
        metric.mean(
            np.concatenate([labels_and_scores[which] for labels_and_scores in labelled]),
            together,
            offsets,
        )
        for which in (1, 2)
    )
    difference = float(other - reference)
    return difference if np.isfinite(difference) else None


@dataclass(frozen=True, eq=False)
class ScoredDocuments:
    """One sample with its documents in the index, their features and their scores.

    `features` and their `local` scores are those of now, `served` the scores by the engine, or by
    the stored model where the client scores. `before` are the features that the sample remembers
    and `earlier` their local scores; None where it remembers none.
    """

    sample: dict[str, Any]
    doc_ids: tuple[str, ...]
    labels: Vector | None
    features: Matrix
    before: Matrix | None
    local: Vector
    served: Vector
    earlier: Vector | None = None

    def remembered(self) -> dict[str, Any]:
        """The sample with the features of now and their local scores, for a later proof."""
        return {
            "query_id": self.sample["query_id"],
            "params": self.sample["params"],
            "document_ids": list(self.doc_ids),
            **({} if self.labels is None else {"labels": self.labels.tolist()}),
            "features": packed(self.features),
            "scores": self.local.tolist(),
        }


@dataclass(frozen=True)
class Proof:
    """The scores of a model's samples by the engine and locally, and how far features drifted."""

    parity: Parity
    answered: list[ScoredDocuments]
    features: tuple[FeatureDrift, ...]
    rankings: RankAgreement | None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a query to try requests with."""
        params: dict[str, Any] = self.answered[0].sample["params"]
        return params


def prove(
    engine: Engine,
    store: Store,
    stored: StoredModel,
    model: Model,
    *,
    index: str,
    samples: Sequence[dict[str, Any]],
    share: float = MIN_PROOF_COVERAGE,
) -> Proof:
    """Score the samples' documents by a search and locally, from features computed just now.

    `stored` is the model as it was read back from the store. External features are what
    the samples remember, and their drift is not known. Raises Refused where less than `share` of
    the documents or of the queries are in the index, or very few: a proof on them says little. A
    share of 0 accepts any number.
    """
    scorer = _Scorer(engine, store, stored, model, index=index)
    answered = [scored for sample in samples if (scored := scorer.answered(sample)) is not None]
    documents = sum(len(sample["document_ids"]) for sample in samples)
    present = sum(len(scored.doc_ids) for scored in answered)
    counts = {"documents": (present, documents), "queries": (len(answered), len(samples))}
    _refuse_few(counts, share, index)
    parity = parity_of(answered, CLIENT if is_client_scored(stored) else ENGINE)
    absent, absent_queries = (total - there for there, total in counts.values())
    cause = _derived_cause(stored, answered) if store.kind == "ltr-plugin" else ""
    parity = replace(parity, absent=absent, absent_queries=absent_queries, cause=cause)
    features = feature_drifts(stored.featureset.feature_names, answered)
    return Proof(parity, answered, features, ranking_drift(answered))


@dataclass(frozen=True)
class _Scorer:
    """Scores the documents of samples as a search does, and locally."""

    engine: Engine
    store: Store
    stored: StoredModel
    model: Model
    index: str

    def answered(self, sample: dict[str, Any]) -> ScoredDocuments | None:
        """A sample's documents in the index, their features and scores; None without documents."""
        featureset = self.stored.featureset
        ids, features = self.store.logged(featureset, self.index, sample)
        if not ids:
            return None
        features = np.hstack([features, self._external(sample, ids)])
        before = features_before(sample, ids, features.shape[1])
        if is_client_scored(self.stored):
            served = client_model(self.stored).score(features)
        else:
            served = self._engine_scores(sample["params"], ids)
        labels = None
        if "labels" in sample:
            labels = np.array(sample["labels"], dtype=np.float64)[_rows(sample, ids)]
        earlier = None if before is None else self.model.score(before)
        return ScoredDocuments(
            sample,
            tuple(ids),
            labels,
            features,
            before=before,
            local=self.model.score(features),
            served=served,
            earlier=earlier,
        )

    def _external(self, sample: dict[str, Any], ids: list[str]) -> Matrix:
        """These documents' features from outside the index; no column where the model has none."""
        sources = joined_in(self.stored)
        if not sources:
            return np.empty((len(ids), 0), np.float32)
        names, width = external_names(sources), len(self.stored.featureset.features)
        before = features_before(sample, ids, width + len(names))
        if before is None:
            raise Refused(
                f"the model remembers no values of {in_words(names, sources)}: train it again on "
                "a dataset that log-features wrote"
            )
        return before[:, width:]

    def _engine_scores(self, params: dict[str, Any], ids: list[str]) -> Vector:
        """The engine's model scores of these documents, in this order, by a real rescore."""
        body = {
            "size": len(ids),
            "query": {"bool": {"filter": [{"ids": {"values": ids}}]}},
            "rescore": rescore_clauses(self.store, self.stored, params, len(ids)),
            "_source": False,
            "track_total_hits": True,
        }
        hits = search_index(self.engine, self.index, body, "judged documents").hits
        scores = {hit["_id"]: hit.get("_score") for hit in hits}
        # A missing or non-finite score must not pass for a number.
        values = np.array([_score(scores.get(document)) for document in ids], dtype=np.float64)
        return values - score_shift(self.stored)


def request_refusal(
    engine: Engine,
    store: Store,
    stored: StoredModel,
    *,
    index: str,
    params: dict[str, Any],
    interval: ScoreInterval,
    window: int = DEFAULT_WINDOW,
) -> EngineRefusal | None:
    """Why the engine refuses the request that applications send; None where it answers.

    The interval of the scores may take a script, which a proof of the scores does without. Raises
    Incomplete where shards are missing from the answer.
    """
    if is_client_scored(stored):
        return None
    clauses = rescore_clauses(store, stored, params, window, interval)
    body = {"query": {"match_all": {}}, "size": 1, "_source": False, "rescore": clauses}
    try:
        answer = engine.request("POST", f"/{check_index(index)}/_search", body=body)
    except EngineRefusal as refusal:
        return refusal
    check_complete(answer, body, "the request that applications send")
    return None


def request_size(
    store: Store, stored: StoredModel, params: dict[str, Any], window: int, interval: ScoreInterval
) -> int:
    """The bytes that the model takes of each search request, without the plugin."""
    return len(json_text(rescore_clauses(store, stored, params, window, interval)).encode())


def _derived_cause(stored: StoredModel, answered: Sequence[ScoredDocuments]) -> str:
    """A feature derived from a missing one: the log counts that as 0, trees in an engine do not."""
    if stored.type not in {XGBOOST, XGBOOST_RAW}:
        return ""
    names = stored.featureset.feature_names
    rows = np.vstack([scored.features for scored in answered])
    for column, feature in enumerate(stored.featureset.features):
        for source in stored.featureset.derived_from.get(feature.name, ()):
            unmatched = rows[np.isnan(rows[:, names.index(source)]), column]
            if len(unmatched):
                # A gap is scored as a 0 by trees that were trained so: where it is logged as one.
                remedy = "use a linear model" if unmatched.any() else "train with `missing='zero'`"
                return (
                    f"'{feature.name}' is derived from '{source}', which some of the documents do "
                    "not match: it is logged as for 0, and trees in the engine take it for "
                    f"missing; {remedy}, or leave it out"
                )
    return ""


def _refuse_few(counts: dict[str, tuple[int, int]], share: float, index: str) -> None:
    """Refuse a proof on documents or queries that are few, or a small part of all of them."""
    if not 0 <= share <= 1:
        raise UsageError(f"`min_proof_coverage` is a share, 0 to 1, not {share:g}")
    if not counts["documents"][0]:
        raise Refused(
            f"none of the judged documents that the model remembers is in the index '{index}': is "
            "it the index that the features were logged from?"
        )
    for what, (there, total) in counts.items():
        least = max(math.ceil(share * total), min(total, _LEAST[what]))
        if share and there < least:
            raise Refused(
                f"only {there} of the {total} judged {what} that the model remembers are in "
                f"the index '{index}', and a proof needs {least}: is it the index that the "
                "features were logged from, and complete? a smaller "
                f"`min_proof_coverage` needs fewer, and 0 accepts any number"
            )


def parity_of(answered: list[ScoredDocuments], scored_by: str = ENGINE) -> Parity:
    """The served scores of all samples compared with the local ones, on the features of now."""
    differences = [_differences(scored) for scored in answered]
    number = int(np.argmax([part.max() for part in differences]))
    row = int(differences[number].argmax())
    agreement = rank_agreement([(part.labels, part.local, part.served) for part in answered])
    return Parity(
        queries=len(answered),
        documents=sum(len(scored.doc_ids) for scored in answered),
        largest_difference=float(differences[number][row]),
        worst_query=str(answered[number].sample["query_id"]),
        worst_document=answered[number].doc_ids[row],
        scored_by=scored_by,
        **asdict(agreement),
    )


def feature_drifts(
    names: tuple[str, ...], answered: Sequence[ScoredDocuments]
) -> tuple[FeatureDrift, ...]:
    """The drift of each feature from what the samples remember to now, the furthest first.

    `names` are those of the first columns; later columns were not computed now.
    """
    pairs = [(part.before, part.features) for part in answered if part.before is not None]
    if not pairs:
        return ()
    before, now = (
        np.concatenate([pair[side] for pair in pairs])[:, : len(names)].astype(np.float64)
        for side in (0, 1)
    )
    missing = np.isnan(before) != np.isnan(now)
    before, now = np.nan_to_num(before), np.nan_to_num(now)
    by = np.abs(now - before).mean(axis=0) / drift_scale(before)
    # What few documents had is near its mean where none has it, and says nothing any more.
    lost = (np.ptp(before, axis=0) > 0) & (np.ptp(now, axis=0) == 0)
    lost &= (now != before).sum(axis=0) > 1
    by = np.where(lost, np.maximum(by, UNRELATED), by)
    return tuple(
        FeatureDrift(
            names[column],
            float(by[column]),
            float(before[:, column].mean()),
            float(now[:, column].mean()),
            float(missing[:, column].mean()),
        )
        for column in np.argsort(-by, kind="stable")
    )


def drift_scale(before: NDArray[np.float64]) -> Vector:
    """What the drift of each feature is measured in: the standard deviation of what it was.

    A feature that was constant is measured by its own size. No value is missing in `before`.
    """
    spread = before.std(axis=0)
    scale: Vector = np.where(spread > 0, spread, np.maximum(np.abs(before).max(axis=0), 1e-9))
    return scale


def ranking_drift(answered: Sequence[ScoredDocuments]) -> RankAgreement | None:
    """How far rankings by the features of now agree with those by the remembered ones, if any."""
    remembered = [
        (scored.labels, scored.earlier, scored.local)
        for scored in answered
        if scored.earlier is not None
    ]
    return rank_agreement(remembered) if remembered else None


def features_before(sample: dict[str, Any], ids: list[str], width: int) -> Matrix | None:
    """The features of these documents as the sample remembers them, if it does."""
    if "features" not in sample:
        return None
    rows = _rows(sample, ids)
    return unpacked(sample["features"], len(sample["document_ids"]), width)[rows]


def _rows(sample: dict[str, Any], ids: list[str]) -> list[int]:
    places = {document: row for row, document in enumerate(sample["document_ids"])}
    return [places[document] for document in ids]


def _differences(scored: ScoredDocuments) -> Vector:
    """The relative difference of each document's scores."""
    # A score that is not a number must not slip through a comparison.
    with np.errstate(invalid="ignore"):
        difference = np.abs(scored.served - scored.local) / np.maximum(1.0, np.abs(scored.local))
    return np.where(np.isfinite(difference), difference, np.inf)


def _score(value: object) -> float:
    # JSON has integers of any length.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return np.nan
    return float(value) if abs(value) < 1e300 else np.nan
