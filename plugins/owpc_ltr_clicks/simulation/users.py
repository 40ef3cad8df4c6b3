"""Users, and the world that they click in: queries, documents, and what attracts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import UsageError


@dataclass(frozen=True)
class Users:
    """How users click on a list.

    Those of kind `position` look at rank r with chance r^−`steepness`, and click on what they look
    at if it draws them. Those of kind `cascade` read from the top; after a click they leave with
    chance `satisfied`, else they go on with chance `patience`. A document of the best grade draws
    with chance `most`, one that is irrelevant with chance `noise`.
    """

    kind: Literal["position", "cascade"] = "position"
    steepness: float = 1.0
    satisfied: float = 0.6
    patience: float = 0.9
    most: float = 0.8
    noise: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what is no chance."""
        for name in ("satisfied", "patience", "most", "noise"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is a chance, and {getattr(self, name)} is none: 0 to 1")
        if self.kind not in {"position", "cascade"} or self.steepness < 0:
            raise UsageError(f"there are no users '{self.kind}': use position or cascade")

    def examination(self, ranks: int) -> Vector:
        """With what chance users who look by position look at each rank."""
        looked: Vector = np.arange(1.0, ranks + 1) ** -self.steepness
        return looked

    def attraction(self, labels: Labels) -> Vector:
        """With what chance documents of these grades draw a click, by their gain 2^grade − 1."""
        gain = np.exp2(labels.astype(np.float64)) - 1
        return self.noise + (self.most - self.noise) * gain / max(float(gain.max(initial=0.0)), 1.0)


@dataclass(frozen=True, eq=False)
class World:
    """Queries and documents, and the chance with which each document draws a click.

    Query q owns the documents from `offsets[q]` to `offsets[q + 1]`.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    offsets: NDArray[np.int64]
    attraction: Vector


def truth(data: RankingDataset, users: Users | None = None) -> World:
    """The world of a judged dataset: the higher the label, the more attractive."""
    params = data.query_params.to_pylist() if data.query_params is not None else []
    ids = data.query_ids.to_pylist()
    names = data.document_ids.to_pylist() if data.document_ids is not None else []
    return World(
        tuple(_text(param) or query for param, query in zip(params or ids, ids, strict=True)),
        tuple(names or (f"d{row}" for row in range(data.n_documents))),
        data.offsets,
        (users or Users()).attraction(data.labels),
    )


def example_world(
    queries: int = 300, documents: int = 30, users: Users | None = None, seed: int = 0
) -> World:
    """A world without a dataset: grades 0 to 4, most of them low."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, queries * documents, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return World(
        tuple(f"query {number}" for number in range(queries)),
        tuple(f"q{q}-d{d}" for q in range(queries) for d in range(documents)),
        np.arange(queries + 1) * documents,
        (users or Users()).attraction(labels.astype(np.float32)),
    )


def _text(param: Any) -> str:
    """The query's text among its parameters, which are JSON."""
    if not isinstance(param, str) or not param.startswith("{"):
        return ""
    content = json.loads(param)
    text = content.get("keywords", content.get("query", ""))
    return text if isinstance(text, str) else ""
