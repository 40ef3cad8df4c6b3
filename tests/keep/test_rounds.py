"""Runs of a plan: killed at any step they end as one that was not; each end is as it says."""

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
import pytest
from owpc_ltr_keep import state as state_module
from owpc_ltr_keep.state import EvidenceStream, Ledger, locked

from owpc_ltr import report
from owpc_ltr.engine.experiments import RUNNING, STOPPED, Experiment, Experiments
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.files import output
from owpc_ltr.files.output import LockHeld
from owpc_ltr.inspection.result import WARNING, Finding
from tests.engine.small_cluster import Unreliable
from tests.experiment.users import log_of_users
from tests.keep.keep_world import (
    KeepWorld,
    MadeUpWorkflow,
    Night,
    model_of_night,
    noise,
    plan_in,
    without_times,
)

GAIN = 0.1


@pytest.fixture
def tried(world: KeepWorld) -> KeepWorld:
    """Whose plan tries a candidate in the shadow and in an experiment."""
    world.plan = plan_in(Path(world.plan.folder), tried=True)
    return world


def test_a_better_candidate_is_promoted_and_the_same_judgments_are_nothing_to_do(
    world: KeepWorld,
) -> None:
    before = world.alias.current
    run = world.run(Night(gain=GAIN))
    assert run.done == "promoted"
    assert run.refusal is None
    assert world.alias.current == run.champion != before
    assert world.alias.previous[-1] == before
    assert [step["step"] for step in run.steps] == [
        "log", "inspect", "train", "gate", "upload", "promote",
    ]  # fmt: skip
    evidence = (world.record(world.alias.current).gate or {})["keep"]
    assert (evidence["attempt"], evidence["level"]) == (1, 0.025)
    assert evidence["p"] < 0.025
    again = world.run(Night(gain=GAIN))
    assert (again.done, again.steps, again.refusal) == ("nothing", (), None)
    assert "those of the last round" in str(again)
    assert json.loads(json.dumps(run.as_dict()))["done"] == "promoted"
    assert max(map(len, str(run).splitlines())) <= 80


def test_a_page_has_the_history_the_latest_step_first(world: KeepWorld, tmp_path: Path) -> None:
    world.run(Night())
    run = world.run(Night(2, gain=GAIN))
    page = tmp_path / "history.html"
    report(run, out=page)
    text = page.read_text()
    assert "History of “m”" in text
    assert f"“m” is set to {run.champion}" in text
    steps = [text.index(f'<td class="short">{step}</td>') for step in ("promote", "train", "log")]
    assert steps == sorted(steps)
    assert text.count('<td class="short">gate</td>') == 2


def test_a_candidate_that_is_no_better_is_refused(world: KeepWorld) -> None:
    before = world.alias
    run = world.run(Night())
    assert run.done == "refused"
    assert isinstance(run.refusal, Refused)
    assert "attempt 1 at the level 0.025" in str(run.refusal)
    assert world.alias == before
    assert world.run(Night()).done == "nothing"
    assert "attempt 2 at the level 0.0083" in str(world.run(Night(2)).refusal)


def test_rounds_begin_no_more_often_than_the_plan_says(world: KeepWorld) -> None:
    world.plan = replace(world.plan, every=7)
    world.run(Night())
    world.days = 6.9
    run = world.run(Night(2, gain=GAIN))
    assert (run.done, run.steps) == ("nothing", ())
    assert run.reason.startswith("the next round begins on 20")
    world.days = 7.1
    assert world.run(Night(2, gain=GAIN)).done == "promoted"
    # Features that drifted for all models do not wait.
    troubles = {model: {"drift": "far"} for model in world.alias.models}
    assert world.run(Night(3, troubles=troubles)).steps[0]["step"] == "log"


def test_faults_of_the_data_need_a_person_until_they_are_accepted(world: KeepWorld) -> None:
    fault = Finding("leak", WARNING, "votes", "votes gives the grade away", "leave it out")
    run = world.run(Night(gain=GAIN, findings=(fault,)))
    assert run.done == "person"
    assert isinstance(run.refusal, BadInput)
    assert 'accept = ["leak"]' in str(run.refusal)
    assert world.run(Night(gain=GAIN, findings=(fault,))).done == "person"
    world.plan = replace(world.plan, data=replace(world.plan.data, accept=("leak",)))
    assert world.run(Night(gain=GAIN, findings=(fault,))).done == "promoted"


def log_for(world: KeepWorld, seed: int = 1, **how: Any) -> Path:
    """A log in which B puts what users want first."""
    experiment = Experiments(world.engine).get("m")
    path = Path(world.plan.folder) / f"{seed}.jsonl"
    return log_of_users(experiment, path, np.random.default_rng(seed), **how)


