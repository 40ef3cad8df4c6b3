"""The demo's state: its options, and what one step hands to the next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_demo.narration import Narrator

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.stores.store import Store
    from owpc_ltr.features.feature_set import FeatureSet

INDEX = "python-docs"
"""The name of the index, and of the feature set."""
MODEL = "python-docs-owpc"
TREES_MODEL = "python-docs-trees"
SELECT = "ndcg@10"
"""The one metric by which everything is chosen: loss weights, C, trees, boosts."""
CLICKS_MODEL = "python-docs-clicks"
STEPS, CLICKS_STEPS = 12, 11
"""How many steps there are: of the road from judgments, and of that from clicks."""


@dataclass(frozen=True)
class DemoOptions:
    """How the demo runs."""

    port: int = 9270
    """The demo has a node of its own, which disturbs no other."""
    folder: Path = Path("owpc-ltr-demo")
    """Where its judgments, dataset, model and baseline go."""
    queries: int = 2500
    threads: int = 1
    seed: int = 0

    def file(self, ending: str) -> Path:
        """A file of the demo."""
        return self.folder / f"{INDEX}{ending}"


@dataclass
class Walk:
    """A demo under way: where its news go, and the figures so far."""

    options: DemoOptions
    narrator: Narrator
    steps: int = STEPS
    figures: dict[str, Any] = field(default_factory=lambda: {"seconds": {}})

    @contextmanager
    def step(self, key: str, title: str) -> Iterator[None]:
        """Announce a step, and keep how many seconds it took."""
        self.narrator.step(len(self.figures["seconds"]) + 1, self.steps, title)
        started = time.monotonic()
        yield
        self.figures["seconds"][key] = time.monotonic() - started


@dataclass(frozen=True)
class Cluster:
    """The demo's node, and what was put there."""

    engine: Engine
    store: Store
    featureset: FeatureSet
