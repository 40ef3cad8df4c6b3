"""Drift between files: columns that have other values in one file than in all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import Finding, listed, of_columns
from owpc_ltr.inspection.sample import Sample, chance_bound, shares_by_block, value_bins

_BINS = 22


def drift_between_files(
    sample: Sample, files: Sequence[str], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """A finding for each file in which columns have other values than in all others.

    The distributions over bins between a column's quantiles are compared by the Kolmogorov–Smirnov
    distance. Columns that are absent for a while, as other findings say, are left out.
    """
    number = np.array([files.index(block.file) for block in sample.blocks])
    inside = np.bincount(number[sample.block], minlength=len(files))
    outside = len(sample.block) - inside
    enough = np.minimum(inside, outside) >= thresholds.FEWEST_IN_BLOCK
    if not enough.any():
        return
    bound = np.full(len(files), np.inf)
    bound[enough] = chance_bound(inside[enough], outside[enough], sample.data.n_features)
    bound = np.maximum(bound, thresholds.DRIFT)
    absent = {name for one in findings if one.check == "missing-spike" for name in one.columns}
    drifted: dict[int, list[int]] = {}
    for column, name in enumerate(sample.data.feature_names):
        shares = shares_by_block(sample, value_bins(sample.data.features[:, column], _BINS))
        own = (number == np.arange(len(files))[:, None]).astype(np.float64) @ shares.cumsum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = own / inside[:, None] - (own.sum(axis=0) - own) / outside[:, None]
        excess = np.where(enough, np.abs(apart).max(axis=1), 0) / bound
        # Of two files, which are as far from each other, it is the last that is told.
        worst = len(files) - 1 - int(np.argmax(excess[::-1]))
        if excess[worst] > 1 and name not in absent:
            drifted.setdefault(worst, []).append(column)
    for file, columns in sorted(drifted.items()):
        yield _drift_finding(sample, files[file], (number == file)[sample.block], columns)


def _drift_finding(
    sample: Sample, file: str, queries: NDArray[np.bool_], columns: Sequence[int]
) -> Finding:
    rows = queries[sample.query]
    names = [sample.data.feature_names[column] for column in columns]
    medians = [
        [_median(sample.data.features[side, column]) for side in (rows, ~rows)]
        for column in columns
    ]
    each = [
        f"'{name}' (median {here}, elsewhere {there})"
        for name, (here, there) in zip(names, medians, strict=True)
    ]
    return of_columns(
        "feature-drift",
        names,
        f"in {file} values differ from those of the other files: {listed(each)}",
        "log again what was logged by another engine version, field, unit or order of columns; "
        "where the documents changed, split by query and not by time",
    )


def _median(values: NDArray[np.float32]) -> str:
    values = values[~np.isnan(values)]
    return f"{float(np.median(values)):.4g}" if len(values) else "missing"
