"""A name points to one model at a time, moves in one step, and goes back; nobody's move is lost."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import CHALLENGER, INDEX, Alias, Aliases, all_aliases
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.small_cluster import Unreliable


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    made = Engine(ConnectionSettings(node_url))
    yield made
    made.close()


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    own = f"p-{uuid.uuid4().hex[:8]}"
    yield own
    with contextlib.suppress(EngineRefusal):
        engine.request("DELETE", f"/{INDEX}/_doc/{own}", params={"refresh": "true"})


def test_a_name_without_a_pointer_means_itself(engine: Engine, name: str) -> None:
    assert Aliases(engine, PluginFreeStore(engine)).find(name) is None
    assert Aliases(engine, PluginFreeStore(engine)).resolve(name) == name


def test_a_name_means_the_last_model_it_was_moved_to_and_remembers_the_others(
    engine: Engine, name: str
) -> None:
    aliases = Aliases(engine, PluginFreeStore(engine))
    aliases.move(name, "a")
    aliases.move(name, "b")
    assert aliases.move(name, "c") == Alias(name, "c", ("a", "b"))
    assert aliases.find(name) == Alias(name, "c", ("a", "b"))
    assert aliases.resolve(name) == "c"
    assert Alias(name, "c", ("a", "b")) in aliases.all()


def test_moving_to_the_same_model_leaves_the_history_as_it_is(engine: Engine, name: str) -> None:
    aliases = Aliases(engine, PluginFreeStore(engine))
    aliases.move(name, "a")
    aliases.move(name, "b")
    assert aliases.move(name, "b") == Alias(name, "b", ("a",))


def test_a_roll_back_goes_one_step_at_a_time_to_the_first_model_and_no_further(
    engine: Engine, name: str
) -> None:
    aliases = Aliases(engine, PluginFreeStore(engine))
    for model in ("a", "b", "c"):
        aliases.move(name, model)
    assert aliases.roll_back(name) == Alias(name, "b", ("a",))
    assert aliases.roll_back(name) == Alias(name, "a")
    with pytest.raises(Refused, match="no earlier model"):
        aliases.roll_back(name)
    assert aliases.find(name) == Alias(name, "a")


def test_a_name_that_was_never_uploaded_cannot_be_rolled_back(engine: Engine, name: str) -> None:
    with pytest.raises(BadInput, match="upload it first"):
        Aliases(engine, PluginFreeStore(engine)).roll_back(name)


def test_a_challenger_stands_beside_the_champion_until_it_is_promoted(
    engine: Engine, name: str
) -> None:
    aliases = Aliases(engine, PluginFreeStore(engine))
    aliases.move(name, "a")
    assert aliases.move(name, "b", CHALLENGER) == Alias(name, "a", (), "b")
    assert aliases.resolve(name) == aliases.resolve(f"{name}:champion") == "a"
    assert aliases.resolve(f"{name}:challenger") == "b"
    assert aliases.pointed_to() >= {"a", "b"}
    assert aliases.promote(name) == Alias(name, "b", ("a",))
    assert aliases.roll_back(name) == Alias(name, "a")


def test_a_champion_that_is_replaced_otherwise_keeps_its_challenger(
    engine: Engine, name: str
) -> None:
    aliases = Aliases(engine, PluginFreeStore(engine))
    aliases.move(name, "a")
    aliases.move(name, "b", CHALLENGER)
    assert aliases.move(name, "c") == Alias(name, "c", ("a",), "b")
    assert aliases.move(name, "b") == Alias(name, "b", ("a", "c"))


def test_what_makes_no_sense_of_roles_is_refused(engine: Engine, name: str) -> None:
    aliases = Aliases(engine, PluginFreeStore(engine))
    with pytest.raises(BadInput, match="upload it first"):
        aliases.move(name, "b", CHALLENGER)
    with pytest.raises(BadInput, match="upload it first"):
        aliases.resolve(f"{name}:challenger")
    aliases.move(name, "a")
    with pytest.raises(Refused, match="challenge itself"):
        aliases.move(name, "a", CHALLENGER)
    with pytest.raises(Refused, match="no challenger"):
        aliases.promote(name)
    with pytest.raises(Refused, match="no challenger"):
        aliases.resolve(f"{name}:challenger")
    with pytest.raises(UsageError, match="champion or challenger"):
        aliases.resolve(f"{name}:winner")


def test_of_moves_at_once_each_one_wins_whole_or_is_refused(engine: Engine, name: str) -> None:
    """Whoever is refused changed nothing; whoever was not is in the history."""
    Aliases(engine, PluginFreeStore(engine)).move(name, "first")
    moved: list[str] = []
    refused: list[str] = []
    gate = threading.Barrier(6)

    def move(model: str) -> None:
        gate.wait()
        try:
            Aliases(engine, PluginFreeStore(engine)).move(name, model)
            moved.append(model)
        except Refused as refusal:
            refused.append(str(refusal))

    threads = [threading.Thread(target=move, args=(f"m{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Aliases(engine, PluginFreeStore(engine)).find(name)
    assert found is not None
    assert len(moved) + len(refused) == 6
    assert all("somebody else moved" in words for words in refused)
    assert sorted([*found.previous, found.current]) == sorted(["first", *moved])


@pytest.mark.parametrize("lost", [False, True], ids=["not sent", "answer lost"])
@pytest.mark.parametrize("fail_at", range(1, 6))
def test_a_fault_at_any_request_leaves_the_name_as_it_was_or_as_it_should_be(
    fail_at: int, lost: bool, engine: Engine, name: str
) -> None:
    Aliases(engine, PluginFreeStore(engine)).move(name, "a")
    unreliable = Unreliable(
        engine, fail_at, lambda: EngineUnavailable("gone"), lost_answer=lost, again=False
    )
    try:
        Aliases(cast(Engine, unreliable), PluginFreeStore(engine)).move(name, "b")
        expected = {Alias(name, "b", ("a",))}
    except EngineUnavailable:
        expected = {Alias(name, "a")}
    assert Aliases(engine, PluginFreeStore(engine)).find(name) in expected


def pointer_document(**content: Any) -> dict[str, Any]:
    return {"_seq_no": 3, "_primary_term": 1, "found": True, "_source": content}


def test_a_conflict_that_another_made_is_refused_and_one_of_its_own_is_success() -> None:
    ours = pointer_document(name="m", current="b", previous=["a"])
    theirs = pointer_document(name="m", current="z", previous=["a"])
    before = pointer_document(name="m", current="a", previous=[])
    conflict = Reply({"error": {"type": "version_conflict_engine_exception"}}, 409)
    for after, succeeds in ((ours, True), (theirs, False)):
        with FakeEngine() as fake:
            fake.on("GET", f"/{INDEX}/_doc/m", before, after)
            fake.on("PUT", f"/{INDEX}", {"acknowledged": True})
            fake.on("PUT", f"/{INDEX}/_doc/m", conflict)
            engine = Engine(ConnectionSettings(fake.url))
            aliases = Aliases(engine, PluginFreeStore(engine))
            if succeeds:
                assert aliases.move("m", "b") == Alias("m", "b", ("a",))
            else:
                with pytest.raises(Refused, match="somebody else moved 'm'"):
                    aliases.move("m", "b")
            (write,) = fake.asked("PUT", f"/{INDEX}/_doc/m")
            assert (write.params["if_seq_no"], write.params["if_primary_term"]) == ("3", "1")


def test_a_404_of_somebody_in_between_does_not_say_that_no_name_is_in_use() -> None:
    with FakeEngine() as fake:
        fake.on("POST", f"/{INDEX}/_search", Reply(b"<h1>404</h1>", 404, content_type="text/html"))
        engine = Engine(ConnectionSettings(fake.url))
        with pytest.raises(EngineRefusal, match="404"):
            all_aliases(engine)
        absent = {"error": {"type": "index_not_found_exception", "reason": "no such index"}}
        fake.on("POST", f"/{INDEX}/_search", Reply(absent, 404))
        assert all_aliases(engine) == []
        engine.close()