def test_a_candidate_is_tried_in_the_shadow_then_shown_and_promoted(tried: KeepWorld) -> None:
    before = tried.alias.current
    run = tried.run(Night(gain=GAIN))
    assert (run.done, tried.alias.current) == ("waiting", before)
    experiments = Experiments(tried.engine)
    assert (experiments.get("m").shadow, experiments.get("m").state) == (True, RUNNING)
    tried.days = 3
    few = log_for(tried, 2, clients=20)
    run = tried.run(Night(gain=GAIN, log=few))
    assert [step["step"] for step in run.steps] == ["shadow", "experiment start", "experiment"]
    assert (run.done, experiments.get("m").shadow) == ("waiting", False)
    assert "few-clients" not in str(run)
    tried.days = 4
    run = tried.run(Night(gain=GAIN, log=log_for(tried)))
    assert run.done == "promoted"
    assert tried.alias.current == experiments.get("m").b
    assert experiments.get("m").state == STOPPED
    gate = tried.record(tried.alias.current).gate or {}
    assert {"keep", "experiment"} <= gate.keys()


def shown(tried: KeepWorld) -> KeepWorld:
    """A world whose candidate is shown to users."""
    tried.plan = replace(tried.plan, shadow=None)
    quiet = Path(tried.plan.folder) / "quiet.jsonl"
    quiet.write_text("")
    tried.run(Night(gain=GAIN, log=quiet))
    assert Experiments(tried.engine).get("m").state == RUNNING
    return tried


def test_an_experiment_without_a_decision_ends_after_its_days(tried: KeepWorld) -> None:
    before = shown(tried).alias.current
    log = log_for(tried, 3, clients=200, wanted="d")
    assert tried.run(Night(gain=GAIN, log=log)).done == "waiting"
    tried.days = 21
    run = tried.run(Night(gain=GAIN, log=log))
    assert run.done == "refused"
    assert tried.alias.current == before
    assert Experiments(tried.engine).get("m").state == STOPPED


def test_users_promote_at_the_level_of_the_attempt(tried: KeepWorld) -> None:
    """What is better at 5 % goes on where much of the level is spent."""
    shown(tried)
    log = log_for(tried, clients=600)
    lines = log.read_text().splitlines()
    clicks = [line for line in lines if "action_name" in line]
    searches = [line for line in lines if "action_name" not in line]
    log.write_text("\n".join([*searches, *clicks[::7]]))
    state = Path(tried.plan.folder) / "state.json"
    content = json.loads(state.read_text())
    for attempt, done in ((10**9, "waiting"), (1, "promoted")):
        content["round"]["steps"]["experiment start"]["attempt"] = attempt
        state.write_text(json.dumps(content))
        run = tried.run(Night(gain=GAIN, log=log))
        assert run.done == done
        assert attempt == 1 or run.reason.startswith("better: +0.")


def test_a_champion_that_another_hand_changed_ends_the_round(tried: KeepWorld) -> None:
    shown(tried)
    tried.world.upload(model_of_night(99), "champion", tried.engine)
    run = tried.run(Night(gain=GAIN))
    assert run.done == "refused"
    assert "and the round began with" in str(run.refusal)
    assert Experiments(tried.engine).get("m").state == STOPPED


class Killed(BaseException):
    """The process ends here."""


class KilledAt:
    """Ends the process at the n-th replacement of a file or append to the ledger."""

    def __init__(self, number: int, *, after: bool) -> None:
        self.number, self.after, self.writes = number, after, 0

    def wrapped(self, write: Any) -> Any:
        def killed(*args: Any, **named: Any) -> Any:
            self.writes += 1
            if self.writes == self.number and not self.after:
                raise Killed
            done = write(*args, **named)
            if self.writes == self.number:
                raise Killed
            return done

        return killed


def all_runs(world: KeepWorld, log: Path, engine: Any = None) -> None:
    """What cron does: the runs of some days."""
    for day in (0, 3, 4):
        world.days = day
        if world.run(Night(gain=GAIN, log=log), engine).done not in {"waiting", "nothing"}:
            return


def outcome(world: KeepWorld) -> Any:
    """All that a kill must not change: state, ledger, aliases, and what of experiments lasts."""
    ledger = (Path(world.plan.folder) / "ledger.jsonl").read_text()
    state = world.state
    del state["history"]
    experiment = Experiments(world.engine).find("m")
    lasting = experiment and (experiment.a, experiment.b, experiment.state, experiment.shadow)
    gate = json.dumps([world.record(model).gate for model in sorted(world.alias.models)])
    return state, ledger, world.alias, lasting, json.loads(gate, object_hook=without_times)


QUICK = {("files", "after", "promoted"), ("requests", "before", "withdrawn")}
KILLS = product(["files", "requests"], ["before", "after"], ["promoted", "tried", "withdrawn"])


