"""Rankers compared by human labels of a sample of queries, and proxy labels of all of them.

Human labels are a dataset of their own, or a list: then its documents have the features of the same
documents in the proxy-labelled dataset, and a ranker is shown those that have human labels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.data.partitioned import PartitionedDataset, in_memory
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.attempts import corrected_for
from owpc_ltr.evaluation.compared_pair import ComparedPair, PredictionPowered, prediction_powered
from owpc_ltr.evaluation.comparison import compare_results, powered_warnings
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.data_comparison import ComparisonRequest, chosen_data
from owpc_ltr.evaluation.judged_data import Data, read_data, without_features
from owpc_ltr.evaluation.measurement import PerQueryResults
from owpc_ltr.evaluation.rules import (
    METRICS_DISAGREE,
    cluster_warnings,
    contradictions,
    copied_label_warnings,
    random_sample_warnings,
)
from owpc_ltr.evaluation.significance import OPPOSITE, holm, room_of
from owpc_ltr.metrics import Metric, uneven

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
                f"{metric} leaves out queries, so that the sample is not random any more: "
                "choose a metric that counts all (empty=zero), and zero or condensed for unjudged "
                "documents"
            )
        of_all: Vector = np.full(len(ids), np.nan)
        of_all[places] = a - b
        room = room_of(a, b, None if weights is None else weights[places], metric.span)
        return prediction_powered(proxy_a - proxy_b, of_all, ids, weights=weights, room=room)

    def guarded(pair: ComparedPair) -> ComparedPair:
        """The pair, doubted where a guard says the contrary by both kinds of labels."""
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
        return replace(pair, warnings=(*pair.warnings, *warnings))

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
            "labels, and an interval needs 2 at least: label more "
            "(`judge_pool(sample=N)`)"
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
