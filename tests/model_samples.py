"""One small model of every kind."""

from __future__ import annotations

import numpy as np

from owpc_ltr.models.average import AverageModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.networks import Layer, LogisticNetwork, NetworkModel
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model

NAMES = ("a<b", "c", "d")
FOREST = Forest(
    np.array([0], np.int32), np.array([0, -1, -1], np.int32), np.zeros(3, np.float32),
    np.array([1, 0, 0], np.int32), np.zeros(3, bool), np.array([0, 1.5, -2.0]),
)  # fmt: skip
LINEAR = LinearModel(NAMES, np.array([1.0, -2.0, 0.5]))
MODELS: list[Model] = [
    LINEAR,
    TreeModel(NAMES, FOREST),
    NetworkModel(NAMES, np.ones((2, 3)), np.zeros(2), np.array([1.0, -0.5])),
    LogisticNetwork(NAMES, (Layer(np.ones((1, 3)), np.zeros(1)),)),
    AverageModel(NAMES, (LINEAR, TreeModel(NAMES, FOREST)), np.ones(2)),
]
