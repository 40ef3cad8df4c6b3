"""Rankers compared by human judgments of a sample, and cheap ones of all queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.api.compared_data import Data, read_data, without_features
from owpc_ltr.api.compared_rankers import Asked
from owpc_ltr.api.comparing_on_data import chosen_data, compare_on_data
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.types import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
from owpc_ltr.data.strata import read_strata
from owpc_ltr.evaluation.comparing.figures import PoweredPair
from owpc_ltr.evaluation.comparing.on_data import measure_on_data
from owpc_ltr.evaluation.comparing.result import RankerComparison
from owpc_ltr.evaluation.evaluate import importance_of
from owpc_ltr.evaluation.human_sample import (
    HumanSample,
    check_counted,
    human_sample,
    in_all,
    sample_weights,
    strata_of,
)
from owpc_ltr.evaluation.multiple_comparisons import holm
from owpc_ltr.evaluation.prediction_powered import few_human_labels, prediction_powered
from owpc_ltr.evaluation.sample_randomness import random_sample_doubts

IDEAL = (
    "the target is the metric over the human-labelled documents: a query's ideal ranking (NDCG) "
    "and its number of relevant documents are those of its labelled documents, not of all"
)


def compare_with_cheap(
    asked: Asked,
    data: Data | Path | str,
    cheap: Data | Path | str,
    strata: Mapping[str, str] | Path | str | None,
    documents: Path | str | None,
    id_field: str | None,
) -> RankerComparison:
    """The comparison by people, with the pairs by both judges."""
    everything = judged_data(cheap)
    people = judged_people(data, everything)
    sample = human_sample(everything, people)
    of_data = chosen_data(asked, everything, documents, id_field)
    rankers, part, chosen, _ = of_data
    assert isinstance(part, RankingDataset)  # noqa: S101 - told to the type checker
    of_people, places = sample.among(part.query_ids)
    seen: tuple[str, ...] = ()
    if isinstance(people, RankingDataset):
        # Whoever was trained on people's own judgments has seen them, too. Splits are by the hash
        # of ids, so that what is left of a random sample is one.
        unseen = chosen_data(asked, of_people, None, None)
        seen = unseen.chosen.notes
        of_people, places = HumanSample(in_memory(unseen.part, "--cheap")).among(part.query_ids)
    named = strata_of(part.query_ids, read_strata(strata))
    weights = importance_of(part) if asked.weighted else None
    of_people = replace(of_people, query_weights=sample_weights(weights, places, named))
    own = replace(asked, queries="all", weighted=True)
    found = compare_on_data(own, of_people, documents, id_field)
    of_all = measure_on_data(rankers, part, asked.how.metrics, asked.how.unjudged)
    by_people = {name: [one.per_query for one in found.ranker(name).measured] for name in rankers}
    by_cheap = {name: one.values for name, one in of_all.rankers.items()}
    pairs = _pairs(found, part, by_cheap, by_people, places, weights, named)
    # Of the least of so many, Bonferroni's.
    least = min(1.0, len(pairs) * min(one.found.p_random for one in pairs))
    found = replace(
        found.with_doubts(few_human_labels(found.n_queries)),
        powered=pairs,
        side=chosen.side,
        notes=(
            *chosen.notes,
            *seen,
            *sample.notes,
            *found.notes,
            *_how(found, part, strata is not None),
        ),
    )
    return of_data.doubted(found).with_doubts(random_sample_doubts(least))


def judged_data(given: Data | Path | str) -> RankingDataset:
    """Cheap judgments as a dataset, without features where they are a list."""
    data = read_data(given) if isinstance(given, Path | str) else given
    if isinstance(data, Judgments):
        return without_features(data)
    return in_memory(data, "--cheap") if isinstance(data, PartitionedDataset) else data


def judged_people(given: Data | Path | str, cheap: RankingDataset) -> Judgments | RankingDataset:
    """People's judgments; a list as a dataset where there are no features to join."""
    people = read_data(given) if isinstance(given, Path | str) else given
    if isinstance(people, PartitionedDataset):
        people = in_memory(people, "--cheap")
    if isinstance(people, Judgments) and not cheap.n_features:
        return without_features(people)
    return people


def _pairs(
    found: RankerComparison,
    part: RankingDataset,
    cheap: Mapping[str, list[Vector]],
    human: Mapping[str, list[Vector]],
    places: NDArray[np.int64],
    weights: Vector | None,
    strata: list[str] | None,
) -> tuple[PoweredPair, ...]:
    """Each pair that people's judgments compare, by both judges."""
    ids = part.query_ids.to_pylist()
    numbers = {str(metric): number for number, metric in enumerate(found.metrics)}
    told = []
    for pair in found.pairs:
        number = numbers[pair.metric]
        by_cheap, by_people = (
            values[pair.a][number] - values[pair.b][number] for values in (cheap, human)
        )
        check_counted(found.metrics[number], by_cheap, by_people)
        spread = in_all(by_people, places, part.n_queries)
        span = found.metrics[number].span
        told.append(prediction_powered(by_cheap, spread, ids, weights, strata, span))
    corrected = holm(np.array([one.powered.p for one in told])).tolist()
    return tuple(
        PoweredPair(pair.a, pair.b, pair.metric, one, p, pair.higher_is_better, pair.doubts)
        for pair, one, p in zip(found.pairs, told, corrected, strict=True)
    )


def _how(found: RankerComparison, part: RankingDataset, stratified: bool) -> Iterator[str]:
    drawn = "of each stratum" if stratified else "of all"
    yield (
        f"human labels for {found.n_queries:,} of {part.n_queries:,} proxy-labelled queries; "
        f"figures by both hold if these are a random sample {drawn}"
    )
    yield IDEAL
    if stratified:
        yield "means by human labels weigh each query by how many of its stratum it stands for"
