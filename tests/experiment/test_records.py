"""Experiments in the cluster: two frozen models, and an alias that is switched once, or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from owpc_ltr_experiment.start import experiment_start
from owpc_ltr_experiment.status import experiment_status
from owpc_ltr_experiment.stop import experiment_stop

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.deployment.alias import Alias, Aliases, all_aliases, check_unpinned
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_lifecycle import delete, prunable, prune
from owpc_ltr.engine.experiments import PROMOTING, QUERY, RUNNING, STOPPED, Experiment, Experiments
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.engine.versioned_documents import INDEX
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from tests.engine.deployed import unchecked
from tests.engine.small_cluster import Unreliable
from tests.engine.write_world import MODELS, World, cluster_of, copied_world
from tests.experiment.users import log_of_users


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world that a test may change."""
    return copied_world(tmp_path)


def start(world: World, **options: Any) -> Experiment:
    chosen = {"a": "m", "b": "m:challenger", **options}
    return experiment_start(cluster_of(world.engine), "titles", **chosen)


def alias_of(world: World) -> Alias:
    (alias,) = (alias for alias in all_aliases(world.engine) if alias.name == "m")
    return alias


def test_the_two_models_are_frozen_when_it_starts(world: World) -> None:
    alias = alias_of(world)
    experiment = start(world)
    assert (experiment.a, experiment.b) == (alias.current, alias.challenger)
    assert (experiment.alias, experiment.index, experiment.state) == ("m", "small", RUNNING)
    Aliases(world.engine, PluginFreeStore(world.engine)).roll_back("m")
    assert Experiments(world.engine).get("titles") == experiment
    assert all(alias.name != "titles" for alias in all_aliases(world.engine))
    assert max(map(len, str(experiment).splitlines())) <= 80
    assert json.loads(json.dumps(experiment.as_dict()))["b"] == alias.challenger


def test_an_arm_may_be_the_query_alone_and_has_no_alias(world: World) -> None:
    experiment = start(world, a=QUERY, b="m")
    assert (experiment.a, experiment.alias, experiment.in_use) == (QUERY, None, QUERY)
    assert start_again(world, a="m:challenger", b=QUERY).alias is None


