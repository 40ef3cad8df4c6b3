"""Uploads that fail, are killed or meet: the registry is as it was, or as it should be."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import INDEX, Alias
from owpc_ltr.engine.deployment.model_lifecycle import prunable, prune
from owpc_ltr.engine.deployment.model_upload import upload_model
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError
from tests.engine.deployed import KINDS, put, put_beside, state
from tests.engine.small_cluster import (
    FEATURESET,
    STORES,
    Small,
    Unreliable,
    linear,
    small_cluster,
)


@pytest.fixture(params=KINDS)
def small(request: pytest.FixtureRequest, node_for: Callable[[str], str]) -> Iterator[Small]:
    kind = request.param
    with small_cluster(node_for(kind), kind=kind) as made:
        yield made


@dataclass
class Fault:
    """How a request fails: as an engine that is gone, or as a process that is stopped."""

    made: type[BaseException]
    lost_answer: bool
    again: bool


FAULTS = [
    Fault(EngineUnavailable, lost_answer=False, again=False),
    Fault(EngineUnavailable, lost_answer=True, again=False),
    Fault(EngineUnavailable, lost_answer=False, again=True),
    Fault(EngineUnavailable, lost_answer=True, again=True),
    Fault(KeyboardInterrupt, lost_answer=False, again=False),
    Fault(KeyboardInterrupt, lost_answer=True, again=True),
]


@pytest.mark.faults(sample=4)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_at_any_request_leaves_the_registry_as_it_was_or_as_it_should_be(
    fault: Fault, small: Small
) -> None:
    """Every n-th request fails, until an upload needs fewer: no name ever means what is not there.

    What a dead engine or process leaves behind is a model that no name means, never the reverse.
    """
    first = put(small, linear(), history=1000)
    old = first.alias
    fail_at, clean = 0, False
    while not clean:
        fail_at += 1
        model = linear((1.0, 0.25, fail_at / 64))
        unreliable = Unreliable(
            small.engine,
            fail_at,
            lambda: fault.made("gone"),
            lost_answer=fault.lost_answer,
            again=fault.again,
        )
        engine = cast(Engine, unreliable)
        store = small.store_through(engine)
        succeeded = False
        try:
            upload_model(engine, store, model, FEATURESET, small.index, small.name)
            succeeded = True
        except (OwpcLtrError, KeyboardInterrupt):
            pass
        clean = unreliable.calls < fail_at
        alias, models, certified = state(small)
        assert alias is not None
        known = dict(zip(models, certified, strict=True))
        assert all(known[name] for name in alias.models)
        assert alias == old or alias.previous == (*old.previous, old.current)
        if succeeded:
            assert alias != old
        if not fault.again:
            # The engine was there for clearing up.
            assert set(models) == alias.models
        old = alias
    assert first.model in old.models
    assert fail_at > 15


@dataclass
class Confused(Unreliable):
    """An engine whose n-th request is carried out, and answered with something else."""

    answer: Any = None

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.calls += 1
        answer = self.engine.request(method, path, **given)
        return self.answer if self.calls == self.fail_at else answer


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("answer", [None, {"_shards": {"failed": 1}}], ids=str)
def test_an_answer_that_no_engine_gives_at_any_request_leaves_nothing_half_done(
    answer: Any, small: Small
) -> None:
    old = put(small, linear(), history=1000).alias
    fail_at, clean = 0, False
    while not clean:
        fail_at += 1
        engine = Confused(small.engine, fail_at, AssertionError, answer=answer)
        with contextlib.suppress(OwpcLtrError):
            put_beside(small, linear((1.0, 0.25, fail_at / 64)), engine)
        clean = engine.calls < fail_at
        alias, models, certified = state(small)
        assert alias is not None
        assert alias == old or alias.previous == (*old.previous, old.current)
        known = dict(zip(models, certified, strict=True))
        assert all(known[name] for name in alias.models)
        old = alias
    assert fail_at > 15


def upload_until(url: str, own: str, kind: str, wanted: str) -> None:
    """An upload in a process that is killed, as by a power cut, after the answer to a request."""
    engine = Engine(ConnectionSettings(url))
    request = engine.request

    def last(method: str, path: str, **given: Any) -> Any:
        answer = request(method, path, **given)
        if wanted in f"{method} {path} {'rescore' if 'rescore' in str(given) else ''}":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    engine.request = last  # type: ignore[method-assign]
    store = STORES[kind](engine, own)
    upload_model(engine, store, linear((1.0, 2.0, 0.25)), FEATURESET, f"small-{own}", f"m-{own}")


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize(
    ("wanted", "moved"),
    [
        ("_create", False),  # the model is stored, and nothing else says whose it is
        ("rescore", False),  # and scored in the engine
        (f"PUT /{INDEX}/_doc/certificate", False),
        (f"PUT /{INDEX}/_doc/KIND%2F", True),
    ],
)
def test_what_a_killed_upload_leaves_no_name_means_and_another_upload_takes_up(
    wanted: str, moved: bool, small: Small
) -> None:
    first = put(small, linear())
    context = multiprocessing.get_context("forkserver")
    own = small.name.removeprefix("m-")
    url = small.engine.settings.url
    kind = small.store.kind
    last = wanted.replace("KIND", kind)
    child = context.Process(target=upload_until, args=(url, own, kind, last))
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    alias, models, _ = state(small)
    assert alias is not None
    (left,) = set(models) - {first.model}
    assert alias.current == (left if moved else first.model)
    assert prunable(small.engine, small.store) == ([] if moved else [left])
    if wanted == "_create":
        prune(small.engine, small.store, [left])
        assert state(small) == (first.alias, [first.model], [True])
    done = put(small, linear((1.0, 2.0, 0.25)))
    assert done.model == left
    assert done.alias == Alias(small.name, left, (first.model,))
    assert prunable(small.engine, small.store) == []
    assert all(state(small)[2])
