"""`keep`: one run of the loop without a person: watch, make the steps of a round, tell of changes.

At each run the alias's model is checked, and rolled back at once where that helps.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import urllib3

from owpc_ltr.engine.experiments import RUNNING
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.host.report_parts import ReportPart, ReportSection, ReportVerdict, Table, capital
from owpc_ltr.signatures import Progress, Reads, job, silent
from owpc_ltr.text import ShortRepr, wrapped_text
from owpc_ltr_keep.state import KeepState, KeepStep, locked

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr_keep.plan import KeepNotify, Workflow

_SECONDS = 30.0
"""For a command, or a webhook, to take a change."""


@dataclass(frozen=True, repr=False)
class KeepRun(ShortRepr):
    """What one run did: `done` in a word, why, its steps, a line each, and the plan's history.

    `done` is `promoted`, `nothing` (to do), `waiting` (for users), `refused`, `rolled back` or
    `person` (a person is needed). `champion` is the alias's model after the run.
    """

    alias: str
    champion: str | None
    done: str
    reason: str
    steps: tuple[dict[str, Any], ...]
    history: tuple[dict[str, Any], ...]

    @property
    def refusal(self) -> OwpcLtrError | None:
        """The error of a run after which a person must look, or that refused the candidate."""
        if self.done in {"person", "rolled back"}:
            return BadInput(f"'{self.alias}' needs a person: {self.reason}")
        if self.done == "refused":
            return Refused(f"the candidate for '{self.alias}' was refused: {self.reason}")
        return None

    @property
    def rows(self) -> list[tuple[str, int, str, str, str]]:
        """The history as a table, the latest step first: time, round, step, line, end."""
        return [
            (step["time"], step["round"], step["step"], step["line"], step.get("end", ""))
            for step in reversed(self.history)
        ]

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON, without earlier ones."""
        run = {name: value for name, value in vars(self).items() if name != "history"}
        return {**run, "steps": list(self.steps)}

    def __str__(self) -> str:
        lines = [wrapped_text(f"{step['step']}: {step['line']}") for step in self.steps]
        why = f" ({self.reason})" if self.done == "nothing" and self.reason else ""
        done = f"done: {self.done}{why}; '{self.alias}' is set to {self.champion}"
        return "\n".join([*lines, wrapped_text(done)])


@job(changes_cluster=True)
def keep(
    cluster: Cluster,
    plan: Annotated[Path | str, Reads("The plan (TOML).", metavar="PLAN.toml")],
    *,
    report: ReportPage = None,
    progress: Progress = silent,
) -> KeepRun:
    """Keep a ranker up to date: train, prove, try and promote, or roll back.

    One run checks the model that users have, and rolls it back if it fails a watch. Then it makes
    the steps that the plan asks for: log features, check the data, train, compare with the
    champion, upload, try it in the shadow and in an experiment, promote. It ends where it must wait
    for users, and the next run goes on there, as after a kill. Start it daily, by cron, a timer or
    a workflow.

    The level of tests is spent over all attempts: nights of noise promote nothing. The exit code is
    0 for promoted, waiting and nothing to do, 5 where the candidate was refused, and 3 where a
    person is needed.

    Raises LockHeld where another run of the plan is under way, BadInput for a plan that is wrong.
    """
    from owpc_ltr_keep.plan import Workflow, read_plan

    contents = read_plan(plan)
    with locked(Path(contents.folder)):
        run = run_once(Workflow(contents, cluster, progress), partial(datetime.now, UTC))
        write_report(run, report)
    return run


def run_once(workflow: Workflow, clock: Callable[[], datetime]) -> KeepRun:
    """One run, in a folder that is locked."""
    from owpc_ltr_keep.rounds import Round

    plan = workflow.plan
    state = KeepState(Path(plan.folder) / "state.json", clock)
    step, drifted = watch(workflow, state)
    reason, done = "", "nothing"
    if step is not None:
        state.record("watch", step, closes=step.end == "rolled back")
        reason, done = step.line, step.end or "nothing"
        _tell(workflow, state)
    else:
        reason = _begin(workflow, state, drifted)
        for made_step in Round(workflow, state).advance():
            reason, done = made_step.line, made_step.end or "waiting"
    if drifted is not None and done in {"nothing", "refused"}:
        reason = f"the features of {drifted} drifted, and nothing replaces it: {reason}"
        step = KeepStep(reason, end="person", change=state.is_new(drifted))
        state.record("watch", step, closes=False)
        done = "person"
    elif done == "nothing" and state.finished.get("end") == "person":
        done = "person"
    _tell(workflow, state)
    alias = workflow.alias()
    current = None if alias is None else alias.current
    return KeepRun(
        plan.alias, current, done, reason=reason, steps=tuple(state.this_run),
        history=tuple(state.history),
    )  # fmt: skip