def start_again(world: World, **options: Any) -> Experiment:
    experiment_stop(cluster_of(world.engine), "titles")
    return start(world, **options)


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"b": "m"}, UsageError, r"`a` and `b` are the same ranker \(m-\w+\): name two"),
        ({"a": QUERY, "b": QUERY}, UsageError, r"are the same ranker \(query\)"),
        ({"b": "nobody"}, BadInput, "there is no model 'nobody'"),
        ({"index": "../x"}, UsageError, "'../x'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_kept(
    world: World, options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        start(world, **options)
    assert Experiments(world.engine).find("titles") is None


def test_one_content_under_two_names_is_one_ranker(world: World) -> None:
    world.upload(MODELS[2], "champion", world.engine, name="twin")
    with pytest.raises(UsageError, match=r"the same ranker \(m-(\w+) and twin-\1\): name two"):
        start(world, a="m:challenger", b="twin")
    assert start(world, a="m", b="twin").state == RUNNING


def changed_record(world: World, change: Any) -> str:
    """Change the deployment record of the challenger."""
    model = str(alias_of(world).challenger)
    documents = world.cluster.indices[INDEX].documents
    (key,) = (key for key in documents if key.endswith(f"/{model}"))
    source, *version = documents[key]
    source = json.loads(json.dumps(source))
    change(source["deployment_record"])
    documents[key] = (source, version[0], version[1])
    return model


def test_models_of_other_indices_or_with_more_parameters_are_refused(world: World) -> None:
    changed_record(world, lambda record: record.update(index="docs"))
    with pytest.raises(BadInput, match=r"is for the index 'small', .* for 'docs': name the one"):
        start(world)
    assert start(world, index="small").index == "small"

    def with_year(record: dict[str, Any]) -> None:
        feature = record["featureset"]["features"][0]
        feature["params"].append("year")
        feature["template"] = {"match": {"title": "{{keywords}} {{year}}"}}

    changed_record(world, with_year)
    with pytest.raises(BadInput, match="needs year of a search"):
        start_again(world, index="small")


def test_one_of_its_name_may_run_at_a_time(world: World) -> None:
    start(world)
    with pytest.raises(Refused, match=r"'titles' runs since .*: take another name, or stop it"):
        start(world, b=QUERY)
    assert start_again(world, b=QUERY).b == QUERY


def test_a_lost_answer_to_the_start_is_no_failure(world: World) -> None:
    for number in range(1, 30):
        broken = Unreliable(
            world.engine, number, lambda: EngineUnavailable("gone"), lost_answer=True, again=False
        )
        cluster = cluster_of(broken)
        try:
            done = experiment_start(cluster, "titles", a="m", b="m:challenger")
        except EngineUnavailable:
            assert Experiments(world.engine).find("titles") is None
            continue
        if broken.calls < number:
            break
        assert Experiments(world.engine).get("titles") == done
        experiment_stop(cluster_of(world.engine), "titles")
        del world.cluster.indices[INDEX].documents["experiment/titles"]
    assert number > 3


@pytest.mark.parametrize(
    "damage", [{"format": 2}, {"page": "many"}, {"a": None}, {"nothing": 1, "a": 3}], ids=str
)
def test_a_damaged_record_is_an_error_in_one_line(world: World, damage: dict[str, Any]) -> None:
    start(world)
    documents = world.cluster.indices[INDEX].documents
    source, *version = documents["experiment/titles"]
    damaged = {"experiment": {**source["experiment"], **damage}}
    documents["experiment/titles"] = (damaged, version[0], version[1])
    with pytest.raises(BadInput, match="the record of the experiment 'titles'"):
        Experiments(world.engine).get("titles")


@pytest.mark.parametrize("by", ["its name", "its alias", "being unused"])
def test_a_frozen_model_is_not_deleted_before_the_experiment_is_stopped(
    world: World, by: str
) -> None:
    engine, store = world.engine, PluginFreeStore(world.engine)
    experiment = start(world)
    if by != "its alias":
        Aliases(engine, store).switch("m", experiment.b, history=0, check=unchecked)
    before = all_aliases(engine), store.list_models()
    remove: dict[str, Callable[[], object]] = {
        "its name": lambda: delete(engine, store, experiment.a),
        "its alias": lambda: delete(engine, store, "m"),
        "being unused": lambda: prune(engine, store, [experiment.a]),
    }
    with pytest.raises(Refused, match="the experiment 'titles' uses 'm-"):
        remove[by]()
    assert (all_aliases(engine), store.list_models()) == before
    assert experiment.a not in prunable(engine, store)
    experiment_stop(cluster_of(engine), "titles")
    check_unpinned(engine, store.list_models())


def stop(engine: Any, log: Path, **options: Any) -> Any:
    return experiment_stop(
        cluster_of(engine), "titles", promote_if="better", events=[log], **options
    )


def empty(folder: Path) -> Path:
    """A log of nothing: who reads it has no verdict."""
    path = folder / "empty.jsonl"
    path.write_text("")
    return path


def better(experiment: Experiment, folder: Path, seed: int = 1) -> Path:
    """A log in which B puts what users want first, and A puts it third."""
    return log_of_users(experiment, folder / f"{seed}.jsonl", np.random.default_rng(seed))


def test_a_better_b_that_breaks_a_guard_rail_is_not_promoted(world: World, tmp_path: Path) -> None:
    log = better(start(world), tmp_path)
    slow = log.read_text().replace('"leads"', '"ms_a": 10.0, "ms_b": 60.0, "leads"')
    log.write_text(slow)
    before = alias_of(world)
    with pytest.raises(Refused, match=r"by clicks: B takes 60 ms, A 10 .* models promote"):
        stop(world.engine, log)
    assert alias_of(world) == before
    assert Experiments(world.engine).get("titles").state == RUNNING


def test_a_better_b_is_what_the_alias_is_set_to_with_the_evidence(
    world: World, tmp_path: Path
) -> None:
    experiment = start(world)
    done = stop(world.engine, better(experiment, tmp_path))
    assert done.promoted
    assert alias_of(world).current == experiment.b
    assert alias_of(world).previous[-1] == experiment.a
    stored = Experiments(world.engine).get("titles")
    assert (stored.state, done.experiment) == (STOPPED, stored)
    record = DeploymentRecords(world.engine, PluginFreeStore(world.engine)).get(experiment.b)
    assert record.switch is not None
    assert record.switch["over"] == experiment.a
    assert record.switch["evidence"] == stored.result
    assert record.switch["evidence"]["verdict"]["outcome"] == "better"
    assert f"owpc-ltr models rollback {experiment.alias}" in str(done)
    again = stop(world.engine, empty(tmp_path))
    assert (again.promoted, again.experiment) == (True, stored)


def test_clicks_of_another_query_window_or_index_promote_nothing(
    world: World, tmp_path: Path
) -> None:
    """What users got is that of the start, whatever was uploaded since."""

    def searched(window: int) -> Callable[[dict[str, Any]], None]:
        search = {"template": {"match": {"title": "{{keywords}}"}}, "params": {}, "window": window}
        return lambda record: record.update(search=search)

    before, cluster = alias_of(world), cluster_of(world.engine)
    log = better(start(world), tmp_path)
    # To say for the first time what the query is changes nothing for users.
    changed_record(world, searched(50))
    experiment_status(cluster, "titles", events=[log]).evidence()
    log = better(start_again(world), tmp_path)
    changed_record(world, searched(10))
    with pytest.raises(BadInput, match="since 'titles' started, and its users had the former"):
        stop(world.engine, log)
    status = experiment_status(cluster, "titles", events=[log])
    with pytest.raises(Refused, match="or was uploaded again with another query"):
        status.evidence()
    log = better(start_again(world, index="docs"), tmp_path)
    with pytest.raises(Refused, match=r"is of another index \('docs' and 'small'\)"):
        stop(world.engine, log)
    assert alias_of(world) == before


def test_another_verdict_leaves_the_alias_and_the_experiment(world: World, tmp_path: Path) -> None:
    experiment = start(world)
    before = alias_of(world)
    log = log_of_users(experiment, tmp_path / "few.jsonl", np.random.default_rng(2), clients=20)
    with pytest.raises(
        Refused, match=r"is not promoted: cannot tell.*the experiment goes on"
    ) as no:
        stop(world.engine, log)
    assert no.value.result.result.n_clients == 20
    assert alias_of(world) == before
    assert Experiments(world.engine).get("titles") == experiment
    swapped = replace(experiment, a=experiment.b, b=experiment.a)
    worse = log_of_users(swapped, tmp_path / "w.jsonl", np.random.default_rng(3), b_is_better=False)
    with pytest.raises(Refused, match="is not promoted: worse"):
        stop(world.engine, worse)
    done = experiment_stop(cluster_of(world.engine), "titles")
    assert (done.promoted, alias_of(world)) == (False, before)
    assert f"users have {experiment.alias} as before" in str(done)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"a": QUERY, "b": "m"}, "no alias was set to A of 'titles'"),
        ({"a": "m", "b": QUERY}, "the query alone, to which no alias can be set"),
    ],
)
def test_what_no_alias_can_be_set_to_is_refused_before_the_log_is_read(
    world: World, tmp_path: Path, options: dict[str, str], complaint: str
) -> None:
    start(world, **options)
    with pytest.raises(UsageError, match=complaint):
        stop(world.engine, empty(tmp_path))


