"""Uploads: proven or without a trace, whatever fails, is killed or happens at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrError
from owpc_ltr.engine.deployment.alias import CHALLENGER, Alias, Aliases
from owpc_ltr.engine.deployment.deployment_record import immutable_name
from owpc_ltr.engine.deployment.model_upload import Uploaded, UploadRequest, upload_model
from owpc_ltr.engine.deployment.parity import PARITY_TOLERANCE
from owpc_ltr.engine.deployment.proof import prove
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import with_record
from owpc_ltr.protocols import Model
from tests.engine.deployed import KINDS, liar, put, put_beside, state
from tests.engine.small_cluster import (
    FEATURESET,
    Small,
    Through,
    Unreliable,
    emptied_store,
    fill,
    linear,
    probes,
    small_cluster,
)
from tests.faults.selection import Selection


@pytest.fixture(params=KINDS)
def small(request: pytest.FixtureRequest, node_for: Callable[[str], str]) -> Iterator[Small]:
    kind, own = request.param, "own_index" in request.fixturenames
    if kind == "plugin-free" and not own:
        made = emptied_store(request.getfixturevalue("lasting_small"))
    else:
        made = small_cluster(node_for(kind), kind=kind)
    with made as deployed:
        yield deployed


def test_an_upload_is_kept_under_its_hash_and_proven_on_the_judged_documents(small: Small) -> None:
    done = put(small, linear())
    assert done.model.startswith(f"{small.name}-")
    assert done.alias == Alias(small.name, done.model)
    assert (done.parity.queries, done.parity.documents, done.parity.absent) == (4, 48, 0)
    assert done.parity.largest_difference <= PARITY_TOLERANCE
    assert done.parity.swapped == 0
    assert done.parity.tau == pytest.approx(1.0, abs=1e-3)
    assert state(small) == (done.alias, [done.model], [True])


def test_the_same_model_gets_the_same_name_and_no_second_place_in_the_history(small: Small) -> None:
    first = put(small, linear())
    other = put(small, linear((0.0, 0.0, 1.0)))
    again = put(small, linear((0.0, 0.0, 1.0)))
    assert other.model == again.model != first.model
    assert again.alias == Alias(small.name, other.model, (first.model,))
    assert Aliases(small.engine, small.store).roll_back(small.name).current == first.model


@pytest.mark.usefixtures("own_index")
def test_the_request_that_is_tried_has_the_window_of_the_application(small: Small) -> None:
    """An index may allow smaller windows only."""
    small.engine.request(
        "PUT", f"/{small.index}/_settings", body={"index": {"max_rescore_window": 40}}
    )
    with pytest.raises(Refused, match=r"smaller window.*removed again"):
        put(small, linear((1.0, 0.0, 0.0)))
    assert put(small, linear((1.0, 0.0, 0.0)), window=40).alias.current is not None


@pytest.mark.usefixtures("own_index")
def test_an_index_that_is_switched_after_the_proof_is_refused(small: Small) -> None:
    """The alias of the index means another one by now, on which nothing was compared."""
    other, alias = f"{small.index}-other", f"{small.index}-alias"
    fill(small.engine, other, 60)

    def means(index: str) -> None:
        left = {"index": other if index == small.index else small.index, "alias": alias}
        actions = [{"remove": {**left, "must_exist": False}}, {"add": {**left, "index": index}}]
        small.engine.request("POST", "/_aliases", body={"actions": actions})

    @dataclass
    class Switching(Through):
        def request(self, method: str, path: str, **given: Any) -> Any:
            answer = self.engine.request(method, path, **given)
            if "rescore" in (body := given.get("body") or {}) and body["size"] == 1:
                means(other)
            return answer

    means(small.index)
    try:
        with pytest.raises(Refused, match=r"changed during the upload.*removed again"):
            put_beside(
                replace(small, index=alias), linear((1.0, 0.0, 0.0)), Switching(small.engine)
            )
        assert state(small) == (None, [], [])
        assert put(replace(small, index=alias), linear((1.0, 0.0, 0.0))).alias.current is not None
    finally:
        small.engine.request("DELETE", f"/{other}")


def test_a_model_that_the_engine_scores_otherwise_is_taken_out_and_the_name_unmoved(
    small: Small,
) -> None:
    before = put(small, linear())
    known = state(small)
    with pytest.raises(Refused, match=r"scores differently.*removed again"):
        put(liar(small), linear((2.0, 1.0, 0.0)))
    assert state(small) == known == (before.alias, [before.model], [True])


@pytest.mark.modules
def test_a_model_that_is_in_use_is_not_taken_out_when_its_second_upload_fails(small: Small) -> None:
    put(small, linear())
    known = state(small)
    with pytest.raises(Refused, match=r"scores differently.*was there before, and stays"):
        put(liar(small), linear())
    assert state(small) == known


@pytest.mark.modules
@pytest.mark.parametrize("by", [float("nan"), 1 + 1e-3, -1.0])
def test_the_parity_check_catches_each_liar(
    by: float, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = put(small, linear((3.0, 0.5, -0.2)))
    stored = small.store.get_model(done.model)
    lying = liar(small, 1.0 if np.isnan(by) else by)
    if np.isnan(by):
        monkeypatch.setattr(
            "owpc_ltr.engine.deployment.proof._Scorer._engine_scores",
            lambda *a: np.full(len(a[-1]), np.nan),
        )
    model = linear((3.0, 0.5, -0.2))
    parity = prove(
        small.engine, lying.store, stored, model, index=small.index, samples=probes()
    ).parity
    assert parity.refusal(PARITY_TOLERANCE) is not None
    if by == -1.0:
        assert parity.swapped > 0
        assert parity.tau < 0


def test_a_model_without_probes_or_of_another_feature_set_is_refused(small: Small) -> None:
    with pytest.raises(Refused, match="no judged documents"):
        put(small, with_record(linear(), {}))
    with pytest.raises(Refused, match="has changed since"):
        put(small, linear(featureset_hash="f" * 64))
    with pytest.raises(Refused, match="none of the judged documents"):
        put(small, linear(probes=[{**probes()[0], "document_ids": ["nosuch"]}]))
    assert state(small) == (None, [], [])


def test_a_challenger_leaves_the_champion_where_it_is(small: Small) -> None:
    with pytest.raises(Refused, match="has no model to challenge"):
        put(small, linear(), role=CHALLENGER)
    assert state(small) == (None, [], [])
    champion = put(small, linear())
    with pytest.raises(Refused, match="challenge itself"):
        put(small, linear(), role=CHALLENGER)
    challenger = put(small, linear((0.0, 1.0, 0.0)), role=CHALLENGER)
    assert challenger.alias == Alias(small.name, champion.model, (), challenger.model)


def test_a_feature_set_that_lacks_a_feature_is_named(small: Small) -> None:
    fewer = replace(FEATURESET, features=FEATURESET.features[:2])
    with pytest.raises(BadInput, match="lacks 'size'"):
        upload_model(
            small.engine,
            small.store,
            UploadRequest(linear(), fewer, index=small.index, name=small.name),
        )


@dataclass
class Fault:
    """How a request fails: as an engine that is gone, or as a process that is stopped."""

    made: type[BaseException]
    lost_answer: bool
    again: bool


EVERY = 1 if Selection.asked().thorough else 3
"""Of the requests of an upload, each third one is disturbed, and each one in thorough tests."""
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
    fail_at, clean = 1 - EVERY, False
    while not clean:
        fail_at += EVERY
        model = linear((1.0, 0.25, fail_at / 64))
        unreliable = Unreliable(
            small.engine,
            fail_at,
            lambda: fault.made("gone"),
            lost_answer=fault.lost_answer,
            again=fault.again,
        )
        succeeded = False
        try:
            put_beside(small, model, unreliable)
            succeeded = True
        except (OwpcLtrError, KeyboardInterrupt):
            pass
        clean = unreliable.calls < fail_at
        alias, models, recorded = state(small)
        assert alias is not None
        known = dict(zip(models, recorded, strict=True))
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


def at_once(*acts: Callable[[], None]) -> None:
    """Acts that begin together, each in a thread of its own."""
    gate = threading.Barrier(len(acts))

    def act(number: int) -> None:
        gate.wait()
        acts[number]()

    with ThreadPoolExecutor(len(acts)) as pool:
        list(pool.map(act, range(len(acts))))


def test_of_two_uploads_at_once_one_wins_or_both_follow_each_other(small: Small) -> None:
    base = put(small, linear(), history=1000)
    done: list[str] = []
    refused: list[str] = []

    def go(weight: float) -> None:
        try:
            done.append(put(small, linear((weight, 0.0, 0.0))).model)
        except Refused as refusal:
            refused.append(str(refusal))

    for _ in range(2):
        before = Aliases(small.engine, small.store).find(small.name)
        assert before is not None
        begun = len(done) + len(refused) + 1.0
        at_once(*(partial(go, begun + step / 8) for step in range(2)))
    alias, models, recorded = state(small)
    assert alias is not None
    assert all("another process changed alias" in words for words in refused)
    assert len(done) + len(refused) == 4
    assert sorted([*alias.previous, alias.current]) == sorted([base.model, *done])
    assert set(models) == alias.models
    assert all(recorded)


def test_one_model_uploaded_by_two_at_once_stays_when_one_of_them_fails(small: Small) -> None:
    """The failing one clears up while the other's name comes to mean the model."""
    lying = liar(small)
    for step in range(3):
        model = linear((1.0, 2.0, step / 8))
        results: list[Any] = []

        def go(cluster: Small, model: Model = model, to: Any = results) -> None:
            try:
                to.append(put(cluster, model))
            except OwpcLtrError as error:
                to.append(error)

        at_once(partial(go, small), partial(go, lying))
        (won,) = [each.model for each in results if not isinstance(each, OwpcLtrError)]
        (lost,) = [each for each in results if isinstance(each, Refused)]
        assert "scores differently" in str(lost)
        alias, models, recorded = state(small)
        assert alias is not None
        assert alias.current == won
        assert set(models) == alias.models
        assert all(recorded)


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
            if self.model.name in Aliases(self.small.engine, self.small.store).models_in_use():
                self.small.store.put_model(self.model)
        return self.small.engine.request(method, path, **given)


