"""Runs of a plan: each end is as it says, and killed anywhere they end as one that was not."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from owpc_ltr_keep import state as state_module
from owpc_ltr_keep.plan import KeepGate
from owpc_ltr_keep.state import KeepIsRunning, locked_folder
from owpc_ltr_keep.workflow import Workflow

import owpc_ltr as ltr
from owpc_ltr import report
from owpc_ltr.engine.attempts import ClusterAttempts
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.evidence import BY_USERS, SearchConfiguration
from owpc_ltr.engine.experiments import RUNNING, STOPPED, Experiment, Experiments
from owpc_ltr.engine.live_results.comparison import LiveComparison
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from owpc_ltr.evaluation.attempts import sketch_of
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.files import output
from owpc_ltr.inspection.result import WARNING, Finding
from tests.engine.small_cluster import Unreliable
from tests.evaluation import test_segments as segments
from tests.experiment.users import log_of_users
from tests.keep.keep_world import (
    KeepWorld,
    MadeUpWorkflow,
    Night,
    better,
    model_of_night,
    plan_in,
    without_times,
)

TOLD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.fixture
def notices(world: KeepWorld, tmp_path: Path) -> Path:
    """The file of what the plan's command was told."""
    path = tmp_path / "told.jsonl"
    path.write_text("")
    plan = plan_in(Path(world.plan.folder), notify=(sys.executable, "-c", TOLD, str(path)))
    world.plan = plan
    return path


def ends(notices: Path) -> list[str]:
    return [json.loads(line)["end"] for line in notices.read_text().splitlines()]


@pytest.fixture
def tried(world: KeepWorld) -> KeepWorld:
    """Whose plan tries a candidate in the shadow and in an experiment."""
    world.plan = plan_in(Path(world.plan.folder), tried=True)
    return world


def test_a_better_candidate_is_promoted_and_the_same_judgments_are_nothing_to_do(
    world: KeepWorld,
) -> None:
    before = world.alias.current
    run = world.run(better())
    assert run.done == "promoted"
    assert run.refusal is None
    assert world.alias.current == run.champion != before
    assert world.alias.previous[-1] == before
    steps = ["log", "train", "compare", "upload", "promote"]
    assert [step.step for step in run.steps] == steps
    again = world.run(better())
    assert (again.done, again.steps, again.refusal) == ("nothing", (), None)
    assert "those of the last round" in str(again)
    assert json.loads(json.dumps(run.as_dict()))["steps"][-1]["end"] == "promoted"
    assert max(map(len, str(run).splitlines())) <= 80


def test_a_page_has_the_history_the_latest_step_first(world: KeepWorld, tmp_path: Path) -> None:
    world.run(Night())
    run = world.run(better(2))
    page = tmp_path / "history.html"
    report(run, out=page)
    text = page.read_text()
    assert "History of “m”" in text
    assert f"“m” is set to {run.champion}" in text
    steps = [text.index(f'<td class="short">{step}</td>') for step in ("promote", "train", "log")]
    assert steps == sorted(steps)
    assert text.count('<td class="short">compare</td>') == 2


@pytest.mark.parametrize("outcome", [Outcome.NO_DIFFERENCE, Outcome.WORSE])
def test_a_candidate_that_is_no_better_is_refused_and_nobody_is_told(
    world: KeepWorld, notices: Path, outcome: Outcome
) -> None:
    before = world.alias
    run = world.run(Night(outcome=outcome))
    assert run.done == "refused"
    assert isinstance(run.refusal, Refused)
    assert str(outcome) in str(run.refusal)
    assert world.alias == before
    assert world.run(Night()).done == "nothing"
    assert world.run(Night(2)).done == "refused"
    assert ends(notices) == []


def test_judgments_that_cannot_tell_call_a_person_every_night_until_users_may_decide(
    world: KeepWorld, notices: Path
) -> None:
    night = Night(outcome=Outcome.CANNOT_TELL)
    assert [world.run(night).done for _ in range(2)] == ["person", "person"]
    assert ends(notices) == ["person", "person"]
    world.plan = plan_in(Path(world.plan.folder), tried=True)
    assert world.run(replace(night, log=quiet(world))).done == "waiting"


