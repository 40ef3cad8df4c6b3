"""A round: watch the model in use, then go from judgments to a model that is promoted or refused.

What is under way stands in the cluster: a challenger, and its experiment. A run that was killed
before that begins its round anew; the feature log resumes by itself, and the same candidate on the
same queries is the same attempt.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.engine.experiments import RUNNING, STOPPED, Experiment
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr_keep.state import SKEW, KeepRound, KeepState, KeepStep, as_text, moment

if TYPE_CHECKING:
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
            began, every = moment(last.began), timedelta(days=self._plan.every)
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
        accepted = self._plan.data.accept
        faults = [fault for fault in self._workflow.findings() if fault.check not in accepted]
        if faults:
            checks = json.dumps(sorted({*accepted, *(fault.check for fault in faults)}))
            line = f"{faults[0].line}; or accept it: [data] accept = {checks}"
            return self._step("inspect", line, "person")
        self._made("train", self._workflow.train())
        return self._challenge(alias)

    def _challenge(self, alias: Alias) -> KeepStep:
        """Compare the candidate, as far as judgments can, and let it challenge the champion."""
        evidence, users_decide = None, self._plan.experiment is not None
        if not self._plan.data.ubi:
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
        started = moment(experiment.started)
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
        if status is None and self._now() < moment(experiment.started) + _EMPTY_LOG:
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