def watch(workflow: Workflow, state: KeepState) -> tuple[KeepStep | None, str | None]:
    """The rollback that was necessary, if one was, and the model that only training can replace.

    A model is rolled back if the one before has none of its troubles. Features that drifted for
    both are logged again by a new round.
    """
    if state.rollback is not None:
        return _roll_back(workflow, state), None
    alias = workflow.alias()
    troubles = {} if alias is None else workflow.troubles(alias.current)
    if alias is None or not troubles:
        if state.is_new(None):
            state.save()
        return None, None
    before = alias.previous[-1] if alias.previous else None
    remaining = troubles if before is None else workflow.troubles(before)
    if troubles.keys().isdisjoint(remaining):
        reason = "; ".join(f"{name}: {what}" for name, what in troubles.items())
        state.rollback = {"from": alias.current, "to": before, "reason": reason}
        state.save()
        return _roll_back(workflow, state), None
    if "drift" in troubles:
        return None, alias.current
    name, what = next(iter(troubles.items()))
    instead = "there is no model before" if before is None else f"so it is for {before}"
    line = f"{alias.current}, {name}: {what}; not rolled back: {instead}"
    step = KeepStep(line, end="person", change=state.is_new(f"{alias.current} {name}"))
    return step, None


def _roll_back(workflow: Workflow, state: KeepState) -> KeepStep:
    """Roll back as decided, from wherever an earlier run was killed."""
    decided = state.rollback or {}
    model, reason = decided["from"], decided["reason"]
    experiment, alias = workflow.experiment(), workflow.alias()
    if experiment is not None and experiment.state == RUNNING and experiment.a == model:
        workflow.stop(promote=False)
    workflow.note(model, "rolled_back", {"reason": reason, "to": decided["to"]})
    if alias is not None and alias.current == model:
        workflow.roll_back()
    state.rollback = None
    line = f"'{workflow.plan.alias}' is set back to {decided['to']} from {model}: {reason}"
    return KeepStep(line, end="rolled back", change=True)


def _begin(workflow: Workflow, state: KeepState, drifted: str | None) -> str:
    """Begin a round, unless one has come to a candidate; why there is nothing to do, if so."""
    if state.facts("gate") is not None:
        return ""
    alias = workflow.alias()
    if alias is None:
        raise BadInput(
            f"there is no model '{workflow.plan.alias}' to keep: upload the first one "
            "(owpc-ltr upload)"
        )
    if state.round is None and state.finished.get("end") in {"promoted", "refused"}:
        due = datetime.fromisoformat(str(state.began)) + timedelta(days=workflow.plan.every)
        if drifted is None and state.now() < due:
            return f"the next round begins on {due:%Y-%m-%d} at the earliest"
    inputs = workflow.inputs(drifted)
    if state.round is not None and state.round["inputs"] == inputs:
        return ""
    if state.finished.get("inputs") == inputs:
        same = "judgments, feature set and plan are those of the last round"
        return f"{same}: {state.finished['line']}"
    state.begin(inputs, alias.current)
    return ""


def _tell(workflow: Workflow, state: KeepState) -> None:
    """Tell of each change, after a kill perhaps twice; a failure is kept in the history."""
    while state.unsent:
        change = {"alias": workflow.plan.alias, **state.unsent[0]}
        failure = notify(workflow.plan.notify, change)
        state.unsent = state.unsent[1:]
        if failure is None:
            state.save()
        else:
            state.record("notify", KeepStep(failure), closes=False)


def notify(plan: KeepNotify, change: Mapping[str, Any]) -> str | None:
    """Tell a command and a webhook of a change; why that failed, if it did."""
    try:
        if plan.command:
            line = f"{json.dumps(change)}\n".encode()
            subprocess.run(  # noqa: S603 - the plan's own command, without a shell
                plan.command, input=line, check=True, timeout=_SECONDS,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        if plan.webhook is not None:
            _post(plan.webhook, change)
    except (OSError, ValueError, subprocess.SubprocessError, urllib3.exceptions.HTTPError) as error:
        # Addresses of webhooks are secrets, and stand in some errors.
        return f"nobody was told: {type(error).__name__}"
    return None


def _post(variable: str, change: Mapping[str, Any]) -> None:
    """Send JSON to the address in an environment variable, with `text` as chats want it."""
    address = os.environ.get(variable, "")
    if not address.startswith(("https://", "http://")):
        raise ValueError(variable)
    body = {"text": change["line"], **change}
    answer = urllib3.request("POST", address, json=body, timeout=_SECONDS, retries=False)
    if answer.status >= 300:
        raise OSError(answer.status)


def report_part() -> ReportPart:
    """What a report says of a run: how it ended, and the plan's history."""
    return ReportPart(KeepRun, _report_sections, _report_verdict)


def _report_verdict(run: KeepRun) -> ReportVerdict:
    moods = {"promoted": "better", "rolled back": "worse", "person": "worse"}
    titles = {"person": "A person is needed", "nothing": "Nothing to do"}
    reason = f". {capital(run.reason)}" if run.reason else ""
    return ReportVerdict(
        moods.get(run.done, "neutral"),
        titles.get(run.done, capital(run.done)),
        f"“{run.alias}” is set to {run.champion}{reason}.",
        f"History of “{run.alias}”",
    )


def _report_sections(run: KeepRun) -> list[ReportSection]:
    return [
        ReportSection(
            "keep", "History", "What was done, and when?",
            "Each step of each round, the latest first. A round goes from judgments to a model "
            "that is promoted or refused.",
            [Table("Steps", ["time", "round", "step", "result", "end"], run.rows)],
        )
    ]  # fmt: skip
