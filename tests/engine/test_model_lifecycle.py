"""Names belong to stores; models are uploaded, switched to, rolled back and deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.deployment.alias import CHALLENGER, Alias, Aliases, SwitchGrounds, all_aliases
from owpc_ltr.engine.deployment.deployment_record import (
    DeploymentRecords,
    immutable_name,
    is_named_by_content,
)
from owpc_ltr.engine.deployment.model_lifecycle import (
    delete,
    promote,
    prunable,
    prune,
    roll_back,
    to_delete,
)
from owpc_ltr.engine.deployment.model_upload import Uploaded
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.engine.versioned_documents import INDEX, VersionedDocuments
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from owpc_ltr.formats.ltr_plugin import export_linear
from tests.engine.deployed import UNPROVEN, put, state, unchecked
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import FEATURESET, Small, Through, Unreliable, linear


@pytest.fixture
def other(small: Small) -> Iterator[Small]:
    """Another store of the same cluster, in which the same name is something else."""
    name = f"{small.store_name}b"
    store = PluginFreeStore(small.engine, name)
    store.put_featureset(FEATURESET)
    yield replace(small, store=store)
    small.engine.request("DELETE", f"/owpc-ltr-store-{name}")


def three(small: Small) -> list[Uploaded]:
    return [put(small, linear((1.0, weight, 0.0))) for weight in (0.125, 0.25, 0.5)]


def test_a_name_in_one_store_means_nothing_in_another(small: Small, other: Small) -> None:
    first = put(small, linear((1.0, 0.0, 0.0)))
    assert Aliases(other.engine, other.store).find(small.name) is None
    second = put(other, linear((0.0, 1.0, 0.0)))
    for each, done in ((small, first), (other, second)):
        aliases = Aliases(each.engine, each.store)
        assert aliases.resolve(small.name) == done.model
        assert each.store.list_models() == [done.model]
        assert [alias.store for alias in aliases.all()] == [each.store.name]
        assert aliases.models_in_use() >= {done.model}
    # The same model is in both, proven in each, and taken out of one alone.
    put(other, linear((1.0, 0.0, 0.0)))
    Aliases(other.engine, other.store).roll_back(small.name)
    assert prunable(other.engine, other.store) == [first.model]
    prune(other.engine, other.store, [first.model])
    assert state(small) == (first.alias, [first.model], [True])


def test_a_name_of_another_kind_of_store_is_not_written_over(small: Small) -> None:
    """In the default stores the id of an alias's document is its name alone."""
    name = f"default-{small.name}"
    aliases = Aliases(small.engine, PluginFreeStore(small.engine))
    path = f"/{INDEX}/_doc/{name}"
    try:
        aliases.switch(name, f"{name}-00000001", check=unchecked)
        written = small.engine.request("GET", path)["_source"]
        assert (written["store"], written["store_kind"]) == (None, "plugin-free")
        assert Aliases(small.engine, small.store).find(name) is None
        body = {**written, "store_kind": "ltr-plugin"}
        small.engine.request("PUT", path, params={"refresh": "true"}, body=body)
        assert aliases.find(name) is None
        with pytest.raises(Refused, match="is a name of the ltr-plugin store"):
            aliases.switch(name, "x", check=unchecked)
    finally:
        small.engine.request("DELETE", path, params={"refresh": "true"})


def test_a_name_goes_back_as_far_as_was_asked_and_older_models_become_unused(small: Small) -> None:
    done = [put(small, linear((1.0, step / 8, 0.0)), history=2) for step in range(5)]
    models = [each.model for each in done]
    assert done[-1].alias.previous == (models[2], models[3])
    assert prunable(small.engine, small.store) == sorted(models[:2])
    # What was asked for once holds until something else is.
    assert put(small, linear((0.0, 1.0, 0.0))).alias.previous == (models[3], models[4])
    challenger = put(small, linear((0.0, 3.0, 0.0)), history=7, role=CHALLENGER).alias
    assert (challenger.history, len(challenger.previous)) == (7, 2)
    assert put(small, linear((0.0, 2.0, 0.0)), history=0).alias.previous == ()
    with pytest.raises(Refused, match="no earlier model"):
        Aliases(small.engine, small.store).roll_back(small.name)


