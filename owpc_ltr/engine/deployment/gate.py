"""The gate of `upload --require-gain`: only a model that held-out queries show to be better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
from owpc_ltr.engine.deployment.live_gate import (
    NEW,
    QUERY,
    GateResult,
    LiveGate,
    NotBetter,
    live_evidence,
    live_result,
    other_model,
)
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, LiveSearches
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.data_comparison import by_folds
from owpc_ltr.evaluation.judged_data import judgment_warnings
from owpc_ltr.evaluation.measurement import results_of_scores, without_tables
from owpc_ltr.evaluation.prediction_powered import prediction_powered, random_sample_warnings
from owpc_ltr.evaluation.proxy_labels import (
    HumanSample,
    check_counted,
    human_sample,
    in_all,
    sample_weights,
    strata_of,
)
from owpc_ltr.evaluation.query_choice import (
    ChosenQueries,
    check_features,
    choose_queries,
    compared_queries,
)
from owpc_ltr.evaluation.results import ComparisonPlan, PerQueryResults
from owpc_ltr.evaluation.rules import cluster_warnings
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.score_analysis import text_scores
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.models.reordering import dataset_scores
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import option_name

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

_ASKED = 1_000
"""How many held-out queries are searched, to measure how much of their results is judged."""


@dataclass(frozen=True)
class Gate:
    """The gain in a metric over another model that a new model must have, on judged queries.

    `over` is `champion`, `challenger`, or an immutable name. With `human` judgments of a random
    sample of the queries, or of each of the `strata`, those of `data` are proxy labels, and human
    labels decide. `ask` makes live searches of judged queries, to check that the judgments cover
    what users get, and to compare the first model of an alias with the query alone. `accepted` is
    the reason to accept inconclusive judgments.
    """

    metric: Metric
    data: RankingDataset
    ask: Callable[[RankingDataset], LiveSearches]
    over: str = "champion"
    human: Judgments | RankingDataset | None = None
    strata: Mapping[str, str] | None = None
    progress: Callable[[str, float | None], None] | None = None
    tables: Sequence[ExternalTable] = ()
    accepted: str | None = None
    smallest_gain: float = 0.0


def pass_gate(
    engine: Engine,
    store: Store,
    gate: Gate | LiveGate,
    model: Model,
    featureset: FeatureSet,
    *,
    name: str,
) -> GateResult:
    """Compare on held-out queries with the current model; without one, live with the query alone.

    Raises NotBetter unless the new model is significantly better, Refused or BadInput where the two
    cannot be compared fairly.
    """
    other = other_model(engine, store, name, gate.over)
    if isinstance(gate, Gate) and other is not None:
        result = _data_result(engine, store, gate, model, featureset, other=other)
    else:
        live = gate if isinstance(gate, LiveGate) else _over_the_query(gate, name)
        result = live_result(engine, store, live, model, featureset, other=other)
    if not result.passed:
        raise NotBetter(result)
    return result


def _data_result(
    engine: Engine,
    store: Store,
    gate: Gate,
    model: Model,
    featureset: FeatureSet,
    other: DeploymentRecord,
) -> GateResult:
    """Compare on judged documents, and check by live searches that these are what users get."""
    data, chosen = held_out(gate.data, model, other)
    how = ComparisonPlan((gate.metric,), baseline=other.model, smallest_gain=gate.smallest_gain)
    both = _Both(model, other, featureset, how)
    judged, notes = data, tuple[str, ...]()
    if gate.human is not None:
        found, judged, notes = _by_both_labels(gate, gate.human, both, data, chosen)
    else:
        found = compare_results(both.results(data, chosen))
    live, doubts = _evidence(
        engine, store, gate, model, featureset, other=other, judged=judged, chosen=chosen
    )
    if live is not None:
        doubts += _contradicted(found.pairs[0], live)
    return GateResult.of(
        found,
        doubts,
        over=other.model,
        live=live,
        accepted=gate.accepted,
        warnings=(*chosen.warnings, *notes, *found.warnings),
    )


def _over_the_query(gate: Gate, name: str) -> LiveGate:
    """The comparison with the query alone, which has no scores of judged documents."""
    if gate.human is not None or not _is_of_documents(gate.data):
        what = "proxy labels" if gate.human is not None else "data without queries and documents"
        raise Refused(
            f"'{name}' has no model to compare with yet, and {what} cannot be compared with the "
            f"query alone: require the gain of live results ({option_name('judgments')} FILE)"
        )
    # As evidence another metric would do; the deciding one must be the gate's.
    question = replace(gate.ask(gate.data), metrics=[gate.metric])
    return LiveGate(
        question, QUERY, progress=gate.progress, tables=gate.tables, accepted=gate.accepted
    )


def _is_of_documents(data: RankingDataset) -> bool:
    return data.doc_ids is not None and data.query_params is not None


def _evidence(
    engine: Engine,
    store: Store,
    gate: Gate,
    model: Model,
    featureset: FeatureSet,
    *,
    other: DeploymentRecord,
    judged: RankingDataset,
    chosen: ChosenQueries,
) -> tuple[LiveEvaluation | None, list[ResultWarning]]:
    """Live results of the held-out judged queries, and why the judgments are inconclusive."""
    whole = judged if gate.human is not None else gate.data
    doubts = judgment_warnings(whole, text_scores(featureset))
    if not _is_of_documents(judged):
        return None, [*doubts, _not_checked("it does not know its queries and documents")]
    try:
        question = gate.ask(judged)
        order = np.random.default_rng(question.seed).permutation(len(question.queries))[:_ASKED]
        asked = [question.queries[number] for number in np.sort(order).tolist()]
        live = live_evidence(
            engine, store, replace(question, queries=asked), model, featureset, other=other,
            tables=gate.tables, progress=gate.progress,
            folds=(chosen.folds.get(other.model, {}), chosen.folds.get(NEW, {})),
        )  # fmt: skip
    except UsageError as error:
        return None, [*doubts, _not_checked(str(error))]
    # What makes live results doubtful makes the judged documents so; too few queries are too few
    # for both.
    return live, [*doubts, *live.pairs[0].doubts, *live.recall_doubts]


def _not_checked(why: str) -> ResultWarning:
    return ResultWarning(
        "not-searched",
        f"whether the data covers what users get was not checked: {why}",
        "give data that log-features wrote, or require the gain of live results",
    )


def _contradicted(pair: ComparedPair, live: LiveEvaluation) -> list[ResultWarning]:
    """Whether live results contradict the judged documents, by whatever unjudged ones count."""
    one, offline = live.pairs[0], pair.comparison
    if one.metric != pair.metric:
        return []
    views = [one.comparison, one.left_out or one.comparison, one.as_judged or one.comparison]
    gains = [each.mean_difference for each in views]
    if not (offline.low > 0 > min(gains) or offline.high < 0 < max(gains)):
        return []
    return [
        ResultWarning(
            "live-contradicts",
            f"the gain in {pair.metric} is {offline.mean_difference:+.4f} on the judged "
            f"documents, and {gains[0]:+.4f} in live results ({gains[1]:+.4f} with unjudged "
            f"documents left out, {gains[2]:+.4f} with these as judged ones at their rank)",
            "judge what users get (owpc-ltr judge pool)",
        )
    ]


@dataclass(frozen=True)
class _Both:
    """The new model and the other one, measured on the same data."""

    model: Model
    other: DeploymentRecord
    featureset: FeatureSet
    how: ComparisonPlan

    def results(self, data: RankingDataset, chosen: ChosenQueries) -> PerQueryResults:
        """Both models' values of each query."""
        plain = without_tables(data)
        return results_of_scores(
            self._scores_of(data, chosen), data, compared_queries(data, chosen), self.how,
            None if plain is None else self._scores_of(plain, chosen),
        )  # fmt: skip

    def _scores_of(self, data: RankingDataset, chosen: ChosenQueries) -> dict[str, Vector]:
        old, own = _other_model(self.other, self.featureset, data)
        measured = by_folds({NEW: self.model, self.other.model: old}, chosen)
        return {
            name: dataset_scores(one, part)
            for (name, one), part in zip(measured.items(), (data, own), strict=True)
        }


