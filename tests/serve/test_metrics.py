"""What Prometheus collects: counts, times, the models of names, and the drift of live features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from owpc_ltr_serve.endpoint import Call
from owpc_ltr_serve.metrics import HORIZON, Metrics, trained_features
from owpc_ltr_serve.rankers import ServedRanker
from prometheus_client.parser import text_string_to_metric_families

from owpc_ltr.engine.deployment.proof import ScoredDocuments, feature_drifts
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import packed

NAMES = ("title", "votes")


def served(before: np.ndarray | None, model: str = "m-11111111") -> ServedRanker:
    """A ranker that remembers these features of training."""
    ranker = ReorderingModel(LinearModel(NAMES, np.ones(2)), "", None)
    samples: tuple[dict[str, Any], ...] = ()
    if before is not None:
        ids = [f"d{n}" for n in range(len(before))]
        samples = ({"document_ids": ids, "features": packed(before.astype(np.float32))},)
    return ServedRanker(model, ranker, samples=samples)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr_serve.metrics.RENDERED_SECONDS", 0.0)


def read(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every figure by its name and labels, as Prometheus reads them."""
    reply = metrics.answer(Call("/metrics", b"", 0.0))
    assert reply.content_type.startswith("text/plain; version=")
    families = text_string_to_metric_families(reply.body.decode())
    samples = {}
    for sample in (sample for family in families for sample in family.samples):
        labels = (f"{key}={value}" for key, value in sorted(sample.labels.items()))
        samples[sample.name, *labels] = sample.value
    return samples


def collected(states: dict[str, Any] | None = None) -> Metrics:
    known = {"m": {"model": "m-11111111", "confirmed_seconds_ago": 1.5}}
    return Metrics(lambda: known if states is None else states)


def test_requests_stages_and_degradations_are_counted() -> None:
    metrics = collected()
    for seconds in (0.003, 0.004, 0.3):
        metrics.answered("/v2/rerank", 200, seconds)
    metrics.answered("/v2/rerank", 503, 0.001)
    metrics.stage("/{index}/_search", "engine", 0.007)
    metrics.degraded("/{index}/_search", "deadline")
    metrics.impression_lost()
    samples = read(metrics)
    assert samples["owpc_ltr_requests_total", "path=/v2/rerank", "status=200"] == 3
    assert samples["owpc_ltr_requests_total", "path=/v2/rerank", "status=503"] == 1
    assert samples["owpc_ltr_request_seconds_count", "path=/v2/rerank"] == 4
    assert samples["owpc_ltr_request_seconds_bucket", "le=0.005", "path=/v2/rerank"] == 3
    where = "path=/{index}/_search"
    assert samples["owpc_ltr_stage_seconds_sum", where, "stage=engine"] == pytest.approx(0.007)
    assert samples["owpc_ltr_degraded_total", where, "reason=deadline"] == 1
    assert samples["owpc_ltr_impressions_lost_total",] == 1
    assert samples["process_resident_memory_bytes",] > 0
    assert read(collected())["owpc_ltr_impressions_lost_total",] == 0


def test_a_switched_alias_leaves_nothing_of_the_model_before(rng: np.random.Generator) -> None:
    states = {"m": {"model": "m-11111111", "confirmed_seconds_ago": 1.5}}
    metrics = collected(states)
    metrics.scored(served(None), rng.random((3, 2), np.float32))
    samples = read(metrics)
    assert samples["owpc_ltr_model", "model=m-11111111", "name=m"] == 1
    assert samples["owpc_ltr_model_confirmed_seconds", "name=m"] == 1.5
    assert samples["owpc_ltr_feature_missing", "feature=title", "model=m-11111111"] == 0
    states["m"] = {"model": "m-22222222", "confirmed_seconds_ago": 0.0}
    named = [key for key in read(metrics) if any("model=m-" in part for part in key)]
    assert named == [("owpc_ltr_model", "model=m-22222222", "name=m")]


def test_many_who_ask_at_once_share_a_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr_serve.metrics.RENDERED_SECONDS", 60.0)
    metrics = collected()
    metrics.degraded("/v2/rerank", "deadline")
    first = read(metrics)
    metrics.degraded("/v2/rerank", "deadline")
    assert read(metrics) == first
    assert first["owpc_ltr_degraded_total", "path=/v2/rerank", "reason=deadline"] == 1


def drift_of(metrics: Metrics, model: str = "m-11111111") -> list[float]:
    samples = read(metrics)
    return [
        samples["owpc_ltr_feature_drift", f"feature={name}", f"model={model}"] for name in NAMES
    ]


def test_drift_is_that_of_verify_where_all_values_moved_alike(rng: np.random.Generator) -> None:
    before = rng.normal(3, 2, (200, 2)).astype(np.float32)
    before[::7, 0] = np.nan
    now = before + np.array([0.75, 0.0], np.float32)
    ids = tuple(map(str, range(200)))
    nothing = np.zeros(200)
    answered = ScoredDocuments(
        {}, ids, None, np.nan_to_num(now), np.nan_to_num(before), nothing, nothing
    )
    metrics = collected()
    for part in np.array_split(np.nan_to_num(now), 9):
        metrics.scored(served(np.nan_to_num(before)), part)
    wanted = {drift.feature: drift.by for drift in feature_drifts(NAMES, [answered])}
    assert drift_of(metrics) == pytest.approx([wanted[name] for name in NAMES], abs=1e-6)
    assert wanted["title"] > 0.2


def test_missing_values_count_as_0_and_their_share_is_told(rng: np.random.Generator) -> None:
    before = rng.random((50, 2))
    metrics = collected()
    live = np.full((8, 2), np.nan, np.float32)
    live[:2] = 1.0
    metrics.scored(served(before), live)
    samples = read(metrics)
    assert samples["owpc_ltr_feature_missing", "feature=votes", "model=m-11111111"] == 0.75
    trained = trained_features(served(before).samples, 2)
    assert trained is not None
    mean, scale = trained
    wanted = np.abs(0.25 - mean) / scale
    assert drift_of(metrics) == pytest.approx(wanted.tolist(), rel=1e-5)


def test_a_model_that_remembers_no_features_has_no_drift(rng: np.random.Generator) -> None:
    metrics = collected()
    metrics.scored(served(None), rng.random((4, 2), np.float32))
    metrics.scored(served(None), np.zeros((0, 2), np.float32))
    assert not [key for key in read(metrics) if key[0] == "owpc_ltr_feature_drift"]


def test_live_means_forget_what_is_longer_ago_than_the_horizon() -> None:
    metrics = collected()
    ranker = served(np.array([[0.0, 1.0], [2.0, 3.0]]))
    metrics.scored(ranker, np.full((HORIZON // 2, 2), 1.0, np.float32))
    metrics.scored(ranker, np.full((HORIZON // 2, 2), 3.0, np.float32))
    assert drift_of(metrics) == pytest.approx([1.0, 0.0])
    for _ in range(40):
        metrics.scored(ranker, np.full((HORIZON // 4, 2), 5.0, np.float32))
    assert drift_of(metrics) == pytest.approx([4.0, 3.0], abs=1e-3)
