"""Parity: its figures by enumeration, its samples, and the least coverage of a proof."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from owpc_ltr import OwpcLtrError
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import query_positions
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import all_aliases
from owpc_ltr.engine.deployment.model_upload import Uploaded, UploadRequest, upload_model
from owpc_ltr.engine.deployment.parity import MAX_DRIFT, ProofLimits, drift_refusal
from owpc_ltr.engine.deployment.proof import (
    ScoredDocuments,
    feature_drifts,
    parity_of,
    ranking_drift,
)
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.model_file import (
    PARITY_DOCUMENTS,
    PARITY_QUERIES,
    dataset_of,
    packed,
    parity_samples_of,
    unpacked,
)
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import FEATURESET, linear, probes

few = st.lists(st.integers(-3, 3), min_size=2, max_size=9)


def answered(
    reference: list[Any], other: list[Any], labels: list[Any] | None = None, query: str = "q"
) -> ScoredDocuments:
    """One probe with the local score and the engine's."""
    first, second = (np.array(scores, dtype=np.float64) for scores in (reference, other))
    ids = tuple(f"d{number}" for number in range(len(first)))
    grades = None if labels is None else np.array(labels, dtype=np.float64)
    none = np.zeros((len(first), 1), np.float32)
    return ScoredDocuments({"query_id": query}, ids, grades, none, None, first, second)


@given(reference=few, data=st.data())
def test_swaps_and_broken_ties_are_those_of_all_pairs_and_tau_is_scipys(
    reference: list[int], data: st.DataObject
) -> None:
    size = len(reference)
    other = data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    parity = parity_of([answered(reference, other)])
    pairs = [
        (np.sign(reference[i] - reference[j]), np.sign(other[i] - other[j]))
        for i, j in combinations(range(size), 2)
    ]
    assert parity.swapped == sum(ours * theirs < 0 for ours, theirs in pairs)
    assert parity.ties_broken == sum((ours == 0) != (theirs == 0) for ours, theirs in pairs)
    wanted = float(kendalltau(reference, other).statistic)
    # Where one side orders nothing there is no tau, and nothing to hold against it.
    assert parity.tau == pytest.approx(1.0 if np.isnan(wanted) else wanted)


@given(scores=few)
def test_equal_scores_differ_in_nothing(scores: list[int]) -> None:
    parity = parity_of([answered(scores, scores, list(range(len(scores))))])
    assert (parity.largest_difference, parity.swapped, parity.ties_broken) == (0, 0, 0)
    assert parity.tau == pytest.approx(1.0)
    assert parity.ndcg_difference == 0.0
    assert parity.refusal(0.0) is None


def test_the_worst_document_is_named_and_its_difference_is_relative_above_1() -> None:
    near = answered([1.0, 2.0], [1.0, 2.0005], query="near")
    far = answered([100.0, 0.5, 3.0], [101.0, 0.5, 3.0], query="far")
    parity = parity_of([near, far])
    assert parity.largest_difference == pytest.approx(0.01)
    assert (parity.worst_query, parity.worst_document) == ("far", "d0")
    assert (parity.queries, parity.documents) == (2, 5)
    refusal = parity.refusal(1e-3)
    assert refusal is not None
    assert "by 0.01 on document 'd0' of query 'far' (0.001 is allowed)" in refusal


@pytest.mark.parametrize("own", [2.0, np.nan, np.inf])
@pytest.mark.parametrize("lie", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_never_let_through(lie: float, own: float) -> None:
    """As of a document that the engine did not return, or with a feature that is no number."""
    parity = parity_of([answered([1.0, own, 3.0], [1.0, lie, lie], [0, 1, 2])])
    assert parity.largest_difference == np.inf
    assert parity.refusal(1e300) is not None
    assert np.isfinite(parity.tau)
    assert parity.ndcg_difference is None or np.isfinite(parity.ndcg_difference)


def test_what_the_labels_lose_is_the_difference_of_the_metric() -> None:
    reference, other, labels = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2, 0, 1]
    parity = parity_of([answered(reference, other, labels)] * 2)
    metric = parse_metric("ndcg@10")
    grades, offsets = np.array(labels, np.float32), np.array([0, 3])
    wanted = metric.mean(np.array(other), grades, offsets) - metric.mean(
        np.array(reference), grades, offsets
    )
    assert wanted < -0.1
    assert parity.ndcg_difference == pytest.approx(wanted)
    # Of documents without labels nothing is claimed.
    half = [answered(reference, other, labels), answered(reference, other)]
    assert parity_of(half).ndcg_difference is None


# --- how far features moved, and the limit of it


