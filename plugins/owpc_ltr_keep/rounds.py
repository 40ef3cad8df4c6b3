"""A round: the steps from judgments to a promoted model, each of which may be made again.

A step that was killed before its state was written is made again by the next run, and does the
same: files are replaced, a stored model has the name of its content, an attempt is the one that was
written down, an experiment that runs is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from owpc_ltr_experiment.record import RUNNING, Experiment
from owpc_ltr_experiment.sequence import half_width
from owpc_ltr_experiment.status import ExperimentStatus
from owpc_ltr_experiment.verdict import ExperimentResult

from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.looks import corrected_for
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr_keep.ledger import Attempt, EvidenceStream, Ledger
from owpc_ltr_keep.plan import KeepPlan
from owpc_ltr_keep.state import KeepState, KeepStep
from owpc_ltr_keep.workflow import CANDIDATE, CHAMPION, Workflow, file_digest

BROKEN_LOGS = frozenset({"sample-ratio", "lost-clicks"})
"""Checks of an experiment that say that its log is not to be believed."""
_EMPTY_LOG_DAYS = 1.0
"""How long an experiment may have no search in its log."""


class Round:
    """The steps of a plan, of which `state` says what is done."""

    def __init__(self, workflow: Workflow, state: KeepState, ledger: Ledger) -> None:
        self._workflow, self._state, self._ledger = workflow, state, ledger
        self._plan: KeepPlan = workflow.plan

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
        steps = {
            "log": self._log,
            "inspect": self._inspect,
            "train": self._train,
            "gate": self._gate,
            "upload": self._upload,
        }
        if self._plan.shadow is not None:
            steps |= {"shadow start": self._shadow_start, "shadow": self._shadow}
        if self._plan.experiment is None:
            return {**steps, "promote": self._promote}
        return {**steps, "experiment start": self._start, "experiment": self._experiment}

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

    def _log(self) -> KeepStep:
        line = self._workflow.log()
        return KeepStep(line, {"sha256": file_digest(self._workflow.files["log"])})

    def _inspect(self) -> KeepStep:
        accepted = self._plan.data.accept
        faults = [one for one in self._workflow.findings() if one.check not in accepted]
        if not faults:
            return KeepStep("the data have no fault that is not accepted")
        checks = ", ".join(f'"{check}"' for check in dict.fromkeys(one.check for one in faults))
        line = f"{faults[0].line}; or accept it: [data] accept = [{checks}]"
        return KeepStep(line, end="person", change=True)

    def _train(self) -> KeepStep:
        line = self._workflow.train()
        return KeepStep(line, {"sha256": file_digest(self._workflow.files["train"])})

    def _gate(self) -> KeepStep:
        """Compare on held-out queries, at the level that is left for this attempt."""
        queries = self._workflow.held_out(self._champion)
        stream = EvidenceStream(self._plan.alias, self._workflow.source, queries)
        of = [self._fact("log", "sha256"), self._fact("train", "sha256"), self._champion]
        try:
            attempt = self._ledger.attempt(stream, " ".join(of))
        except BadInput as error:
            return KeepStep(str(error), end="person", change=True)
        found = self._workflow.compare(self._champion, attempt.resamples)
        pair, verdict = found.pair(CANDIDATE, CHAMPION), found.verdict(CANDIDATE, CHAMPION)
        # The ledger's level takes the place of the correction for earlier comparisons.
        p = pair.p_holm / corrected_for(found.looks)
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
        alias = self._workflow.alias()
        if alias is not None and alias.current != model:
            self._workflow.promote(model)
        return self._promoted(model)

    def _promoted(self, model: str) -> KeepStep:
        line = f"'{self._plan.alias}' is set to {model}, before {self._champion}"
        return KeepStep(line, end="promoted", change=True)

    def _begin(self, *, shadow: bool) -> KeepStep:
        """Start an experiment, or take over the one that a killed run has started."""
        model, running = self._fact("upload", "model"), self._workflow.experiment()
        if running is None or (running.b, running.shadow, running.state) != (
            model, shadow, RUNNING,
        ):  # fmt: skip
            running = self._workflow.start(model, shadow=shadow)
        what = "is computed, and not shown" if shadow else "is shown to users, interleaved"
        return KeepStep(f"{model} {what}", {"started": running.started}, change=True)

    def _shadow_start(self) -> KeepStep:
        return self._begin(shadow=True)

    def _shadow(self) -> KeepStep:
        """Wait for its days to end, and refuse a candidate that is slow."""
        assert self._plan.shadow is not None  # noqa: S101 - told to the type checker
        ends = self._ends("shadow start", self._plan.shadow.days)
        if self._state.now() < ends:
            return KeepStep(f"not shown until {ends:%Y-%m-%d %H:%M} UTC", waits=True)
        experiment = self._workflow.experiment()
        if experiment is None or experiment.state != RUNNING:
            # A run that was killed after it stopped it, or another hand.
            return KeepStep("the shadow has ended")
        status = self._look("shadow start")
        if isinstance(status, KeepStep):
            return status
        self._workflow.stop(promote=False)
        if status.warnings:
            return KeepStep(status.warnings[0].line, end="refused", change=True)
        tau = (status.shadow or {}).get("tau")
        return KeepStep(f"rank agreement with {self._champion} (tau): {tau or 0:.2f}")

    def _start(self) -> KeepStep:
        """Write the attempt down before anyone can look at its result."""
        model = self._fact("upload", "model")
        stream = EvidenceStream(self._plan.alias, f"experiment {self._plan.experiment_name}")
        attempt = self._ledger.attempt(stream, f"{self._state.rounds} {model} {self._champion}")
        step = self._begin(shadow=False)
        return KeepStep(step.line, {**step.facts, "attempt": attempt.number}, change=True)

    def _experiment(self) -> KeepStep:
        """What the clicks say: wait, promote, or stop."""
        model, experiment = self._fact("upload", "model"), self._workflow.experiment()
        if experiment is None or experiment.b != model:
            return KeepStep("another experiment has taken its name", end="refused", change=True)
        if experiment.state != RUNNING:
            return self._finished(experiment, model)
        status = self._look("experiment start")
        if isinstance(status, KeepStep):
            return status
        trouble = self._trouble(status)
        if trouble is not None:
            return self._withdrawn(trouble)
        return self._decided(experiment, status.result)

    def _decided(self, experiment: Experiment, result: ExperimentResult | None) -> KeepStep:
        """Promote, wait, or stop, by the interval at the attempt's level."""
        assert result is not None  # noqa: S101 - of an experiment that is shown
        assert self._plan.experiment is not None  # noqa: S101 - told to the type checker
        attempt = Attempt(int(self._fact("experiment start", "attempt")))
        if result.verdict.outcome is Outcome.BETTER and above_zero(result, experiment, attempt):
            self._workflow.stop(promote=True)
            return self._promoted(experiment.b)
        ends = self._ends("experiment start", self._plan.experiment.days)
        line = (
            f"{result.verdict}: {result.mean:+.4f} clicks a client of {result.n_clients:,}, "
            f"attempt {attempt.number} at the level {attempt.level:.2g}"
        )
        if self._state.now() < ends and result.verdict.outcome is not Outcome.NO_DIFFERENCE:
            return KeepStep(f"{line}; until {ends:%Y-%m-%d}", waits=True)
        self._workflow.stop(promote=False)
        return KeepStep(line, end="refused", change=True)

    def _look(self, start: str) -> ExperimentStatus | KeepStep:
        """What the log says; a log that stays empty ends the experiment."""
        try:
            return self._workflow.status()
        except BadInput as error:
            if self._state.now() < self._ends(start, _EMPTY_LOG_DAYS):
                return KeepStep(f"no search is logged yet: {error}", waits=True)
            return self._withdrawn(str(error))

    def _withdrawn(self, reason: str) -> KeepStep:
        """Stop the experiment at once, with the reason in the candidate's deployment record."""
        model = self._fact("upload", "model")
        self._workflow.note(model, "rolled_back", {"reason": reason, "to": self._champion})
        self._workflow.stop(promote=False)
        line = f"{model} is not tried any more: {reason}"
        return KeepStep(line, end="rolled back", change=True)

    def _finished(self, experiment: Experiment, model: str) -> KeepStep:
        """The end of an experiment that a killed run, or another hand, has stopped or decided."""
        if self._workflow.stop(promote=True):
            return self._promoted(model)
        return KeepStep(f"the experiment was stopped {experiment.stopped}", end="refused",
                        change=True)  # fmt: skip

    def _trouble(self, status: ExperimentStatus) -> str | None:
        """Why users should not see B any longer, or its log is not to be believed."""
        result = status.result
        clients = status.bots + (0 if result is None else result.n_clients)
        if status.bots > self._plan.watch.max_bots * clients:
            return f"{status.bots:,} of {clients:,} clients are bots"
        for doubt in () if result is None else result.verdict.doubts:
            if doubt.check in BROKEN_LOGS:
                return doubt.line
        if result is not None and result.verdict.outcome is Outcome.WORSE:
            return f"worse: {result.mean:+.4f} clicks a client"
        return status.warnings[0].line if status.warnings else None

    def _ends(self, step: str, days: float) -> datetime:
        return datetime.fromisoformat(self._fact(step, "started")) + timedelta(days=days)


def above_zero(result: ExperimentResult, experiment: Experiment, attempt: Attempt) -> bool:
    """Whether the interval at the attempt's level, which is wider than that at 5 %, is above 0."""
    n, planned = result.n_clients, experiment.planned
    wider = half_width(n, planned, attempt.level) / half_width(n, planned, LEVEL)
    return result.mean - wider * (result.mean - result.low) > 0
