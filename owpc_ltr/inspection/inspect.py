"""`inspect`: faults in judged queries and their features, before a model is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.data.options import MaxFeatureNumber, Memory
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.inspection.result import FEATURE_ROWS, Inspection
from owpc_ltr.signatures import Argument, Help, Progress, Reads, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset

    Data = RankingDataset | PartitionedDataset


@job
def inspect(
    data: Annotated[
        Data | str | Path | Sequence[str | Path] | Mapping[str, Data],
        Reads(
            "Parquet, LETOR text, or a folder of parts; several are sides of a split.",
            project="data",
        ),
        Argument.DATA,
    ],
    *,
    all_features: Annotated[
        bool, Help(f"Show all features, not the first {FEATURE_ROWS}.", flag="--features")
    ] = False,
    strict: Annotated[bool, Help("Exit code 5 if there is a warning.")] = False,
    report: ReportPage = None,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    progress: Progress = silent,
) -> Inspection:
    """Look for faults in data before training.

    Findings come worst first, each with what to do: warnings do harm, notes are worth knowing.
    Every row is checked; values are compared on a sample of whole queries.

    Python: `data` is also a dataset, or datasets by name: several are sides of a split (train,
    test), which must not share a query, and whose features should have the same values.
    Raises BadInput for data of different features, and Refused, with the `result`, for a warning
    where that is `strict`.

    >>> import owpc_ltr as ltr
    >>> import numpy as np
    >>> values, queries = np.arange(80.0), np.repeat(np.arange(20), 4)
    >>> columns = np.column_stack([values % 7, 0 * values, values % 5])
    >>> labels = columns[:, 0] + columns[:, 2] > 5
    >>> data = ltr.make_dataset(columns, labels, queries, ["title", "boddy", "votes"])
    >>> [finding.subject for finding in ltr.inspect(data).warnings]
    ['boddy']
    """
    from dataclasses import replace

    from owpc_ltr.inspection.checks import all_checks

    named = _named(data, max_feature_number, memory)
    inspection = replace(all_checks(named, progress), all_features=all_features)
    write_report(inspection, report)
    if strict and inspection.warnings:
        count = len(inspection.warnings)
        several = "1 warning" if count == 1 else f"{count} warnings, the worst"
        raise Refused(f"{several}: {inspection.warnings[0].line}").with_result(inspection)
    return inspection


def _named(
    data: Data | str | Path | Sequence[str | Path] | Mapping[str, Data],
    max_feature_number: int | None,
    memory: int | str | None,
) -> dict[str, Data]:
    """The datasets by the names that findings give to them."""
    from owpc_ltr.data.datasets import open_or_read

    if isinstance(data, Mapping):
        named = dict(data)
    elif isinstance(data, str | Path | Sequence):
        paths = [data] if isinstance(data, str | Path) else list(data)
        names = [str(path) for path in paths]
        if len(set(names)) < len(names):
            raise UsageError(f"'{names[0]}' is named twice: name each file once")
        named = {
            name: open_or_read(name, memory=memory, max_feature_number=max_feature_number)
            for name in names
        }
    else:
        named = {"the dataset": data}
    if not named:
        raise UsageError("there is nothing to inspect: name a dataset or more")
    return named
