"""The names that requests use: followed on a switch, and what becomes of those that are gone."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_serve.endpoint import Call, NoSuchModel, status_of
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.rerank import rerank_endpoints

from owpc_ltr import OwpcLtrError, connect
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr.files.output import write_atomically
from owpc_ltr.models.model_file import save_model
from tests.engine.deployed import put
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.small_cluster import FEATURESET, Small, linear, shared_cluster
from tests.serve.searched_engine import MODEL, SearchedEngine
from tests.small_models import trees

FAST = 0.02
"""Seconds between two looks at a name."""


small = shared_cluster()


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def asked_by_ids(rankers: Rankers, name: str, keywords: str, ids: list[str]) -> list[Any]:
    (handler,) = (
        endpoint.handler
        for endpoint in rerank_endpoints(rankers, Metrics(rankers.states))
        if endpoint.path == "/v2/rerank"
    )
    body = json.dumps({"model": name, "query": keywords, "documents": ids}).encode()
    answer = json.loads(handler(Call("/v2/rerank", body, time.monotonic() + 20)).body)
    return [(ids[result["index"]], result["relevance_score"]) for result in answer["results"]]


def test_ids_are_ranked_as_a_search_whose_window_the_client_scores(small: Small) -> None:
    """A model that no plugin-free engine runs: `search` has the scores of this machine."""
    own = replace(small, name=f"{small.name}-trees")
    put(own, trees(small), client_scored=True)
    cluster = small.cluster
    rankers = Rankers(cluster, [own.name])
    for keywords in ("alpha gamma", "beta delta eta", "theta"):
        answer = cluster.search(keywords, model=own.name, size=30, window=30)
        assert answer.scored_by == "client"
        hits = [(hit.document_id, hit.score) for hit in answer.after]
        ids = [hit.document_id for hit in answer.before]
        ranked = asked_by_ids(rankers, own.name, keywords, ids)
        assert [pair[0] for pair in ranked] == [pair[0] for pair in hits]
        assert [pair[1] for pair in ranked] == pytest.approx([pair[1] for pair in hits], abs=1e-6)
        served = rankers.get(own.name)
        assert served.model == cluster.models.resolve(own.name)


def test_a_name_is_followed_and_a_request_keeps_its_model(small: Small) -> None:
    own = replace(small, name=f"{small.name}-moved")
    first = put(own, linear()).alias.current
    rankers = Rankers(small.cluster, [own.name], refresh=FAST)
    rankers.start()
    try:
        begun = rankers.get(own.name)
        assert begun.model == first
        row = np.array([[1.0, 2.0, 3.0]], np.float32)
        before = begun.score(row)
        second = put(own, linear((-1.0, 0.5, 2.0))).alias.current
        wait_for(lambda: rankers.get(own.name).model == second)
        # The request that began with the first one.
        assert begun.score(row) == before
        assert rankers.get(own.name).score(row) != before
        Aliases(small.engine, small.store).roll_back(own.name)
        wait_for(lambda: rankers.get(own.name).model == first)
        assert rankers.states()[own.name]["model"] == first
    finally:
        rankers.stop()


def test_models_are_called_by_name_and_hash_too(small: Small) -> None:
    own = replace(small, name=f"{small.name}-hash")
    model = put(own, linear()).alias.current
    challenger = put(own, linear((3.0, 2.0, 1.0)), role="challenger").alias.challenger
    rankers = Rankers(small.cluster)
    assert rankers.get(model).model == model
    assert rankers.get(own.name).model == model
    assert rankers.get(f"{own.name}:challenger").model == challenger
    assert rankers.get(model) is rankers.get(own.name) or (
        rankers.get(model).ranker is rankers.get(own.name).ranker
    )
    assert rankers.get(model).index == small.index
    assert rankers.get(model).featureset == FEATURESET


def test_every_alias_of_the_store_is_served_but_those_that_cannot_be(
    small: Small, caplog: pytest.LogCaptureFixture
) -> None:
    own, broken = (replace(small, name=f"{small.name}-{what}") for what in ("well", "broken"))
    put(own, linear((1.0, 2.0, 4.0)))
    model = put(broken, linear((4.0, 2.0, 1.0))).alias.current
    DeploymentRecords(small.engine, small.store).delete(model)
    small.store.delete_model(model)
    rankers = Rankers(small.cluster)
    rankers.start()
    try:
        assert own.name in rankers.names
        assert broken.name not in rankers.names
        # What others have in other stores of the cluster is not theirs to serve.
        assert all(name.startswith(small.name) for name in rankers.names)
        assert f"'{broken.name}' is not served: there is no model '{model}'" in caplog.text
    finally:
        rankers.stop()
        Aliases(small.engine, small.store).delete(broken.name)


def test_a_model_without_a_record_is_loaded_from_the_store(small: Small) -> None:
    own = replace(small, name=f"{small.name}-bare")
    model = put(own, linear()).alias.current
    DeploymentRecords(small.engine, small.store).delete(model)
    served = Rankers(small.cluster, index=small.index).get(model)
    row = np.array([[1.0, 2.0, 3.0]], np.float32)
    assert served.score(row) == pytest.approx(linear().score(row))


def test_a_name_that_is_gone_is_refused_and_served_again_when_it_is_back(small: Small) -> None:
    own = replace(small, name=f"{small.name}-gone")
    put(own, linear())
    rankers = Rankers(small.cluster, [own.name], refresh=FAST)
    rankers.start()
    try:
        assert rankers.get(own.name)
        Aliases(small.engine, small.store).delete(own.name)
        wait_for(lambda: "fault" in rankers.states()[own.name])
        with pytest.raises(NoSuchModel, match=f"there is no model '{own.name}'") as raised:
            rankers.get(own.name)
        assert status_of(raised.value) == 404
        put(own, linear((5.0, 1.0, 1.0)))
        wait_for(lambda: "fault" not in rankers.states()[own.name])
        assert rankers.get(own.name).ranker.base.weights[0] == 5  # type: ignore[attr-defined]
    finally:
        rankers.stop()


def test_names_that_are_not_there_or_not_served_are_refused(small: Small) -> None:
    own = replace(small, name=f"{small.name}-only")
    put(own, linear())
    everything = Rankers(small.cluster)
    for name in ("nobody-has-this", "nobody-1f3a9c07", "../secret", "a*", "", "x" * 300):
        with pytest.raises(NoSuchModel) as raised:
            everything.get(name)
        assert status_of(raised.value) == 404
    some = Rankers(small.cluster, [own.name])
    assert some.get().model == some.get(own.name).model
    with pytest.raises(NoSuchModel, match=f"no model 'other' is served here: there are {own.name}"):
        some.get("other")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Path, FakeEngine]]:
    save_model(MODEL, tmp_path / "shop.json")
    with FakeEngine() as fake:
        SearchedEngine().scripts(fake)
        yield tmp_path / "shop.json", fake


def test_a_file_is_followed_and_a_broken_one_changes_nothing(
    files: tuple[Path, FakeEngine], caplog: pytest.LogCaptureFixture
) -> None:
    path, fake = files
    rankers = Rankers(connect(fake.url), [path], refresh=FAST)
    rankers.start()
    try:
        first = rankers.get("shop")
        save_model(replace(MODEL, weights=np.array([7.0, 1.0, 1.0])), path)
        wait_for(lambda: rankers.get().model != first.model)
        second = rankers.get().model
        write_atomically(path, b"{}")
        wait_for(lambda: "fault" in rankers.states()["shop"])
        assert "is not a model file of owpc-ltr" in rankers.states()["shop"]["fault"]
        assert rankers.get().model == second
        assert caplog.text.count("'shop' stays as it was: ") == 1
        save_model(MODEL, path)
        wait_for(lambda: "fault" not in rankers.states()["shop"])
        assert rankers.get().model == first.model
    finally:
        rankers.stop()


def test_a_file_keeps_its_model_where_nothing_changed(files: tuple[Path, FakeEngine]) -> None:
    path, fake = files
    rankers = Rankers(connect(fake.url), [path], refresh=FAST)
    rankers.start()
    try:
        first = rankers.get()
        os.utime(path)  # a copy of the same content
        time.sleep(5 * FAST)
        assert rankers.get().model == first.model
    finally:
        rankers.stop()


def test_what_cannot_be_loaded_ends_the_start(files: tuple[Path, FakeEngine]) -> None:
    path, fake = files
    with pytest.raises(OwpcLtrError, match="cannot read the model"):
        Rankers(connect(fake.url), [path.parent / "none.json"]).start()
    with pytest.raises(NoSuchModel, match="there is no model 'nobody'"):
        Rankers(connect(fake.url), ["nobody"]).start()
    with pytest.raises(UsageError, match="two models are called 'shop'"):
        Rankers(connect(fake.url), [path, "shop"])


def test_files_need_no_engine(
    files: tuple[Path, FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = files
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "0.5")
    rankers = Rankers(connect("http://127.0.0.1:9"), [path, "another"])
    row = np.array([[1.0, 2.0, 3.0]], np.float32)
    assert rankers.get("shop").score(row) == MODEL.score(row)
    with pytest.raises(EngineUnavailable) as raised:
        rankers.get("another")
    assert status_of(raised.value) == 503


def test_a_name_stays_what_it_was_while_the_engine_is_gone(
    small: Small, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = replace(small, name=f"{small.name}-out")
    put(own, linear())
    rankers = Rankers(small.cluster, [own.name], refresh=FAST)
    rankers.start()
    try:
        served = rankers.get(own.name)

        def gone(self: Aliases, name: str) -> str:
            raise EngineUnavailable("the engine is gone")

        monkeypatch.setattr(Aliases, "resolve", gone)
        wait_for(lambda: rankers.states()[own.name]["confirmed_seconds_ago"] > 0.3)
        assert rankers.get(own.name) is served
        message = f"the model of '{own.name}' is not confirmed any more: the engine is gone"
        assert caplog.text.count(message) == 1
        monkeypatch.undo()
        wait_for(lambda: f"the model of '{own.name}' is confirmed again" in caplog.text)
        wait_for(lambda: rankers.states()[own.name]["confirmed_seconds_ago"] <= 0.1)
    finally:
        rankers.stop()


def test_a_cluster_within_some_seconds_waits_no_longer() -> None:
    with FakeEngine() as fake:
        fake.on("GET", "*", Reply({"cluster_name": "slow"}, drip=0.5))
        bounded = connect(fake.url).within(0.3)
        began = time.monotonic()
        with pytest.raises(EngineUnavailable):
            bounded.engine.request("GET", "/", deadline=60.0)
        assert time.monotonic() - began < 5
        assert connect(fake.url).engine.settings.deadline > bounded.engine.settings.deadline


def test_a_new_name_is_loaded_once_however_many_ask(
    files: tuple[Path, FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fake = files
    rankers = Rankers(connect(fake.url), [path])
    loads: list[str] = []
    load = Rankers._of_file

    def counted(self: Rankers, name: str, file: Path) -> Any:
        loads.append(name)
        time.sleep(0.05)
        return load(self, name, file)

    monkeypatch.setattr(Rankers, "_of_file", counted)
    loaded: list[Any] = []
    threads = [threading.Thread(target=lambda: loaded.append(rankers.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == ["shop"]
    assert len({id(ranker) for ranker in loaded}) == 1
