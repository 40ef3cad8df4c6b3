"""An upload proves itself or leaves nothing behind, whatever fails on the way and whoever else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr.engine.certificates import Certificates
from owpc_ltr.engine.client import Engine
from owpc_ltr.engine.deployment import TOLERANCE, upload
from owpc_ltr.engine.parity import check_parity
from owpc_ltr.engine.plugin_free import PluginFreeStore
from owpc_ltr.engine.pointers import CHALLENGER, Pointer, Pointers
from owpc_ltr.engine.stores import StoredModel
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused
from owpc_ltr.interfaces import Model
from owpc_ltr.models import with_record
from tests.engine.small_cluster import (
    FEATURESET,
    Small,
    Unreliable,
    linear,
    probes,
    small_cluster,
)


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


def put(small: Small, model: Model, **options: Any) -> Any:
    return upload(small.engine, small.store, model, FEATURESET, small.index, small.name, **options)


def state(small: Small) -> tuple[Pointer | None, list[str], list[bool]]:
    """The pointer, the models in the store, and which of them have a certificate."""
    models = small.store.list_models()
    certificates = Certificates(small.engine)
    return (
        Pointers(small.engine).find(small.name),
        models,
        [certificates.find(model, whole=False) is not None for model in models],
    )


class Liar(PluginFreeStore):
    """A store whose rescoring is a little off."""

    by = 1.001

    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        clauses = super().rescore(model, params, window)
        clauses[0]["query"]["rescore_query_weight"] *= self.by
        return clauses


def liar(small: Small) -> Small:
    return replace(small, store=Liar(small.engine, small.name.removeprefix("m-")))


def test_an_upload_is_kept_under_its_hash_and_proven_on_the_judged_documents(
    small: Small,
) -> None:
    done = put(small, linear())
    assert done.model.startswith(f"{small.name}@")
    assert done.pointer == Pointer(small.name, done.model)
    assert (done.parity.queries, done.parity.documents, done.parity.absent) == (4, 48, 0)
    assert done.parity.largest_difference <= TOLERANCE
    assert (done.parity.swapped, done.parity.tau) == (0, pytest.approx(1.0, abs=1e-3))
    assert state(small) == (done.pointer, [done.model], [True])


def test_the_same_model_gets_the_same_name_and_no_second_place_in_the_history(
    small: Small,
) -> None:
    first = put(small, linear())
    other = put(small, linear((0.0, 0.0, 1.0)))
    again = put(small, linear((0.0, 0.0, 1.0)))
    assert other.model == again.model != first.model
    assert again.pointer == Pointer(small.name, other.model, (first.model,))
    assert Pointers(small.engine).roll_back(small.name).current == first.model


def test_a_model_that_the_engine_scores_otherwise_is_taken_out_and_the_name_unmoved(
    small: Small,
) -> None:
    before = put(small, linear())
    known = state(small)
    with pytest.raises(Refused, match=r"scores differently.*taken out again") as raised:
        put(liar(small), linear((2.0, 1.0, 0.0)))
    assert raised.value.exit_code == 5
    assert state(small) == known == (before.pointer, [before.model], [True])


def test_a_model_that_is_in_use_is_not_taken_out_when_its_second_upload_fails(
    small: Small,
) -> None:
    put(small, linear())
    known = state(small)
    with pytest.raises(Refused, match="scores differently"):
        put(liar(small), linear())
    assert state(small) == known


@pytest.mark.parametrize("by", [float("nan"), 1 + 1e-3, -1.0])
def test_the_parity_check_catches_each_liar(
    by: float, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = put(small, linear((3.0, 0.5, -0.2)))
    stored = small.store.get_model(done.model)
    lying = liar(small)
    if np.isnan(by):
        monkeypatch.setattr(
            "owpc_ltr.engine.parity._engine_scores", lambda *a: np.full(len(a[-1]), np.nan)
        )
    else:
        monkeypatch.setattr(Liar, "by", by)
    model = linear((3.0, 0.5, -0.2))
    parity, _ = check_parity(small.engine, lying.store, stored, model, small.index, probes())
    assert parity.refusal(TOLERANCE) is not None
    if by == -1.0:
        assert parity.swapped > 0
        assert parity.tau < 0


def test_parity_says_what_the_labels_lose(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that turns the order round, on labels that are the model's own order."""
    asked = probes()
    done = put(small, linear((1.0, 0.0, 0.0)))
    stored = small.store.get_model(done.model)
    parity, answered = check_parity(
        small.engine, small.store, stored, linear((1.0, 0.0, 0.0)), small.index, asked
    )
    assert parity.ndcg_difference is None
    for probe, one in zip(asked, answered, strict=True):
        probe["labels"] = (np.argsort(np.argsort(one.reference)) // 4).tolist()
    monkeypatch.setattr(Liar, "by", -1.0)
    for store, low, high in ((small.store, -1e-6, 1e-6), (liar(small).store, -1.0, -0.05)):
        parity, _ = check_parity(
            small.engine, store, stored, linear((1.0, 0.0, 0.0)), small.index, asked
        )
        assert parity.ndcg_difference is not None
        assert low <= parity.ndcg_difference <= high


def test_a_model_without_probes_or_of_another_feature_set_is_refused(small: Small) -> None:
    with pytest.raises(Refused, match="no judged documents"):
        put(small, with_record(linear(), {}))
    with pytest.raises(Refused, match="has changed since"):
        put(small, linear(featureset_hash="f" * 64))
    with pytest.raises(Refused, match="none of the judged documents"):
        put(small, linear(probes=[{**probes()[0], "document_ids": ["nosuch"]}]))
    assert state(small) == (None, [], [])


def test_a_challenger_leaves_the_champion_where_it_is(small: Small) -> None:
    with pytest.raises(Refused, match="to challenge yet"):
        put(small, linear(), role=CHALLENGER)
    assert state(small) == (None, [], [])
    champion = put(small, linear())
    with pytest.raises(Refused, match="challenge itself"):
        put(small, linear(), role=CHALLENGER)
    challenger = put(small, linear((0.0, 1.0, 0.0)), role=CHALLENGER)
    assert challenger.pointer == Pointer(small.name, champion.model, (), challenger.model)


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


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_at_any_request_leaves_the_registry_as_it_was_or_as_it_should_be(
    fault: Fault, small: Small
) -> None:
    """Every n-th request fails, until an upload needs fewer: no name ever means what is not there.

    What a dead engine or process leaves behind is a model that no name means, never the reverse.
    """
    first = put(small, linear())
    old = first.pointer
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
        store = PluginFreeStore(engine, small.name.removeprefix("m-"))
        succeeded = False
        try:
            upload(engine, store, model, FEATURESET, small.index, small.name)
            succeeded = True
        except (OwpcLtrError, KeyboardInterrupt):
            pass
        clean = unreliable.calls < fail_at
        pointer, models, certified = state(small)
        assert pointer is not None
        known = dict(zip(models, certified, strict=True))
        assert all(known[name] for name in pointer.models)
        assert pointer == old or pointer.previous == (*old.previous, old.current)
        if succeeded:
            assert pointer != old
        if not fault.again:
            # The engine was there for clearing up.
            assert set(models) == pointer.models
        old = pointer
    assert first.model in old.models
    assert fail_at > 15


def test_of_two_uploads_at_once_one_wins_or_both_follow_each_other(small: Small) -> None:
    base = put(small, linear())
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
        before = Pointers(small.engine).find(small.name)
        assert before is not None
        threads = [
            threading.Thread(target=go, args=(len(done) + len(refused) + 1.0 + step / 8,))
            for step in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    pointer, models, certified = state(small)
    assert pointer is not None
    assert all("somebody else moved" in words for words in refused)
    assert len(done) + len(refused) == 8
    assert sorted([*pointer.previous, pointer.current]) == sorted([base.model, *done])
    assert set(models) == pointer.models
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
        assert any(isinstance(each, Refused) for each in results)
        won = [each.model for each in results if not isinstance(each, OwpcLtrError)]
        pointer, models, certified = state(small)
        # Its model can be taken away before a name means it: it then fails, and leaves nothing.
        assert pointer is not None or not won
        assert set(models) == (pointer.models if pointer else set())
        assert all(certified)
        assert not won or (pointer is not None and pointer.current == won[0])


def test_an_index_that_is_not_there_leaves_nothing_behind(small: Small) -> None:
    with pytest.raises(OwpcLtrError):
        upload(small.engine, small.store, linear(), FEATURESET, "no-such-index", small.name)
    assert state(small) == (None, [], [])


def test_a_feature_set_that_lacks_a_feature_is_named(small: Small) -> None:
    fewer = replace(FEATURESET, features=FEATURESET.features[:2])
    with pytest.raises(BadInput, match="lacks 'size'"):
        upload(small.engine, small.store, linear(), fewer, small.index, small.name)
