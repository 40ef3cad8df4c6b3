"""Rankers compared on judged documents: models on their features, runs on whatever they list.

Over folds there is one model a fold, and one test over the test queries of all.

Rankers compared by human labels of a sample of queries, and proxy labels of all of them. Human
labels are a dataset of their own, or a list: then its documents have the features of the same
documents in the proxy-labelled dataset, and a ranker is shown those that have human labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.partitioned import PartitionedDataset, in_memory
from owpc_ltr.data.runs import TrecRun, is_run, read_run, run_of_scores
from owpc_ltr.data.splits import digests_of
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.attempts import corrected_for
from owpc_ltr.evaluation.compared_pair import ComparedPair, PredictionPowered, prediction_powered
from owpc_ltr.evaluation.comparison import compare_results, in_segments, powered_warnings
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.judged_data import (
    ChosenQueries,
    Data,
    Dataset,
    NothingHeldOut,
    as_dataset,
    choose_queries,
    compared_queries,
    model_data,
    read_data,
    without_features,
)
from owpc_ltr.evaluation.measurement import (
    ComparedQueries,
    ComparisonPlan,
    Measurable,
    PerQueryResults,
    Ranking,
    joined_results,
    joined_values,
    measure_on_data,
)
from owpc_ltr.evaluation.rules import (
    METRICS_DISAGREE,
    cluster_warnings,
    contradictions,
    copied_label_warnings,
    random_sample_warnings,
)
from owpc_ltr.evaluation.significance import OPPOSITE, holm, room_of
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.models.combined import (
    FEATURE,
    CrossValidated,
    ReorderingModel,
    feature_ranker,
    load_model,
)
from owpc_ltr.models.model_file import SavedRanker
from owpc_ltr.protocols import Model

LIVE = "live:"


@dataclass(frozen=True)
class ComparisonRequest:
    """Which rankers are compared, by which conventions, on which split of the data.

    `documents` is the file that was indexed, for rerankers that read fields of documents.
    """

    rankers: Mapping[str, Any]
    plan: ComparisonPlan
    split: str
    weighted: bool
    plugins: tuple[Path, ...]
    documents: Path | str | None = None
    id_field: str | None = None


class ChosenData(NamedTuple):
    """Rankers as they are measured, the queries that they are compared on, and why these."""

    rankers: dict[str, Measurable]
    part: Dataset
    chosen: ChosenQueries

    def measured(self, request: ComparisonRequest) -> PerQueryResults:
        """Every ranker's values of these queries."""
        queries = compared_queries(self.part, self.chosen)
        return measure_on_data(
            self.rankers, self.part, queries, request.plan, weighted=request.weighted
        )


def compare_on_data(request: ComparisonRequest, data: Data | Path | str) -> RankerComparison:
    """The comparison of rankers on what is judged."""
    chosen = chosen_data(request, data)
    request.plan.drawing.progress("scores and metrics", None)
    return compare_results(chosen.measured(request))


def chosen_data(request: ComparisonRequest, data: Data | Path | str) -> ChosenData:
    """The rankers, and the queries that none of them has seen."""
    judged = read_data(data) if isinstance(data, Path | str) else data
    whole = as_dataset(judged)
    rankers = {
        name: _ranker(ranker, whole, request.plugins) for name, ranker in request.rankers.items()
    }
    for ranker in rankers.values():
        model_data(ranker, whole, "all")
    chosen = choose_queries(records_of(rankers), whole, request.split)
    part = whole if len(chosen.queries) == whole.n_queries else whole.select(chosen.queries)
    part = with_fields(part, rankers, request.documents, request.id_field)
    return ChosenData(by_folds(rankers, chosen), part, chosen)


def by_folds(rankers: Mapping[str, Ranking], chosen: ChosenQueries) -> dict[str, Measurable]:
    """The rankers to measure: models that have seen the queries are replaced by those of folds."""
    return {
        name: CrossValidated(cast("Model", ranker), chosen.folds[name])
        if name in chosen.folds
        else ranker
        for name, ranker in rankers.items()
    }


