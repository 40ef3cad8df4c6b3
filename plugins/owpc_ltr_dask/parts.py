"""A pass over parts on workers: each part is reckoned by one, and the results come in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.partitioned.parts import Form, Piece
from owpc_ltr_dask.calls import Calls
from owpc_ltr_dask.on_worker import call_on_parts
from owpc_ltr_dask.placement import placed
from owpc_ltr_dask.together import Member, Share, Together

R = TypeVar("R")


_BATCH_DOCUMENTS = 1_000_000
"""Documents of small parts that are gone through in one step: asking for each would take longer."""
_STEPS = 4
"""Steps a worker, at least: what is lost when one dies, or waited for at the end of a pass."""


class PartsOnWorkers:
    """The parts of one folder, which every worker reads from its own disk, or a shared one."""

    def __init__(self, calls: Calls, name: str) -> None:
        self.calls, self.name = calls, name
        self._homes: dict[tuple[str, ...], str] = {}

    def each(
        self, call: Callable[[RankingDataset], R], pieces: Sequence[Piece], form: Form
    ) -> Iterator[R]:
        """What `call` makes of each part, in order."""
        sent, workers = self.calls.written(call), self.calls.workers()
        steps = {
            tuple(piece.part.path for piece in step): step for step in batches(pieces, len(workers))
        }
        sizes = {key: sum(piece.documents for piece in step) for key, step in steps.items()}
        # What other passes go through stays where it was read.
        self._homes |= placed(sizes, workers, self._homes)
        results: Iterator[Any] = self.calls.results(
            [
                (partial(call_on_parts, self.name, step, form, sent), self._homes[key])
                for key, step in steps.items()
            ]
        )
        return results


def together(
    meet: Callable[[int], Mapping[str, Any]],
    call: Callable[[Member, list[Share]], R],
    *data: PartitionedDataset,
) -> R:
    """What workers make together, each of its share of the datasets: see `Together`."""
    on = [one.workers for one in data]
    assert all(isinstance(one, PartsOnWorkers) for one in on)  # noqa: S101 - who asks has looked
    named = [(one.name, of) for one, of in zip(on, data, strict=True)]  # type: ignore[union-attr]
    return Together(on[0].calls, meet, call).result(named)  # type: ignore[union-attr]


def batches(pieces: Sequence[Piece], workers: int) -> list[list[Piece]]:
    """Parts that follow one another, as steps of a pass of about as many documents each.

    A multiple of the workers, as far as there are parts for it: they end at the same time.
    """
    ends = np.cumsum([piece.documents for piece in pieces])
    rounds = max(_STEPS, -(-int(ends[-1]) // (_BATCH_DOCUMENTS * workers))) if len(ends) else 0
    cuts = np.arange(1, rounds * workers) / (rounds * workers) * ends[-1:]
    # Between the parts that are nearest.
    firsts = np.unique([0, *np.searchsorted(ends - np.diff(ends, prepend=0) / 2, cuts)])
    return [
        list(pieces[first:after])
        for first, after in itertools.pairwise([*firsts.tolist(), len(pieces)])
        if after > first
    ]
