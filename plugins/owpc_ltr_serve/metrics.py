"""What a service tells Prometheus: requests, times, models, and the drift of live features.

The drift of a feature is the distance between its mean in live requests and in training, in
standard deviations of training. Training is what the model remembers of it: the judged documents of
some queries. Users meet other documents than judges do, so that a drift is no fault by itself;
what tells is that it changes. `owpc-ltr verify` measures the same documents again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.engine.deployment.proof import drift_scale
from owpc_ltr.models.model_file import unpacked
from owpc_ltr_serve.endpoint import Call, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from owpc_ltr_serve.rankers import ServedRanker

HORIZON = 100_000
"""Documents after which a live mean has forgotten the ones before."""
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds: the upper bounds of latencies that are counted together."""
RENDERED_SECONDS = 1.0
"""Rendering takes as long as many requests, and Prometheus asks every few seconds."""
States = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Of each name that is served its `model`, and the seconds since that was confirmed."""


class Metrics:
    """The counters of one service, in a registry of their own; safe to share between threads.

    What is told while a request is answered is counted after its answer was sent.
    """

    def __init__(self, states: States) -> None:
        self._uncounted: deque[Callable[[], None]] = deque()
        self._rendered, self._rendered_until = b"", 0.0
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, buckets=BUCKETS, registry=self.registry)
        requests = counter("owpc_ltr_requests", "Requests that were answered.", ["path", "status"])
        seconds = histogram(
            "owpc_ltr_request_seconds", "From the whole request to its answer.", ["path"]
        )
        stages = histogram("owpc_ltr_stage_seconds", "The parts of a request.", ["path", "stage"])
        self._requests, self._seconds = cache(requests.labels), cache(seconds.labels)
        self._stages = cache(stages.labels)
        self._degraded = counter(
            "owpc_ltr_degraded",
            "Searches that kept the engine's own order, by reason.",
            ["path", "reason"],
        )
        self._lost = counter("owpc_ltr_impressions_lost", "Impressions that could not be written.")
        ProcessCollector(registry=self.registry)
        self._models = _Models(states)
        self.registry.register(self._models)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests(path, status).inc()
        self._seconds(path).observe(seconds)
        self._count_all()

    def stage(self, path: str, stage: str, seconds: float) -> None:
        """Count the time of a part of a request."""
        self._uncounted.append(lambda: self._stages(path, stage).observe(seconds))

    def degraded(self, path: str, reason: str) -> None:
        """Count a search that kept the engine's order."""
        self._degraded.labels(path, reason).inc()

    def impression_lost(self) -> None:
        """Count an impression that could not be written."""
        self._lost.inc()

    def scored(self, served: ServedRanker, matrix: Matrix) -> None:
        """Count the features that a ranker has scored."""
        self._uncounted.append(lambda: self._models.add(served, matrix))

    def answer(self, _: Call) -> Reply:
        """What `GET /metrics` answers, which is the same for `RENDERED_SECONDS`."""
        now = time.monotonic()
        if now >= self._rendered_until:
            self._count_all()
            self._rendered = generate_latest(self.registry)
            self._rendered_until = now + RENDERED_SECONDS
        return Reply(self._rendered, content_type=CONTENT_TYPE_PLAIN_0_0_4)

    def _count_all(self) -> None:
        with suppress(IndexError):  # another thread may count, too
            while self._uncounted:
                self._uncounted.popleft()()


def trained_features(
    samples: Sequence[Mapping[str, Any]], width: int
) -> tuple[Vector, Vector] | None:
    """Mean and scale of each feature in what a model remembers of its training, missing as 0.

    None where the samples hold no features.
    """
    matrices = [
        unpacked(sample["features"], len(sample["document_ids"]), width)
        for sample in samples
        if "features" in sample
    ]
    if not matrices:
        return None
    features = np.nan_to_num(np.concatenate(matrices).astype(np.float64))
    return features.mean(axis=0), drift_scale(features)


class _Means:
    """Live means of one model's features, and of the shares that are missing."""

    def __init__(self, served: ServedRanker) -> None:
        self.names = served.ranker.feature_names
        width = len(self.names)
        self._trained = trained_features(served.samples, width)
        self._mean, self.missing = np.zeros(width), np.zeros(width)
        self._count = 0

    def add(self, matrix: Matrix) -> None:
        missing = np.isnan(matrix)
        self._count = min(self._count + len(matrix), max(HORIZON, len(matrix)))
        # The mean of all documents up to the horizon; from there on older ones fade.
        share = len(matrix) / self._count
        now = np.where(missing, 0.0, matrix).mean(axis=0, dtype=np.float64)
        self._mean += share * (now - self._mean)
        self.missing += share * (missing.mean(axis=0) - self.missing)

    def drift(self) -> list[float]:
        """Standard deviations of training between the means, one a feature; none where unknown."""
        if self._trained is None:
            return []
        mean, scale = self._trained
        return list(np.abs(self._mean - mean) / scale)


class _Models(Collector):
    """What is known at the moment of asking: the models of names, and the drift of features."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._means: dict[str, _Means] = {}
        self._lock = threading.Lock()

    def add(self, served: ServedRanker, matrix: Matrix) -> None:
        """Count documents that a ranker has scored, one row each."""
        if not len(matrix):
            return
        with self._lock:
            if served.model not in self._means:
                self._means[served.model] = _Means(served)
            self._means[served.model].add(matrix)

    def collect(self) -> Iterator[Metric]:
        """The metrics of now, so that nothing is left of a name or model that is gone."""
        models = GaugeMetricFamily(
            "owpc_ltr_model", "1 for the model that a name means.", labels=["name", "model"]
        )
        ages = GaugeMetricFamily(
            "owpc_ltr_model_confirmed_seconds",
            "Seconds since the cluster, or the file, last said so.",
            labels=["name"],
        )
        drift = GaugeMetricFamily(
            "owpc_ltr_feature_drift",
            "Live mean less the mean in training, in standard deviations of training.",
            labels=["model", "feature"],
        )
        missing = GaugeMetricFamily(
            "owpc_ltr_feature_missing",
            "Share of live values that are missing.",
            labels=["model", "feature"],
        )
        states = self._states()
        for name, state in states.items():
            models.add_metric([name, state["model"]], 1)
            ages.add_metric([name], state["confirmed_seconds_ago"])
        served = {state["model"] for state in states.values()}
        with self._lock:
            self._means = {name: means for name, means in self._means.items() if name in served}
            for model, means in self._means.items():
                for family, values in ((drift, means.drift()), (missing, means.missing.tolist())):
                    for feature, value in zip(means.names, values, strict=False):
                        family.add_metric([model, feature], value)
        yield from (models, ages, drift, missing)