def _ranker(ranker: object, data: Dataset, plugins: tuple[Path, ...]) -> Ranking:
    if is_live(ranker):
        raise UsageError(f"'{ranker}' is a live ranker: compare live results with compare-live")
    if isinstance(ranker, str) and not ranker.startswith(FEATURE) and not Path(ranker).exists():
        # Names of uploaded models have no ending.
        meant = (
            "check the name" if Path(ranker).suffix else f"an uploaded model is live:{ranker}@INDEX"
        )
        raise BadInput(f"cannot read the ranker {ranker}: no such file or directory; {meant}")
    return ranker_of(ranker, data, plugins)


def ranker_of(
    ranker: Any, data: RankingDataset | PartitionedDataset, plugins: Sequence[Path] = ()
) -> Model | ReorderingModel | TrecRun:
    """The ranker that is passed, or read from a file (a model, a TREC run), or `feature:NAME`.

    A score for each document is a run; a fitted model of another library is one that predicts.
    Raises UsageError for data without features, where it is not a run.
    """
    is_feature = isinstance(ranker, str) and ranker.startswith(FEATURE)
    ranking = None if is_feature else _ranking_of(ranker, data, plugins)
    if not data.n_features and not isinstance(ranking, TrecRun):
        raise UsageError(
            "judgments have no features, by which models rank: give data that log-features wrote, "
            "runs alone, or compare live results"
        )
    return feature_ranker(ranker, data) if ranking is None else ranking


def _ranking_of(
    ranker: Any, data: RankingDataset | PartitionedDataset, plugins: Sequence[Path]
) -> Model | ReorderingModel | TrecRun:
    if isinstance(ranker, Path | str):
        path = Path(ranker)
        return read_run(path) if is_run(path) else load_model(path, plugins)
    if hasattr(ranker, "record") or isinstance(ranker, TrecRun):
        return ranker  # type: ignore[no-any-return]
    if not isinstance(data, RankingDataset):
        raise UsageError("scores and models of other libraries rank data in memory: read these")
    if hasattr(ranker, "predict"):
        return FittedModel(ranker, data.feature_names)
    if isinstance(ranker, list | tuple) and any(hasattr(model, "record") for model in ranker):
        raise UsageError("a list of models is no ranker: average them, or compare them")
    if np.ndim(ranker) == 1:
        return run_of_scores(ranker, data)
    raise UsageError(
        f"{type(ranker).__name__} is not a ranker: give a model, a run, 'feature:NAME', a score "
        "for each document, or a fitted model with predict"
    )


@dataclass(frozen=True, eq=False)
class FittedModel(SavedRanker):
    """A model that another library fitted, scored by its `predict`.

    Nothing tells which queries it was fitted on.
    """

    kind: ClassVar[str] = "fitted"

    fitted: Any
    feature_names: tuple[str, ...]
    record: dict[str, Any] = field(default_factory=dict)

    def score(self, features: Matrix) -> Vector:
        """The predictions, (n_documents,)."""
        # XGBoost's Booster takes a matrix of its own elsewhere.
        predict = getattr(self.fitted, "inplace_predict", self.fitted.predict)
        scores = np.asarray(predict(features), np.float64)
        if scores.shape != (len(features),):
            raise BadInput(
                f"predict gives scores of shape {scores.shape} for {len(features)} documents: one "
                "number a document is wanted"
            )
        return scores

    def as_dict(self) -> dict[str, Any]:
        """Refuse: it is the other library's to save. Raises UsageError."""
        raise UsageError("a model of another library is saved by that, and read by import_model")


def is_live(ranker: object) -> bool:
    """Whether a ranker is one that the engine serves: `live:…`."""
    return isinstance(ranker, str) and ranker.startswith(LIVE)


def records_of(rankers: Mapping[str, Ranking]) -> dict[str, Mapping[str, Any]]:
    """The record of each ranker's training; a run has none."""
    return {
        name: ranker.record for name, ranker in rankers.items() if not isinstance(ranker, TrecRun)
    }


