"""`keep`: one run of the loop without a person, and who is told how it ended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Table, wrapped_text
from owpc_ltr.engine.client.servers import Server
from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.engine.experiments import RUNNING, STOPPED, Experiment
from owpc_ltr.errors import (
    BadInput,
    EngineUnavailable,
    OwpcLtrError,
    Refused,
    UsageError,
    give_warning,
    reason_of,
)
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.host.project import PROJECT_FILE
from owpc_ltr.host.report_parts import ReportPart, ReportSection, ReportVerdict, capital
from owpc_ltr.redaction import Secret
from owpc_ltr.signatures import Progress, Reads, job, silent
from owpc_ltr.text import ShortRepr
from owpc_ltr_keep.state import (
    SKEW,
    KeepRound,
    KeepState,
    KeepStep,
    as_text,
    locked_folder,
    parse_time,
)

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr_keep.plan import KeepNotify, KeepPlan
    from owpc_ltr_keep.workflow import Workflow


BROKEN_LOGS = frozenset({"sample-ratio", "lost-clicks"})
"""Checks of an experiment that say that its log is not to be believed."""
_EMPTY_LOG = timedelta(days=1)
"""How long an experiment may have no search in its log."""


class Round:
    """What one run does, as far as it can today; `record` writes a step to the history.

    Each way to end it is a step whose `end` says how, which is not written yet.
    """

    def __init__(
        self,
        workflow: Workflow,
        state: KeepState,
        clock: Callable[[], datetime],
        record: Callable[[KeepStep], None],
    ) -> None:
        self._workflow, self._state, self._plan = workflow, state, workflow.plan
        self._now, self._record = clock, record

    def advance(self) -> KeepStep:
        """Roll back, or make the steps that can be made. Raises what any of these raise."""
        name, alias = self._plan.alias, self._workflow.alias()
        if alias is None:
            raise BadInput(
                f"there is no model '{name}' to keep: upload the first one (owpc-ltr upload)"
            )
        troubles = self._workflow.troubles(alias.current)
        # Documents are gone for every model.
        before = alias.previous[-1] if alias.previous and "documents" not in troubles else None
        if troubles and before is not None and not self._workflow.troubles(before):
            return self._roll_back(alias, before, troubles)
        concerns = [f"{alias.current}, {watch}: {what}" for watch, what in troubles.items()]
        concerns += filter(None, [self._workflow.unjudged(alias.current)])
        end = self._continue(alias, alias.current if "drift" in troubles else None)
        if concerns and end.end != "promoted":
            line = f"{'; '.join(concerns)} ({end.end}: {end.line})"
            return replace(end, step="watch", line=line, end="person")
        return end

    def _roll_back(self, alias: Alias, before: str, troubles: dict[str, str]) -> KeepStep:
        experiment, model = self._workflow.experiment(), alias.current
        if experiment is not None and (experiment.a, experiment.state) == (model, RUNNING):
            self._workflow.stop(promote=False)
        if self._workflow.alias() != alias:
            raise Refused(f"'{alias.name}' was switched from {model} meanwhile: run again")
        self._workflow.roll_back()
        reason = "; ".join(f"{watch}: {what}" for watch, what in troubles.items())
        line = f"'{alias.name}' is set back to {before} from {model}: {reason}"
        return self._end("watch", "rolled back", line)

    def _continue(self, alias: Alias, drifted: str | None) -> KeepStep:
        """Go on with a challenger that users decide about, or begin a round if there is reason."""
        last, now = self._state.round, self._now()
        candidate = None if last is None or last.end else last.model
        if self._plan.experiment is not None:
            experiment = self._workflow.experiment()
            if experiment is not None and (
                experiment.b == candidate
                # In a new folder it is found by this alone.
                or (experiment.state != STOPPED and experiment.b in alias.models)
            ):
                return self._try(experiment, alias)
        if candidate == alias.current:
            return self._promoted(alias)
        if last is not None and last.end and drifted is None:
            began, every = parse_time(last.began), timedelta(days=self._plan.every)
            # A round that begins later than now is of a clock that was wrong.
            if began <= now < began + every:
                line = f"the next round begins on {began + every:%Y-%m-%d} at the earliest"
                return self._step("round", line, "nothing")
        inputs = self._workflow.inputs(drifted)
        if last is not None and last.end and last.inputs == inputs:
            same = "judgments, feature set and plan are those of the last round"
            return self._step("round", f"{same}: {last.line}", "nothing")
        self._state.round = KeepRound(began=as_text(now), inputs=inputs)
        return self._begin(alias)

    def _begin(self, alias: Alias) -> KeepStep:
        """From judgments to a candidate."""
        self._made("log", self._workflow.log())
        accepted = self._plan.accept
        faults = [fault for fault in self._workflow.findings() if fault.check not in accepted]
        if faults:
            checks = json.dumps(sorted({*accepted, *(fault.check for fault in faults)}))
            line = f"{faults[0].line}; or accept it: [keep] accept = {checks}"
            return self._step("inspect", line, "person")
        self._made("train", self._workflow.train())
        return self._challenge(alias)

    def _challenge(self, alias: Alias) -> KeepStep:
        """Compare the candidate, as far as judgments can, and let it challenge the champion."""
        evidence, users_decide = None, self._plan.experiment is not None
        if not self._plan.ubi:
            outcome, line, evidence = self._workflow.compare(alias)
            if outcome is Outcome.CANNOT_TELL and not users_decide:
                return self._step("compare", line, "person")
            if outcome not in {Outcome.BETTER, Outcome.CANNOT_TELL}:
                return self._end("compare", "refused", line)
            self._made("compare", line)
        try:
            model = self._workflow.upload()
        except Refused as refusal:
            return self._end("upload", "refused", str(refusal))
        self._state.round = replace(self._open_round, model=model)
        self._made("upload", f"{model} is the challenger of '{alias.name}'")
        if users_decide:
            return self._try(self._start(model, shadow=self._plan.shadow is not None), alias)
        try:
            self._workflow.promote(model, evidence)
        except Refused as refusal:
            return self._end("promote", "refused", str(refusal))
        return self._promoted(alias)

    def _start(self, model: str, *, shadow: bool) -> Experiment:
        experiment = self._workflow.start(model, shadow=shadow)
        step, shown = ("shadow", "computed, and not shown") if shadow else ("experiment", "shown")
        self._made(step, f"{model} is {shown}, beside {experiment.a}")
        return experiment

    def _try(self, experiment: Experiment, alias: Alias) -> KeepStep:
        """What users decide about the challenger, as far as days and clicks have come."""
        step, now = "shadow" if experiment.shadow else "experiment", self._now()
        started = parse_time(experiment.started)
        if started > now + SKEW:
            raise BadInput(
                f"the experiment '{experiment.name}' started at {experiment.started}, and it is "
                f"{as_text(now)} now: set the clock of this machine, or stop what another clock "
                f"has started: owpc-ltr experiment stop {experiment.name}"
            )
        if alias.current not in {experiment.a, experiment.b}:
            line = f"the alias is set to {alias.current}, and the experiment is over {experiment.a}"
            return self._withdraw(step, "refused", line)
        if experiment.state != RUNNING and not experiment.shadow:
            # A promotion that a killed run has begun is finished.
            if self._workflow.stop(promote=True):
                return self._promoted(alias)
            return self._end(step, "refused", "another hand stopped the experiment")
        settings = self._plan.shadow if experiment.shadow else self._plan.experiment
        until = started + timedelta(days=settings.days if settings else 0.0)
        if experiment.shadow and now < until:
            return self._step(step, f"not shown until {until:%Y-%m-%d %H:%M} UTC", "waiting")
        return self._by_clicks(experiment, alias, step, until)

    def _by_clicks(
        self, experiment: Experiment, alias: Alias, step: str, until: datetime
    ) -> KeepStep:
        """What the clicks so far mean; in the shadow, only whether anything speaks against B."""
        status = trouble = None
        try:
            status = self._workflow.status()
            trouble = self._trouble(status)
        except BadInput as error:
            trouble = str(error)
        if status is None and self._now() < parse_time(experiment.started) + _EMPTY_LOG:
            return self._step(step, str(trouble), "waiting")
        if status is None or trouble is not None:
            return self._withdraw(step, "rolled back", f"{experiment.b} is withdrawn: {trouble}")
        if experiment.shadow:
            self._made(step, f"rank agreement with {experiment.a} (tau): {status.tau or 0:.2f}")
            self._workflow.stop(promote=False)
            return self._try(self._start(experiment.b, shadow=False), alias)
        result = status.result
        level = self._workflow.level(experiment)
        is_better = result.verdict.outcome is Outcome.BETTER and result.low_at(level) > 0
        if is_better and self._workflow.stop(promote=True):
            return self._promoted(alias)
        line = (
            f"{result.verdict}: {result.mean:+.4f} clicks a client of {result.n_clients:,}, at the "
            f"level {level:.2g}"
        )
        if self._now() < until and result.verdict.outcome is not Outcome.NO_DIFFERENCE:
            return self._step(step, f"{line}; until {until:%Y-%m-%d}", "waiting")
        return self._withdraw(step, "refused", line)

    def _trouble(self, status: Any) -> str | None:
        """Why users should not see B any longer, or its log is not to be believed."""
        result = status.result
        clients = status.bots + (0 if result is None else result.n_clients)
        if status.bots > self._plan.watch.max_bots * clients:
            return f"{status.bots:,} of {clients:,} clients are bots"
        for warning in () if result is None else result.verdict.warnings:
            if warning.check in BROKEN_LOGS:
                return str(warning.line)
        if result is not None and result.verdict.outcome is Outcome.WORSE:
            return f"worse: {result.mean:+.4f} clicks a client"
        return str(status.warnings[0].line) if status.warnings else None

    def _withdraw(self, step: str, end: str, line: str) -> KeepStep:
        self._workflow.stop(promote=False)
        return self._end(step, end, line)

    def _promoted(self, alias: Alias) -> KeepStep:
        new = self._workflow.alias() or alias
        before = new.previous[-1] if new.previous else alias.current
        line = f"'{alias.name}' is set to {new.current}; it was set to {before}"
        return self._end("promote", "promoted", line)

    @property
    def _open_round(self) -> KeepRound:
        # That of an experiment that was found in a new folder began with it.
        return self._state.round or KeepRound(began=as_text(self._now()), inputs="")

    def _step(self, step: str, line: str, end: str = "") -> KeepStep:
        return KeepStep(time=as_text(self._now()), step=step, line=line, end=end)

    def _made(self, step: str, line: str) -> None:
        self._record(self._step(step, line))

    def _end(self, step: str, end: str, line: str) -> KeepStep:
        """The end of a round, so that none of the same inputs begins again."""
        self._state.round = replace(self._open_round, end=end, line=line)
        return self._step(step, line, end)


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
    plan: Annotated[
        Path | str,
        Reads(
            "The project file, with the plan.",
            metavar="PROJECT.toml",
            absent="cannot read {path}: no such file or directory; check the name, or write one "
            "(owpc-ltr init)",
        ),
    ] = PROJECT_FILE,
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
    _check_address(plan, contents.url, cluster.engine.settings.url)
    clock = partial(datetime.now, UTC)
    try:
        with locked_folder(Path(contents.folder)):
            run = run_once(Workflow(contents, cluster, progress), clock)
    except OwpcLtrError as error:
        # There is no state to write it to: it is damaged, or another run has it.
        step = KeepStep(time=as_text(clock()), step="run", line=str(error), end="failed")
        if failure := notify(contents.notify, contents.alias, step):
            give_warning(failure)
        raise
    write_report(run, report)
    return run


def _check_address(plan: Path | str, url: str | None, connected: str) -> None:
    """Raise UsageError where a plan that was named is for another cluster."""
    from owpc_ltr.engine.client.settings import split_url

    if url is None or Path(plan) == Path(PROJECT_FILE):
        return  # An option, or the environment, has named another one.
    if split_url(url, f"{plan}: url").geturl().rstrip("/") != connected:
        raise UsageError(
            f"{plan} is for the cluster {url}, and this run is connected to {connected}: run it in "
            "the folder of the file, or give it this `url`"
        )


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
        if parse_time(last) > clock() + SKEW:
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
        plan.alias,
        alias.current if alias else None,
        end.end,
        end.line,
        steps=state.history[before:],
        history=state.history,
        failure=failure,
    )


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
                plan.command,
                input=f"{json.dumps(message)}\n".encode(),
                check=True,
                timeout=_SECONDS,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        if plan.webhook is not None:
            _post(plan.webhook, message)
    except OwpcLtrError as error:
        return f"no notification was sent: {error}"
    except (OSError, subprocess.SubprocessError) as error:
        # A command's words may hold secrets, and stand in some errors.
        return f"no notification was sent: {type(error).__name__}"
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
            "keep",
            "History",
            "What was done, and when?",
            "Each step of each run, the latest first. A round goes from judgments to a model that "
            "is promoted or refused.",
            [Table(["time", "step", "result", "end"], run.rows, "Steps")],
        )
    ]
