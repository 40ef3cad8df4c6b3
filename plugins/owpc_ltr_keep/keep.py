"""`keep`: one run of the loop without a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.plain_text import ShortRepr, wrapped_text
from owpc_ltr.signatures import Progress, Reads, job, silent
from owpc_ltr_keep.notification import notify
from owpc_ltr_keep.state import KeepState, KeepStep, locked, utc_now

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr_keep.plan import KeepPlan
    from owpc_ltr_keep.workflow import Workflow


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
        return {
            "alias": self.alias,
            "champion": self.champion,
            "done": self.done,
            "reason": self.reason,
            "steps": list(self.steps),
        }

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
    from owpc_ltr_keep.plan import read_plan
    from owpc_ltr_keep.workflow import Workflow

    contents = read_plan(plan)
    with locked(Path(contents.folder)):
        run = run_once(contents, Workflow(contents, cluster, progress), utc_now)
        write_report(run, report)
    return run


def run_once(plan: KeepPlan, workflow: Workflow, clock: Callable[[], datetime]) -> KeepRun:
    """One run, in a folder that is locked."""
    from owpc_ltr_keep.ledger import Ledger
    from owpc_ltr_keep.rounds import Round
    from owpc_ltr_keep.watches import watch

    folder = Path(plan.folder)
    state = KeepState(folder / "state.json", clock)
    step, drifted = watch(workflow, state)
    reason, done = "", "nothing"
    if step is not None:
        state.record("watch", step, closes=step.end == "rolled back")
        reason, done = step.line, step.end or "nothing"
        _tell(plan, state)
    else:
        reason = _begin(workflow, state, drifted)
        for made in Round(workflow, state, Ledger(folder / "ledger.jsonl")).advance():
            reason, done = made.line, made.end or "waiting"
    if drifted is not None and done in {"nothing", "refused"}:
        reason = f"the features of {drifted} drifted, and nothing replaces it: {reason}"
        step = KeepStep(reason, end="person", change=state.is_new(drifted))
        state.record("watch", step, closes=False)
        done = "person"
    elif done == "nothing" and state.finished.get("end") == "person":
        done = "person"
    _tell(plan, state)
    alias = workflow.alias()
    current = None if alias is None else alias.current
    return KeepRun(
        plan.alias, current, done, reason=reason, steps=tuple(state.this_run),
        history=tuple(state.history),
    )  # fmt: skip


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


def _tell(plan: KeepPlan, state: KeepState) -> None:
    """Tell of each change, after a kill perhaps twice; a failure is kept in the history."""
    while state.unsent:
        failure = notify(plan.notify, {"alias": plan.alias, **state.unsent[0]})
        state.unsent = state.unsent[1:]
        if failure is None:
            state.save()
        else:
            state.record("notify", KeepStep(failure), closes=False)