def remembered(before: Any, now: Any, weights: Any) -> ScoredDocuments:
    """One sample whose features were others, scored by a linear model of these weights."""
    earlier, features = np.array(before, np.float32), np.array(now, np.float32)
    by = np.array(weights, np.float64)
    local, then = features.astype(np.float64) @ by, earlier.astype(np.float64) @ by
    ids = tuple(f"d{row}" for row in range(len(features)))
    grades = np.arange(len(features), dtype=np.float64)
    return ScoredDocuments({"query_id": "q"}, ids, grades, features, earlier, local, local, then)


columns = st.lists(st.tuples(*[st.integers(-8, 8)] * 2), min_size=3, max_size=9)


@given(before=columns)
def test_features_that_stayed_move_no_ranking_and_are_never_refused(before: list[Any]) -> None:
    answered_ = [remembered(before, before, (1, -2))]
    features, rankings = feature_drifts(("a", "b"), answered_), ranking_drift(answered_)
    assert [feature.by for feature in features] == [0, 0]
    assert rankings is not None
    assert rankings.swapped == rankings.ndcg_difference == 0
    assert rankings.tau == pytest.approx(1)
    assert drift_refusal(features, rankings, 0.0) is None


@given(before=columns, factor=st.floats(0.1, 9))
def test_one_scale_for_all_features_moves_them_and_no_ranking(
    before: list[Any], factor: float
) -> None:
    """As another BM25 does to a model of text scores alone: the drift is told, the order stays."""
    scaled = (np.array(before) * np.float64(factor)).tolist()
    rankings = ranking_drift([remembered(before, scaled, (1, 0))])
    assert rankings is not None
    assert rankings.swapped == 0
    assert rankings.tau == pytest.approx(1)


def test_two_features_that_have_nothing_in_common_are_as_far_apart_as_the_limit_reckons() -> None:
    generator = np.random.default_rng(0)
    before, noise = generator.normal(size=(2, 200_000))
    for correlation in (0.0, 0.95):
        other = correlation * before + np.sqrt(1 - correlation**2) * noise
        (moved,) = feature_drifts(("x",), [remembered(before[:, None], other[:, None], (1,))])
        expected = 2 / np.sqrt(np.pi) * np.sqrt(1 - correlation)
        assert moved.by == pytest.approx(expected, rel=0.02)
    assert moved.by == pytest.approx(MAX_DRIFT, rel=0.03)


def test_the_refusal_names_feature_limit_and_what_rankings_lose() -> None:
    answered_ = [remembered([[0], [1], [2], [3]], [[3], [2], [1], [0]], (1,))]
    features, rankings = feature_drifts(("title",), answered_), ranking_drift(answered_)
    refusal = drift_refusal(features, rankings, 0.25)
    assert refusal is not None
    for words in ("'title'", "by 1.79 standard", "(0.25 is allowed)", "tau -1.0000", "ndcg@10 -0."):
        assert words in refusal
    assert drift_refusal(features, rankings, 1.8) is None


def test_a_feature_of_few_documents_that_none_has_any_more_is_as_far_as_can_be() -> None:
    """Three documents of a hundred: .18 standard deviations in the mean."""
    before, now = np.zeros((100, 1)), np.zeros((100, 1))
    before[[3, 40, 77]] = 5
    answered_ = [remembered(before, now, (1,))]
    (gone,) = feature_drifts(("exact",), answered_)
    assert gone.by == pytest.approx(2 / np.sqrt(np.pi))
    assert "'exact'" in str(drift_refusal((gone,), ranking_drift(answered_), MAX_DRIFT))
    # One document that was edited is no drift.
    before[[40, 77]] = 0
    (edited,) = feature_drifts(("exact",), [remembered(before, now, (1,))])
    assert edited.by < MAX_DRIFT


def test_rankings_that_are_others_are_refused_where_no_feature_alone_is_far() -> None:
    """An outlier is the feature's whole standard deviation."""
    votes = np.append(np.arange(30.0), 1e6)[:, None]
    reset = np.where(votes < 1e6, 30 - votes, votes)
    answered_ = [remembered(votes, reset, (1,))]
    features, rankings = feature_drifts(("votes",), answered_), ranking_drift(answered_)
    assert features[0].by < 0.01
    refusal = str(drift_refusal(features, rankings, MAX_DRIFT))
    assert refusal.startswith("the judged documents rank otherwise (Kendall's tau -0.")
    assert "tau 0.8 is allowed" in refusal
    assert drift_refusal(features, rankings, 2.0) is None


def test_without_remembered_features_nothing_is_said_of_rankings() -> None:
    plain = [answered([1.0, 2.0], [1.0, 2.0])]
    assert ranking_drift(plain) is None
    assert drift_refusal(feature_drifts(("x",), plain), None, 0.0) is None


