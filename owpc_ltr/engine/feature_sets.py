"""The feature sets of a cluster: pushed, read, listed, deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.options import OnlyIndex
from owpc_ltr.engine.suggested_features import suggest
from owpc_ltr.features.parameters import Params
from owpc_ltr.host.commands import CommandSummary
from owpc_ltr.signatures import NO_FEATURE_SET, Argument, Help, Reads, job

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.stores import Store
    from owpc_ltr.features.feature_set import FeatureSet

_NAME = Help("The name of a feature set.")
Name = Annotated[str, _NAME, Argument.FEATURESET]
_LONGEST = 100


def _pushed(featureset: FeatureSet) -> CommandSummary:
    """A feature set that was stored."""
    names, params = list(featureset.feature_names), list(featureset.params)
    tried_on = (featureset.validation or {})["index"]
    text = (
        f"stored feature set '{featureset.name}': {len(names)} features, all tried on "
        f"'{tried_on}'; params: {', '.join(params)}"
    )
    known = {"featureset": featureset.name, "features": names, "params": params}
    return CommandSummary(text, {**known, "hash": featureset.hash})


def _table(featureset: FeatureSet) -> CommandSummary:
    """The features of a set, one per row; as JSON what `push` accepts."""
    from owpc_ltr.plain_text import text_table

    rows = [
        (str(place), feature.name, ", ".join(feature.params), _shortened(feature.template))
        for place, feature in enumerate(featureset.features, 1)
    ]
    text = text_table(["#", "FEATURE", "PARAMS", "QUERY"], rows)
    return CommandSummary(text, featureset.to_body())


def _deleted(name: str) -> CommandSummary:
    """A feature set that was deleted."""
    return CommandSummary(f"deleted feature set '{name}'", {"deleted": name})


@job(shows=_pushed, changes_cluster=True)
def push(
    cluster: Cluster | FeatureSets,
    featureset: Annotated[
        FeatureSet | Path | str,
        Reads(
            "A feature set, in the LTR plugin's JSON.",
            cli=Path,
            metavar="FILE",
            absent=NO_FEATURE_SET,
        ),
        Argument.NAME,
    ],
    *,
    index: OnlyIndex = None,
    name: Annotated[
        str | None, Help("Its name in the cluster; default: the file's."), Argument.NAME
    ] = None,
    keywords: Annotated[
        str, Help("The query to try every feature with before it is stored.")
    ] = "test",
    params: Params = None,
    allow_unmapped: Annotated[
        bool, Help("Accept templates that name a field which the index does not have.")
    ] = False,
    replace: Annotated[bool, Help("Replace the feature set of this name.")] = False,
    force: Annotated[bool, Help("With --replace: even if uploaded models use it.")] = False,
) -> FeatureSet:
    """Try every feature of a set on the index, then store the set.

    Parameters of the trial are those given, else those of the set's own validation, else the
    keywords. Warns about derived features, which not every model can use in the engine.

    Raises Refused if uploaded models use the set that is replaced, unless `force`; BadInput for a
    field that a template names and the index's mapping does not have, unless `allow_unmapped`: an
    engine would answer that nothing matches.
    """
    from owpc_ltr.engine.cluster import the_index
    from owpc_ltr.engine.deployment.model_lifecycle import refuse_replacing
    from owpc_ltr.engine.stores.feature_set_trial import (
        derived_cautions,
        put_tried,
        refuse_unmapped,
        trial_params,
    )
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.features.feature_set import FeatureSet, load_featureset
    from owpc_ltr.features.parameters import plain_params

    if not isinstance(featureset, FeatureSet):
        featureset = load_featureset(Path(featureset), name)
    elif name is not None:
        featureset = with_changes(featureset, name=name)
    where = the_index(cluster.engine, index)
    tried = trial_params(featureset, keywords, plain_params(params))
    if not allow_unmapped:
        refuse_unmapped(cluster.engine, featureset, where, tried.values)
    validation = {"index": where, "params": tried.values}
    pushed = with_changes(featureset, validation=validation)
    if replace and not force:
        refuse_replacing(cluster.engine, cluster.store, pushed)
    put_tried(cluster.store, pushed, tried, replace=replace)
    give_warnings(derived_cautions(cluster.engine, cluster.store, pushed))
    return pushed


@job
def get(cluster: Cluster | FeatureSets, name: Name) -> FeatureSet:
    """The feature set of this name. Raises BadInput if there is none."""
    from owpc_ltr.engine.stores import naming_close_sets

    store = cluster.holding_set(name).store
    with naming_close_sets(store):
        return store.get_featureset(name)


@job
def names(cluster: Cluster | FeatureSets) -> list[str]:
    """The names of the feature sets of the store."""
    return cluster.store.list_featuresets()


@job
def show(
    cluster: Cluster | FeatureSets, name: Annotated[str | None, _NAME, Argument.FEATURESET] = None
) -> CommandSummary:
    """List the feature sets of the cluster, or print the features of one.

    With --json the features are printed as `push` accepts them.
    """
    if name is not None:
        return _table(get(cluster, name))
    listed = names(cluster)
    return CommandSummary("\n".join(listed), {"featuresets": listed})


@job(shows=_deleted, changes_cluster=True)
def delete(
    cluster: Cluster | FeatureSets,
    name: Name,
    *,
    force: Annotated[bool, Help("Delete it even if uploaded models use it.")] = False,
) -> str:
    """Delete a feature set that no uploaded model uses.

    With --force also one that models use. They keep ranking with their own copy of it, but verify,
    explain and log-features need it.

    Raises Refused if uploaded models use it, unless `force`.
    """
    from owpc_ltr.engine.deployment.model_lifecycle import refuse_in_use
    from owpc_ltr.engine.stores import naming_close_sets

    store = cluster.holding_set(name).store
    if not force:
        refuse_in_use(cluster.engine, store, name, "delete")
    with naming_close_sets(store):
        store.delete_featureset(name)
    return name


class FeatureSets:
    """The feature sets of a cluster's store."""

    def __init__(
        self,
        engine: Engine,
        store: Callable[[], Store],
        holding: Callable[[str], Store] | None = None,
    ) -> None:
        """Use the cluster behind `engine`, and `store`; `holding` gives the store of a set."""
        self.engine, self._store = engine, store
        self._holding = holding or (lambda _: store())

    def __repr__(self) -> str:
        return f"FeatureSets({self.engine.settings.url!r})"

    @property
    def store(self) -> Store:
        """Where the feature sets are stored."""
        return self._store()

    def holding_set(self, featureset: str) -> FeatureSets:
        """The feature sets of the store that has this one."""
        return FeatureSets(self.engine, lambda: self._holding(featureset))

    suggest = suggest
    push = push
    get = get
    names = names
    delete = delete


def _shortened(template: Mapping[str, Any] | str) -> str:
    text = template if isinstance(template, str) else json.dumps(template)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
