"""Each watch rolls back at once where that helps, and writes its reason; else a person is told."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_keep.plan import KeepWatch
from owpc_ltr_keep.workflow import Workflow

from owpc_ltr.engine.experiments import RUNNING, STOPPED, Experiments
from owpc_ltr.engine.search.client_scoring import Served
from owpc_ltr.engine.versioned_documents import INDEX
from owpc_ltr.errors import BadInput
from tests.engine.small_cluster import Unreliable
from tests.engine.write_world import cluster_of
from tests.experiment.users import log_of_users
from tests.keep.keep_world import KeepWorld, Night, better, plan_in


@pytest.mark.parametrize("watch", ["drift", "latency"])
def test_a_model_in_trouble_is_rolled_back_where_the_one_before_is_not(
    world: KeepWorld, watch: str
) -> None:
    before = world.alias
    bad = before.current
    run = world.run(Night(troubles={bad: {watch: "far from what it was"}}))
    assert run.done == "rolled back"
    assert isinstance(run.refusal, BadInput)
    assert "needs a person" in str(run.refusal)
    assert world.alias.current == before.previous[-1]
    assert run.steps[-1].line.endswith(f"from {bad}: {watch}: far from what it was")


@pytest.mark.parametrize(
    "night",
    [
        lambda bad: Night(unjudged=f"40% of the first 10 results of {bad} are judged"),
        lambda bad: Night(troubles={bad: {"documents": "9 of 10 documents are gone"}}),
    ],
    ids=["unjudged", "documents"],
)
def test_what_is_no_fault_of_the_model_calls_a_person_and_never_rolls_back(
    world: KeepWorld, night: Any
) -> None:
    """Judgments were missing, and a better champion went for a worse one: .7546 to .6653."""
    before = world.alias
    for _ in range(2):
        run = world.run(night(before.current))
        assert (run.done, world.alias) == ("person", before)
        assert isinstance(run.refusal, BadInput)
    assert run.history[-1].end == "person"


def test_a_person_is_called_while_an_experiment_goes_on(world: KeepWorld) -> None:
    started(world)
    log = Path(world.plan.folder) / "empty.jsonl"
    run = world.run(better(log=log, unjudged="40% are judged"))
    assert run.done == "person"
    assert "40% are judged (waiting: no search of the experiment 'm' was logged" in run.reason
    assert Experiments(world.engine).get("m").state == RUNNING


def test_a_trouble_that_the_model_before_has_too_calls_a_person_every_night(
    world: KeepWorld,
) -> None:
    before = world.alias
    night = Night(troubles={model: {"latency": "slow"} for model in before.models})
    world.plan = replace(world.plan, notify=plan_in(Path(), notify=("false",)).notify)
    for _ in range(2):
        run = world.run(night)
        assert (run.done, world.alias) == ("person", before)
        assert [step.step for step in run.steps][-2:] == ["watch", "notify"]


def test_features_that_drifted_for_all_models_are_logged_again(world: KeepWorld) -> None:
    """A catalogue that was replaced: an earlier model is no better, a new one may be."""
    world.run(Night())
    troubles = {model: {"drift": "title drifted"} for model in world.alias.models}
    run = world.run(Night(troubles=troubles))
    assert (run.done, run.steps[0].step) == ("person", "log")
    assert "drift: title drifted (refused: no significant difference" in str(run.refusal)
    again = world.run(Night(troubles=troubles))
    assert (again.done, [step.step for step in again.steps]) == ("person", ["watch"])
    assert world.run(better(2, troubles=troubles)).done == "promoted"


def test_a_rollback_that_is_killed_at_any_request_is_finished_once(world: KeepWorld) -> None:
    start, before = copy.deepcopy(world.world.cluster.indices), world.alias
    night = Night(troubles={before.current: {"drift": "far"}})
    folder = Path(world.plan.folder)

    class Killed(BaseException):
        pass

    for number in range(1, 100):
        for lost_answer in (False, True):
            world.world.cluster.indices = copy.deepcopy(start)
            for path in folder.glob("*"):
                path.unlink()
            engine = Unreliable(world.engine, number, Killed, lost_answer=lost_answer)
            with suppress(Killed):
                world.run(night, engine)
            world.run(night)
            assert world.alias.current == before.previous[-1]
            assert world.alias.previous == before.previous[:-1]
        if engine.calls < number:
            break
    assert number > 5


def test_verify_is_what_finds_drift(world: KeepWorld) -> None:
    """Of the real workflow: the values of the upload are others than those of the engine now."""
    workflow = Workflow(world.plan, cluster_of(world.engine))
    model = world.alias.current
    assert workflow.troubles(model) == {}
    # A few documents are gone.
    del world.world.cluster.indices["small"].documents["d7"]
    assert "2 of 48 documents are gone" in workflow._cluster.verify(model).drift[0]
    assert workflow.troubles(model) == {}
    documents = world.world.cluster.indices[INDEX].documents
    (key,) = (key for key in documents if key.endswith(f"/{model}"))
    source, *version = documents[key]
    source = copy.deepcopy(source)
    source["deployment_record"]["engine"]["version"] = "2.0.0"
    documents[key] = (source, version[0], version[1])
    assert "the engine's version changed from 2.0.0" in workflow.troubles(model)["drift"]
    world.world.cluster.indices["small"].documents = {}
    assert "documents" in workflow.troubles(model)
    unwatched = replace(world.plan, watch=KeepWatch(drift=False))
    assert Workflow(unwatched, cluster_of(world.engine)).troubles(model) == {}


class Live(Workflow):
    """A workflow whose live results are these: each is document d1, and takes 30 ms."""

    def _searched(self, model: str, queries: Any) -> Any:
        assert len(queries) > 0
        return [Served(("d1", "d2"), 30)] * len(queries)


@pytest.mark.parametrize(("most", "is_slow"), [(20.0, True), (30.0, False), (None, False)])
def test_a_search_that_takes_too_long_is_a_trouble_without_any_judgment(
    world: KeepWorld, most: float | None, *, is_slow: bool
) -> None:
    """Of clicks there are no judgments before the first night."""
    watch = KeepWatch(drift=False, max_ms=most)
    plan = replace(world.plan, watch=watch, ubi=True, judgments=None)
    troubles = Live(plan, cluster_of(world.engine)).troubles(world.alias.current)
    slow = {"latency": "a search takes 30 ms (median), and 20 are allowed"}
    assert troubles == (slow if is_slow else {})


@pytest.mark.parametrize(("least", "is_missing"), [(0.6, True), (0.5, False), (None, False)])
def test_results_that_are_not_judged_are_counted(
    world: KeepWorld, least: float | None, *, is_missing: bool
) -> None:
    plan = replace(world.plan, watch=KeepWatch(drift=False, min_judged=least))
    judgments = "".join(f"word {n}\td1\t1\n" for n in range(60))
    Path(str(plan.judgments)).write_text(f"query\tdoc_id\tgrade\n{judgments}")
    line = Live(plan, cluster_of(world.engine)).unjudged(world.alias.current)
    assert (line is not None) == is_missing
    if line is not None:
        assert line.startswith("50% of the first 10 results of ")
        assert line.endswith("and 60% are needed: judge what users get (owpc-ltr judge pool)")


def started(world: KeepWorld) -> str:
    """Show a candidate to users; its name."""
    world.plan = replace(plan_in(Path(world.plan.folder), tried=True), shadow=None)
    empty = Path(world.plan.folder) / "empty.jsonl"
    empty.write_text("")
    assert world.run(better(log=empty)).done == "waiting"
    return Experiments(world.engine).get("m").b


def lopsided(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Half of the searches that B leads are lost, with their clicks."""
    led = [line["query_id"] for line in lines if leads_b(line) and "action_name" not in line]
    lost = {*led[::2]}
    return [line for line in lines if line["query_id"] not in lost]


