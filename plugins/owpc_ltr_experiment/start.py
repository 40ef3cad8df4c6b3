"""`experiment start`: two rankers are frozen, and compared until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from owpc_ltr.engine.deployment.alias import CHAMPION, Aliases, deployed
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord
from owpc_ltr.engine.evidence import now
from owpc_ltr.engine.experiments import QUERY, Experiment, Experiments
from owpc_ltr.engine.options import SearchIndex
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.names import check_name, split_immutable
from owpc_ltr.signatures import Help, job

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

PAGE = 10


@job(changes_cluster=True)
def experiment_start(
    cluster: Cluster,
    name: Annotated[str, Help("What searches and clicks call the experiment.", metavar="NAME")],
    *,
    a: Annotated[
        str,
        Help(
            "What users have: an alias, NAME:challenger, NAME-HASH, or query, the query alone.",
            metavar="RANKER",
        ),
    ],
    b: Annotated[str, Help("What is tried: the same.", metavar="RANKER")],
    index: SearchIndex = None,
    page: Annotated[int, Help("Results on a page.", min=1, max=100)] = PAGE,
    shadow: Annotated[bool, Help("Compute B for each search, and do not show it.")] = False,
) -> Experiment:
    """Freeze two rankers to compare them by the clicks of users.

    Aliases are resolved now: who uploads later does not change the experiment. Searches name it
    (`ext.owpc_ltr.experiment`) at the gateway of `serve`, or applications merge both lists with
    `interleave`.

    Raises UsageError where both are the same model, BadInput where they cannot be shown for the
    same searches, Refused where an experiment of this name runs.
    """
    check_name("search experiment", name)
    models = [QUERY if ranker == QUERY else cluster.uploaded(ranker)[1] for ranker in (a, b)]
    contents = [(split_immutable(model) or ("", model))[1] for model in models]
    if contents[0] == contents[1]:
        both = " and ".join(dict.fromkeys(models))
        raise UsageError(f"`a` and `b` are the same ranker ({both}): name two")
    records = [None if model == QUERY else cluster.models.deployment(model) for model in models]
    sides = [deployed(record) for record in records if record is not None]
    experiment = Experiment(
        name,
        models[0],
        models[1],
        index=_common_index(cluster, models, records, index),
        started=now(),
        alias=_alias(cluster, models[0], records[0]),
        page=page,
        shadow=shadow,
        searches={side.name: [side.query, side.window] for side in sides if side.query is not None},
    )
    Experiments(cluster.engine).start(experiment)
    return experiment


def _common_index(
    cluster: Cluster,
    models: list[str],
    records: list[DeploymentRecord | None],
    index: str | None,
) -> str:
    """The index of both. Raises BadInput where no search can be ranked by both."""
    a, b = records
    if a is not None and b is not None:
        more = sorted({*b.featureset.params} - {*a.featureset.params})
        if more:
            raise BadInput(
                f"'{b.model}' needs {', '.join(more)} of a search, which '{a.model}' does without: "
                "searches for A cannot be ranked by B; train B on features of the same parameters"
            )
        if index is None and a.index != b.index:
            raise BadInput(
                f"'{a.model}' is for the index '{a.index}', '{b.model}' for '{b.index}': name the "
                f"one that users search with `index`"
            )
    proved = [record.model for record in records if record is not None]
    ranked = [model for model in models if model != QUERY]
    return cluster.index_of((proved or ranked)[0], index)


def _alias(cluster: Cluster, model: str, record: DeploymentRecord | None) -> str | None:
    """The alias that is set to A, if one is: what `stop` may switch to B."""
    if record is None:
        return None
    aliases = Aliases(cluster.engine, cluster.holding(model).store)
    alias = aliases.find(record.name)
    return alias.name if alias is not None and alias.model_of(CHAMPION) == model else None
