"""Writes whose answers are lost, that are sent twice, or that arrive late: repeated, all is well.

Each command that writes is run on a cluster in memory, with a fault at one of its writes (or at
two). At no moment does a name mean what is not there. A command that failed is given once more, as
a user would: then names, models and documents are those of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from owpc_ltr.api.uploaded_models import UploadedModels
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import INDEX, Unsettled, all_aliases
from owpc_ltr.engine.deployment.upload import upload
from owpc_ltr.engine.index import load_index
from owpc_ltr.engine.staging_index import mark_of
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, OwpcLtrWarning, Refused
from owpc_ltr.files.json_lines import DocumentFile
from owpc_ltr.names import base_index
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import FEATURESET, linear

EVERY = os.environ.get("OWPC_LTR_FAULTS") == "all"
KINDS = ("lost", "not sent", "sent twice", "late by 1", "late by 4", "late by a run", "last of all")
MODELS = [linear((1.0, 0.5, number / 8)) for number in range(1, 5)]


@dataclass
class Faulty:
    """An engine at whose writes of these numbers (counted from 1) something goes wrong."""

    engine: MemoryCluster
    faults: dict[int, str]
    look: Callable[[], None] = lambda: None
    writes: int = 0
    late: list[tuple[int, Callable[[], Any]]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.arrive(1)
        send = partial(self.engine.request, method, path, **given)
        if method == "GET" or path.endswith("_search"):
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


Command = Callable[[Engine], object]


@dataclass
class World:
    """A cluster with an index, a feature set, and a name that has moved twice."""

    folder: Path
    cluster: MemoryCluster = field(default_factory=MemoryCluster)

    def __post_init__(self) -> None:
        engine = self.engine
        store = PluginFreeStore(engine)
        self.fill("small", range(60), "refuse", engine)
        self.fill("docs", range(5), "refuse", engine)
        store.put_featureset(FEATURESET)
        for model in MODELS[:2]:
            self.upload(model, "champion", engine)
        self.upload(MODELS[2], "challenger", engine)
        self.upload(MODELS[3], "champion", engine, name="other")
        UploadedModels(engine, lambda: store).delete("other")

    @property
    def engine(self) -> Engine:
        return cast(Engine, self.cluster)

    def fill(self, name: str, numbers: Any, existing: str, engine: Engine) -> None:
        path = self.folder / f"{name}-{existing}.jsonl"
        path.write_text("".join(f"{json.dumps({'id': f'd{n}', 'n': n})}\n" for n in numbers))
        load_index(engine, name, DocumentFile(path, "id"), existing=existing, progress=_silent)

    def upload(self, model: Any, role: str, engine: Engine, name: str = "m") -> object:
        return upload(engine, PluginFreeStore(engine), model, FEATURESET, "small", name, role=role)

    def state(self) -> Any:
        """Names, models, certificates and documents; what is marked as half filled is nothing."""
        engine = self.engine
        store = PluginFreeStore(engine)
        certified = [key for key in self.cluster.indices[INDEX].documents if "certificate" in key]
        documents = {
            base_index(name): sorted(index.documents)
            for name, index in self.cluster.indices.items()
            if mark_of(index.aliases) is None and not name.startswith("owpc-ltr-")
        }
        return all_aliases(engine), store.list_models(), sorted(certified), documents

    def look(self) -> None:
        """No name means what is not there."""
        engine = self.engine
        there = set(PluginFreeStore(engine).list_models())
        for alias in all_aliases(engine):
            assert {alias.current, *filter(None, [alias.challenger])} <= there, alias
        behind = [
            index
            for name, index in self.cluster.indices.items()
            if "docs" in {name, *index.aliases} and mark_of(index.aliases) is None
        ]
        assert len(behind) == 1
        assert len(behind[0].documents) >= 3


def _silent(_message: str, _done: float | None = None) -> None:
    """No progress."""


def _models(engine: Engine) -> UploadedModels:
    return UploadedModels(engine, lambda: PluginFreeStore(engine))


def commands(world: World) -> dict[str, Command]:
    """What is written, by the command that does it."""

    def pruned(engine: Engine) -> None:
        models = _models(engine)
        models.prune(models.unused())

    new = linear((1.0, 0.25, 0.125))
    return {
        "upload": lambda engine: world.upload(new, "champion", engine),
        "upload the first": lambda engine: world.upload(new, "champion", engine, "first"),
        "upload a challenger": lambda engine: world.upload(new, "challenger", engine),
        "rollback": lambda engine: _models(engine).rollback("m"),
        "promote": lambda engine: _models(engine).promote("m"),
        "delete": lambda engine: _models(engine).delete("m"),
        "prune": pruned,
        "recreate": lambda engine: world.fill("docs", range(3, 9), "recreate", engine),
        "append": lambda engine: world.fill("docs", range(3, 9), "append", engine),
        "append to a new one": lambda engine: world.fill("new", range(3), "append", engine),
        "index": lambda engine: world.fill("new", range(3), "refuse", engine),
    }


NAMES = (
    "upload", "upload the first", "upload a challenger", "rollback", "promote", "delete", "prune",
    "recreate", "append", "append to a new one", "index",
)  # fmt: skip


def world_before(name: str, folder: Path) -> World:
    world = World(folder)
    if name == "prune":
        # A model that nothing points to: uploaded, and its name gone.
        world.upload(MODELS[3], "champion", world.engine, "gone")
        world.cluster.request("DELETE", f"/{INDEX}/_doc/gone")
    return world


def undisturbed(name: str, folder: Path) -> tuple[Any, int]:
    """What a run without faults leaves, and how many writes it sends."""
    world = world_before(name, folder)
    counting = Faulty(world.cluster, {})
    commands(world)[name](cast(Engine, counting))
    return world.state(), counting.writes


def disturbed(name: str, folder: Path, faults: dict[int, str], expected: Any) -> Any:
    world = world_before(name, folder)
    engine = Faulty(world.cluster, faults, world.look)
    act = commands(world)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        for _ in range(len(faults) + 1):
            try:
                act(cast(Engine, engine))
                break
            except Unsettled:
                # As its message says: look what the name points to before it is given again.
                engine.arrive(10**6)
                if all_aliases(world.engine) == expected[0]:
                    break
            except BadInput as error:
                assert name == "delete", error  # noqa: PT017 - what is to be deleted is gone
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
    yield from single + pairs if EVERY else seeded.sample(single, min(5, len(single)))


@pytest.mark.parametrize("name", NAMES)
def test_a_command_whose_writes_go_astray_is_good_when_given_again(
    name: str, tmp_path: Path
) -> None:
    expected, writes = undisturbed(name, tmp_path)
    assert writes >= 1
    for faults in faults_of(name, writes):
        try:
            found = disturbed(name, tmp_path, faults, expected)
        except Exception as error:  # the seed of the fault belongs to every failure
            raise AssertionError(f"{name} with {faults}: {error!r}") from error
        assert found == expected, f"{name} with {faults}"