def with_fields(
    data: Dataset,
    rankers: Mapping[str, Ranking],
    documents: Path | str | None,
    id_field: str | None,
) -> Dataset:
    """The data with the document fields that any reranker needs, from the file that was indexed."""
    names = [
        name
        for ranker in rankers.values()
        if isinstance(ranker, ReorderingModel)
        for name in ranker.field_names
    ]
    if not names:
        return data
    if documents is not None:
        data = in_memory(data, "`documents`")
    if not isinstance(data, RankingDataset):
        return data
    path = None if documents is None else Path(documents)
    return with_document_fields(data, tuple(dict.fromkeys(names)), path, id_field)


def compare_over_folds(
    request: ComparisonRequest, folds: Sequence[Data | Path | str]
) -> RankerComparison:
    """The comparison on the test queries of all folds together, with one test over all of them.

    A ranker is a list of one model a fold, or what ranks in every fold (a feature, a run). Raises
    Refused where a query is in two folds, or a model has seen a query of its fold.
    """
    if request.split not in {"auto", "all"}:
        raise UsageError(
            f"folds are test data, of which there is no split '{request.split}': leave it out, "
            "or give 'all' to compare on queries that models have seen"
        )
    if not folds:
        raise UsageError("there are no folds: give a list of test data")
    measured: list[_Fold] = []
    for number, fold in enumerate(folds):
        own = replace(request, rankers=_of_fold(request.rankers, number, len(folds)))
        try:
            chosen = chosen_data(own, fold)
            seen = next(iter(chosen.chosen.notes), "")
        except NothingHeldOut as nothing:
            seen = str(nothing)
        if seen:
            raise Refused(
                f"fold {number + 1}: a model has seen test queries of its own fold: give each fold "
                f"its own model ({seen})"
            )
        part = in_memory(chosen.part, f"fold {number + 1}")
        measured.append((part, chosen._replace(part=part).measured(own)))
    _refuse_shared([data for data, _ in measured])
    of_folds = [results for _, results in measured]
    rankers = {
        name: joined_results(
            [results.rankers[name] for results in of_folds],
            tuple(
                f"fold {number}: {message}"
                for number, results in enumerate(of_folds, 1)
                for message in results.rankers[name].warnings
            ),
        )
        for name in request.rankers
    }
    queries = _pooled_queries(measured, weighted=request.weighted)
    tied = joined_values([results.all_tied or () for results in of_folds])
    judged_alone = all(results.judged_alone for results in of_folds)
    return compare_results(
        PerQueryResults(rankers, request.plan, queries, tied, judged_alone=judged_alone)
    )


_Fold = tuple[RankingDataset, PerQueryResults]
"""The test queries of a fold, and what was measured on them."""


def _pooled_queries(folds: Sequence[_Fold], *, weighted: bool) -> ComparedQueries:
    """The test queries of all folds; weights vary if those of any fold do."""
    several = [results.queries for _, results in folds]
    sizes = ", ".join(f"{len(queries.ids):,}" for queries in several)
    texts = [queries.texts for queries in several]
    params = [each for queries in several for each in queries.params]
    weights = np.concatenate([data.query_importance for data, _ in folds])
    # Each fold's clusters get numbers of their own.
    starts = np.cumsum([0, *(len(queries.ids) for queries in several)])
    clusters = np.concatenate(
        [
            start + (np.arange(len(queries.ids)) if queries.clusters is None else queries.clusters)
            for start, queries in zip(starts, several, strict=False)
        ]
    )
    return ComparedQueries(
        ids=pa.concat_arrays([queries.ids for queries in several]),
        texts=None if any(text is None for text in texts) else pa.concat_arrays(texts),
        weights=uneven(weights) if weighted else None,
        split="test" if {queries.split for queries in several} == {"test"} else several[0].split,
        notes=(f"the test queries of {len(folds)} folds ({sizes}) are pooled: one test over all",),
        messages=tuple(dict.fromkeys(text for queries in several for text in queries.messages)),
        clusters=None if len(np.unique(clusters)) == len(clusters) else clusters,
        warnings=tuple(
            dict.fromkeys(warning for queries in several for warning in queries.warnings)
        ),
        by_ranker={
            name: tuple(
                dict.fromkeys(w for queries in several for w in queries.by_ranker.get(name, ()))
            )
            for name in {name for queries in several for name in queries.by_ranker}
        },
        cross_validated=frozenset().union(*(queries.cross_validated for queries in several)),
        params=params if all(queries.params for queries in several) else (),
    )


