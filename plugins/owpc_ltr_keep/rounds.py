"""A round: the steps from judgments to a promoted model, each of which may be made again.

A step that was killed before its state was written is made again by the next run, and does the
same: files are replaced, a stored model has the name of its content, an attempt is the one that was
written down, an experiment that runs is taken over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from owpc_ltr.engine.experiments import RUNNING, Experiment
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.attempts import corrected_for
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr_keep.plan import CANDIDATE, CHAMPION, Workflow, file_digest
from owpc_ltr_keep.state import Attempt, EvidenceStream, KeepState, KeepStep, Ledger

BROKEN_LOGS = frozenset({"sample-ratio", "lost-clicks"})
"""Checks of an experiment that say that its log is not to be believed."""
_EMPTY_LOG_DAYS = 1.0
"""How long an experiment may have no search in its log."""


class Round:
    """The steps of a plan, of which `state` says what is done."""

    def __init__(self, workflow: Workflow, state: KeepState) -> None:
        self._workflow, self._state, self._plan = workflow, state, workflow.plan
        self._ledger = Ledger(Path(workflow.plan.folder) / "ledger.jsonl")

    def advance(self) -> Iterator[KeepStep]:
        """Make the steps that are left, until one waits or ends the round; each is recorded."""
        if self._state.round is None:
            return
        self._forget_changed_files()
        for name, make in self._steps().items():
            if self._state.facts(name) is not None:
                continue
            step = self._champion_changed() or make()
            self._state.record(name, step)
            yield step
            if step.waits or step.end is not None:
                return

    def _steps(self) -> dict[str, Callable[[], KeepStep]]:
        steps: dict[str, Callable[[], KeepStep]] = {
            "log": partial(self._made, "log", self._workflow.log),
            "inspect": self._inspect,
            "train": partial(self._made, "train", self._workflow.train),
            "gate": self._gate,
            "upload": self._upload,
        }
        shadow, users = self._plan.shadow, self._plan.experiment
        if shadow is not None:
            steps["shadow start"] = partial(self._begin, shadow=True)
            steps["shadow"] = partial(self._try, "shadow start", shadow.days)
        if users is None:
            return {**steps, "promote": self._promote}
        steps["experiment start"] = partial(self._begin, shadow=False)
        steps["experiment"] = partial(self._try, "experiment start", users.days)
        return steps

    @property
    def _champion(self) -> str:
        assert self._state.round is not None  # noqa: S101 - told to the type checker
        return str(self._state.round["champion"])

    def _fact(self, step: str, name: str) -> str:
        return str((self._state.facts(step) or {})[name])

    def _forget_changed_files(self) -> None:
        """Make again what another hand has changed, and all that was made from it."""
        if self._state.round is None or self._state.facts("upload") is not None:
            return
        steps, changed = self._state.round["steps"], False
        for name in self._steps():
            path = self._workflow.files.get(name)
            if name in steps and path is not None:
                changed |= not path.exists() or file_digest(path) != steps[name]["sha256"]
            if changed:
                steps.pop(name, None)

    def _champion_changed(self) -> KeepStep | None:
        """The end of a round whose champion is not the alias's model any more."""
        alias = self._workflow.alias()
        current = None if alias is None else alias.current
        challenger = (self._state.facts("upload") or {}).get("model")
        if current in {self._champion, challenger}:
            return None
        experiment = self._workflow.experiment()
        if experiment is not None and (experiment.b, experiment.state) == (challenger, RUNNING):
            self._workflow.stop(promote=False)
        return KeepStep(
            f"the alias is set to {current or 'no model'}, and the round began with "
            f"{self._champion}: a new round begins with other judgments", end="refused",
        )  # fmt: skip

    def _made(self, name: str, make: Callable[[], str]) -> KeepStep:
        """A step that makes a file."""
        line = make()
        return KeepStep(line, {"sha256": file_digest(self._workflow.files[name])})

    def _inspect(self) -> KeepStep:
        accepted = self._plan.data.accept
        faults = [fault for fault in self._workflow.findings() if fault.check not in accepted]
        if not faults:
            return KeepStep("the data have no fault that is not accepted")
        checks = json.dumps([*dict.fromkeys(fault.check for fault in faults)])
        line = f"{faults[0].line}; or accept it: [data] accept = {checks}"
        return KeepStep(line, end="person", change=True)

    def _gate(self) -> KeepStep:
        """Compare on held-out queries, at the level that is left for this attempt."""
        queries = self._workflow.held_out(self._champion)
        stream = EvidenceStream(self._plan.alias, self._workflow.source, queries)
        files = f"{self._fact('log', 'sha256')} {self._fact('train', 'sha256')}"
        try:
            attempt = self._ledger.attempt(stream, f"{files} {self._champion}")
        except BadInput as error:
            return KeepStep(str(error), end="person", change=True)
        comparison = self._workflow.compare(self._champion, attempt.resamples)
        pair = comparison.pair(CANDIDATE, CHAMPION)
        verdict = comparison.verdict(CANDIDATE, CHAMPION)
        # The ledger's level takes the place of the correction for earlier comparisons.
        p = pair.p_holm / corrected_for(comparison.earlier_comparisons)
        passed = verdict.outcome is Outcome.BETTER and p <= attempt.level
        line = (
            f"{verdict}: {pair.metric} {pair.comparison.mean_difference:+.4f} over "
            f"{self._champion}, p = {p:.2g}, attempt {attempt.number} at the level "
            f"{attempt.level:.2g}"
        )
        facts = {"attempt": attempt.number, "level": attempt.level, "p": p, "line": line}
        return KeepStep(line, facts, end=None if passed else "refused")

    def _upload(self) -> KeepStep:
        try:
            model = self._workflow.upload(self._champion)
        except Refused as refusal:
            return KeepStep(str(refusal), end="refused")
        self._workflow.note(model, "keep", self._state.facts("gate") or {})
        return KeepStep(f"{model} is the challenger of '{self._plan.alias}'", {"model": model})

    def _promote(self) -> KeepStep:
        model = self._fact("upload", "model")
        self._workflow.promote(model)
        return self._promoted(model)

    def _promoted(self, model: str) -> KeepStep:
        line = f"'{self._plan.alias}' is set to {model}, before {self._champion}"
        return KeepStep(line, end="promoted", change=True)

    def _begin(self, *, shadow: bool) -> KeepStep:
        """Start an experiment, or take over the one that a killed run has started.

        The attempt is written down before anyone can look at its result.
        """
        model, facts = self._fact("upload", "model"), dict[str, Any]()
        if not shadow:
            stream = EvidenceStream(self._plan.alias, f"experiment {self._plan.experiment_name}")
            candidate = f"{self._state.rounds} {model} {self._champion}"
            facts["attempt"] = self._ledger.attempt(stream, candidate).number
        running = self._workflow.experiment()
        expected = (model, shadow, RUNNING)
        if running is None or (running.b, running.shadow, running.state) != expected:
            running = self._workflow.start(model, shadow=shadow)
        what = "is computed, and not shown" if shadow else "is shown to users, interleaved"
        return KeepStep(f"{model} {what}", {**facts, "started": running.started}, change=True)

    def _try(self, start: str, days: float) -> KeepStep:
        """What users do: wait, promote, or end it, for a reason that a killed run keeps."""
        decided = (self._state.facts(start) or {}).get("decided")
        experiment, model = self._workflow.experiment(), self._fact("upload", "model")
        if experiment is None or experiment.b != model:
            return KeepStep("another experiment has taken its name", end="refused", change=True)
        if decided is None and experiment.state != RUNNING:
            # A promotion that a killed run began is finished; else another hand has stopped it.
            if self._workflow.stop(promote=True):
                return self._promoted(model)
            return KeepStep("another hand stopped the experiment", end="refused", change=True)
        step = KeepStep(**decided) if decided else self._judged(start, days, experiment)
        if step.waits or step.end == "promoted":
            return step
        self._state.decide(start, step)
        if step.end == "rolled back":
            reason = {"reason": step.line, "to": self._champion}
            self._workflow.note(model, "rolled_back", reason)
        self._workflow.stop(promote=False)
        return step

    def _judged(self, start: str, days: float, experiment: Experiment) -> KeepStep:
        """What the clicks so far mean, at the level of the attempt."""
        started, now = datetime.fromisoformat(self._fact(start, "started")), self._state.now()
        until = started + timedelta(days=days)
        if experiment.shadow and now < until:
            return KeepStep(f"not shown until {until:%Y-%m-%d %H:%M} UTC", waits=True)
        try:
            status = self._workflow.status()
        except BadInput as error:
            if now < started + timedelta(days=_EMPTY_LOG_DAYS):
                return KeepStep(str(error), waits=True)
            return KeepStep(str(error), end="rolled back", change=True)
        trouble, result = self._trouble(status), status.result
        if trouble is not None:
            return KeepStep(trouble, end="rolled back", change=True)
        if result is None:
            tau = (status.shadow or {}).get("tau")
            return KeepStep(f"rank agreement with {self._champion} (tau): {tau or 0:.2f}")
        return self._by_interval(
            Attempt(int(self._fact(start, "attempt"))), until, experiment, result
        )

    def _by_interval(
        self, attempt: Attempt, until: datetime, experiment: Experiment, result: Any
    ) -> KeepStep:
        """Promote where the interval is above 0, else wait until the days are over."""
        verdict = result.verdict
        above_zero = result.low_at(attempt.level) > 0
        if verdict.outcome is Outcome.BETTER and above_zero:
            self._workflow.stop(promote=True)
            return self._promoted(experiment.b)
        line = (
            f"{verdict}: {result.mean:+.4f} clicks a client of {result.n_clients:,}, attempt "
            f"{attempt.number} at the level {attempt.level:.2g}"
        )
        if self._state.now() < until and verdict.outcome is not Outcome.NO_DIFFERENCE:
            return KeepStep(f"{line}; until {until:%Y-%m-%d}", waits=True)
        return KeepStep(line, end="refused", change=True)

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
