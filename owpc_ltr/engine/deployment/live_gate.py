"""Live gate: a new model gets in only where users are shown to get better lists with it.

The rule: on held-out queries, ranked over the whole index, the 95 % interval of the gain is above 0
with unjudged documents as irrelevant, and the mean gain is not below 0 with them left out. The
first alone could be had by bringing up whatever is judged, the second by what is seldom judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.deployment.aliases import ROLES, Aliases
from owpc_ltr.engine.deployment.certificates import Certificate, Certificates
from owpc_ltr.engine.deployment.gate import GateResult, NotBetter
from owpc_ltr.engine.deployment.trial import on_trial
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, LiveQuestion, evaluate_live
from owpc_ltr.engine.search.serving import query_alone, with_stored
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.held_out import choose_queries
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.joined_tables.table import JoinedTable

QUERY = "query"
"""What a model can be better than besides another model: the query alone."""


@dataclass(frozen=True)
class LiveGate:
    """What a new model must show live: a gain in the question's first metric.

    `over` is `champion` (where the name points to nothing yet: the query alone), `challenger`, an
    immutable name, or `query`. Of the question's queries those count that no model has seen. In the
    `tables` is what models read from outside the index.
    """

    question: LiveQuestion
    over: str = "champion"
    side: str = "auto"
    progress: Callable[[str, float | None], None] | None = None
    tables: Sequence[JoinedTable] = ()


@dataclass(frozen=True)
class LiveGateResult(GateResult):
    """The live comparison; `comparison` has unjudged documents as irrelevant."""

    condensed: Comparison | None = None
    live: LiveEvaluation | None = None

    @property
    def passed(self) -> bool:
        """Whether the gain is above 0, and not below it where unjudged documents are left out."""
        condensed = self.condensed
        return self.comparison.low > 0 and condensed is not None and condensed.mean_difference >= 0

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        live = {} if self.live is None else self.live.as_dict()
        return {**super().as_dict(), "live": live}


class NotBetterLive(NotBetter):
    """The live gate's no, with what it found."""

    def __init__(self, result: LiveGateResult) -> None:
        """Say both gains."""
        self.result = result
        found, condensed = result.comparison, result.condensed
        apart = 0.0 if condensed is None else condensed.mean_difference
        Refused.__init__(
            self,
            f"no live gain in {result.metric} over '{result.over}' is shown: "
            f"{found.mean_b:.4f} → {found.mean_a:.4f}, {found.mean_difference:+.4f} with a 95 % "
            f"interval of [{found.low:+.4f}, {found.high:+.4f}] on {found.n_queries} queries"
            f"{result.by_importance}, and "
            f"{apart:+.4f} with unjudged documents left out (p = {found.p_permutation:.3g}; so "
            f"many show a gain of {found.detectable:.4f} four times in five): nothing was uploaded",
        )


def pass_live_gate(
    engine: Engine, store: Store, gate: LiveGate, model: Model, featureset: FeatureSet, name: str
) -> LiveGateResult:
    """Rank the whole index without and with the model, which is in no name's place yet.

    Raises NotBetterLive where the rule is not met; nothing of the model stays behind.
    """
    other = _other(engine, store, name, gate.over)
    records: dict[str, Mapping[str, Any]] = {"the new model": model.record}
    if other is not None:
        records[f"'{other.model}'"] = other.record
    chosen = choose_queries(records, gate.question.queries, gate.side)
    kept = [gate.question.queries[number] for number in chosen.queries.tolist()]
    question = replace(gate.question, queries=kept)
    before = query_alone(engine, store)
    if other is not None:
        stored = store.get_model(other.model)
        before = with_stored(engine, store, stored, other.interval, gate.tables)
    with on_trial(engine, store, model, featureset, gate.tables) as after:
        found = evaluate_live(question, before, after, gate.progress)
    over = "the query alone" if other is None else other.model
    measured = found.measured[0]
    result = LiveGateResult(
        str(measured.metric), over, measured.comparison, tuple(found.losers()),
        chosen.warnings, question.weights is not None,
        condensed=measured.condensed, live=found,
    )  # fmt: skip
    if not result.passed:
        raise NotBetterLive(result)
    return result


def _other(engine: Engine, store: Store, name: str, over: str) -> Certificate | None:
    """The model to be better than; None for the query alone."""
    if over == QUERY:
        return None
    if over in ROLES:
        alias = Aliases(engine, store).find(name)
        if alias is None:
            return None
        over = alias.model_of(over)
    return Certificates(engine, store).get(over)
