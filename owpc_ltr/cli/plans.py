"""Plans of learning, from words; all that can be refused is refused here, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.host.registry import Registry
    from owpc_ltr.training.rerankers import RerankingPlan
    from owpc_ltr.training.train import Plan


@dataclass(frozen=True)
class Choosing:
    """Settings that are fixed, those to choose among, and the metric that chooses."""

    settings: Sequence[str]
    grids: Sequence[str]
    select: str

    def model_plan(self, registry: Registry, loss: str, optimizer: str, normalise: str) -> Plan:
        """How to train a model."""
        from owpc_ltr.host.grids import parse_grid
        from owpc_ltr.training.train import Plan

        classes = registry.find("loss", loss), registry.find("optimizer", optimizer)
        fixed = self._fixed()
        grid = dict(parse_grid(text, *classes) for text in self.grids)
        plan = Plan(*classes, fixed, grid, self.select, normalise)
        for candidate in plan.candidates():
            plan.make(candidate)
        return plan

    def reranking_plan(self, registry: Registry, loss: str, reranker: str) -> RerankingPlan:
        """How to learn a reordering."""
        from owpc_ltr.host.grids import parse_grid
        from owpc_ltr.training.rerankers import RerankingPlan

        reranker_class = registry.find("reranker", reranker)
        classes = registry.find("loss", loss), reranker_class
        fixed = self._fixed()
        grid = dict(parse_grid(text, *classes, "reranker") for text in self.grids)
        plan = RerankingPlan(*classes, fixed, grid, self.select)
        for candidate in plan.candidates():
            plan.make(candidate)
        return plan

    def _fixed(self) -> dict[str, str]:
        """Each setting under its full name."""
        from owpc_ltr.host.settings import parse_settings

        return {
            f"{kind}.{name}": value
            for kind, values in parse_settings(list(self.settings)).items()
            for name, value in values.items()
        }