def logged(queries: int = 60, documents: int = 3) -> RankingDataset:
    """Judged documents as they come from an engine."""
    generator = np.random.default_rng(0)
    rows = queries * documents
    features = generator.normal(size=(rows, 2)).astype(np.float32)
    features[::5, 1] = np.nan
    return make_dataset(
        features,
        generator.integers(0, 3, rows).astype(np.float32),
        np.repeat([f"query {i}" for i in range(queries)], documents),
        doc_ids=pa.array([f"d{i}" for i in range(rows)]),
        query_params=pa.array([json.dumps({"keywords": f"words {i}"}) for i in range(queries)]),
    )


def test_the_queries_of_the_lowest_hashes_are_remembered_in_their_order() -> None:
    data = logged()
    lowest = np.sort(np.argsort(query_positions(data, "probes"))[:PARITY_QUERIES])
    chosen = [sample["query_id"] for sample in parity_samples_of(data)]
    assert chosen == data.query_ids.take(pa.array(lowest)).to_pylist()
    assert chosen != data.query_ids[:PARITY_QUERIES].to_pylist()


def test_the_order_of_the_queries_chooses_none() -> None:
    data = logged()
    shuffled = data.select(np.random.default_rng(1).permutation(60))
    samples, other = parity_samples_of(data), parity_samples_of(shuffled)
    by_id = {sample["query_id"]: sample for sample in other}
    assert [by_id[sample["query_id"]] for sample in samples] == samples
    assert len(other) == len(samples) == PARITY_QUERIES


def test_a_query_that_leaves_takes_no_other_with_it() -> None:
    data = logged()
    chosen = [sample["query_id"] for sample in parity_samples_of(data)]
    others = [i for i, query in enumerate(data.query_ids.to_pylist()) if query != chosen[0]]
    left = [sample["query_id"] for sample in parity_samples_of(data.select(np.array(others)))]
    assert set(chosen[1:]) < set(left)


@pytest.mark.parametrize("queries", [1, 5, 60])
def test_as_many_queries_are_remembered_as_there_are_or_fit(queries: int) -> None:
    data = logged().select(np.arange(queries))
    assert len(parity_samples_of(data)) == min(queries, PARITY_QUERIES)


def test_a_sample_is_what_was_logged() -> None:
    data = logged(documents=PARITY_DOCUMENTS + 2)
    for sample in parity_samples_of(data):
        query = data.query_ids.to_pylist().index(sample["query_id"])
        rows = slice(
            query * (PARITY_DOCUMENTS + 2), query * (PARITY_DOCUMENTS + 2) + PARITY_DOCUMENTS
        )
        assert sample["params"] == {"keywords": f"words {query}"}
        assert sample["document_ids"] == data.doc_ids[rows].to_pylist()  # type: ignore[index]
        assert sample["labels"] == data.labels[rows].tolist()
        assert (
            unpacked(sample["features"], PARITY_DOCUMENTS, 2).tobytes()
            == data.features[rows].tobytes()
        )


def test_samples_read_back_as_judged_queries() -> None:
    data = logged()
    samples = json.loads(json.dumps(parity_samples_of(data), allow_nan=False))
    read = dataset_of(samples, data.feature_names)
    chosen = [data.query_ids.to_pylist().index(sample["query_id"]) for sample in samples]
    expected = data.select(np.array(chosen))
    assert read.query_ids.to_pylist() == expected.query_ids.to_pylist()
    assert np.array_equal(read.labels, expected.labels)
    assert np.array_equal(read.offsets, expected.offsets)
    assert read.features.tobytes() == expected.features.tobytes()


@pytest.mark.parametrize("missing", ["query_params", "doc_ids"])
def test_what_no_engine_logged_cannot_be_asked_again(missing: str) -> None:
    absent: dict[str, Any] = {missing: None}
    assert parity_samples_of(replace(logged(), **absent)) == []


@given(st.lists(st.floats(width=32), min_size=6, max_size=6))
def test_packed_features_come_back_bit_by_bit(values: list[float]) -> None:
    matrix = np.array(values, np.float32).reshape(3, 2)
    assert unpacked(packed(matrix), 3, 2).tobytes() == matrix.tobytes()
    assert unpacked(packed(np.asfortranarray(matrix)), 3, 2).tobytes() == matrix.tobytes()


@pytest.mark.parametrize("text", ["AAAA", "?", packed(np.zeros((2, 2), np.float32))])
def test_features_of_another_size_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="the features of a sample are not 3 rows of 2"):
        unpacked(text, 3, 2)


SAMPLES = probes(documents=60, queries=4)
ASKED = sorted({document for sample in SAMPLES for document in sample["document_ids"]})