def test_a_candidate_that_loses_in_a_segment_calls_a_person_who_may_accept_it(
    world: KeepWorld, notices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare_live(_: Cluster, rankers: list[Any], **how: Any) -> LiveComparison:
        options = {name: how[name] for name in ("segments", "accept_loss", "baseline")}
        names = [str(ranker) for ranker in rankers]
        compared = ltr.compare(
            dict(zip(names, (segments.NEW, segments.OLD), strict=True)),
            data=segments.DATA, metrics="ndcg@5", split="all", resamples=500, **options,
        )  # fmt: skip
        sides = {name: SearchConfiguration(name, "small", None, model=name) for name in names}
        return LiveComparison(**compared.facts, configurations=sides)

    monkeypatch.setattr(Cluster, "compare_live", compare_live)
    monkeypatch.setattr(MadeUpWorkflow, "compare", Workflow.compare)
    monkeypatch.setattr(MadeUpWorkflow, "_search", lambda *_: ({}, 10))
    run = world.run(Night())
    assert run.done == "person"
    assert "in the segment 'frequency: tail'" in run.reason
    assert "(to accept the loss: accept_loss of [keep.gate])" in run.reason
    (told,) = map(json.loads, notices.read_text().splitlines())
    assert "'frequency: tail'" in json.dumps(told, ensure_ascii=False)
    world.plan = replace(world.plan, gate=KeepGate(accept_loss=("frequency: tail",)))
    assert world.run(Night()).done == "promoted"


def test_rounds_begin_no_more_often_than_the_plan_says(world: KeepWorld) -> None:
    world.plan = replace(world.plan, every=7)
    world.run(Night())
    world.days = 6.9
    run = world.run(better(2))
    assert (run.done, run.steps) == ("nothing", ())
    assert run.reason.startswith("the next round begins on 20")
    world.days = 7.1
    assert world.run(better(2)).done == "promoted"
    # Features that drifted for all models do not wait.
    troubles = {model: {"drift": "far"} for model in world.alias.models}
    assert world.run(Night(3, troubles=troubles)).steps[0].step == "log"


def test_faults_of_the_data_need_a_person_until_they_are_accepted(world: KeepWorld) -> None:
    fault = Finding("leak", WARNING, "votes", "votes gives the grade away", "leave it out")
    run = world.run(better(findings=(fault,)))
    assert run.done == "person"
    assert isinstance(run.refusal, BadInput)
    accept = '"constant-column", "leak"'
    assert f"accept = [{accept}]" in str(run.refusal)
    assert world.run(better(findings=(fault,))).done == "person"
    world.plan = replace(world.plan, accept=("leak",))
    assert world.run(better(findings=(fault,))).done == "promoted"


def test_what_suggested_feature_sets_have_is_accepted_by_default(world: KeepWorld) -> None:
    fault = Finding("constant-column", WARNING, "isbn", "isbn is always 0", "leave it out")
    assert world.run(better(findings=(fault,))).done == "promoted"


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Refused("9,900 of 10,000 judged documents are not in the index"), 3),
        (BadInput("a grade is -1"), 3),
        (EngineUnavailable("no answer"), 4),
    ],
    ids=lambda what: getattr(type(what), "__name__", None),
)
def test_a_failure_is_told_stands_in_the_history_and_never_leaves_with_5(
    world: KeepWorld, notices: Path, failure: Any, code: int
) -> None:
    run = world.run(better(failure=failure))
    assert run.done == "failed"
    assert run.refusal is not None
    assert (run.refusal.exit_code, str(run.refusal)) == (code, str(failure))
    assert (run.history[-1].end, run.history[-1].line) == ("failed", str(failure))
    assert ends(notices) == ["failed"]
    assert world.run(better()).done == "promoted"
    assert ends(notices) == ["failed", "promoted"]


