"""The parts of a dataset on workers: which worker has which, a pass over them, and work together.

In a pass each part is computed by one worker, and the results come in order. Together, all workers
work with their own parts and communicate meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from distributed import get_worker

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import ColumnSet, PartitionedDataset, PartSelection
from owpc_ltr.errors import WorkersUnavailable
from owpc_ltr_dask.calls import TRIES, Calls
from owpc_ltr_dask.on_worker import Failed, WorkerJob, attempt, call_on_parts, loaded_call

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


_BATCH_DOCUMENTS = 1_000_000
"""Documents of small parts that are processed in one step: a call for each would take longer."""
_STEPS = 4
"""Least steps of a worker: one is lost if it dies, and at the end of a pass others wait for one."""
_SLACK = 1.1
"""The load of a worker, in shares, above which parts that it has read go to another."""


class PartsOnWorkers:
    """The parts of one folder, which every worker reads from its own disk, or a shared one."""

    def __init__(self, calls: Calls, name: str) -> None:
        self.calls, self.name = calls, name
        self._homes: dict[tuple[str, ...], str] = {}

    def each(
        self, call: Callable[[RankingDataset], R], pieces: Sequence[PartSelection], form: ColumnSet
    ) -> Iterator[R]:
        """The result of `call` for each part, in order."""
        sent, workers = self.calls.written(call), self.calls.workers()
        steps = {
            tuple(piece.part.path for piece in step): step for step in batches(pieces, len(workers))
        }
        sizes = {key: sum(piece.documents for piece in step) for key, step in steps.items()}
        # What other passes go through stays where it was read.
        self._homes |= placed(sizes, workers, self._homes)
        return self.calls.results(
            [
                (partial(call_on_parts, self.name, step, form, sent), self._homes[key])
                for key, step in steps.items()
            ]
        )


def batches(pieces: Sequence[PartSelection], workers: int) -> list[list[PartSelection]]:
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


@dataclass(frozen=True)
class WorkerParts:
    """A worker's own parts of a dataset: `numbers` tells which they are of `whole`."""

    whole: PartitionedDataset
    numbers: tuple[int, ...]

    @property
    def own(self) -> PartitionedDataset:
        """The parts of this worker alone, in order."""
        return replace(self.whole, pieces=tuple(self.whole.pieces[n] for n in self.numbers))


class Member(NamedTuple):
    """One of several workers: which, of how many, its threads, and how it finds the others."""

    number: int
    threads: int
    meeting: Mapping[str, Any]


def together(
    meet: Callable[[int], Mapping[str, Any]],
    call: Callable[[Member, list[WorkerParts]], R],
    *data: PartitionedDataset,
) -> R:
    """A call made by all workers at once, each with its share of the datasets.

    It is begun again with those that are left where a worker ends. `meet(number of workers)` is
    called on the first and gives what all need to find each other; the result is that of the first.
    """
    workers: list[Any] = [dataset.workers for dataset in data]
    calls: Calls = workers[0].calls
    jobs = [parts.name for parts in workers]
    sent = calls.written(meet), calls.written(call)
    error: Exception = WorkersUnavailable("there was no worker")
    for _ in range(TRIES):
        members = calls.workers()[: min(len(dataset.pieces) for dataset in data)]
        try:
            result: R = _once(calls, members, list(zip(jobs, data, strict=True)), *sent)
        except WorkersUnavailable as ended:
            error = ended
        else:
            return result
    raise WorkersUnavailable(
        f"workers ended {TRIES} times while they worked together: they may lack memory: give "
        "fewer processes, less --memory, or larger machines"
    ) from error


def _once(
    calls: Calls,
    members: list[str],
    data: Sequence[tuple[str, PartitionedDataset]],
    meet: bytes,
    call: bytes,
) -> Any:
    first = data[0][0]
    # Who has ended, or is still at something else, is not waited for by the others.
    calls.on_all([(partial(_is_ready, first), member) for member in members])
    meeting = calls.on_all([(partial(_meet, first, len(members), meet), members[0])])
    tasks = []
    for number, member in enumerate(members):
        shares = [(job, _share(dataset, members, member)) for job, dataset in data]
        tasks.append((partial(_take_part, shares, Member(number, 1, meeting[0]), call), member))
    return calls.on_all(tasks)[0]


def _share(data: PartitionedDataset, members: list[str], member: str) -> WorkerParts:
    sizes = {number: piece.documents for number, piece in enumerate(data.pieces)}
    homes = placed(sizes, members, {})
    numbers = tuple(number for number in sizes if homes[number] == member)
    return WorkerParts(replace(data, workers=None), numbers)


def _is_ready(job: str) -> list[Any] | Failed:
    return attempt(job, lambda _: [None])


def _meet(job: str, count: int, meet: bytes) -> list[Any] | Failed:
    return attempt(job, lambda _: [loaded_call(meet)(count)])


def _take_part(
    shares: Sequence[tuple[str, WorkerParts]], member: Member, call: bytes
) -> list[Any] | Failed:
    worker = get_worker()

    def calls(_: WorkerJob) -> list[Any]:
        opened = [
            replace(parts, whole=replace(parts.whole, files=worker.plugins[job].opened()))
            for job, parts in shares
        ]
        return [loaded_call(call)(member._replace(threads=worker.state.nthreads), opened)]

    return attempt(shares[0][0], calls)


def placed(sizes: Mapping[K, int], workers: Sequence[str], before: Mapping[K, str]) -> dict[K, str]:
    """A worker for each part: the one it had before, unless that is gone or has far too many.

    >>> placed({"a": 3, "b": 2, "c": 1}, ["one", "two"], {})
    {'a': 'one', 'b': 'two', 'c': 'two'}
    """
    loads = dict.fromkeys(sorted(workers), 0)
    share = _SLACK * sum(sizes.values()) / len(loads)
    homes: dict[K, str] = {}
    for part, size in sizes.items():
        home = before.get(part)
        if home in loads and (loads[home] == 0 or loads[home] + size <= share):
            homes[part] = home
            loads[home] += size
    # The largest first: what comes last evens out.
    for part in sorted(
        (part for part in sizes if part not in homes), key=lambda part: -sizes[part]
    ):
        homes[part] = min(loads, key=loads.__getitem__)
        loads[homes[part]] += sizes[part]
    return homes
