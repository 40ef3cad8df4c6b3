"""What training takes where nothing is said: losses, optimizers, metrics, grids and shares."""

from __future__ import annotations

from typing import Literal

Normalisation = Literal["scale", "none"]

DEFAULT_LOSS = "owpc"
DEFAULT_OPTIMIZER = "larank"
DEFAULT_METRIC = "map"
"""By which validation queries choose."""
DEFAULT_C = tuple(float(f"1e{exponent}") for exponent in range(-3, 4))
"""Candidates of `optimizer.C`, the most regularised first."""
DEFAULT_NORMALISATION: Normalisation = "scale"
KNOTS = 8
"""Of each feature's curve in a piecewise-linear model, at most."""
VALIDATION_SHARE = TEST_SHARE = 0.2
"""Shares of the queries that choose the settings, and that are kept for `evaluate`."""

DEFAULT_RERANKER = "exchangeable"
RERANKING_LOSS = "bregman"
RERANKING_METRIC = "ndcg@10"
PENALTIES = (1e3, 1e2, 10.0, 1.0, 1e-1, 1e-2, 1e-5, 0.0)
"""Candidates of `reranker.penalty` (Pareek & Ravikumar 2014), the most regularised first."""

FOLDS = 5
REPORTED_METRICS = ("map", "ndcg@1", "ndcg@3", "ndcg@10")
"""What `select` measures on the test queries of each fold."""

FEATURE_PRICE = 0.001
"""What a millisecond of a feature must gain of the metric that chooses."""