def test_a_bug_is_told_too_and_keeps_its_traceback(world: KeepWorld, notices: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        world.run(better(failure=ZeroDivisionError("division by zero")))
    assert ends(notices) == ["failed"]
    assert world.state["history"][-1]["line"] == "ZeroDivisionError: division by zero"


def test_a_run_that_was_killed_is_told_by_the_next_one(
    world: KeepWorld, notices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(MadeUpWorkflow, "train", kill)
        with pytest.raises(Killed):
            world.run(better())
    run = world.run(better())
    assert run.done == "promoted"
    assert "did not end: it was killed" in run.steps[0].line
    assert ends(notices) == ["failed", "promoted"]


def log_for(world: KeepWorld, seed: int = 1, **how: Any) -> Path:
    """A log in which B puts what users want first."""
    experiment = Experiments(world.engine).get("m")
    path = Path(world.plan.folder) / f"{seed}.jsonl"
    return log_of_users(experiment, path, np.random.default_rng(seed), **how)


def quiet(world: KeepWorld) -> Path:
    """A log without a search."""
    path = Path(world.plan.folder) / "quiet.jsonl"
    path.write_text("")
    return path


def test_a_candidate_is_tried_in_the_shadow_then_shown_and_promoted(tried: KeepWorld) -> None:
    before = tried.alias.current
    run = tried.run(better())
    assert (run.done, tried.alias.current) == ("waiting", before)
    experiments = Experiments(tried.engine)
    assert (experiments.get("m").shadow, experiments.get("m").state) == (True, RUNNING)
    tried.days = 3
    few = log_for(tried, 2, clients=20)
    run = tried.run(better(log=few))
    assert [step.step for step in run.steps] == ["shadow", "experiment", "experiment"]
    assert (run.done, experiments.get("m").shadow) == ("waiting", False)
    tried.days = 4
    run = tried.run(better(log=log_for(tried)))
    assert run.done == "promoted"
    assert tried.alias.current == experiments.get("m").b
    assert experiments.get("m").state == STOPPED


def shown(tried: KeepWorld) -> KeepWorld:
    """A world whose candidate is shown to users."""
    tried.plan = replace(tried.plan, shadow=None)
    tried.run(better(log=quiet(tried)))
    assert Experiments(tried.engine).get("m").state == RUNNING
    return tried


def test_a_new_container_goes_on_with_the_experiment_of_the_cluster(tried: KeepWorld) -> None:
    shown(tried)
    log = log_for(tried)
    shutil.rmtree(tried.plan.folder)
    moved = Path(tried.plan.folder).parent / "log.jsonl"
    log_of_users(Experiments(tried.engine).get("m"), moved, np.random.default_rng(1))
    assert not log.exists()
    Path(tried.plan.folder).mkdir()
    run = tried.run(Night(7, log=moved))
    assert (run.done, [step.step for step in run.steps]) == ("promoted", ["promote"])


def test_an_experiment_without_a_decision_ends_after_its_days(tried: KeepWorld) -> None:
    before = shown(tried).alias.current
    log = log_for(tried, 3, clients=200, wanted="d")
    assert tried.run(better(log=log)).done == "waiting"
    tried.days = 21
    run = tried.run(better(log=log))
    assert run.done == "refused"
    assert tried.alias.current == before
    assert Experiments(tried.engine).get("m").state == STOPPED


def test_users_promote_at_the_level_that_is_left_after_earlier_experiments(
    tried: KeepWorld,
) -> None:
    """What is better at 5 % goes on where 400 candidates were tried before."""
    shown(tried)
    log = log_for(tried, clients=100)
    for number in range(400):
        attempts = ClusterAttempts(tried.engine, "m", candidate=str(number))
        attempts.count(sketch_of(pa.array([BY_USERS])), BY_USERS, {})
    run = tried.run(better(log=log))
    assert run.done == "waiting"
    assert run.reason.startswith("better: +0.")
    assert Experiments(tried.engine).get("m").state == RUNNING


def test_a_champion_that_another_hand_changed_ends_the_round(tried: KeepWorld) -> None:
    shown(tried)
    tried.world.upload(model_of_night(99), "champion", tried.engine)
    run = tried.run(better())
    assert run.done == "refused"
    assert "and the experiment is over" in str(run.refusal)
    assert Experiments(tried.engine).get("m").state == STOPPED


def test_an_experiment_that_another_hand_stopped_ends_the_round(tried: KeepWorld) -> None:
    experiments = Experiments(shown(tried).engine)
    experiments.end(experiments.get("m"))
    run = tried.run(better())
    assert (run.done, run.reason) == ("refused", "another hand stopped the experiment")
    assert tried.run(better()).done == "nothing"


def test_a_clock_that_went_back_is_told_once_and_does_not_stop_the_plan(
    world: KeepWorld, notices: Path
) -> None:
    world.days = 3650
    world.plan = replace(world.plan, every=7)
    assert world.run(Night()).done == "refused"
    world.days = 0
    run = world.run(better(2))
    assert (run.done, run.refusal and run.refusal.exit_code) == ("failed", 3)
    assert "the clock went back" in run.reason
    assert world.run(better(2)).done == "promoted"
    assert ends(notices) == ["failed", "promoted"]


def test_an_experiment_of_a_clock_that_was_ahead_calls_a_person(tried: KeepWorld) -> None:
    shown(tried)
    tried.days = -30
    run = tried.run(better())
    assert (run.done, run.refusal and run.refusal.exit_code) == ("failed", 3)
    # The history is of another clock too; from now on it is not.
    run = tried.run(better())
    assert "owpc-ltr experiment stop m" in str(run.refusal)


class Killed(BaseException):
    """The process ends here."""


def kill(*_args: Any) -> Any:
    raise Killed


class KilledAt:
    """Ends the process at the n-th replacement of the state."""

    def __init__(self, number: int, *, after: bool) -> None:
        self.number, self.after, self.writes = number, after, 0

    def write(self, *args: Any) -> None:
        self.writes += 1
        if self.writes == self.number and not self.after:
            raise Killed
        output.write_output(*args)
        if self.writes == self.number:
            raise Killed


def all_runs(world: KeepWorld, log: Path, engine: Any = None) -> None:
    """What cron does: the runs of some days, from today."""
    for world.days in (day for day in (0, 3, 4) if day >= world.days):
        if world.run(better(log=log), engine).done not in {"waiting", "nothing"}:
            return


def outcome(world: KeepWorld) -> Any:
    """All that a kill must not change: the round, aliases, and what of experiments lasts."""
    of_round = {key: part for key, part in world.state["round"].items() if key != "line"}
    experiment = Experiments(world.engine).find("m")
    lasting = experiment and (experiment.a, experiment.b, experiment.state, experiment.shadow)
    return of_round, world.state["unsent"], world.alias, lasting


QUICK = {("files", "after", "promoted"), ("requests", "before", "withdrawn")}
KILLS = product(["files", "requests"], ["before", "after"], ["promoted", "tried", "withdrawn"])


@pytest.mark.parametrize(
    ("what", "when", "how"),
    [pytest.param(*kill, marks=[] if kill in QUICK else pytest.mark.thorough) for kill in KILLS],
)
def test_a_run_that_is_killed_anywhere_ends_as_one_that_was_not(
    world: KeepWorld, monkeypatch: pytest.MonkeyPatch, what: str, when: str, how: str
) -> None:
    after = when == "after"
    folder = Path(world.plan.folder)
    world.plan = plan_in(folder, tried=how != "promoted")
    of_m = Experiment("m", "a", "b", index="small", started="")
    log = log_of_users(
        of_m, folder.parent / "log.jsonl", np.random.default_rng(4),
        clients=60 if how == "withdrawn" else 120, b_is_better=how != "withdrawn",
    )  # fmt: skip
    start = copy.deepcopy(world.world.cluster.indices)
    all_runs(world, log)
    expected = outcome(world)
    assert expected[0]["end"] == {"withdrawn": "rolled back"}.get(how, "promoted")
    # Every request was tried once, in minutes.
    for number in range(1, 1000, 9 if what == "requests" else 1):
        world.world.cluster.indices = copy.deepcopy(start)
        shutil.rmtree(folder)
        folder.mkdir()
        world.days = 0
        engine, kill = None, KilledAt(number, after=after)
        with monkeypatch.context() as patched, suppress(Killed):
            if what == "files":
                patched.setattr(state_module, "write_output", kill.write)
            else:
                engine = Unreliable(world.engine, number, Killed, lost_answer=after)
            all_runs(world, log, engine)
            break
        all_runs(world, log)
        alike = outcome(world)
        if how == "withdrawn" and alike[0]["end"] == "refused":
            # It was stopped, and then the run was killed: the next one cannot know why.
            alike[0]["end"] = "rolled back"
        assert alike == expected
    assert number >= (8 if what == "files" else 40)


def test_two_runs_at_once_and_a_lock_that_a_killed_process_left(world: KeepWorld) -> None:
    folder = Path(world.plan.folder)
    complaint = r"process \d+ on .* holds .*lock"
    with (
        locked_folder(folder),
        pytest.raises(KeepIsRunning, match=complaint),
        locked_folder(folder),
    ):
        pass
    (folder / "lock").write_text("process 1 on elsewhere")
    with locked_folder(folder):
        pass


def test_the_notified_command_reads_how_a_run_ended_until_it_takes_it(
    world: KeepWorld, notices: Path
) -> None:
    working = world.plan.notify
    world.run(better())
    world.run(better())
    (message,) = map(json.loads, notices.read_text().splitlines())
    assert (message["alias"], message["step"], message["end"]) == ("m", "promote", "promoted")
    assert world.alias.current in message["line"]
    broken = (sys.executable, "-c", "raise SystemExit(1)")
    world.plan = replace(world.plan, notify=replace(working, command=broken))
    run = world.run(better(2))
    assert run.done == "promoted"
    assert run.steps[-1].line == "no notification was sent: CalledProcessError"
    world.plan = replace(world.plan, notify=working)
    assert world.run(better(2)).done == "nothing"
    assert ends(notices) == ["promoted", "promoted"]


def test_a_run_that_waits_says_so_every_night(tried: KeepWorld, notices: Path) -> None:
    plan = replace(plan_in(Path(tried.plan.folder), tried=True), notify=tried.plan.notify)
    tried.plan = replace(plan, notify=plan_in(Path(), notify=(
        sys.executable, "-c", TOLD, str(notices))).notify)  # fmt: skip
    for _ in range(2):
        tried.run(better())
    assert ends(notices) == ["waiting", "waiting"]


@pytest.mark.parametrize("failing", [False, True])
def test_states_of_a_round_survive_as_json(tried: KeepWorld, *, failing: bool) -> None:
    tried.run(better(failure=BadInput("a grade is -1") if failing else None))
    before = tried.state
    assert json.loads(json.dumps(before), object_hook=without_times) == before
    assert before["running"] is None