def test_after_a_step_back_any_model_that_is_still_there_is_promoted_by_its_own_name(
    small: Small,
) -> None:
    first, second, third = (each.model for each in three(small))
    aliases = Aliases(small.engine, small.store)
    assert aliases.roll_back(small.name).current == second
    forward = promote(small.engine, small.store, third, UNPROVEN)
    assert forward == Alias(small.name, third, (first, second))
    assert promote(small.engine, small.store, first, UNPROVEN).current == first
    with pytest.raises(BadInput, match="no proven model"):
        promote(small.engine, small.store, f"{small.name}-00000000", UNPROVEN)
    aliases.roll_back(small.name)
    aliases.roll_back(small.name)
    small.store.delete_model(third)
    with pytest.raises(BadInput, match="no model"):
        promote(small.engine, small.store, third, UNPROVEN)
    with pytest.raises(Refused, match="no challenger to promote"):
        promote(small.engine, small.store, small.name, UNPROVEN)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_champion_whose_record_is_lost_is_uploaded_again_or_replaced_for_a_reason(
    small: Small, damaged: bool
) -> None:
    champion, records = put(small, linear()).model, DeploymentRecords(small.engine, small.store)
    if damaged:
        documents = (
            f"/{INDEX}/_update/deployment_record%2F{small.store.kind}%2F{small.store.name}%2F"
        )
        small.engine.request(
            "POST", f"{documents}{champion}", params={"refresh": "true"},
            body={"doc": {"deployment_record": {"interval": None}}},
        )  # fmt: skip
    else:
        records.delete(champion)
    with pytest.raises(Refused, match=f"users of '{small.name}' have '{champion}', and would get"):
        put(small, linear((0.0, 1.0, 0.0)), grounds=SwitchGrounds())
    if not damaged:
        assert put(small, linear(), grounds=SwitchGrounds()).model == champion
        assert records.get(champion).switch is None
        records.delete(champion)
    assert put(small, linear((0.0, 1.0, 0.0))).alias.previous == (champion,)


def test_a_model_that_was_champion_once_can_be_removed_and_one_in_use_cannot(small: Small) -> None:
    first, second, third = (each.model for each in three(small))
    challenger = put(small, linear((0.0, 0.0, 1.0)), role=CHALLENGER).model
    for used in (third, challenger):
        for act in (to_delete, delete):
            with pytest.raises(Refused, match="a model in use is not removed"):
                act(small.engine, small.store, used)
    assert to_delete(small.engine, small.store, first) == [first]
    assert set(small.store.list_models()) == {first, second, third, challenger}
    assert delete(small.engine, small.store, first) == [first]
    alias, models, recorded = state(small)
    assert alias == Alias(small.name, third, (second,), challenger)
    assert set(models) == alias.models
    assert all(recorded)
    assert DeploymentRecords(small.engine, small.store).find(first) is None
    with pytest.raises(BadInput, match="there is no model"):
        delete(small.engine, small.store, first)
    # The name with all that it has.
    assert set(delete(small.engine, small.store, small.name)) == {second, third, challenger}
    assert state(small) == (None, [], [])


def test_what_owpc_ltr_did_not_make_is_neither_listed_nor_taken_out(small: Small) -> None:
    """Also where its name looks like one of ours; only what proves itself is known as ours."""
    put(small, linear())
    stored = export_linear(linear((3.0, 0.0, 0.0)), FEATURESET, "m")
    foreign = ["by-hand", "other@12345678", "other-12345678", f"{small.name}-12345678"]
    for name in foreign:
        small.store.put_model(replace(stored, name=name))
    assert prunable(small.engine, small.store) == []
    for name in foreign:
        for act in (lambda each: prune(small.engine, small.store, [each]), _deleting(small)):
            with pytest.raises(Refused, match="was not made by owpc-ltr"):
                act(name)
    # What a killed upload leaves: no deployment record, a name that is the hash of the content.
    left = immutable_name(small.name, stored)
    small.store.put_model(replace(stored, name=left))
    assert is_named_by_content(small.store.get_model(left))
    assert prunable(small.engine, small.store) == [left]
    delete(small.engine, small.store, small.name)
    assert small.store.list_models() == sorted(foreign)


def _deleting(small: Small) -> Any:
    return lambda name: delete(small.engine, small.store, name)