def _by_both_labels(
    gate: Gate,
    human: Judgments | RankingDataset,
    both: _Both,
    data: RankingDataset,
    chosen: ChosenQueries,
) -> tuple[RankerComparison, RankingDataset, tuple[str, ...]]:
    """The gain by human labels of a sample and proxy labels of all queries; and the sample."""
    sample = human_sample(gate.data, human)
    of_people, places = sample.among(data.query_ids)
    if isinstance(human, RankingDataset):
        # Held-out queries of a random sample are a random sample, too.
        unseen = HumanSample(held_out(of_people, both.model, both.other)[0])
        of_people, places = unseen.among(data.query_ids)
    strata = strata_of(data.query_ids, gate.strata)
    weights = uneven(data.query_weights)
    of_people = replace(of_people, query_weights=sample_weights(weights, places, strata))
    proxy, people = both.results(data, chosen), both.results(of_people, chosen)
    gains, by_people = (
        one.rankers[NEW].values[0] - one.rankers[both.other.model].values[0]
        for one in (proxy, people)
    )
    check_counted(gate.metric, gains, by_people)
    spread = in_all(by_people, places, data.n_queries)
    ids = data.query_ids.to_pylist()
    powered = prediction_powered(gains, spread, ids, weights=weights, strata=strata)
    found = compare_results(people)
    doubts = (*cluster_warnings(proxy.queries.clusters), *random_sample_warnings(powered.p_random))
    pair = replace(found.pairs[0], prediction_powered=powered).with_doubts(doubts)
    return replace(found, pairs=(pair,)), of_people, sample.notes


def held_out(
    data: RankingDataset, model: Model, other: DeploymentRecord
) -> tuple[RankingDataset, ChosenQueries]:
    """The queries that neither model was trained or selected on, and why these."""
    check_features(model, data)
    records = {NEW: model.record, other.model: other.record}
    chosen = choose_queries(records, data)
    if len(chosen.queries) < 2:
        raise Refused(
            f"{len(chosen.queries)} queries of the data were held out from both models, and a "
            "comparison needs 2 at least: train with a split, or give newer judgments"
        )
    return data.select(chosen.queries), chosen


def _other_model(
    other: DeploymentRecord, featureset: FeatureSet, data: RankingDataset
) -> tuple[Model, RankingDataset]:
    """The other model, and the columns of the data that are its features."""
    ours = {feature.name: feature for feature in featureset.features}
    for feature in other.featureset.features:
        if ours.get(feature.name) != feature:
            raise Refused(
                f"'{other.model}' reads the feature '{feature.name}', which the new model's "
                f"feature set '{featureset.name}' lacks, or defines differently: the two can be "
                "compared only on features of both"
            )
    ranker = other.ranker()
    lacking = [name for name in ranker.feature_names if name not in data.feature_names]
    if lacking:
        raise Refused(
            f"'{other.model}' reads the feature '{lacking[0]}', which is from a table, and "
            f"not in the data: log the data with that table too ({option_name('extra_features')})"
        )
    columns = [data.feature_names.index(name) for name in ranker.feature_names]
    own = replace(
        data,
        features=np.ascontiguousarray(data.features[:, columns]),
        feature_names=ranker.feature_names,
    )
    return ranker, own