def test_an_experiment_in_the_shadow_promotes_nothing(world: World, tmp_path: Path) -> None:
    experiment = start(world, shadow=True)
    with pytest.raises(Refused, match="is not shown, and cannot be found better"):
        stop(world.engine, better(experiment, tmp_path))


def test_an_alias_that_was_switched_meanwhile_stays(world: World, tmp_path: Path) -> None:
    experiment = start(world)
    rolled_back = Aliases(world.engine, PluginFreeStore(world.engine)).roll_back("m")
    with pytest.raises(Refused, match=f"alias 'm' is set to {rolled_back.current} now"):
        stop(world.engine, better(experiment, tmp_path))
    assert alias_of(world) == rolled_back
    assert Experiments(world.engine).get("titles").state == RUNNING


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("lost_answer", [False, True], ids=["before", "after"])
def test_a_stop_that_is_killed_at_any_step_is_finished_by_the_next(
    world: World, tmp_path: Path, *, lost_answer: bool
) -> None:
    experiment = start(world)
    log = better(experiment, tmp_path)
    kept = dict(world.cluster.indices[INDEX].documents)
    states = set()
    for number in range(1, 100):
        world.cluster.indices[INDEX].documents = dict(kept)
        broken = Unreliable(world.engine, number, Killed, lost_answer=lost_answer)
        try:
            stop(broken, log)
        except Killed:
            pass
        else:
            break
        state = Experiments(world.engine).get("titles").state
        states.add(state)
        # A verdict that was reached is not asked for again: the log may say something else by now.
        second = empty(tmp_path) if state != RUNNING else log
        done = stop(world.engine, second)
        assert (done.promoted, done.experiment.state) == (True, STOPPED)
        assert alias_of(world).current == experiment.b
        assert alias_of(world).previous.count(experiment.a) == 1
    assert {RUNNING, PROMOTING} <= states
    assert number > 8


def test_two_stops_at_once_switch_the_alias_once(world: World, tmp_path: Path) -> None:
    experiment = start(world)
    log = better(experiment, tmp_path)
    seen: list[Any] = []

    class Overtaken:
        """An engine in which another process stops the experiment before the first write."""

        def __getattr__(self, name: str) -> Any:
            return getattr(world.engine, name)

        def request(self, method: str, path: str, **given: Any) -> Any:
            if method == "PUT" and "experiment" in path and not seen:
                seen.append(stop(world.engine, log))
            return world.engine.request(method, path, **given)

    with pytest.raises(Refused, match="another process changed the experiment 'titles'"):
        stop(Overtaken(), log)
    assert alias_of(world).previous.count(experiment.a) == 1


def test_an_unknown_experiment_is_bad_input(world: World, tmp_path: Path) -> None:
    cluster = cluster_of(world.engine)
    with pytest.raises(BadInput, match="there is no experiment 'other'"):
        experiment_stop(cluster, "other")
    with pytest.raises(BadInput, match="there is no experiment 'other'"):
        experiment_status(cluster, "other", events=[empty(tmp_path)])
    with pytest.raises(UsageError, match="cannot name a search experiment"):
        Experiments(world.engine).get("../x")


def test_a_refusal_of_the_engine_is_told_as_it_is(world: World) -> None:
    broken = Unreliable(
        world.engine, 1, lambda: EngineRefusal("it", 403, "security_exception", "not allowed")
    )
    with pytest.raises(EngineRefusal, match="not allowed"):
        Experiments(cast("Engine", broken)).get("titles")
