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
from owpc_ltr_dask.calls import Calls
from owpc_ltr_dask.lost_workers import TRIES, ended_often
from owpc_ltr_dask.on_worker import Failed, Station, attempt, call_on_parts, loaded_call

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


_BATCH_DOCUMENTS = 1_000_000
"""Documents of small parts that are gone through in one step: asking for each would take longer."""
_STEPS = 4
"""Steps a worker, at least: what is lost when one dies, or waited for at the end of a pass."""
_SLACK = 1.1
"""How much more than its share a worker may have before parts that it has read go to another."""


class PartsOnWorkers:
    """The parts of one folder, which every worker reads from its own disk, or a shared one."""

    def __init__(self, calls: Calls, name: str) -> None:
        self.calls, self.name = calls, name
        self._homes: dict[tuple[str, ...], str] = {}

    def each(
        self, call: Callable[[RankingDataset], R], pieces: Sequence[PartSelection], form: ColumnSet
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


class _Sent(NamedTuple):
    station: str
    whole: PartitionedDataset
    numbers: tuple[int, ...]


def together(
    meet: Callable[[int], Mapping[str, Any]],
    call: Callable[[Member, list[WorkerParts]], R],
    *data: PartitionedDataset,
) -> R:
    """A call made by all workers at once, each with its share of the datasets.

    It is begun again with those that are left where a worker ends. `meet(number of workers)` is
    called on the first and gives what all need to find each other; the result is that of the first.
    """
    on = [one.workers for one in data]
    assert all(isinstance(one, PartsOnWorkers) for one in on)  # noqa: S101 - who asks has looked
    calls: Calls = on[0].calls  # type: ignore[union-attr]
    named = [(one.name, of) for one, of in zip(on, data, strict=True)]  # type: ignore[union-attr]
    sent = calls.written(meet), calls.written(call)
    error: Exception = WorkersUnavailable("there was no worker")
    for _ in range(TRIES):
        members = calls.workers()[: min(len(one.pieces) for one in data)]
        try:
            result: R = _once(calls, members, named, *sent)
        except WorkersUnavailable as left:
            error = left
        else:
            return result
    raise ended_often() from error


def _once(
    calls: Calls,
    members: list[str],
    data: Sequence[tuple[str, PartitionedDataset]],
    meet: bytes,
    call: bytes,
) -> Any:
    first = data[0][0]
    # Who has ended, or is still at something else, is not waited for by the others.
    calls.on_all([(partial(_here, first), member) for member in members])
    meeting = calls.on_all([(partial(_meet, first, len(members), meet), members[0])])
    tasks = []
    for number, member in enumerate(members):
        sent = [
            _Sent(station, replace(one, workers=None), _numbers(one, members, member))
            for station, one in data
        ]
        task = partial(_take_part, sent, Member(number, 1, meeting[0]), call)
        tasks.append((task, member))
    return calls.on_all(tasks)[0]


def _numbers(data: PartitionedDataset, members: list[str], member: str) -> tuple[int, ...]:
    sizes = {number: piece.documents for number, piece in enumerate(data.pieces)}
    homes = placed(sizes, members, {})
    return tuple(number for number in sizes if homes[number] == member)


def _here(station: str) -> list[Any] | Failed:
    return attempt(station, lambda _: [None])


def _meet(station: str, count: int, meet: bytes) -> list[Any] | Failed:
    return attempt(station, lambda _: [loaded_call(meet)(count)])


def _take_part(sent: Sequence[_Sent], member: Member, call: bytes) -> list[Any] | Failed:
    worker = get_worker()

    def share(one: _Sent) -> WorkerParts:
        station: Station = worker.plugins[one.station]
        return WorkerParts(replace(one.whole, files=station.opened()), one.numbers)

    def taken(_: Station) -> list[Any]:
        mine = member._replace(threads=worker.state.nthreads)
        return [loaded_call(call)(mine, [share(one) for one in sent])]

    return attempt(sent[0].station, taken)


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
    for part in sorted((one for one in sizes if one not in homes), key=lambda one: -sizes[one]):
        homes[part] = min(loads, key=loads.__getitem__)
        loads[homes[part]] += sizes[part]
    return homes
