"""`keep`: one run of the loop without a person, and who is told how it ended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Table
from owpc_ltr.engine.client.servers import Server
from owpc_ltr.errors import (
    BadInput,
    EngineUnavailable,
    OwpcLtrError,
    Refused,
    give_warnings,
    reason_of,
)
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.host.report_parts import ReportPart, ReportSection, ReportVerdict, capital
from owpc_ltr.redaction import Secret
from owpc_ltr.signatures import Progress, Reads, job, silent
from owpc_ltr.text import ShortRepr, wrapped_text
from owpc_ltr_keep.rounds import Round
from owpc_ltr_keep.state import SKEW, KeepState, KeepStep, as_text, locked, moment

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr_keep.plan import KeepNotify, KeepPlan
    from owpc_ltr_keep.workflow import Workflow

_SECONDS = 30.0
"""For a command, or a webhook, to take a message."""
_QUIET = frozenset({"nothing", "refused"})
"""Ends of which nobody is told."""


@dataclass(frozen=True, repr=False)
class KeepRun(ShortRepr):
    """What one run did: `done` in a word, why, its steps, a line each, and the plan's history.

    `done` is `promoted`, `nothing` (to do), `waiting` (for users), `refused`, `rolled back`,
    `person` (a person is needed) or `failed`, with the `failure`. `champion` is the alias's model
    after the run, None where that is not known.
    """

    alias: str
    champion: str | None
    done: str
    reason: str
    steps: tuple[KeepStep, ...]
    history: tuple[KeepStep, ...]
    failure: OwpcLtrError | None = None

    @property
    def refusal(self) -> OwpcLtrError | None:
        """The error of a run after which a person must look, or that refused the candidate."""
        if self.done in {"person", "rolled back"}:
            return BadInput(f"'{self.alias}' needs a person: {self.reason}")
        if self.done == "refused":
            return Refused(f"the candidate for '{self.alias}' was refused: {self.reason}")
        return self.failure

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The history as a table, the latest step first: time, step, line, end."""
        return [(step.time, step.step, step.line, step.end) for step in reversed(self.history)]

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON, without earlier ones."""
        left_out = ("history", "failure")
        run = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**run, "steps": [asdict(step) for step in self.steps]}

    def __str__(self) -> str:
        lines = [wrapped_text(f"{step.step}: {step.line}") for step in self.steps]
        why = f" ({self.reason})" if self.done == "nothing" and self.reason else ""
        is_set = f"; '{self.alias}' is set to {self.champion}" if self.champion else ""
        return "\n".join([*lines, wrapped_text(f"done: {self.done}{why}{is_set}")])


@job(changes_cluster=True)
def keep(
    cluster: Cluster,
    plan: Annotated[Path | str, Reads("The plan (TOML).", metavar="PLAN.toml")],
    *,
    report: ReportPage = None,
    progress: Progress = silent,
) -> KeepRun:
    """Keep a ranker up to date: train, compare, try and promote, or roll back.

    One run checks the model that users have, and rolls it back if it fails a watch that the model
    before passes. Then it makes the steps that the plan asks for: log features, check the data,
    train, compare with what users have, upload, try it in the shadow and in an experiment, promote.
    It ends where it must wait for users, and the next run goes on there. Start it daily, by cron, a
    timer or a workflow.

    All attempts count together: nights of noise promote nothing. How a run ended is told to
    whom the plan names, unless there was nothing to do or the candidate was refused. The exit code
    is 0 for promoted, waiting and nothing to do, 5 where the candidate was refused, 3 where a
    person is needed, and 4 where the same again may do.

    Raises BadInput for a plan that is wrong, KeepIsRunning where another run of it is under way.
    """
    from owpc_ltr_keep.plan import read_plan
    from owpc_ltr_keep.workflow import Workflow

    contents = read_plan(plan)
    clock = partial(datetime.now, UTC)
    try:
        with locked(Path(contents.folder)):
            run = run_once(Workflow(contents, cluster, progress), clock)
    except OwpcLtrError as error:
        # There is no state to write it to: it is damaged, or another run has it.
        step = KeepStep(time=as_text(clock()), step="run", line=str(error), end="failed")
        if failure := notify(contents.notify, contents.alias, step):
            give_warnings([failure])
        raise
    write_report(run, report)
    return run


def run_once(workflow: Workflow, clock: Callable[[], datetime]) -> KeepRun:
    """One run, in a folder that is locked. A failure is an end too, and stands in the history."""
    plan, folder = workflow.plan, Path(workflow.plan.folder)
    state = KeepState.read(folder)
    before, failure = len(state.history), None

    def record(step: KeepStep) -> None:
        state.history = (*state.history, step)
        state.save(folder)

    def failed(line: str) -> KeepStep:
        return KeepStep(time=as_text(clock()), step="run", line=line, end="failed")

    if state.running is not None:
        line = f"the run of {state.running} did not end: it was killed, or its machine stopped"
        state.unsent += (failed(line),)
        record(state.unsent[-1])
    state.running = as_text(clock())
    try:
        last = state.history[before - 1].time if before else state.running
        if moment(last) > clock() + SKEW:
            raise BadInput(
                f"the clock went back: the last step is of {last}, and it is {state.running} now: "
                "set the clock of this machine; the next run goes on"
            )
        state.save(folder)
        end = Round(workflow, state, clock, record).advance()
    except OwpcLtrError as error:
        # 5 is for refused candidates alone, and 2 for the command line.
        failure = error if error.exit_code in {3, 4} else BadInput(str(error))
        end = failed(str(error))
    except Exception as error:
        # A bug, whose traceback is shown; but nobody may be looking.
        _finish(plan, state, failed(reason_of(error)))
        raise
    _finish(plan, state, end)
    alias = None
    with suppress(OwpcLtrError):  # what was done is done
        alias = None if failure else workflow.alias()
    return KeepRun(
        plan.alias, alias.current if alias else None, end.end, end.line,
        steps=state.history[before:], history=state.history, failure=failure,
    )  # fmt: skip


def _finish(plan: KeepPlan, state: KeepState, end: KeepStep) -> None:
    """Write how a run ended, and tell of it; who cannot be told is told after the next run."""
    folder, state.running = Path(plan.folder), None
    if end.end != "nothing":
        state.history = (*state.history, end)
    if end.end not in _QUIET:
        state.unsent = (*state.unsent, end)
    state.save(folder)
    while state.unsent:
        failure = notify(plan.notify, plan.alias, state.unsent[0])
        if failure is not None:
            state.history = (*state.history, replace(end, step="notify", line=failure, end=""))
            break
        state.unsent = state.unsent[1:]
    state.save(folder)


def notify(plan: KeepNotify, alias: str, step: KeepStep) -> str | None:
    """Tell a command and a webhook how a run ended; why that failed, if it did."""
    message = {"alias": alias, **asdict(step)}
    try:
        if plan.command:
            subprocess.run(  # noqa: S603 - the plan's own command, without a shell
                plan.command, input=f"{json.dumps(message)}\n".encode(), check=True,
                timeout=_SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        if plan.webhook is not None:
            _post(plan.webhook, message)
    except OwpcLtrError as error:
        return f"nobody was told: {error}"
    except (OSError, subprocess.SubprocessError) as error:
        # A command's words may hold secrets, and stand in some errors.
        return f"nobody was told: {type(error).__name__}"
    return None


def _post(variable: str, message: dict[str, Any]) -> None:
    """Send JSON to the address in an environment variable, with `text` as chats want it."""
    address = Secret(os.environ.get(variable, ""))
    text = f"{message['alias']}: {message['end']}: {message['line']}"
    answer = Server(address, seconds=_SECONDS).post({"text": text, **message})
    if answer.status >= 300:
        raise EngineUnavailable(f"the webhook answers with status {answer.status}")


def report_part() -> ReportPart:
    """What a report says of a run: how it ended, and the plan's history."""
    return ReportPart(KeepRun, _report_sections, _report_verdict)


def _report_verdict(run: KeepRun) -> ReportVerdict:
    moods = {"promoted": "better", "rolled back": "worse", "person": "worse", "failed": "worse"}
    titles = {"person": "A person is needed", "nothing": "Nothing to do"}
    reason = f"{capital(run.reason)}. " if run.reason else ""
    is_set = f"“{run.alias}” is set to {run.champion}." if run.champion else ""
    return ReportVerdict(
        moods.get(run.done, "neutral"),
        titles.get(run.done, capital(run.done)),
        f"{reason}{is_set}",
        f"History of “{run.alias}”",
    )


def _report_sections(run: KeepRun) -> list[ReportSection]:
    return [
        ReportSection(
            "keep", "History", "What was done, and when?",
            "Each step of each run, the latest first. A round goes from judgments to a model that "
            "is promoted or refused.",
            [Table(["time", "step", "result", "end"], run.rows, "Steps")],
        )
    ]  # fmt: skip