def leads_b(line: dict[str, Any]) -> bool:
    attributes = line.get("query_attributes") or line["event_attributes"]
    return bool(attributes["experiment"]["leads"] == "b")


def broken(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The clicks of pages that B leads are lost."""
    return [line for line in lines if "action_name" not in line or not leads_b(line)]


LOST = "too few clicks come from pages that B leads|searches that B leads end without a click"


def of_bots(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each client that clicks searches and clicks 110 times more within a second."""
    clicked = {line["query_id"] for line in lines if "action_name" in line}
    again = [line for line in lines if line["query_id"] in clicked]
    return lines + [
        {**line, "query_id": f"{line['query_id']}-{n}"} for line in again for n in range(110)
    ]


@pytest.mark.parametrize(
    ("damage", "clients", "reason"),
    [
        (lopsided, 300, "where a fair coin gives as many"),
        (broken, 300, LOST),
        (of_bots, 100, "clients are bots"),
        (lambda _lines: [], 1, "no search of the experiment 'm' was logged"),
    ],
    ids=["lopsided", "broken logger", "bots", "no log"],
)
def test_an_experiment_whose_log_is_not_to_be_believed_ends_at_once(
    world: KeepWorld, damage: Any, clients: int, reason: str
) -> None:
    before, model = world.alias.current, started(world)
    experiment = Experiments(world.engine).get("m")
    path = Path(world.plan.folder) / "log.jsonl"
    log_of_users(experiment, path, np.random.default_rng(1), clients=clients)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in damage(lines)))
    world.days = 2
    run = world.run(better(log=path))
    assert run.done == "rolled back", run
    assert f"{model} is withdrawn: " in run.reason
    assert re.search(reason, run.reason)
    assert Experiments(world.engine).get("m").state == STOPPED
    assert world.alias.current == before
    assert world.run(better(log=path)).done == "nothing"


def test_a_candidate_that_users_click_less_on_is_taken_away_at_once(world: KeepWorld) -> None:
    model = started(world)
    experiment = Experiments(world.engine).get("m")
    path = Path(world.plan.folder) / "log.jsonl"
    log_of_users(experiment, path, np.random.default_rng(1), b_is_better=False)
    run = world.run(better(log=path))
    assert run.done == "rolled back"
    assert f"{model} is withdrawn: worse: -" in run.reason


def test_a_rollback_during_an_experiment_ends_it(world: KeepWorld) -> None:
    champion, model = world.alias.current, started(world)
    run = world.run(better(troubles={champion: {"drift": "far"}}))
    assert run.done == "rolled back"
    assert world.alias.current != champion
    experiment = Experiments(world.engine).get("m")
    assert (experiment.b, experiment.state) == (model, STOPPED)
    assert world.run(better()).done == "nothing"
