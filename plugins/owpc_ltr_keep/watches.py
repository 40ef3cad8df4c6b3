"""Watches: at each run the alias's model is checked, and rolled back at once where that helps."""

from __future__ import annotations

from owpc_ltr_experiment.record import RUNNING

from owpc_ltr_keep.state import KeepState, KeepStep
from owpc_ltr_keep.workflow import Workflow


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
