"""Uploads that meet: one wins, or both follow each other; none takes away what another proved."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Aliases, immutable_name
from owpc_ltr.engine.deployment.model_upload import Uploaded
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.formats.model_conversion import export_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model
from tests.engine.deployed import KINDS, liar, put, put_beside, state
from tests.engine.small_cluster import FEATURESET, Small, linear, small_cluster


@pytest.fixture(params=KINDS)
def small(request: pytest.FixtureRequest, node_for: Callable[[str], str]) -> Iterator[Small]:
    kind = request.param
    with small_cluster(node_for(kind), kind=kind) as made:
        yield made


def test_of_two_uploads_at_once_one_wins_or_both_follow_each_other(small: Small) -> None:
    base = put(small, linear(), history=1000)
    done: list[str] = []
    refused: list[str] = []
    gate = threading.Barrier(2)

    def go(weight: float) -> None:
        gate.wait()
        try:
            done.append(put(small, linear((weight, 0.0, 0.0))).model)
        except Refused as refusal:
            refused.append(str(refusal))

    for _ in range(4):
        before = Aliases(small.engine, small.store).find(small.name)
        assert before is not None
        threads = [
            threading.Thread(target=go, args=(len(done) + len(refused) + 1.0 + step / 8,))
            for step in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    alias, models, certified = state(small)
    assert alias is not None
    assert all("somebody else moved" in words for words in refused)
    assert len(done) + len(refused) == 8
    assert sorted([*alias.previous, alias.current]) == sorted([base.model, *done])
    assert set(models) == alias.models
    assert all(certified)


def test_one_model_uploaded_by_two_at_once_stays_when_one_of_them_fails(small: Small) -> None:
    """The failing one clears up while the other's name comes to mean the model."""
    lying = liar(small)
    for step in range(6):
        model = linear((1.0, 2.0, step / 8))
        results: list[Any] = []
        gate = threading.Barrier(2)

        def go(cluster: Small, model: Model = model, gate: Any = gate, to: Any = results) -> None:
            gate.wait()
            try:
                to.append(put(cluster, model))
            except OwpcLtrError as error:
                to.append(error)

        threads = [threading.Thread(target=go, args=(each,)) for each in (small, lying)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (won,) = [each.model for each in results if not isinstance(each, OwpcLtrError)]
        (lost,) = [each for each in results if isinstance(each, Refused)]
        assert "scores differently" in str(lost)
        alias, models, certified = state(small)
        assert alias is not None
        assert alias.current == won
        assert set(models) == alias.models
        assert all(certified)


@dataclass
class Rival:
    """An engine before whose n-th request (or each one) a failing upload takes the model out.

    It has looked before whether a name means the model, and looks again: where one does by then,
    it puts the model back.
    """

    small: Small
    model: StoredModel
    at: int | None
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.small.engine, name)

    def request(self, method: str, path: str, **given: Any) -> Any:
        self.calls += 1
        if self.at in {None, self.calls}:
            with contextlib.suppress(BadInput):
                self.small.store.delete_model(self.model.name)
            if self.model.name in Aliases(self.small.engine, self.small.store).pointed_to():
                self.small.store.put_model(self.model)
        return self.small.engine.request(method, path, **given)


def as_stored(small: Small, model: LinearModel) -> StoredModel:
    stored = export_linear(model, FEATURESET, "m")
    return replace(stored, name=immutable_name(small.name, stored))


def test_a_model_that_a_failing_upload_of_the_same_takes_out_is_stored_again(small: Small) -> None:
    """Whenever it is taken out, the good upload succeeds all the same."""
    at, calls, previous = 0, 1, None
    while at < calls:
        at += 1
        model = linear((1.0, 2.0, at / 64))
        rival = Rival(small, as_stored(small, model), at)
        done = put_beside(small, model, rival, history=1000)
        calls = rival.calls
        alias, models, certified = state(small)
        assert alias == done.alias
        assert alias.current == rival.model.name
        assert alias.previous[-1:] == ((previous,) if previous else ())
        assert set(models) == alias.models
        assert all(certified)
        previous = done.model
    assert at > 10


def test_a_model_that_is_taken_out_again_and_again_is_given_up_and_leaves_nothing(
    small: Small,
) -> None:
    before = put(small, linear())
    model = linear((1.0, 2.0, 0.25))
    rival = Rival(small, as_stored(small, model), None)
    with pytest.raises(Refused, match="took it out: try again"):
        put_beside(small, model, rival)
    assert rival.calls < 60
    assert state(small) == (before.alias, [before.model], [True])


@dataclass
class Meeting:
    """An engine that waits, before it first moves a name, until the other upload is there too."""

    engine: Engine
    name: str
    both: threading.Barrier
    met: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def request(self, method: str, path: str, **given: Any) -> Any:
        if not self.met and method == "PUT" and path.endswith(f"%2F{self.name}"):
            self.met = True
            self.both.wait(60)
        return self.engine.request(method, path, **given)


@pytest.mark.parametrize("first", [True, False], ids=["a new name", "a known name"])
def test_the_same_model_uploaded_by_two_at_once_is_success_for_both(
    first: bool, small: Small
) -> None:
    before = None if first else put(small, linear()).model
    model = linear((1.0, 2.0, 0.25))
    both = threading.Barrier(2)
    done: list[Any] = []

    def go() -> None:
        try:
            done.append(put_beside(small, model, Meeting(small.engine, small.name, both)))
        except OwpcLtrError as error:
            done.append(error)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, two = done
    assert isinstance(one, Uploaded)
    assert isinstance(two, Uploaded)
    assert one.alias == two.alias == Aliases(small.engine, small.store).find(small.name)
    assert one.alias.previous == ((before,) if before else ())
    _, models, certified = state(small)
    assert set(models) == one.alias.models
    assert all(certified)
