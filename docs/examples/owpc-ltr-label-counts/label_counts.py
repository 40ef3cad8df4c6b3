"""How many documents of a dataset have each label. A third-party command.

The function is the command, `owpc-ltr label-counts`, and `owpc_ltr.label_counts` in Python. Heavy
imports stand inside it: the module is imported when commands are listed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr import hookimpl
from owpc_ltr.types import Command, Help, Reads, job

if TYPE_CHECKING:
    from owpc_ltr import RankingDataset


@dataclass(frozen=True)
class LabelCounts:
    """Documents by label: `str` is what the command prints, `as_dict` is its `--json`."""

    counts: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{label}: {count}" for label, count in self.counts.items())


@job
def label_counts(
    data: Annotated[RankingDataset | Path | str, Reads("A dataset: Parquet, or LETOR text.")],
    *,
    above: Annotated[float, Help("Count only labels above this one.")] = -1.0,
) -> LabelCounts:
    """Count the documents that have each label."""
    import numpy as np

    import owpc_ltr

    judged = owpc_ltr.read_dataset(data) if isinstance(data, Path | str) else data
    labels, counts = np.unique(judged.labels[judged.labels > above], return_counts=True)
    return LabelCounts({f"{label:g}": int(n) for label, n in zip(labels, counts, strict=True)})


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr label-counts`."""
    summary = "Count the documents that have each label."
    return [Command("label-counts", "label_counts:label_counts", summary, panel="Data")]
