"""The gate of `upload --require-gain`: only a model that held-out queries show to be better.

The gain is measured on judged documents, or on live results of the whole index. The rule of live
results: the gain is significant with unjudged documents as irrelevant, left out, and as good as
judged ones, and measured with judgments that can show it. The first alone could be reached by
promoting judged documents, the second by promoting seldom judged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import ROLES, Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, DeploymentRecords
from owpc_ltr.engine.deployment.proof import logged
from owpc_ltr.engine.deployment.serving_mode import by_folds as served_by_folds
from owpc_ltr.engine.deployment.serving_mode import on_trial
from owpc_ltr.engine.deployment.upload_result import GateResult, NotBetter
from owpc_ltr.engine.search.live_evaluation import (
    QUERY_ALONE,
    LiveEvaluation,
    LiveSearches,
    measure_live,
)
from owpc_ltr.engine.search.serving import query_alone, with_stored
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.data_comparison import by_folds
from owpc_ltr.evaluation.judged_data import judgment_warnings
from owpc_ltr.evaluation.measurement import results_of_scores, without_tables
from owpc_ltr.evaluation.proxy_labels import human_sample, with_proxy_labels
from owpc_ltr.evaluation.query_choice import (
    ChosenQueries,
    check_features,
    choose_queries,
    compared_queries,
)
from owpc_ltr.evaluation.results import ComparisonPlan, PerQueryResults
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.query_analysis import text_scores
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.models.average import FoldOf
from owpc_ltr.models.reordering import dataset_scores
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import option_name

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

NEW = "the new model"
"""What the model to upload is called in comparisons."""
QUERY = "query"
"""The baseline that is no model: the query alone."""
_SEARCHED = 1_000
"""How many held-out queries are searched, to measure how much of their results is judged."""
_SAMPLED = 100
_MOST_DOCUMENTS = 500


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """What gates on judged documents and on live results have in common.

    `over` is `champion` (for the first model of an alias: the query alone), `challenger`, an
    immutable name, or, with live results, `query`. The `tables` have the features from outside the
    index. `accepted` is the reason to accept inconclusive judgments.
    """

    over: str = "champion"
    progress: Callable[[str, float | None], None] | None = None
    tables: Sequence[ExternalTable] = ()
    accepted: str | None = None


@dataclass(frozen=True)
class Gate(GateOptions):
    """The gain in a metric over another model that a new model must have, on judged queries.

    With `human` judgments of a random sample of the queries, those of `data` are proxy labels, and
    human labels decide. `ask` makes live searches of judged queries, to check that the judgments
    cover what users get, and to compare the first model of an alias with the query alone.
    """

    metric: Metric
    data: RankingDataset
    ask: Callable[[RankingDataset], LiveSearches]
    human: Judgments | RankingDataset | None = None
    smallest_gain: float = 0.0


@dataclass(frozen=True)
class LiveGate(GateOptions):
    """The live gain that a new model must have, in the question's first metric.

    Only queries of the `side` count that neither model was trained or selected on.
    """

    question: LiveSearches
    side: str = "auto"


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
    of = engine, store, model, featureset
    live: LiveEvaluation | None
    if isinstance(gate, LiveGate):
        comparison, live = Trial(*of, gate, other).by_live_results(gate.question, gate.side)
    elif other is None:
        question = _over_the_query(gate, name)
        comparison, live = Trial(*of, gate, other).by_live_results(question, "auto")
    else:
        comparison, live = JudgedTrial(*of, gate, other).by_judged_documents()
    over = QUERY_ALONE if other is None else other.model
    result = GateResult(comparison=comparison, over=over, live=live, accepted=gate.accepted)
    if not result.passed:
        raise NotBetter(result)
    return result


def other_model(engine: Engine, store: Store, name: str, over: str) -> DeploymentRecord | None:
    """The model to compare with; None for the query alone."""
    if over == QUERY:
        return None
    if over in ROLES:
        alias = Aliases(engine, store).find(name)
        if alias is None:
            return None
        over = alias.model_of(over)
    return DeploymentRecords(engine, store).get(over)


def _over_the_query(gate: Gate, name: str) -> LiveSearches:
    """The searches that compare with the query alone, which has no scores of judged documents."""
    if gate.human is not None or not _is_of_documents(gate.data):
        what = "proxy labels" if gate.human is not None else "data without queries and documents"
        raise Refused(
            f"'{name}' has no model to compare with yet, and {what} cannot be compared with the "
            f"query alone: require the gain of live results ({option_name('judgments')} FILE)"
        )
    # As evidence another metric would do; the deciding one must be the gate's.
    return replace(gate.ask(gate.data), metrics=[gate.metric], smallest_gain=gate.smallest_gain)


def _is_of_documents(data: RankingDataset) -> bool:
    return data.doc_ids is not None and data.query_params is not None


@dataclass(frozen=True)
class Trial:
    """A new model, which no alias uses yet, and the other one, or the query alone."""

    engine: Engine
    store: Store
    model: Model
    featureset: FeatureSet
    gate: GateOptions
    other: DeploymentRecord | None

    def live_results(
        self,
        question: LiveSearches,
        folds: Mapping[str, FoldOf],
        other_name: str,
        chosen: ChosenQueries | None = None,
    ) -> LiveEvaluation:
        """Search the whole index without and with the model, of which nothing stays there.

        Queries that a model learned from are ranked by the models of `folds`, where the other one
        has this name. `chosen` says why these queries, unless they were chosen before.
        """
        other, tables = self.other, self.gate.tables
        alone = query_alone(self.engine, self.store)
        of_folds = partial(served_by_folds, self.engine, self.store, tables=tables)
        with ExitStack() as stack:
            before, name = alone, QUERY_ALONE
            if other is not None:
                stored = self.store.get_model(other.model)
                whole = with_stored(self.engine, self.store, stored, other.interval, tables)
                fold_of = folds.get(other_name, {})
                served = of_folds(whole, other.record, other.featureset, fold_of=fold_of)
                before, name = stack.enter_context(served), f"'{other.model}'"
            trial = on_trial(self.engine, self.store, self.model, self.featureset, tables)
            whole, fold_of = stack.enter_context(trial), folds.get(NEW, {})
            served = of_folds(whole, self.model.record, self.featureset, fold_of=fold_of)
            return measure_live(
                question, before, stack.enter_context(served), self.gate.progress,
                alone=None if other is None else alone, names=(name, NEW), chosen=chosen,
            )  # fmt: skip

    def by_live_results(
        self, question: LiveSearches, side: str
    ) -> tuple[RankerComparison, LiveEvaluation]:
        """The comparison on live results of queries that neither model was trained on; these."""
        other = self.other
        records: dict[str, Mapping[str, Any]] = {NEW: self.model.record}
        other_name = QUERY_ALONE if other is None else f"'{other.model}'"
        if other is not None:
            records[other_name] = other.record
        chosen = choose_queries(records, question.queries, side)
        question = question.of(chosen.queries)
        live = self.live_results(question, chosen.folds, other_name, chosen)
        comparison = replace(live, warnings=chosen.warnings)
        return comparison.with_warnings(self.feature_warnings(question)), live

    def feature_warnings(self, question: LiveSearches) -> list[ResultWarning]:
        """Warnings about the judgments from features of judged documents of a sample of queries."""
        queries = question.sample(_SAMPLED).queries

        def features_of(number: int) -> tuple[list[str], list[float], np.ndarray]:
            query = queries[number]
            grades = dict(zip(query.doc_ids, map(float, query.grades), strict=True))
            some = np.random.default_rng(number).permutation(query.doc_ids)[:_MOST_DOCUMENTS]
            sample = {"params": query.params, "document_ids": some.tolist()}
            ids, features = logged(self.engine, self.store, self.featureset, question.index, sample)
            return [query.query_id] * len(ids), [grades[name] for name in ids], features

        with RequestThreads(min(question.in_flight, len(queries))) as workers:
            logs = [log for log in workers.map(features_of, range(len(queries))) if log[0]]
        if not logs:
            return []
        ids, grades, features = zip(*logs, strict=True)
        data = make_dataset(
            np.concatenate(features), np.concatenate(grades), np.concatenate(ids).tolist(),
            feature_names=self.featureset.feature_names,
        )  # fmt: skip
        return judgment_warnings(data, text_scores(self.featureset))


@dataclass(frozen=True)
class JudgedTrial(Trial):
    """The comparison on judged documents, with live searches that show whether users get these."""

    gate: Gate
    other: DeploymentRecord

    def by_judged_documents(self) -> tuple[RankerComparison, LiveEvaluation | None]:
        """The comparison on queries that neither model was trained or selected on; live results."""
        gate, other = self.gate, self.other
        data, chosen = held_out(gate.data, self.model, other)
        judged, notes = data, tuple[str, ...]()
        if gate.human is not None:
            comparison, judged, notes = self.by_both_labels(gate.human, data, chosen)
        else:
            comparison = compare_results(self.results_per_query(data, chosen))
        live, warnings = self.live_evidence(judged, chosen)
        if live is not None:
            warnings += _contradicted(comparison.pairs[0], live)
        notes = (*chosen.warnings, *notes, *comparison.warnings)
        return replace(comparison, warnings=notes).with_warnings(warnings), live

    def live_evidence(
        self, judged: RankingDataset, chosen: ChosenQueries
    ) -> tuple[LiveEvaluation | None, list[ResultWarning]]:
        """Live results of the held-out judged queries, and why the judgments are inconclusive."""
        data = judged if self.gate.human is not None else self.gate.data
        warnings = judgment_warnings(data, text_scores(self.featureset))
        if not _is_of_documents(judged):
            return None, [*warnings, _not_checked("it does not know its queries and documents")]
        try:
            question = self.gate.ask(judged).sample(_SEARCHED)
            live = self.live_results(question, chosen.folds, self.other.model)
        except UsageError as error:
            return None, [*warnings, _not_checked(str(error))]
        # What makes live results doubtful makes the judged documents so; too few queries are too
        # few for both.
        return live, [*warnings, *live.pairs[0].warnings, *live.recall_warnings]

    def results_per_query(self, data: RankingDataset, chosen: ChosenQueries) -> PerQueryResults:
        """Both models' values of each query."""
        plan = ComparisonPlan(
            (self.gate.metric,), baseline=self.other.model, smallest_gain=self.gate.smallest_gain
        )
        plain = without_tables(data)
        return results_of_scores(
            self._scores(data, chosen), data, compared_queries(data, chosen), plan,
            None if plain is None else self._scores(plain, chosen),
        )  # fmt: skip

    def _scores(self, data: RankingDataset, chosen: ChosenQueries) -> dict[str, Vector]:
        old, columns = _other_model(self.other, self.featureset, data)
        rankers = by_folds({NEW: self.model, self.other.model: old}, chosen)
        return {
            name: dataset_scores(ranker, part)
            for (name, ranker), part in zip(rankers.items(), (data, columns), strict=True)
        }

    def by_both_labels(
        self, human: Judgments | RankingDataset, data: RankingDataset, chosen: ChosenQueries
    ) -> tuple[RankerComparison, RankingDataset, tuple[str, ...]]:
        """The gain by human labels of a sample and proxy labels of all queries; and the sample."""
        sample = human_sample(self.gate.data, human)
        weights = uneven(data.query_weights)
        if isinstance(human, RankingDataset):
            # Held-out queries of a random sample are a random sample, too.
            known = sample.among(data, weights).data
            sample = replace(sample, data=held_out(known, self.model, self.other)[0])
        labels = sample.among(data, weights)
        comparison = compare_results(self.results_per_query(labels.data, chosen))
        by_proxy = self.results_per_query(data, chosen)
        return with_proxy_labels(comparison, by_proxy, labels), labels.data, sample.notes


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
    gains = [view.mean_difference for view in views]
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
    missing = [name for name in ranker.feature_names if name not in data.feature_names]
    if missing:
        raise Refused(
            f"'{other.model}' reads the feature '{missing[0]}', which is from a table, and "
            f"not in the data: log the data with that table too ({option_name('extra_features')})"
        )
    columns = [data.feature_names.index(name) for name in ranker.feature_names]
    features = np.ascontiguousarray(data.features[:, columns])
    return ranker, replace(data, features=features, feature_names=ranker.feature_names)