def as_stored(small: Small, model: LinearModel) -> StoredModel:
    stored = export_linear(model, FEATURESET, "m")
    return replace(stored, name=immutable_name(small.name, stored))


def test_a_model_that_a_failing_upload_of_the_same_takes_out_is_stored_again(small: Small) -> None:
    """Whenever it is taken out, the good upload succeeds all the same."""
    at, calls, previous = 1 - EVERY, 1, None
    while at + EVERY <= calls:
        at += EVERY
        model = linear((1.0, 2.0, at / 64))
        rival = Rival(small, as_stored(small, model), at)
        done = put_beside(small, model, rival, history=1000)
        calls = rival.calls
        alias, models, recorded = state(small)
        assert alias == done.alias
        assert alias.current == rival.model.name
        assert alias.previous[-1:] == ((previous,) if previous else ())
        assert set(models) == alias.models
        assert all(recorded)
        previous = done.model
    assert at > 10


def test_a_model_that_is_taken_out_again_and_again_is_given_up_and_leaves_nothing(
    small: Small,
) -> None:
    before = put(small, linear())
    model = linear((1.0, 2.0, 0.25))
    rival = Rival(small, as_stored(small, model), None)
    with pytest.raises(Refused, match="failed at the same time, and removed it: try again"):
        put_beside(small, model, rival)
    assert rival.calls < 60
    assert state(small) == (before.alias, [before.model], [True])


@dataclass
class Meeting(Through):
    """An engine that waits, before it first moves a name, until the other upload is there too."""

    name: str
    both: threading.Barrier
    met: bool = False

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

    at_once(go, go)
    first_upload, second_upload = done
    assert isinstance(first_upload, Uploaded)
    assert isinstance(second_upload, Uploaded)
    assert (
        first_upload.alias
        == second_upload.alias
        == Aliases(small.engine, small.store).find(small.name)
    )
    assert first_upload.alias.previous == ((before,) if before else ())
    _, models, recorded = state(small)
    assert set(models) == first_upload.alias.models
    assert all(recorded)
