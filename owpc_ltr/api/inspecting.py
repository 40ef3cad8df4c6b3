"""`inspect`: what is wrong with judged queries and their features, before anything is learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.data.partitioned.kept import Room
    from owpc_ltr.inspection.finding import Finding
    from owpc_ltr.inspection.result import Inspection

    Data = RankingDataset | PartitionedDataset

Progress = Callable[[str, float | None], None]


def inspect(
    data: Data | str | Path | Sequence[str | Path] | Mapping[str, Data],
    *,
    training: bool = True,
    learning_curve: bool | None = None,
    max_features: int | None = None,
    memory: int | Room | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Inspection:
    """A doctor for data: figures, a row a feature, and findings, the worst first.

    `data` is a dataset, a file or folder of parts, several files, or datasets by name: several are
    taken for the sides of a split (train, test), which must not share a query. Every row is looked
    at; values are compared on a sample of whole queries. With `training` the default is trained on
    true and on shuffled labels, and a learning curve says what more judgments would give: on data
    of moderate size (about 10 seconds), or wherever `learning_curve` is True. Nothing is changed.

    Raises BadInput for data of different features, UsageError for a learning curve of more data
    than `memory`.

    >>> import owpc_ltr as ltr
    >>> import numpy as np
    >>> values, queries = np.arange(80.0), np.repeat(np.arange(20), 4)
    >>> columns = np.column_stack([values % 7, values % 7, values % 5])
    >>> labels = columns[:, 1] + columns[:, 2] > 5
    >>> data = ltr.make_dataset(columns, labels, queries, ["title", "titel", "votes"])
    >>> [finding.subject for finding in ltr.inspect(data, training=False).warnings]
    ['title, titel']
    """
    from dataclasses import replace

    from owpc_ltr.inspection.inspecting import Trials
    from owpc_ltr.inspection.inspecting import inspect as inspect_all
    from owpc_ltr.protocols import Run

    named = _named(data, max_features, memory)
    run = Run(seed=seed) if progress is None else replace(Run(seed=seed), progress=progress)
    found = inspect_all(named, run, Trials(training, learning_curve))
    if isinstance(data, str | Path) or (isinstance(data, Sequence) and data):
        return replace(found, findings=tuple(_placed(one) for one in found.findings))
    return found


def _placed(finding: Finding) -> Finding:
    """The finding with its line, where its source is a text of one document a line."""
    from dataclasses import replace

    from owpc_ltr.data.letor import line_of_row

    if finding.row is None or Path(finding.row[0]).is_dir():
        return finding
    line = line_of_row(Path(finding.row[0]), finding.row[1])
    return finding if line is None else replace(finding, place=f"{finding.row[0]}, line {line}")


def _named(
    data: Data | str | Path | Sequence[str | Path] | Mapping[str, Data],
    max_features: int | None,
    memory: int | Room | None,
) -> dict[str, Data]:
    """The datasets by the names that findings give to them."""
    from owpc_ltr.api.partitions import open_or_read

    if isinstance(data, Mapping):
        named = dict(data)
    elif isinstance(data, str | Path | Sequence):
        paths = [data] if isinstance(data, str | Path) else list(data)
        names = [str(path) for path in paths]
        if len(set(names)) < len(names):
            raise UsageError(f"'{names[0]}' is named twice: name each file once")
        named = {
            name: open_or_read(name, memory=memory, max_features=max_features) for name in names
        }
    else:
        named = {"the dataset": data}
    if not named:
        raise UsageError("there is nothing to inspect: name a dataset or more")
    return named