def test_every_client_takes_a_models_own_name_and_no_other_name_can_hide_it(small: Small) -> None:
    dotted = replace(small, name=f"{small.name}.v1")
    done = put(dotted, linear())
    assert re.fullmatch(r"[A-Za-z0-9_-]+", done.model)
    assert DeploymentRecords(small.engine, small.store).get(done.model).name == dotted.name
    for name, words in (
        (f"{small.name}@363e5ec3", "an '@' comes before an index"),
        (f"m{'x' * 125}", "too long"),
    ):
        with pytest.raises(UsageError, match=words):
            put(replace(small, name=name), linear())
    with pytest.raises(Refused, match="is the name of a stored model"):
        put(replace(small, name=done.model), linear((0.0, 1.0, 0.0)))
    # And the other way round: a name that another model would be stored as.
    model = linear((0.0, 0.5, 0.0))
    taken = immutable_name(small.name, export_linear(model, FEATURESET, "m"))
    put(replace(small, name=taken), linear())
    with pytest.raises(Refused, match="which is an alias already"):
        put(small, model)
    assert taken not in small.store.list_models()


def test_a_missing_index_is_found_before_anything_is_stored(small: Small) -> None:
    with pytest.raises(Refused, match="check the name of the index") as raised:
        put(small, linear(), index="no-such-index")
    assert raised.value.exit_code == BadInput.exit_code == 3
    assert state(small) == (None, [], [])


# --- a step back whose answer was lost


def write_of(small: Small) -> int:
    """The number of the request of a roll-back that writes the alias."""
    counting = Unreliable(small.engine, 1_000, AssertionError)
    aliases = Aliases(cast("Engine", counting), small.store)
    model = aliases.roll_back(small.name).current
    aliases.switch(small.name, model, check=unchecked)
    wanted = f"%2F{small.name}"
    writes = [asked.startswith("PUT") and asked.endswith(wanted) for asked in counting.asked]
    return writes.index(True) + 1


def test_a_step_back_whose_answer_was_lost_is_read_back_and_reported(small: Small) -> None:
    *_, third = (each.model for each in three(small))
    at = write_of(small)
    Aliases(small.engine, small.store).switch(small.name, third, check=unchecked)
    before = Aliases(small.engine, small.store).find(small.name)
    assert before is not None
    lossy = Unreliable(small.engine, at, lambda: EngineUnavailable("gone"), True, again=False)
    after = Aliases(cast("Engine", lossy), small.store).roll_back(small.name)
    assert after == Aliases(small.engine, small.store).find(small.name) == before.rolled_back()
    silent = Unreliable(small.engine, at, lambda: EngineUnavailable("gone"), again=False)
    with pytest.raises(EngineUnavailable, match=f"gone; alias '{small.name}' is still set to"):
        Aliases(cast("Engine", silent), small.store).roll_back(small.name)
    assert Aliases(small.engine, small.store).find(small.name) == after
    dead = Unreliable(small.engine, at, lambda: EngineUnavailable("gone"), True)
    with pytest.raises(EngineUnavailable, match=r"check its model .*before you try again"):
        Aliases(cast("Engine", dead), small.store).roll_back(small.name)


@dataclass
class Late(Through):
    """An engine in which a write is carried out long after its sender was told that it failed."""

    name: str
    waiting: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def request(self, method: str, path: str, **given: Any) -> Any:
        if method == "PUT" and path.endswith(f"%2F{self.name}") and not self.waiting:
            self.waiting.append((method, path, given))
            raise EngineUnavailable("no answer")
        return self.engine.request(method, path, **given)


def test_a_write_that_comes_late_does_not_move_a_name_that_was_said_to_be_unmoved(
    small: Small,
) -> None:
    *_, last = (each.model for each in three(small))
    late = Late(small.engine, small.name)
    with pytest.raises(EngineUnavailable, match=f"still set to '{last}'"):
        Aliases(cast("Engine", late), small.store).roll_back(small.name)
    ((method, path, given),) = late.waiting
    with pytest.raises(Refused, match="version_conflict"):
        small.engine.request(method, path, **given)
    assert Aliases(small.engine, small.store).resolve(small.name) == last


def test_a_field_that_the_index_of_an_earlier_version_does_not_map_is_in_no_document(
    small: Small,
) -> None:
    Aliases(small.engine, small.store).switch(small.name, "first", check=unchecked)
    assert VersionedDocuments(small.engine, "alias").with_field("not-mapped") == []


