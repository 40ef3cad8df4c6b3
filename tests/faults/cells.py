"""The cells of the matrix: one fault at one stage, at a place that a seed chooses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from tests.engine.fake_engine import Asked, FakeEngine
from tests.faults.network import Fault, is_bulk, is_search
from tests.faults.promises import OLD, broken, broken_when_repeated
from tests.faults.proxy import FaultProxy, Plan
from tests.faults.running import Ended
from tests.faults.stage import Clean, Stage, made
from tests.faults.world import State, World


@dataclass
class Laboratory:
    """A world, and for each stage what it does when nothing goes wrong."""

    world: World
    first: State
    elsewhere: FakeEngine
    """Another host, which must not be asked anything."""
    _clean: dict[str, Clean] = field(default_factory=dict)

    def clean(self, stage: Stage) -> Clean:
        """The stage when nothing goes wrong; the world is in the state before it then."""
        known = self._clean.get(stage.name)
        if known is None:
            self.world.restore(self.first)
            stage.prepare(self.world)
            known = self._clean[stage.name] = self._observe(stage)
        self.put_back(stage, known)
        return known

    def put_back(self, stage: Stage, clean: Clean) -> None:
        """Everything as it was before the stage; an old file stands where it publishes one."""
        self.world.restore(clean.before)
        self.world.tidy()
        if stage.out:
            self.world.path(stage.out).write_bytes(OLD)

    def strike(self, stage: Stage, fault: Fault, seed: int) -> Ended:
        """Run the stage's command through a proxy at which the fault strikes."""
        clean = self.clean(stage)
        chosen = [asked for asked in clean.requests if fault.on(asked)]
        assert chosen, f"'{fault.name}' has nothing to strike in '{stage.name}'"
        place = random.Random(f"{stage.name}:{fault.name}:{seed}").randint(1, len(chosen))  # noqa: S311
        with FaultProxy(self.world.url) as proxy, small_chunks():
            proxy.elsewhere = self.elsewhere.url
            proxy.plan = Plan(
                fault.acting_through(proxy), fault.on, place, fault.times, onwards=fault.onwards
            )
            ended = self.world.run(*stage.command(self.world), url=proxy.url, **fault.environ)
            assert proxy.plan.struck, f"'{fault.name}' was not met by '{stage.name}'"
        return ended

    def problems(self, stage: Stage, fault: Fault, ended: Ended) -> list[str]:
        """What a command has broken that this fault struck, or breaks when it is repeated."""
        problems = self.problems_of(stage, ended, fault.expected(stage.kind), cut_off=fault.onwards)
        if self.elsewhere.requests:
            problems.append(f"another host was asked: {self.elsewhere.requests[0]}")
            self.elsewhere.requests.clear()
        return problems

    def problems_of(
        self,
        stage: Stage,
        ended: Ended,
        expected: str,
        *,
        cut_off: bool,
        published: bool = False,
        unsure: bool = False,
    ) -> list[str]:
        """What a command has broken, by how it ended, or breaks when it is repeated."""
        clean = self._clean[stage.name]
        problems = broken(
            stage, self.world, clean, ended, expected,
            cut_off=cut_off, published=published, unsure=unsure,
        )  # fmt: skip
        if ended.code:
            with small_chunks():
                problems += broken_when_repeated(stage, self.world, clean, killed=cut_off)
        return problems

    def _observe(self, stage: Stage) -> Clean:
        before = self.world.state()
        with FaultProxy(self.world.url) as proxy, small_chunks():
            ended = self.world.run(*stage.command(self.world), url=proxy.url)
            asked: list[Asked] = list(proxy.requests)
        assert ended.code == 0, ended.err
        assert ended.faults() == []
        after, printed, published = made(stage, self.world, ended)
        return Clean(before, after, printed, published, asked)


@contextmanager
def small_chunks() -> Iterator[None]:
    """Logs in several chunks and pages, though they are small, and short pauses."""

    def in_small_chunks(*args: Any, options: LogOptions | None, **named: Any) -> LogReport:
        small = replace(options or LogOptions(), chunk=24, pause=0.01)
        return run_log(*args, options=small, **named)

    with (
        mock.patch("owpc_ltr.engine.feature_log.log.run_log", in_small_chunks),
        mock.patch("owpc_ltr.engine.ubi.PAGE", 15),
    ):
        yield


def applies(stage: Stage, fault: Fault) -> bool:
    """Whether there is a cell of this fault at this stage."""
    named = not fault.only or stage.name in fault.only
    absent = (fault.on is is_bulk and not stage.bulk) or (
        fault.on is is_search and not stage.searches
    )
    return named and not absent and fault.expected(stage.kind) != "-"
