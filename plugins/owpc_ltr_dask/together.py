"""Work that all workers do together, each with its share of the parts, and talking meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from distributed import get_worker

from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import WorkersUnavailable
from owpc_ltr_dask.calls import Calls
from owpc_ltr_dask.on_worker import Failed, Station, attempt, loaded_call
from owpc_ltr_dask.placement import placed

R = TypeVar("R")

_TRIES = 4


@dataclass(frozen=True)
class Share:
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


class Together(Generic[R]):
    """A call made by all workers at once, begun again with those that are left where one dies.

    `meet(number of workers)` is called on the first and gives what all need to find each other;
    the result is that of the first.
    """

    def __init__(
        self,
        calls: Calls,
        meet: Callable[[int], Mapping[str, Any]],
        call: Callable[[Member, list[Share]], R],
    ) -> None:
        self.calls, self.meet, self.call = calls, calls.written(meet), calls.written(call)

    def result(self, data: Sequence[tuple[str, PartitionedDataset]]) -> R:
        """What comes of it, with the parts of some datasets, each by the name of its station."""
        error: Exception = WorkersUnavailable("there was no worker")
        for _ in range(_TRIES):
            fewest = min(len(one.pieces) for _, one in data)
            members = self.calls.workers()[:fewest]
            try:
                return self._once(members, data)
            except WorkersUnavailable as left:
                error = left
        raise WorkersUnavailable(
            f"workers ended {_TRIES} times while they worked together: they may lack memory: give "
            "fewer processes, less --memory, or larger machines"
        ) from error

    def _once(self, members: list[str], data: Sequence[tuple[str, PartitionedDataset]]) -> R:
        first = data[0][0]
        # Who has ended, or is still at something else, is not waited for by the others.
        self.calls.on_all([(partial(_here, first), member) for member in members])
        meeting = self.calls.on_all([(partial(_meet, first, len(members), self.meet), members[0])])
        tasks = []
        for number, member in enumerate(members):
            sent = [
                _Sent(station, replace(one, workers=None), _numbers(one, members, member))
                for station, one in data
            ]
            task = partial(_take_part, sent, Member(number, 1, meeting[0]), self.call)
            tasks.append((task, member))
        results: list[R] = self.calls.on_all(tasks)
        return results[0]


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

    def share(one: _Sent) -> Share:
        station: Station = worker.plugins[one.station]
        return Share(replace(one.whole, files=station.opened()), one.numbers)

    def taken(_: Station) -> list[Any]:
        mine = member._replace(threads=worker.state.nthreads)
        return [loaded_call(call)(mine, [share(one) for one in sent])]

    return attempt(sent[0].station, taken)
