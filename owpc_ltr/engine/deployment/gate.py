"""The gate of `upload --require-gain`: only a model that held-out queries show to be better."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.types import Judgments
from owpc_ltr.data.query_texts import query_text
from owpc_ltr.engine.deployment.aliases import ROLES, Aliases
from owpc_ltr.engine.deployment.certificates import Certificate, Certificates
from owpc_ltr.engine.deployment.gate_result import GateResult, NotBetter
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.evaluate import Measured, compare, importance_of, measure
from owpc_ltr.evaluation.held_out import choose_queries
from owpc_ltr.evaluation.human_sample import (
    HumanSample,
    check_counted,
    human_sample,
    in_all,
    sample_weights,
    strata_of,
)
from owpc_ltr.evaluation.prediction_powered import (
    prediction_powered,
)
from owpc_ltr.evaluation.sample_randomness import doubts_of_sample
from owpc_ltr.evaluation.unused_weights import unused_weights
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Model

__all__ = ["Gate", "GateResult", "NotBetter", "held_out", "pass_gate"]

_SHOWN = 10


@dataclass(frozen=True)
class Gate:
    """What a new model must show: a gain in a metric over another model, on judged queries.

    `over` is `champion`, `challenger`, or an immutable name. With `human` judgments of a random
    sample of the queries, or of each of the `strata`, those of `data` are cheap ones, and people
    decide.
    """

    metric: Metric
    data: RankingDataset
    over: str = "champion"
    human: Judgments | RankingDataset | None = None
    strata: Mapping[str, str] | None = None


def pass_gate(
    engine: Engine, store: Store, gate: Gate, model: Model, featureset: FeatureSet, name: str
) -> GateResult | None:
    """Compare on held-out queries with the model that is there; None where there is none yet.

    Raises NotBetter where the interval of the gain reaches down to 0, Refused or BadInput where
    the two cannot be compared fairly.
    """
    other = _other(engine, store, name, gate.over)
    if other is None:
        return None
    data, cautions = held_out(gate.data, model, other)
    both = _Both(model, other, featureset, gate.metric)
    if gate.human is not None:
        result = _by_both_judges(gate, gate.human, both, data, cautions)
    else:
        weights = importance_of(data)
        new, old = both.measured(data)
        better = (new, old) if gate.metric.higher_is_better else (old, new)
        result = GateResult(
            str(gate.metric),
            other.model,
            compare(*better, weights=weights),
            _losers(data, gate.metric, new.per_query, old.per_query),
            (*cautions, *unused_weights(data)),
            weighted=weights is not None,
        )
    if not result.passed:
        raise NotBetter(result)
    return result


@dataclass(frozen=True)
class _Both:
    """The new model and the other one, measured on the same data."""

    model: Model
    other: Certificate
    featureset: FeatureSet
    metric: Metric

    def measured(self, data: RankingDataset) -> tuple[Measured, Measured]:
        old = _scores(self.other, self.featureset, data)
        new = self.model.score(data.features)
        first, second = (measure(scores, data, [self.metric])[0] for scores in (new, old))
        return first, second


def _by_both_judges(
    gate: Gate,
    human: Judgments | RankingDataset,
    both: _Both,
    data: RankingDataset,
    cautions: tuple[str, ...],
) -> GateResult:
    """The gain by people's judgments of a sample and cheap ones of all queries."""
    sample = human_sample(gate.data, human)
    of_people, places = sample.among(data.query_ids)
    if isinstance(human, RankingDataset):
        # No model chose its queries by their grades: what is left of a random sample is one.
        unseen = HumanSample(held_out(of_people, both.model, both.other)[0])
        of_people, places = unseen.among(data.query_ids)
    strata = strata_of(data.query_ids, gate.strata)
    weights = importance_of(data)
    sign = 1.0 if gate.metric.higher_is_better else -1.0
    cheap_new, cheap_old = both.measured(data)
    new, old = both.measured(of_people)
    gains = sign * (cheap_new.per_query - cheap_old.per_query)
    by_people = sign * (new.per_query - old.per_query)
    check_counted(gate.metric, gains, by_people)
    spread = in_all(by_people, places, data.n_queries)
    ids = data.query_ids.to_pylist()
    found = prediction_powered(gains, spread, ids, weights=weights, strata=strata)
    better = (new, old) if sign > 0 else (old, new)
    return GateResult(
        str(gate.metric),
        both.other.model,
        compare(*better, weights=sample_weights(weights, places, strata)),
        _losers(of_people, gate.metric, new.per_query, old.per_query),
        (
            *cautions,
            *sample.notes,
            *unused_weights(data),
            *doubts_of_sample(found.p_random),
        ),
        weighted=weights is not None,
        powered=found,
    )


def held_out(
    data: RankingDataset, model: Model, other: Certificate
) -> tuple[RankingDataset, tuple[str, ...]]:
    """The queries that neither model learned from or was chosen on, and what is not known of it."""
    if data.feature_names != model.feature_names:
        raise BadInput(
            "the data for --require-gain has other features than the model: log it with the "
            "model's feature set"
        )
    records = {"the new model": model.record, f"'{other.model}'": other.record}
    chosen = choose_queries(records, data)
    if len(chosen.queries) < 2:
        raise Refused(
            f"{len(chosen.queries)} queries of the data were held out from both models, and a "
            "comparison needs 2 at least: train with a split, or give newer judgments"
        )
    return data.select(chosen.queries), chosen.warnings


def _other(engine: Engine, store: Store, name: str, over: str) -> Certificate | None:
    alias = Aliases(engine, store).find(name)
    certificates = Certificates(engine, store)
    if over in ROLES:
        if alias is None:
            return None
        over = alias.model_of(over)
    return certificates.get(certificates.called(over))


def _scores(other: Certificate, featureset: FeatureSet, data: RankingDataset) -> Vector:
    """The other model's scores, from the columns of the data that are its features."""
    ours = {feature.name: feature for feature in featureset.features}
    for feature in other.featureset.features:
        if ours.get(feature.name) != feature:
            raise Refused(
                f"'{other.model}' reads the feature '{feature.name}', which the new model's "
                f"feature set '{featureset.name}' has not, or has otherwise: the two can be "
                "compared only on features of both"
            )
    ranker = other.ranker()
    lacking = [name for name in ranker.feature_names if name not in data.feature_names]
    if lacking:
        raise Refused(
            f"'{other.model}' reads the feature '{lacking[0]}', which is joined from a table, and "
            "not in the data: log the data with that table too (--join)"
        )
    columns = [data.feature_names.index(name) for name in ranker.feature_names]
    return ranker.score(data.features[:, columns])


def _losers(
    data: RankingDataset, metric: Metric, new: Vector, old: Vector
) -> tuple[dict[str, Any], ...]:
    sign = 1.0 if metric.higher_is_better else -1.0
    gains = np.nan_to_num(sign * (new - old))
    worst = [query for query in np.argsort(gains, kind="stable")[:_SHOWN] if gains[query] < 0]
    return tuple(
        {
            "query_id": data.query_ids[int(query)].as_py(),
            "keywords": _keywords(data, int(query)),
            "new": float(new[query]),
            "old": float(old[query]),
        }
        for query in worst
    )


def _keywords(data: RankingDataset, query: int) -> str:
    if data.query_params is None:
        return ""
    return query_text(json.loads(data.query_params[query].as_py()))
