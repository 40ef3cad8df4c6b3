"""What `train` and `log-features` say of their data in passing: the cheap checks, a line each."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.inspection.columns import duplicate_columns, missing_values, outliers
from owpc_ltr.inspection.finding import WARNING, Finding, worst_first
from owpc_ltr.inspection.label_agreement import label_agreement
from owpc_ltr.inspection.labels import grade_typos, harmful_judgments, queries_without_contrast
from owpc_ltr.inspection.sample import Sample, take_sample
from owpc_ltr.inspection.thresholds import FEWEST_QUERIES
from owpc_ltr.inspection.totals import Gathered, Tails, contradicting_grades, gather, limits_of


def warnings_before_training(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> list[str]:
    """What is wrong with data in memory, and would harm a model of them.

    Constant columns are told after training, of all that was trained on.
    """
    if data.n_queries < FEWEST_QUERIES or not data.n_features:
        return _lines([*harmful_judgments(data, text_features)])
    sample = take_sample({"": data})
    agreement = [] if np.isinf(sample.data.features).any() else [*label_agreement(sample)]
    harmful = [
        one
        for one in harmful_judgments(data, text_features)
        if not (agreement and one.check == "worse-than-random")
    ]
    return _lines([*harmful, *agreement, *_of_values(data, sample)])


def warnings_after_log(data: RankingDataset) -> list[str]:
    """What is wrong with the values that were logged; `train` tells of judgments."""
    if data.n_queries < FEWEST_QUERIES or not data.n_features:
        return []
    return _lines(_of_values(data, take_sample({"": data})))


def checks_of_values(found: Gathered, tails: Tails, sample: Sample) -> Iterator[Finding]:
    """The checks that one pass over all rows, and a few of these, decide."""
    names = sample.data.feature_names
    yield from contradicting_grades(
        sample.data, found.contradicting, found.contradicting_ids, found.documents
    )
    yield from grade_typos(found)
    yield from queries_without_contrast(found)
    yield from missing_values(found, sample, names)
    yield from outliers(found, tails, names)
    yield from duplicate_columns(found.digests, found.columns, sample.data.features, names)


def _of_values(data: RankingDataset, sample: Sample) -> list[Finding]:
    named = {"": data}
    found, tails = gather(named, limits_of(sample.data.features, data.n_documents), identify=False)
    return list(checks_of_values(found, tails, sample))


def _lines(findings: list[Finding]) -> list[str]:
    return [one.line for one in worst_first(findings) if one.severity == WARNING]
