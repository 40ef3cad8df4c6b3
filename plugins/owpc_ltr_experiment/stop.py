"""`experiment stop`: end an experiment, and switch the alias to B where B is better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.engine.deployment.alias import Alias, Aliases, SwitchGrounds
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_lifecycle import switch_to
from owpc_ltr.engine.deployment.uploaded_models import switch_message
from owpc_ltr.engine.evidence import parse_evidence
from owpc_ltr.engine.experiments import PROMOTING, QUERY, RUNNING, STOPPED, Experiment, Experiments
from owpc_ltr.engine.ubi import EVENTS_INDEX, QUERIES_INDEX, EventsIndex, QueriesIndex
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.options import AcceptLoss
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.signatures import Help, job
from owpc_ltr.text import ShortRepr
from owpc_ltr_experiment.status import (
    MAX_CLICKS_PER_HOUR,
    Events,
    ExperimentStatus,
    FromUbi,
    MaxClicksPerHour,
    Negligible,
    read_log,
    sides_of,
    status_of,
)

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster


@dataclass(frozen=True, repr=False)
class StoppedExperiment(ShortRepr):
    """An experiment that was stopped, and whether its alias is set to B by it.

    `status` is the look that decided; None where nothing was to be decided, or it was before.
    `by_template` says whether the search template of the alias serves B now.
    """

    experiment: Experiment
    promoted: bool
    status: ExperimentStatus | None = None
    by_template: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The record, and what was done, as JSON."""
        return {
            "experiment": self.experiment.as_dict(),
            "promoted": self.promoted,
            "by_template": self.by_template,
            "status": None if self.status is None else self.status.as_dict(),
        }

    def __str__(self) -> str:
        experiment = self.experiment
        end = f"users have {experiment.in_use} as before"
        if self.promoted:
            end = (
                f"'{experiment.alias}' is set to {experiment.b}; back to {experiment.a}: "
                f"owpc-ltr models rollback {experiment.alias}"
            )
        lines = [] if self.status is None else [str(self.status), ""]
        lines.append(f"experiment '{experiment.name}' is stopped: {end}")
        if self.by_template:
            lines.append(
                f"search template '{experiment.alias}' serves it: its calls stay as they are"
            )
        return "\n".join(lines)


@job(changes_cluster=True)
def experiment_stop(
    cluster: Cluster,
    name: Annotated[str, Help("The name of the experiment.", metavar="NAME")],
    *,
    promote_if: Annotated[
        Literal["better"] | None,
        Help("Switch the alias of A to B, if the verdict is this; else change nothing."),
    ] = None,
    events: Events = (),
    from_ubi: FromUbi = False,
    ubi_queries: QueriesIndex = QUERIES_INDEX,
    ubi_events: EventsIndex = EVENTS_INDEX,
    max_clicks_per_hour: MaxClicksPerHour = MAX_CLICKS_PER_HOUR,
    negligible: Negligible = 0.0,
    accept_loss: AcceptLoss = (),
) -> StoppedExperiment:
    """Stop an experiment, and switch the alias to B if it is better.

    Searches that name a stopped experiment are ranked by the alias, so that applications need no
    change. Where B is to be promoted and the verdict is another, the experiment goes on.

    Raises Refused where B is not better, or the alias is not set to A any more.
    """
    experiments = Experiments(cluster.engine)
    experiment = experiments.get(name)
    if experiment.state == STOPPED:
        return StoppedExperiment(experiment, experiment.result is not None)
    if experiment.state == RUNNING and promote_if is None:
        return StoppedExperiment(experiments.end(experiment), promoted=False)
    status = None
    if experiment.state == RUNNING:
        _check_promotable(cluster, experiment)
        indices = (ubi_queries, ubi_events) if from_ubi else None
        behaviour = read_log(cluster, experiment, events, indices)
        status = status_of(experiment, behaviour, max_clicks_per_hour, negligible, accept_loss)
        status = replace(status, sides=sides_of(cluster, experiment))
        _check_better(experiment, status)
        assert status.result is not None  # noqa: S101 - told to the type checker
        # From here on a run that was killed is finished by the next one, with the same evidence.
        decided = replace(experiment, state=PROMOTING, result=status.evidence().as_dict())
        experiments.change(experiment, decided)
        experiment = decided
    switch = switch_message(cluster, _promote(cluster, experiment), experiment.a)
    return StoppedExperiment(experiments.end(experiment), True, status, switch.by_template)


def _check_better(experiment: Experiment, status: ExperimentStatus) -> None:
    if status.result is None:
        raise Refused(
            f"B of '{experiment.name}' is not shown, and cannot be found better: start an "
            "experiment without `shadow`"
        )
    if status.result.verdict.outcome is not Outcome.BETTER:
        raise Refused(
            f"'{experiment.b}' is not promoted: {status.result.verdict}; the experiment goes on: "
            f"look again later, or stop it without `promote_if`"
        ).with_result(status)
    if status.warnings:
        raise Refused(
            f"'{experiment.b}' is not promoted, though it is better by clicks: "
            f"{status.warnings[0].line}; to have it all the same, stop without "
            f"`promote_if` and promote it: owpc-ltr models promote"
        ).with_result(status)


def _check_promotable(cluster: Cluster, experiment: Experiment) -> None:
    """Refuse what could not be promoted whatever the clicks say."""
    if experiment.alias is None:
        raise UsageError(
            f"no alias was set to A of '{experiment.name}' ({experiment.a}): nothing to switch; "
            f"stop it without `promote_if`"
        )
    if experiment.b == QUERY:
        raise UsageError(
            f"B of '{experiment.name}' is the query alone, to which no alias can be set: stop it "
            f"without `promote_if`, and send searches without a model"
        )
    _check_alias(cluster, experiment)


def _check_alias(cluster: Cluster, experiment: Experiment) -> None:
    """Refuse where the alias is set to a third model."""
    store, _ = cluster.uploaded(experiment.b)
    aliases = Aliases(cluster.engine, store)
    name = str(experiment.alias)
    alias = aliases.find(name)
    current = None if alias is None else alias.current
    if current not in {experiment.a, experiment.b}:
        raise Refused(
            f"alias '{name}' is set to {current or 'no model of this store'} now, and "
            f"'{experiment.name}' compared {experiment.b} with {experiment.a}: start another "
            "experiment"
        )


def _promote(cluster: Cluster, experiment: Experiment) -> Alias:
    """Switch the alias, by the result as evidence."""
    _check_alias(cluster, experiment)
    store, model = cluster.uploaded(experiment.b)
    what = f"the result of the experiment '{experiment.name}'"
    grounds = SwitchGrounds(parse_evidence(dict(experiment.result or {}), what))
    record = DeploymentRecords(cluster.engine, store).get(model)
    return switch_to(cluster.engine, store, record, store.get_model(model), grounds)
