"""Writes whose answers are lost, that are sent twice, or that arrive late: repeated, all is well.

Each command that writes is run on a cluster in memory, with a fault at one of its writes (or at
two). At no moment does a name mean what is not there. A command that failed is given once more, as
a user would: then names, models and documents are those of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from owpc_ltr import OwpcLtrError, OwpcLtrWarning
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.versioned_documents import INDEX, Unsettled
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from tests.engine.small_cluster import Through
from tests.engine.write_world import MODELS, SEARCH, World, commands, copied_world

EVERY = os.environ.get("OWPC_LTR_FAULTS") == "all"
KINDS = ("lost", "not sent", "sent twice", "late by 1", "late by 4", "late by a run", "last of all")


@dataclass
class Faulty(Through):
    """An engine at whose writes of these numbers (counted from 1) something goes wrong."""

    faults: dict[int, str]
    look: Callable[[], None] = lambda: None
    writes: int = 0
    late: list[tuple[int, Callable[[], Any]]] = field(default_factory=list)

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.arrive(1)
        send = partial(self.engine.request, method, path, **given)
        if method == "GET" or "/_search" in path:
            return send()
        self.writes += 1
        try:
            return self._write(send, self.faults.get(self.writes), given.get("idempotent", True))
        finally:
            self.look()

    def _write(self, send: Callable[[], Any], fault: str | None, again: bool) -> Any:
        if fault is None:
            return send()
        if fault in {"lost", "sent twice"}:
            with contextlib.suppress(OwpcLtrError):
                send()
            if fault == "sent twice" and again:
                return send()
        elif fault != "not sent":
            after = {"late by 1": 1, "late by 4": 4, "late by a run": 10**6}.get(fault, 10**9)
            self.late.append((after, send))
        raise EngineUnavailable(f"write {self.writes} {fault}")

    def arrive(self, requests: int) -> None:
        """Let what is late arrive, when so many requests more have been sent."""
        waiting, self.late = self.late, []
        for left, send in waiting:
            if left > requests:
                self.late.append((left - requests, send))
                continue
            with contextlib.suppress(OwpcLtrError):
                send()
            self.look()


NAMES = (
    "upload", "upload the first", "upload a challenger", "rollback", "promote", "delete", "prune",
    "recreate", "append", "append to a new one", "index",
)  # fmt: skip
TEMPLATES = " with templates"
WITH_TEMPLATES = tuple(f"{name}{TEMPLATES}" for name in NAMES[:7])
"""The same where each upload stores a search template."""


def world_before(name: str, folder: Path) -> World:
    world = copied_world(folder, search=SEARCH if name.endswith(TEMPLATES) else None)
    name = name.removesuffix(TEMPLATES)
    if name == "prune":
        # A model that nothing points to: uploaded, and its name gone.
        world.upload(MODELS[3], "champion", world.engine, "gone")
        world.cluster.request("DELETE", f"/{INDEX}/_doc/gone")
    return world


def undisturbed(name: str, folder: Path) -> tuple[Any, int]:
    """What a run without faults leaves, and how many writes it sends."""
    world = world_before(name, folder)
    counting = Faulty(world.cluster, {})
    commands(world)[name.removesuffix(TEMPLATES)](cast("Engine", counting))
    return world.state(), counting.writes


def disturbed(name: str, folder: Path, faults: dict[int, str], expected: Any) -> Any:
    world = world_before(name, folder)
    engine = Faulty(world.cluster, faults, world.look)
    act = commands(world)[name.removesuffix(TEMPLATES)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        for _ in range(len(faults) + 1):
            try:
                act(cast("Engine", engine))
                break
            except Unsettled:
                # As its message says: look what the name points to before it is given again.
                engine.arrive(10**6)
                state = world.state()
                if (state[0], state[-1]) == (expected[0], expected[-1]):
                    break
            except BadInput as error:
                assert name.startswith("delete"), error  # noqa: PT017 - what is to be deleted is gone
                assert "there is no model" in str(error)  # noqa: PT017
                break
            except (EngineUnavailable, Refused):
                engine.arrive(10**6)
        else:
            pytest.fail("it fails more often than faults were made")
        engine.arrive(10**9)
    return world.state()


def faults_of(name: str, writes: int) -> Iterator[dict[int, str]]:
    """Every kind at every write, and then pairs; or a few of them.

    Of pairs none arrives last of all: that would be a removal, given up for lost by a run that had
    failed, which waits somewhere until a whole later run is done.
    """
    single: list[dict[int, str]] = [
        {number: kind} for number, kind in itertools.product(range(1, writes + 1), KINDS)
    ]
    seeded = random.Random(name)  # noqa: S311 - to be repeated, not a secret
    pairs = [
        {n: seeded.choice(KINDS[:-1]) for n in seeded.sample(range(1, writes + 4), 2)}
        for _ in range(40)
    ]
    yield from single + pairs if EVERY else seeded.sample(single, min(3, len(single)))


@pytest.mark.parametrize("name", NAMES + WITH_TEMPLATES)
def test_a_command_whose_writes_go_astray_is_good_when_given_again(
    name: str, tmp_path: Path
) -> None:
    expected, writes = undisturbed(name, tmp_path)
    assert writes >= 1
    for faults in faults_of(name, writes):
        try:
            state = disturbed(name, tmp_path, faults, expected)
        except Exception as error:  # the seed of the fault belongs to every failure
            raise AssertionError(f"{name} with {faults}: {error!r}") from error
        assert state == expected, f"{name} with {faults}"