@pytest.mark.parametrize(
    ("what", "when", "how"),
    [pytest.param(*kill, marks=[] if kill in QUICK else pytest.mark.thorough) for kill in KILLS],
)
def test_a_run_that_is_killed_at_any_write_ends_as_one_that_was_not(
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
    ends = {"promoted": "promoted", "tried": "promoted", "withdrawn": "rolled back"}
    assert expected[0]["finished"]["end"] == ends[how]
    # Every request was tried once, in minutes.
    for number in range(1, 1000, 9 if what == "requests" else 1):
        world.world.cluster.indices = copy.deepcopy(start)
        shutil.rmtree(folder)
        folder.mkdir()
        engine, kill = None, KilledAt(number, after=after)
        with monkeypatch.context() as patched, suppress(Killed):
            if what == "files":
                patched.setattr(state_module, "write_output", kill.wrapped(output.write_output))
                append = output.Journal.append
                patched.setattr(output.Journal, "append", kill.wrapped(append))
            else:
                engine = Unreliable(world.engine, number, Killed, lost_answer=after)
            all_runs(world, log, engine)
            break
        all_runs(world, log)
        assert outcome(world) == expected
    assert number >= (10 if what == "files" else 40)


def test_a_killed_look_is_an_attempt_of_those_that_are_spent(
    world: KeepWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it looks, a run with other judgments has the next attempt."""

    def killed(*_args: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(MadeUpWorkflow, "compare", killed)
        with pytest.raises(Killed):
            world.run(Night(1))
    assert "attempt 2 at the level 0.0083" in str(world.run(Night(2)).refusal)


@pytest.mark.parametrize(
    ("file", "again"),
    [("candidate.json", ["train"]), ("data.parquet", ["log", "inspect", "train"])],
)
@pytest.mark.parametrize("gone", [False, True], ids=["changed", "gone"])
def test_files_that_another_hand_changed_are_made_again(
    world: KeepWorld, monkeypatch: pytest.MonkeyPatch, file: str, again: list[str], *, gone: bool
) -> None:
    def killed(*_args: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(MadeUpWorkflow, "compare", killed)
        with pytest.raises(Killed):
            world.run(Night(gain=GAIN))
    path = Path(world.plan.folder) / file
    before = path.read_bytes()
    if gone:
        path.unlink()
    else:
        path.write_text("another")
    run = world.run(Night(gain=GAIN))
    steps = [step["step"] for step in run.steps]
    assert steps == [*again, "gate", "upload", "promote"]
    assert path.read_bytes() == before
    # What is made again is the same candidate, and so the same attempt.
    assert "attempt 1 at" in run.steps[len(again)]["line"]


def test_the_ledger_takes_the_place_of_the_correction_for_earlier_comparisons(
    world: KeepWorld,
) -> None:
    run = world.run(Night(gain=GAIN, looks=3))
    assert run.done == "promoted"
    evidence = (world.record(world.alias.current).gate or {})["keep"]
    pair = noise(1, 10_000, GAIN).compared
    assert evidence["p"] == pytest.approx(pair.p_holm)


def test_what_is_better_at_5_percent_is_refused_at_the_level_that_is_left(
    world: KeepWorld,
) -> None:
    ledger = Ledger(Path(world.plan.folder) / "ledger.jsonl")
    for number in range(60):
        ledger.attempt(EvidenceStream("m", "judgments.tsv"), str(number))
    before = world.alias
    run = world.run(Night(gain=0.08))
    refusal = str(run.refusal)
    assert "refused: better: ndcg@10 +0.0" in refusal
    assert "attempt 61 at the level 1.3e-05" in refusal
    assert world.alias == before


def test_two_runs_at_once_and_a_lock_that_a_killed_process_left(world: KeepWorld) -> None:
    folder = Path(world.plan.folder)
    complaint = r"process \d+ on .* holds .*lock"
    with locked(folder), pytest.raises(LockHeld, match=complaint), locked(folder):
        pass
    (folder / "lock").write_text("process 1 on elsewhere")
    with locked(folder):
        pass


TOLD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def test_the_notified_command_reads_each_change_once_and_its_failure_breaks_nothing(
    world: KeepWorld, tmp_path: Path
) -> None:
    folder = Path(world.plan.folder)
    changes = tmp_path / "told.jsonl"
    world.plan = plan_in(folder, notify=(sys.executable, "-c", TOLD, str(changes)))
    world.run(Night(gain=GAIN))
    world.run(Night(gain=GAIN))
    (change,) = map(json.loads, changes.read_text().splitlines())
    assert (change["alias"], change["step"], change["end"]) == ("m", "promote", "promoted")
    assert world.alias.current in change["line"]
    world.plan = plan_in(folder, notify=(sys.executable, "-c", "raise SystemExit(1)"))
    run = world.run(Night(2, gain=GAIN))
    assert run.done == "promoted"
    assert run.steps[-1]["line"] == "nobody was told: CalledProcessError"
    assert world.run(Night(2)).steps == ()
