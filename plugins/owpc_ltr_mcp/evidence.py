"""What a model must have before an agent may make it the champion: a gate, or an experiment.

The deployment record has what was found. It counts only for the model that it is of, against the
champion of now, and for all attempts that were made on its queries since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import (
    DeploymentRecords,
    gate_digest,
    is_named_by_content,
)
from owpc_ltr.engine.experiments import RUNNING, Experiments
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.attempts import corrected_for
from owpc_ltr.evaluation.comparison import OF_FOLDS
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Outcome

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

AttemptsOn = Callable[[Mapping[str, Any]], int]
"""How many comparisons were made on the queries of a sketch."""
_UPLOAD = "upload it as challenger with require_gain, or start an experiment"


def promotable(cluster: Cluster, name: str, attempts_on: AttemptsOn) -> str:
    """The model that `models promote NAME` would switch to, by its immutable name.

    Raises Refused unless its deployment record has a gate or an experiment that found it better
    than the champion.
    """
    store = cluster.holding(name).store
    aliases, records = Aliases(cluster.engine, store), DeploymentRecords(cluster.engine, store)
    alias = aliases.find(name)
    model = name if alias is None else alias.challenger
    if model is None:
        # Not left to the job: a challenger may come before it looks.
        raise Refused(f"'{name}' has no challenger to promote: {_UPLOAD}")
    record = records.find(model)
    if record is None:
        raise Refused(f"'{model}' has no deployment record, and is not promoted: {_UPLOAD}")
    alias = aliases.find(record.name)
    champion = None if alias is None else alias.current
    check_digests(cluster, model)
    gate = record.gate or {}
    faults = [*_gate_faults(gate, model, champion, attempts_on)]
    if faults and "experiment" in gate:
        faults = [f"its experiment is not one that found it better than '{champion}'"]
        if _is_of_experiment(cluster, gate["experiment"], model, champion):
            return model
    if faults:
        raise Refused(f"'{model}' is not promoted: {'; '.join(faults)}; {_UPLOAD}")
    return model


def check_digests(cluster: Cluster, model: str) -> None:
    """Refuse a model whose content, name and deployment record are not of one upload."""
    store = cluster.holding(model).store
    stored, record = store.get_model(model), DeploymentRecords(cluster.engine, store).get(model)
    if not (
        is_named_by_content(stored)
        and record.model == stored.name == model
        and record.featureset.hash == stored.featureset.hash
    ):
        raise Refused(
            f"the deployment record of '{model}' is of another model than the one that is stored: "
            "upload the model again"
        )


def check_upload(values: Mapping[str, Any]) -> None:
    """Refuse an upload that would switch an alias without a gain over its champion."""
    if values.get("role", "champion") != "champion":
        return
    # The test by both kinds of labels is corrected for earlier attempts by `promotable` alone.
    gated = "require_gain" in values and "proxy_labels" not in values
    if not gated or values.get("baseline", "champion") != "champion":
        raise Refused(
            "a champion is what users get: give require_gain and judged queries, with the champion "
            "as baseline and without proxy_labels, or upload as challenger and promote it"
        )


def _gate_faults(
    gate: Mapping[str, Any], model: str, champion: str | None, attempts_on: AttemptsOn
) -> Iterator[str]:
    """Why a gate's record does not allow the promotion."""
    try:
        content = {key: part for key, part in gate.items() if key != "experiment"}
        if not content:
            yield "its deployment record has no gate"
            return
        if content["digest"] != gate_digest(content):
            yield "the gate's record was changed since the upload"
        if content["model"] != model:
            yield f"the gate's record is of '{content['model']}'"
        if content["over"] != champion:
            yield f"the gate compared it with '{content['over']}', and the champion is '{champion}'"
        outcome = content["verdict"]["outcome"]
        if outcome != Outcome.BETTER or content["passed"] is not True:
            yield f"the gate's verdict is '{outcome}'"
        powered = content.get("powered")
        figures = powered["by_both"] if powered else content["comparison"]
        p = float(figures["p"] if powered else figures["p_permutation"])
        attempts = max(1, attempts_on(content["queries"]))
        factor = corrected_for(attempts - 1) * (OF_FOLDS if content["split"] == "folds" else 1.0)
        if not (p * factor < LEVEL and float(figures["low"]) > 0):
            yield (
                f"after {attempts} attempts on its queries p = {p:.3g} counts {factor:.1f} times, "
                f"and must be below {LEVEL:g}: judge new queries"
            )
    except (KeyError, TypeError, ValueError) as error:
        yield f"the gate's record is damaged ({type(error).__name__})"


def _is_of_experiment(cluster: Cluster, evidence: Any, model: str, champion: str | None) -> bool:
    """Whether an experiment of the cluster has found the model better than the champion."""
    try:
        experiment = Experiments(cluster.engine).find(evidence["name"])
        return (
            experiment is not None
            and experiment.state != RUNNING
            and (experiment.a, experiment.b) == (champion, model)
            and experiment.result == evidence["result"]
            and evidence["result"]["verdict"]["outcome"] == Outcome.BETTER
        )
    except (KeyError, TypeError):
        return False
