"""Every check over data in files or parts, in bounded memory; `train` and `log-features` make some.

Checks of one row after another are made in one pass over all; values are compared on a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.judged_data import shares_right
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.columns import CHECK_TEMPLATES, ColumnFacts, constant_columns
from owpc_ltr.inspection.drift import drift_between_files
from owpc_ltr.inspection.labels import (
    contradicting_grades,
    harmful_judgments,
    label_agreement,
    no_irrelevant_grade,
)
from owpc_ltr.inspection.missing import missing_values
from owpc_ltr.inspection.queries import same_queries
from owpc_ltr.inspection.result import (
    CHECKS,
    WARNING,
    DataFigures,
    FeatureRow,
    Finding,
    Inspection,
)
from owpc_ltr.inspection.sample import Data, Sample, take_sample
from owpc_ltr.inspection.totals import Totals, totals_of
from owpc_ltr.signatures import Progress

_GRADES = 50


def all_checks(named: Mapping[str, Data], progress: Progress) -> Inspection:
    """What is wrong with the data of these names, which stand for files or sides of a split.

    Raises BadInput where the data have different features.
    """
    (name, first), *others = named.items()
    for other_name, other in others:
        if other.feature_names != first.feature_names:
            raise BadInput(
                f"{name} and {other_name} have different features ({first.n_features} and "
                f"{other.n_features}): inspect them one by one"
            )
    progress("looking at a sample", None)
    sample = take_sample(named)
    progress("looking at all rows", None)
    totals = totals_of(named)
    progress("comparing columns", None)
    findings = [
        *no_irrelevant_grade(totals.grades),
        *same_queries(totals.identities, list(named)),
        *_checks_of_labels(sample.data, sample),
        *constant_columns(totals.columns, first.feature_names),
        *_checks_of_values(totals, sample),
    ]
    findings += drift_between_files(sample, list(named), findings)
    ordered = _worst_first(findings)
    return Inspection(
        _figures(named, totals, sample), _features(totals.columns, sample, ordered), ordered
    )


def warnings_before_training(data: RankingDataset) -> list[str]:
    """What is wrong with data in memory, and would harm a model of them.

    Constant columns are told after training, of all that was trained on.
    """
    if _says_nothing(data):
        return []
    sample = take_sample({"": data})
    totals = totals_of({"": data}, identify=False)
    return _lines([*_checks_of_labels(data, sample), *_checks_of_values(totals, sample)])


def warnings_of_log(
    facts: ColumnFacts, names: Sequence[str], data: RankingDataset | None
) -> list[str]:
    """What is wrong with the values that were logged, of `data` in memory; else constant columns.

    `train` tells of judgments.
    """
    constant = [f"{one.message}: {CHECK_TEMPLATES}" for one in constant_columns(facts, names)]
    if data is None or _says_nothing(data):
        return constant
    totals = totals_of({"": data}, identify=False)
    return [*constant, *_lines(_checks_of_values(totals, take_sample({"": data})))]


def _says_nothing(data: RankingDataset) -> bool:
    return data.n_queries < thresholds.FEWEST_QUERIES or not data.n_features


def _checks_of_labels(data: RankingDataset, sample: Sample) -> Iterator[Finding]:
    """Where labels are out of order, that no feature ranks them is no further finding."""
    out_of_order = [*label_agreement(sample)]
    yield from out_of_order
    for one in harmful_judgments(data):
        if not (out_of_order and one.check == "worse-than-random"):
            yield one


def _checks_of_values(totals: Totals, sample: Sample) -> Iterator[Finding]:
    yield from contradicting_grades(totals, sample.data)
    yield from missing_values(totals, sample)


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Warnings before notes, each by what its check may cost; else in the order given."""
    return tuple(sorted(findings, key=lambda f: (f.severity != WARNING, CHECKS.index(f.check))))


def _lines(findings: Iterable[Finding]) -> list[str]:
    return [one.line for one in _worst_first(findings) if one.severity == WARNING]


def _figures(named: Mapping[str, Data], totals: Totals, sample: Sample) -> DataFigures:
    lengths = np.repeat([*totals.lengths], [*totals.lengths.values()])
    facts = totals.columns
    return DataFigures(
        names=tuple(named),
        queries=totals.queries,
        documents=facts.rows,
        features=len(facts.missing),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        grades=tuple(sorted(totals.grades.items())[:_GRADES]),
        without_contrast=totals.without_contrast,
        of_one_document=totals.lengths[1],
        missing=float(facts.missing.sum() / max(facts.rows * len(facts.missing), 1)),
        parts=totals.parts,
        sampled=sample.data.n_queries,
    )


def _features(
    facts: ColumnFacts, sample: Sample, findings: tuple[Finding, ...]
) -> tuple[FeatureRow, ...]:
    right = shares_right(sample.data)
    return tuple(
        FeatureRow(
            name,
            float(facts.missing[column] / max(facts.rows, 1)),
            float(facts.lowest[column]),
            _quartiles(sample.data.features[:, column]),
            highest=float(facts.highest[column]),
            alone=float(right[column]),
            checks=tuple(dict.fromkeys(one.check for one in findings if name in one.columns)),
        )
        for column, name in enumerate(sample.data.feature_names)
    )


def _quartiles(values: NDArray[np.float32]) -> tuple[float, float, float]:
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan"), float("nan")
    first, second, third = np.quantile(values, (0.25, 0.5, 0.75), method="inverted_cdf").tolist()
    return first, second, third