def _of_fold(rankers: Mapping[str, Any], number: int, n_folds: int) -> dict[str, Any]:
    """Each ranker's model of a fold. Raises UsageError where there are more or fewer than folds."""
    chosen = {}
    for name, ranker in rankers.items():
        several = isinstance(ranker, list | tuple)
        if several and len(ranker) != n_folds:
            raise UsageError(
                f"'{name}' has {len(ranker)} models for {n_folds} folds: give one for each"
            )
        chosen[name] = ranker[number] if several else ranker
    return chosen


def _refuse_shared(folds: Sequence[RankingDataset]) -> None:
    """Refuse folds that share a query, by its id or its text: it would count twice."""
    seen: dict[tuple[str, int], int] = {}
    for fold, data in enumerate(folds, 1):
        digests = digests_of(data)
        for kind, numbers in (("id", digests.ids), ("text", digests.texts)):
            for query, number in enumerate(numbers.tolist()):
                first = seen.setdefault((kind, number), fold) if number else fold
                if first != fold:
                    raise Refused(
                        f"the {kind} of query '{data.query_ids[query]}' of fold {fold} is in fold "
                        f"{first} too: a query is tested once; give test data that do not overlap"
                    )


IDEAL = (
    "the target is the metric over the human-labelled documents: a query's ideal ranking (NDCG) "
    "and its number of relevant documents are those of its labelled documents, not of all"
)


def compare_with_proxy_labels(
    request: ComparisonRequest,
    data: Data | Path | str,
    proxy: Data | Path | str,
) -> RankerComparison:
    """The comparison by human labels, whose pairs have prediction-powered figures, too."""
    proxy, people = _read(proxy, "proxy_labels"), _read(data, "human_labels")
    labelled = without_features(proxy) if isinstance(proxy, Judgments) else proxy
    if isinstance(people, Judgments) and not labelled.n_features:
        people = without_features(people)
    sample, notes = _human_sample(labelled, people)
    _, part, chosen = compared = chosen_data(request, labelled)
    assert isinstance(part, RankingDataset)  # noqa: S101 - told to the type checker
    weights = uneven(part.query_weights) if request.weighted else None
    if isinstance(people, RankingDataset):
        # A model that was trained on the human labels has seen them, too. Splits are by the hash
        # of ids, so that what is left of a random sample is one.
        known, _ = _among(sample, part, weights)
        unseen = chosen_data(replace(request, documents=None, id_field=None), known)
        notes = (*unseen.chosen.notes, *notes)
        sample = in_memory(unseen.part, "`proxy_labels`")
    sample, places = _among(sample, part, weights)
    of_sample = replace(request, split="all", weighted=True)
    measured = chosen_data(of_sample, sample).measured(of_sample)
    human = compare_results(measured)
    note = (
        f"human labels for {human.n_queries:,} of {part.n_queries:,} proxy-labelled queries; "
        "figures by both hold if these are a random sample of all"
    )
    notes = (*chosen.notes, *notes, *human.notes, note, IDEAL)
    human = replace(human, split=chosen.side, notes=notes)
    for name, warnings in chosen.seen.items():
        human = human.with_warnings(warnings, name)
    copied = copied_label_warnings(*_common_labels(sample, labelled))
    human = human.with_warnings(list(copied))
    return with_proxy_labels(human, measured, compared.measured(request), places, weights)


def _read(labels: Data | Path | str, argument: str) -> Judgments | RankingDataset:
    data = read_data(labels) if isinstance(labels, Path | str) else labels
    return in_memory(data, f"`{argument}`") if isinstance(data, PartitionedDataset) else data


