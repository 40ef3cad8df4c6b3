"""The gate of `upload --require-gain`: only a model that held-out queries show to be better."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.query_texts import query_text
from owpc_ltr.data.sources import known_sides
from owpc_ltr.engine.deployment.aliases import ROLES, Aliases
from owpc_ltr.engine.deployment.certificates import Certificate, Certificates
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.evaluate import compare, importance_of, measure
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.evaluation.unused_weights import unused_weights
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.metrics import Metric
from owpc_ltr.protocols import Model

_SHOWN = 10


@dataclass(frozen=True)
class Gate:
    """What a new model must show: a gain in a metric over another model, on judged queries.

    `over` is `champion`, `challenger`, or an immutable name.
    """

    metric: Metric
    data: RankingDataset
    over: str = "champion"


@dataclass(frozen=True)
class GateResult:
    """The comparison, whose differences are the new model's gains, and the queries that lose most.

    `losers` have `query_id`, `keywords`, and the metric's value with the `new` and the `old` model.
    `cautions` say what is not known of the comparison. Where it is `weighted`, each query counts by
    its importance.
    """

    metric: str
    over: str
    comparison: Comparison
    losers: tuple[dict[str, Any], ...]
    cautions: tuple[str, ...] = ()
    weighted: bool = False

    @property
    def passed(self) -> bool:
        """Whether the whole 95 % interval of the gain is above 0."""
        return self.comparison.low > 0

    @property
    def by_importance(self) -> str:
        """What is said after a number of queries: by what they count, where not all alike."""
        return ", weighted by their importance" if self.weighted else ""

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "metric": self.metric,
            "over": self.over,
            "weighted": self.weighted,
            "passed": self.passed,
            "comparison": self.comparison.as_dict(),
            "losers": list(self.losers),
            "cautions": list(self.cautions),
        }


class NotBetter(Refused):
    """The gate's no, with what it found."""

    def __init__(self, result: GateResult) -> None:
        """Say the interval, and what the queries could have shown at all."""
        self.result = result
        found = result.comparison
        super().__init__(
            f"no gain in {result.metric} over '{result.over}' is shown: "
            f"{found.mean_difference:+.4f} with a 95 % interval of [{found.low:+.4f}, "
            f"{found.high:+.4f}] on {found.n_queries} held-out queries"
            f"{result.by_importance} (p = {found.p_permutation:.3g}; so many show a gain of "
            f"{found.detectable:.4f} four times in five): nothing was uploaded"
        )


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
    data = held_out(gate.data, model, other)
    old = _scores(other, featureset, data)
    new = model.score(data.features)
    weights = importance_of(data)
    measured = [measure(scores, data, [gate.metric], weights)[0] for scores in (new, old)]
    better = measured if gate.metric.higher_is_better else measured[::-1]
    result = GateResult(
        str(gate.metric),
        other.model,
        compare(better[0], better[1], weights=weights),
        _losers(data, gate.metric, measured[0].per_query, measured[1].per_query),
        (*_cautions(model, other), *unused_weights(data)),
        weighted=weights is not None,
    )
    if not result.passed:
        raise NotBetter(result)
    return result


def held_out(data: RankingDataset, model: Model, other: Certificate) -> RankingDataset:
    """The queries that neither model learned from or was chosen on, by their records."""
    if data.feature_names != model.feature_names:
        raise BadInput(
            "the data for --require-gain has other features than the model: log it with the "
            "model's feature set"
        )
    kept = _unseen(data, model.record, "the new model") & _unseen(
        data, other.record, f"'{other.model}'"
    )
    if kept.sum() < 2:
        raise Refused(
            f"{int(kept.sum())} queries of the data were held out from both models, and a "
            "comparison needs 2 at least: train with a split, or give newer judgments"
        )
    return data.select(np.flatnonzero(kept))


def _other(engine: Engine, store: Store, name: str, over: str) -> Certificate | None:
    alias = Aliases(engine, store).find(name)
    certificates = Certificates(engine, store)
    if over in ROLES:
        if alias is None:
            return None
        over = alias.model_of(over)
    return certificates.get(certificates.called(over))


def _unseen(data: RankingDataset, record: dict[str, Any], whose: str) -> NDArray[np.bool_]:
    """Which queries a model did not see, as far as its record tells."""
    sides = known_sides(record, data)
    unseen = np.ones(data.n_queries, dtype=bool) if sides is None else sides == "test"
    if not unseen.any() and (record.get("source") or {}).get("split") is None:
        raise Refused(
            f"{whose} was trained or chosen on all queries of this data, so that nothing is held "
            "out to compare on: give other judgments, or train with a split"
        )
    return unseen


def _seen(record: dict[str, Any]) -> set[str]:
    """The fingerprints of the data that a model learned from, or was chosen on."""
    source = record.get("source") or {}
    known = (source.get("fingerprint"), source.get("validation_fingerprint"))
    return {each for each in (*known, record.get("fingerprint")) if each}


def _cautions(model: Model, other: Certificate) -> Iterator[str]:
    for record, whose in ((model.record, "the new model"), (other.record, f"'{other.model}'")):
        if not _seen(record):
            yield (
                f"nothing tells what {whose} was trained on: if it was on these queries, the "
                "comparison flatters it"
            )


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
