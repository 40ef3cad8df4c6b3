"""Live gate: a new model gets in only where users are shown to get better lists with it.

The rule: on held-out queries, ranked over the whole index, the gain is better than chance with
unjudged documents as irrelevant, not below 0 with them left out, and by judgments that can tell.
The first alone could be had by bringing up whatever is judged, the second by what is seldom judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.dataset import make_dataset
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.aliases import ROLES, Aliases
from owpc_ltr.engine.deployment.certificates import Certificate, Certificates
from owpc_ltr.engine.deployment.gate_result import GateResult, NotBetter
from owpc_ltr.engine.deployment.parity import logged
from owpc_ltr.engine.deployment.trial import on_trial
from owpc_ltr.engine.search.live_evaluation import (
    QUERY_ALONE,
    LiveEvaluation,
    LiveQuestion,
    evaluate_live,
)
from owpc_ltr.engine.search.serving import query_alone, with_stored
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.evaluation.held_out import choose_queries
from owpc_ltr.evaluation.judgment_checks import judgment_doubts
from owpc_ltr.evaluation.verdict import Doubt
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.score_kinds import text_scores
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import JoinedTable

QUERY = "query"
"""What a model can be better than besides another model: the query alone."""
_SAMPLED = 100
_MOST_DOCUMENTS = 500


@dataclass(frozen=True)
class LiveGate:
    """What a new model must show live: a gain in the question's first metric.

    `over` is `champion` (where the name points to nothing yet: the query alone), `challenger`, an
    immutable name, or `query`. Of the question's queries those count that no model has seen. In the
    `tables` is what models read from outside the index. `accepted` is why judgments that cannot
    tell are taken for proof, `cautions` what else is not known.
    """

    question: LiveQuestion
    over: str = "champion"
    side: str = "auto"
    progress: Callable[[str, float | None], None] | None = None
    tables: Sequence[JoinedTable] = ()
    accepted: str | None = None
    cautions: tuple[str, ...] = ()


def pass_live_gate(
    engine: Engine, store: Store, gate: LiveGate, model: Model, featureset: FeatureSet, name: str
) -> GateResult:
    """Rank the whole index without and with the model, which is in no name's place yet.

    Raises NotBetter where the rule is not met; nothing of the model stays behind.
    """
    other = other_model(engine, store, name, gate.over)
    records: dict[str, Mapping[str, Any]] = {"the new model": model.record}
    if other is not None:
        records[f"'{other.model}'"] = other.record
    chosen = choose_queries(records, gate.question.queries, gate.side)
    kept = [gate.question.queries[number] for number in chosen.queries.tolist()]
    question = replace(gate.question, queries=kept)
    found = live_evidence(
        engine, store, question, model, featureset, other, gate.tables, gate.progress
    )
    measured = found.measured[0]
    result = GateResult(
        str(measured.metric), QUERY_ALONE if other is None else other.model,
        measured.comparison, tuple(found.losers()), (*chosen.warnings, *gate.cautions),
        question.weights is not None, live=found, of_live_lists=True,
        doubts=(*found.verdict().doubts, *_feature_doubts(engine, store, featureset, question)),
        accepted=gate.accepted,
    )  # fmt: skip
    if not result.passed:
        raise NotBetter(result)
    return result


def live_evidence(
    engine: Engine,
    store: Store,
    question: LiveQuestion,
    model: Model,
    featureset: FeatureSet,
    other: Certificate | None,
    tables: Sequence[JoinedTable],
    progress: Callable[[str, float | None], None] | None,
) -> LiveEvaluation:
    """What users get with the other model, or the query alone, and with the new one."""
    alone = query_alone(engine, store)
    before, name = alone, QUERY_ALONE
    if other is not None:
        stored = store.get_model(other.model)
        before, name = (
            with_stored(engine, store, stored, other.interval, tables),
            f"'{other.model}'",
        )
    with on_trial(engine, store, model, featureset, tables) as after:
        return evaluate_live(
            question, before, after, progress,
            alone=None if other is None else alone, names=(name, "the new model"),
        )  # fmt: skip


def other_model(engine: Engine, store: Store, name: str, over: str) -> Certificate | None:
    """The model to be better than; None for the query alone."""
    if over == QUERY:
        return None
    certificates = Certificates(engine, store)
    if over in ROLES:
        alias = Aliases(engine, store).find(name)
        if alias is None:
            return None
        over = alias.model_of(over)
    return certificates.get(certificates.called(over))


def _feature_doubts(
    engine: Engine, store: Store, featureset: FeatureSet, question: LiveQuestion
) -> list[Doubt]:
    """What the features of judged documents tell of the judgments, by a sample of the queries."""
    rng = np.random.default_rng(question.seed)
    queries = [
        question.queries[number]
        for number in np.sort(rng.permutation(len(question.queries))[:_SAMPLED]).tolist()
    ]

    def features_of(number: int) -> tuple[list[str], list[float], np.ndarray]:
        query = queries[number]
        grades = dict(zip(query.document_ids, map(float, query.grades), strict=True))
        some = np.random.default_rng(number).permutation(query.document_ids)[:_MOST_DOCUMENTS]
        sample = {"params": query.params, "document_ids": some.tolist()}
        ids, features = logged(engine, store, featureset, question.index, sample)
        return [query.query_id] * len(ids), [grades[name] for name in ids], features

    with RequestThreads(min(question.in_flight, len(queries))) as workers:
        found = [one for one in workers.map(features_of, range(len(queries))) if one[0]]
    if not found:
        return []
    ids, grades, features = zip(*found, strict=True)
    data = make_dataset(
        np.concatenate(features), np.concatenate(grades), np.concatenate(ids).tolist(),
        feature_names=featureset.feature_names,
    )  # fmt: skip
    return judgment_doubts(data, text_scores(featureset))