class Held:
    """A cluster whose index holds these documents."""

    def __init__(self, documents: list[str]) -> None:
        self.cluster = MemoryCluster()
        self.engine = cast("Engine", self.cluster)
        self.store = PluginFreeStore(self.engine)
        self.hold(documents)
        self.store.put_featureset(FEATURESET)

    def hold(self, documents: list[str]) -> None:
        if "small" in self.cluster.indices:
            self.engine.request("DELETE", "/small")
        self.engine.request("PUT", "/small", body={})
        for document in documents:
            self.engine.request("PUT", f"/small/_doc/{document}", body={"n": 1})

    def upload(
        self, samples: list[dict[str, Any]] = SAMPLES, name: str = "m", **how: Any
    ) -> Uploaded:
        model = linear(probes=samples)
        request = UploadRequest(model, FEATURESET, index="small", name=name, **how)
        return upload_model(self.engine, self.store, request)


def test_a_model_is_not_proven_on_one_document_of_many() -> None:
    held = Held(ASKED[:1])
    with pytest.raises(Refused, match=r"only \d of the 48 judged documents .* 'small', and a proof "
                       "needs 24: .*`min_proof_coverage`"):  # fmt: skip
        held.upload()
    assert all_aliases(held.engine) == []
    assert held.store.list_models() == []


def test_documents_of_one_query_are_no_proof_for_the_others() -> None:
    first = SAMPLES[0]["document_ids"]
    alone = [*SAMPLES[:1], *({**sample, "document_ids": ["x"]} for sample in SAMPLES[1:])]
    with pytest.raises(Refused, match="only 1 of the 4 judged queries"):
        Held(first).upload(alone)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_the_share_is_the_least_that_passes(share: float) -> None:
    """Documents are taken out one by one: it passes just as long as their share is that."""
    ids = [f"d{number}" for number in range(40)]
    samples = [
        {**SAMPLES[0], "query_id": f"q{part}", "document_ids": ids[part::2]} for part in (0, 1)
    ]
    for there in (1, 4, 9, 10, 19, 20, 21, 35, 36, 39, 40):
        held = Held(ids[:there])
        enough = there >= 10 and there / 40 >= share
        try:
            parity = held.upload(samples, limits=ProofLimits(min_proof_coverage=share)).parity
        except Refused:
            assert not enough, there
            continue
        assert enough, there
        assert (parity.documents, parity.absent) == (there, 40 - there)
        coverage = f"{there} of 40 documents ({there / 40:.0%}) of 2 of 2 queries"
        assert parity.compared() == ("40 documents of 2 queries" if there == 40 else coverage)


def test_a_share_of_nothing_takes_any_and_none_takes_nothing() -> None:
    assert Held(ASKED[:1]).upload(limits=ProofLimits(min_proof_coverage=0)).parity.documents >= 1
    with pytest.raises(Refused, match="none of the judged documents"):
        Held([]).upload(limits=ProofLimits(min_proof_coverage=0))
    with pytest.raises(UsageError, match="`min_proof_coverage` is a share, 0 to 1, not 2"):
        Held(ASKED).upload(limits=ProofLimits(min_proof_coverage=2))


def test_a_model_that_remembers_few_documents_needs_all_of_them() -> None:
    few = [{**SAMPLES[0], "document_ids": ["d1", "d2", "d3"]}]
    assert Held(["d1", "d2", "d3"]).upload(few).parity.documents == 3
    with pytest.raises(Refused, match="needs 3"):
        Held(["d1", "d2"]).upload(few)


def test_an_uploaded_model_is_not_verified_on_almost_nothing() -> None:
    held = Held(ASKED)
    model = held.upload().model
    assert verify_model(held.engine, held.store, model).drift == ()
    held.hold(ASKED[:3])
    with pytest.raises(Refused, match=r"only \d+ of the 48 judged documents"):
        verify_model(held.engine, held.store, model)
    drift = verify_model(
        held.engine, held.store, model, limits=ProofLimits(min_proof_coverage=0)
    ).drift
    assert any("documents are gone" in line for line in drift)


@pytest.mark.parametrize("name", ["m-363e5ec3", "m@363e5ec3", "m-20261122"])
def test_a_name_that_could_be_a_models_own_is_refused(name: str, tmp_path: Path) -> None:
    held = Held(ASKED)
    held.upload()
    before = held.store.list_models()
    with pytest.raises(OwpcLtrError, match=r"reads as a model of 'm'|an '@' comes before an index"):
        held.upload(name=name)
    assert held.store.list_models() == before
    assert [alias.name for alias in all_aliases(held.engine)] == ["m"]


def test_a_date_in_a_name_is_none_where_nothing_else_is_called_so() -> None:
    held = Held(ASKED)
    done = held.upload(name="shop-20261122")
    assert done.alias.current == done.model