def test_an_alias_is_not_switched_to_a_model_that_is_gone(small: Small) -> None:
    """Another tool has deleted it: each search would fail."""
    old, _, new = three(small)
    challenger = put(small, linear((0.0, 1.0, 0.0)), role=CHALLENGER)
    before = Aliases(small.engine, small.store).find(small.name)
    small.store.delete_model(challenger.model)
    with pytest.raises(Refused, match=f"no model '{challenger.model}'.*was not switched"):
        promote(small.engine, small.store, small.name, UNPROVEN)
    assert Aliases(small.engine, small.store).find(small.name) == before
    assert roll_back(small.engine, small.store, small.name).previous == (old.model,)
    small.store.delete_model(old.model)
    with pytest.raises(Refused, match=f"no model '{old.model}'.*was not switched"):
        roll_back(small.engine, small.store, small.name)
    assert promote(small.engine, small.store, new.model, UNPROVEN).current == new.model


@pytest.fixture
def aliases() -> Aliases:
    """Those of a cluster in memory, whose models nobody looks for."""
    engine = cast("Engine", MemoryCluster())
    return Aliases(engine, PluginFreeStore(engine))


def test_a_challenger_stands_beside_the_champion_until_it_is_promoted(aliases: Aliases) -> None:
    aliases.switch("m", "a", check=unchecked)
    assert aliases.switch("m", "b", CHALLENGER, check=unchecked) == Alias("m", "a", (), "b")
    assert aliases.resolve("m") == aliases.resolve("m:champion") == "a"
    assert aliases.resolve("m:challenger") == "b"
    assert aliases.models_in_use() == {"a", "b"}
    assert aliases.promoted_model("m") == "b"
    # A champion that is replaced otherwise keeps its challenger.
    assert aliases.switch("m", "c", check=unchecked) == Alias("m", "c", ("a",), "b")
    assert aliases.switch("m", "b", check=unchecked) == Alias("m", "b", ("a", "c"))
    assert aliases.roll_back("m") == Alias("m", "c", ("a",))


def test_what_makes_no_sense_of_roles_is_refused(aliases: Aliases) -> None:
    for act in (
        lambda: aliases.switch("m", "b", CHALLENGER, check=unchecked),
        lambda: aliases.resolve("m:challenger"),
        lambda: aliases.roll_back("m"),
    ):
        with pytest.raises(BadInput, match="upload it first"):
            act()
    aliases.switch("m", "a", check=unchecked)
    with pytest.raises(Refused, match="challenge itself"):
        aliases.switch("m", "a", CHALLENGER, check=unchecked)
    with pytest.raises(Refused, match="no challenger"):
        aliases.promoted_model("m")
    with pytest.raises(Refused, match="no challenger"):
        aliases.resolve("m:challenger")
    with pytest.raises(UsageError, match="champion or challenger"):
        aliases.resolve("m:winner")


def pointer_document(**content: Any) -> dict[str, Any]:
    source = {"store": None, "store_kind": "plugin-free", "history": 5, **content}
    return {"_seq_no": 3, "_primary_term": 1, "found": True, "_source": source}


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
                assert aliases.switch("m", "b", check=unchecked) == Alias("m", "b", ("a",))
            else:
                with pytest.raises(Refused, match="another process changed alias 'm'"):
                    aliases.switch("m", "b", check=unchecked)
            (write,) = fake.asked("PUT", f"/{INDEX}/_doc/m")
            assert (write.params["if_seq_no"], write.params["if_primary_term"]) == ("3", "1")


def test_a_404_of_somebody_in_between_does_not_say_that_no_name_is_in_use(fake: FakeEngine) -> None:
    fake.on("POST", f"/{INDEX}/_search", Reply(b"<h1>404</h1>", 404, content_type="text/html"))
    engine = Engine(ConnectionSettings(fake.url))
    with pytest.raises(EngineRefusal, match="404"):
        all_aliases(engine)
    absent = {"error": {"type": "index_not_found_exception", "reason": "no such index"}}
    fake.on("POST", f"/{INDEX}/_search", Reply(absent, 404))
    assert all_aliases(engine) == []
    assert DeploymentRecords(engine, PluginFreeStore(engine)).recorded(["m"]) == set()
    engine.close()
