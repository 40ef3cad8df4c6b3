"""A protocol: the methods that a paper compares, as jobs, and what its figures are by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from owpc_ltr.metrics import Metric
from owpc_ltr_papers.jobs import Job


@dataclass(frozen=True)
class Method:
    """A row of a table of ours: of its jobs, each fold takes the one that validation chooses.

    `published` is what the paper calls it, where that is another name. `against` is the method that
    it is compared with, query by query.
    """

    name: str
    jobs: tuple[Job, ...]
    published: str = ""
    against: str = ""

    @property
    def published_name(self) -> str:
        """The row of the paper that it stands beside."""
        return self.published or self.name


@dataclass(frozen=True)
class Extent:
    """How much of a protocol is done: all of it, or a quick part, which is called so."""

    quick: bool = False
    with_ranklib: bool = False


@dataclass(frozen=True)
class Fact:
    """A figure that no data set is needed for: what the paper says, and what the library finds."""

    data_set: str
    method: str
    metric: str
    found: float


@dataclass(frozen=True)
class Protocol:
    """What a paper did, on whatever data sets there are.

    `sources` are keys of the published figures, the paper's own first. `says` is what a reader
    must know of the conventions and of what is not done as in the paper. `facts` are figures that
    need no data. `elsewhere`: the paper's data set is in no folder of LETOR's, so that its rows
    stand by themselves.
    """

    name: str
    sources: tuple[str, ...]
    metrics: tuple[Metric, ...]
    methods: Callable[[Extent], Sequence[Method]]
    says: tuple[str, ...]
    facts: Callable[[], Sequence[Fact]] = tuple
    uses_ranklib: bool = False
    elsewhere: bool = False


def parts_of(methods: Sequence[Method]) -> list[Job]:
    """Every job of these methods once, bases before what is built on them."""
    jobs: dict[str, Job] = {}

    def add(job: Job) -> None:
        if job.base is not None:
            add(job.base)
        known: Any = jobs.setdefault(job.name, job)
        if known.described() != job.described():
            raise ValueError(f"two jobs are called '{job.name}'")

    for method in methods:
        for job in method.jobs:
            add(job)
    return list(jobs.values())
