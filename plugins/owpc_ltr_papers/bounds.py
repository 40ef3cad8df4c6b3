"""`owpc-ltr bounds`: the papers' risk bounds of a model, and which of them are vacuous."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import MaxFeatures
from owpc_ltr.errors import give_warnings
from owpc_ltr.plain_text import text_table
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Plugins, Reads, job

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.protocols import Model
    from owpc_ltr_papers.risk_bounds import Bound

DEFAULT_DELTA = 0.05


@dataclass(frozen=True)
class RiskBounds:
    """Bounds that hold with probability 1 − `delta`, on a sample of so many `queries`."""

    bounds: tuple[Bound, ...]
    delta: float
    queries: int

    @property
    def trained_here(self) -> bool | None:
        """Whether the model was trained on exactly these queries; None where it does not know."""
        return self.bounds[0].trained_here

    def as_dict(self) -> dict[str, Any]:
        """The bounds as JSON."""
        bounds = [bound.as_dict() for bound in self.bounds]
        return {"delta": self.delta, "trained_here": self.trained_here, "bounds": bounds}

    def __str__(self) -> str:
        """A table, and what it holds for."""
        headers = ["BOUND", "OF", "EMPIRICAL", "BOUND SAYS", "AT MOST", "VERDICT"]
        rows = [
            (
                bound.name,
                bound.about,
                _power(bound.log_empirical),
                _power(bound.log_value),
                _power(bound.log_largest_risk),
                _verdict(bound),
            )
            for bound in self.bounds
        ]
        whose = "it was trained on" if self.trained_here else "drawn as these are"
        return (
            f"{text_table(headers, rows)}\n\n"
            f"with probability {1 - self.delta:g}, {self.queries} queries, for queries {whose}"
        )


@job
def bounds(
    model: Annotated[
        Model | Path | str, Reads("A linear model.", cli=Path, absent=NO_MODEL), Argument.RANKER
    ],
    data: Annotated[
        RankingDataset | Path | str,
        Reads("The queries that it was trained on.", cli=Path, flag="--data"),
        Argument.DATA,
    ],
    *,
    delta: Annotated[float, Help("The bounds hold with probability 1 − DELTA.")] = DEFAULT_DELTA,
    generator: Annotated[
        str | None,
        Help("The OWPC weights of the ranking error; default: the model's own."),
    ] = None,
    max_features: MaxFeatures = None,
    plugins: Plugins = (),
) -> RiskBounds:
    """Evaluate the papers' risk bounds for a linear model.

    A bound above the largest possible risk is reported as vacuous. For queries that the model was
    not trained on, the bounds hold for queries drawn as these are; a warning says so.

    Usunier, Buffoni & Gallinari (2009), Theorem 4; Riezler & De Bona (2009), Theorems 3 and 4 and
    Corollaries 1 to 3.
    """
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.evaluation.query_choice import model_data
    from owpc_ltr.host.registry import load
    from owpc_ltr.host.settings import configure
    from owpc_ltr.models.reordering import load_model
    from owpc_ltr_papers.risk_bounds import all_bounds, trained_here

    registry = load(map(Path, plugins))
    ranker: Any = load_model(Path(model)) if isinstance(model, Path | str) else model
    if isinstance(data, Path | str):
        data = read_dataset(data, max_features=max_features)
    settings = {"generator": generator} if generator else _own_settings(ranker.record)
    owpc, pairwise, listwise = (
        configure(registry.find("loss", name), chosen)
        for name, chosen in (
            ("owpc", settings),
            ("position-sensitive", {}),
            ("average-precision", {}),
        )
    )
    sample = model_data(ranker, data, "all")[0]
    found = all_bounds(ranker, sample.without_missing(), owpc, pairwise, listwise, delta=delta)
    here, warnings = trained_here(ranker.record, sample)
    give_warnings(warnings)
    return RiskBounds(
        tuple(replace(bound, trained_here=here) for bound in found), delta, sample.n_queries
    )


def _own_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the loss that the model was trained with, where that is OWPC."""
    loss = record.get("loss")
    if isinstance(loss, dict) and loss.get("name") == "owpc":
        return {key: loss["settings"][key] for key in ("generator", "p")}
    return {}


def _power(log: float) -> str:
    return f"{math.exp(log):.4g}" if log < 30 else f"10^{log / math.log(10):.1f}"


def _verdict(bound: Bound) -> str:
    if not bound.vacuous:
        return "holds, and is not vacuous"
    if math.isinf(bound.queries_needed):
        return "vacuous, for any number of queries"
    return f"vacuous below {bound.queries_needed:.3g} queries"
