"""Drift between files: columns that have other values in one file than in all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.result import Finding, listed, of_columns
from owpc_ltr.inspection.sample import Sample, value_bins

_BINS = 22


def drift_between_files(
    sample: Sample, files: Sequence[str], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """A finding for each file in which columns have other values than in all others.

    Columns that are absent for a while, as other findings say, are left out.
    """
    number = np.array([files.index(block.file) for block in sample.blocks])[sample.block]
    own = number == np.arange(len(files))[:, None]
    counts = own.sum(axis=1)
    enough = np.minimum(counts, len(number) - counts) >= thresholds.FEWEST_QUERIES
    if not enough.any():
        return
    looks = len(files) * sample.data.n_features * _BINS
    limit = np.sqrt(2 * np.log(2 * looks / thresholds.CHANCE))
    absent = {name for one in findings if one.check == "missing-spike" for name in one.columns}
    drifted: dict[int, list[int]] = {}
    for column, name in enumerate(sample.data.feature_names):
        if name not in absent:
            apart = np.zeros(len(files))
            apart[enough] = _distances(sample, column, own[enough].astype(np.float64), limit)
            # Of two files, which are as far from each other, it is the last that is told.
            worst = int(np.flatnonzero(np.isclose(apart, apart.max()))[-1])
            if apart[worst] > thresholds.DRIFT:
                drifted.setdefault(worst, []).append(column)
    for file, columns in sorted(drifted.items()):
        yield _drift_finding(sample, files[file], own[file], columns)


def _distances(
    sample: Sample, column: int, own: NDArray[np.float64], limit: float
) -> NDArray[np.float64]:
    """The Kolmogorov–Smirnov distance of each file from all others; 0 where it may be chance.

    Distributions are means over queries, whose documents are not independent, of the share of
    documents up to a value. The difference of two means is held against the limit of so many
    standard errors: the greater one of those by the variances of both sides and by their mean
    variance, for the few queries of one side may agree by chance.
    """
    bins = value_bins(sample.data.features[:, column], _BINS)
    sizes, width = np.diff(sample.data.offsets), int(bins.max()) + 1
    counts = np.bincount(sample.query * width + bins, minlength=len(sizes) * width)
    shares = counts.reshape(-1, width).cumsum(axis=1) / sizes[:, None]
    inside = own.sum(axis=1, keepdims=True)
    n = np.array([inside, len(sizes) - inside])
    means, squares = (
        np.array([own @ values, values.sum(axis=0) - own @ values]) / n
        for values in (shares, shares**2)
    )
    variances = np.maximum(squares - means**2, 0.0)
    errors = np.maximum(
        (variances / n).sum(axis=0), (variances * n).sum(axis=0) / len(sizes) * (1 / n).sum(axis=0)
    )
    distances = np.abs(means[0] - means[1])
    distances[distances <= limit * np.sqrt(errors)] = 0.0
    most: NDArray[np.float64] = distances.max(axis=1)
    return most


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