def _common_labels(human: RankingDataset, proxy: RankingDataset) -> tuple[Labels, Labels]:
    """Both grades of the documents that both have; none where documents have no ids."""
    if human.doc_ids is None or proxy.doc_ids is None:
        return np.empty(0, np.float32), np.empty(0, np.float32)
    places = pc.index_in(_keys(human), value_set=_keys(proxy))
    common = np.array(pc.is_valid(places))
    return human.labels[common], proxy.labels[places.drop_null().to_numpy()]


def _keys(data: RankingDataset) -> pa.StringArray:
    """A key for each document of each query."""
    query_of = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    ids = data.query_ids.take(pa.array(query_of))
    return pc.binary_join_element_wise(ids, data.doc_ids, _BETWEEN)


def with_proxy_labels(
    human: RankerComparison,
    of_sample: PerQueryResults,
    proxy: PerQueryResults,
    places: NDArray[np.int64],
    weights: Vector | None,
) -> RankerComparison:
    """The comparison by human labels, each pair with its figures by human and proxy labels.

    `of_sample` are the results by human labels, and `places` says where each of these queries
    stands among the proxy-labelled ones, which have the `weights`.
    """
    ids, metrics = proxy.queries.ids.to_pylist(), [str(metric) for metric in human.metrics]

    def by_both(number: int, metric: Metric, names: tuple[str, str]) -> PredictionPowered:
        a, b = (of_sample.rankers[name].values[number] for name in names)
        proxy_a, proxy_b = (proxy.rankers[name].values[number] for name in names)
        if np.isnan(proxy_a - proxy_b).any() or np.isnan(a - b).any():
            raise UsageError(
                f"{metric} leaves out queries, so that the sample is not random any more: choose a "
                "metric that counts all (empty=zero), and zero or condensed for unjudged documents"
            )
        of_all: Vector = np.full(len(ids), np.nan)
        of_all[places] = a - b
        room = room_of(a, b, None if weights is None else weights[places], metric.span)
        return prediction_powered(proxy_a - proxy_b, of_all, ids, weights=weights, room=room)

    def guarded(pair: ComparedPair) -> ComparedPair:
        """The pair, doubted where a guard says the contrary by both kinds of labels.

        Segments are those by human labels.
        """
        doubted = any(warning.check == METRICS_DISAGREE for warning in pair.warnings)
        if doubted or pair.metric != metrics[0] or pair.verdict.outcome not in OPPOSITE:
            return pair
        views = {}
        for number, guard in enumerate(of_sample.guards, len(metrics)):
            estimate = by_both(number, guard, (pair.a, pair.b)).by_both
            views[f"by {guard}"] = (
                replace(
                    pair.comparison,
                    mean_difference=estimate.mean,
                    low=estimate.low,
                    high=estimate.high,
                    p_permutation=estimate.p,
                ),
                guard.higher_is_better,
            )
        warnings = contradictions(pair.verdict, pair.metric, views)
        return in_segments(replace(pair, warnings=(*pair.warnings, *warnings)), of_sample)

    numbers = [metrics.index(pair.metric) for pair in human.pairs]
    figures = [
        by_both(number, human.metrics[number], (pair.a, pair.b))
        for number, pair in zip(numbers, human.pairs, strict=True)
    ]
    factor = corrected_for(human.earlier_comparisons)
    corrected = holm(np.array([both.by_both.p for both in figures])) * factor
    pairs = tuple(
        replace(pair, prediction_powered=replace(both, p_holm=min(1.0, p)))
        for pair, both, p in zip(human.pairs, figures, corrected.tolist(), strict=True)
    )
    pairs = tuple(
        guarded(replace(pair, warnings=(*pair.warnings, *powered_warnings(pair, of_sample))))
        for pair in pairs
    )
    # Of the least of so many, Bonferroni's.
    least = min(1.0, len(pairs) * min(both.p_random for both in figures))
    # Copies of a request that proxy labels judge differently are told by people's grades.
    clusters = (proxy.queries.clusters, of_sample.queries.clusters)
    repeated = [warning for each in clusters for warning in cluster_warnings(each)]
    return replace(human, pairs=pairs).with_warnings(
        [*repeated[:1], *random_sample_warnings(least)]
    )


_BETWEEN = "\n"
"""Stands between query and document in a key."""


def _among(
    sample: RankingDataset, compared: RankingDataset, weights: Vector | None
) -> tuple[RankingDataset, NDArray[np.int64]]:
    """The sample of the compared queries, with their weights, and their places among all of these.

    Raises Refused for fewer than two.
    """
    index = pc.index_in(sample.query_ids, value_set=compared.query_ids)
    places = np.array(pc.fill_null(index, -1)).astype(np.int64)
    sampled = np.flatnonzero(places >= 0)
    if len(sampled) < 2:
        raise Refused(
            f"{len(sampled)} of the {compared.n_queries} queries that are compared have human "
            "labels, and an interval needs 2 at least: label more (`judge_pool(sample=N)`)"
        )
    if len(sampled) < sample.n_queries:
        sample, places = sample.select(sampled), places[sampled]
    return replace(sample, query_weights=None if weights is None else weights[places]), places


def _human_sample(
    proxy: RankingDataset, human: Judgments | RankingDataset
) -> tuple[RankingDataset, tuple[str, ...]]:
    """Human labels of queries of the proxy-labelled data, and what was left out of them.

    Raises BadInput for human labels of nothing in the proxy-labelled data.
    """
    if isinstance(human, Judgments):
        data, unknown, alone = _judged_rows(proxy, human)
    else:
        data, unknown = human, 0
        shared = pc.sum(pc.is_in(human.query_ids, value_set=proxy.query_ids)).as_py()
        alone = human.n_queries - shared
        if not shared:
            raise _other("queries", "among the proxy labels")
    notes = []
    if alone:
        notes.append(
            f"{alone:,} human-labelled queries are not among the proxy labels: they are left out"
        )
    if unknown:
        notes.append(
            f"{unknown:,} human-labelled documents are not in the proxy-labelled data, so "
            "that their features are not known: they are left out"
        )
    return data, tuple(notes)


def _other(what: str, where: str) -> BadInput:
    return BadInput(
        f"none of the {what} with human labels is {where}: are these other {what}, or other ids?"
    )


def _judged_rows(proxy: RankingDataset, human: Judgments) -> tuple[RankingDataset, int, int]:
    """The rows of human-labelled documents, with these grades; how many are not there."""
    if proxy.doc_ids is None:
        raise BadInput(
            "the proxy-labelled data do not know their documents, so that human labels cannot be "
            "joined: give data that log-features wrote, or human labels as a dataset"
        )
    query_of = np.repeat(np.arange(proxy.n_queries), np.diff(proxy.offsets))
    proxy_ids = set(proxy.query_ids.to_pylist())
    shared = [query for query in human.queries if query.query_id in proxy_ids]
    if not shared:
        raise _other("queries", "among the proxy labels")
    names = [f"{query.query_id}{_BETWEEN}{name}" for query in shared for name in query.doc_ids]
    keys = pa.array(names, pa.string())
    places = pc.index_in(_keys(proxy), value_set=keys)
    rows = np.flatnonzero(np.array(pc.is_valid(places)))
    alone = len(human.queries) - len(shared)
    if not len(rows):
        raise _other("documents", "in the proxy-labelled data")
    grades = np.concatenate([np.asarray(query.grades, np.float32) for query in shared])
    queries, sizes = np.unique(query_of[rows], return_counts=True)
    data = replace(
        proxy.select(queries),
        features=proxy.features[rows],
        labels=grades[places.take(pa.array(rows)).to_numpy()],
        offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
        doc_ids=proxy.doc_ids.take(pa.array(rows)),
        document_weights=None,
        comments=None,
        document_fields=(
            None
            if proxy.document_fields is None
            else {name: part.take(pa.array(rows)) for name, part in proxy.document_fields.items()}
        ),
        manifest=None,
    )
    return data, len(keys) - len(rows), alone
