"""The models of a cluster: listed, shown, compared, promoted, rolled back, deleted.

Each public function is a command of `owpc-ltr models`, and a method of `UploadedModels`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment import model_lifecycle
from owpc_ltr.engine.deployment.alias import (
    Alias,
    Aliases,
    SwitchGrounds,
    alias_names,
    all_aliases,
    the_name,
)
from owpc_ltr.engine.deployment.deployment_record import (
    DeploymentRecord,
    DeploymentRecords,
    StorePlace,
    describe_model_file,
    differences,
    provenance,
)
from owpc_ltr.engine.deployment.search_template import SearchTemplates
from owpc_ltr.engine.options import Require, Unproven
from owpc_ltr.engine.stores import Absent, Store
from owpc_ltr.errors import OwpcLtrError, UsageError, give_warnings
from owpc_ltr.formats.stored_model import StoredModel, is_client_scored
from owpc_ltr.models.analysis import UNKNOWN, ScoreInterval, importances
from owpc_ltr.names import split_immutable
from owpc_ltr.signatures import Argument, Help, job
from owpc_ltr.text import ShortRepr, spelled

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

_SHOWN_MODEL = Help("NAME, NAME:challenger or NAME-HASH; or a model's FILE.json.")
_Model = Annotated[str, Help("NAME, NAME:challenger or NAME-HASH."), Argument.NAME]


@dataclass(frozen=True, repr=False)
class ModelList(BlockResult):
    """The aliases and models of a store.

    `unused` are the models of owpc-ltr that no alias uses, `foreign` those of other tools.
    `unproven` has the reasons of aliases whose champion was replaced without evidence.
    """

    aliases: list[Alias]
    models: list[str]
    unused: list[str]
    foreign: list[str]
    store_kind: str
    store: str | None
    unproven: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """The list as JSON."""
        return asdict(self)

    def _blocks(self) -> Iterator[Block]:
        headers = ["NAME", "STORE", "CURRENT", "BEFORE", "CHALLENGER"]
        rows = [
            (
                alias.name,
                f"{alias.store or 'default'} ({alias.store_kind})",
                alias.current,
                ", ".join(reversed(alias.previous)) or "–",
                alias.challenger or "–",
            )
            for alias in self.aliases
        ]
        n = 5 if any(alias.challenger for alias in self.aliases) else 4
        yield Table(headers[:n], [row[:n] for row in rows])
        for name, reason in self.unproven.items():
            yield f"'{name}' was switched without evidence: {reason}"
        yield from (f"unused: '{model}'" for model in self.unused)
        yield from (f"foreign, not made by owpc-ltr: '{model}'" for model in self.foreign)


@dataclass(frozen=True, repr=False)
class ModelDescription(BlockResult):
    """A model: everything that is known of it, the main facts, and how it uses features.

    `content` is the model's deployment record, or of a file the model without samples and digests.
    `importances` are weights, or how often trees split on a feature.
    """

    content: dict[str, Any]
    facts: dict[str, Any]
    importances: dict[str, dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """The description as JSON."""
        return {**self.content, "importances": self.importances}

    def _blocks(self) -> Iterator[Block]:
        rows = [(fact, _cell(value)) for fact, value in self.facts.items()]
        yield Table(["FACT", "VALUE"], rows)
        facts = list(dict.fromkeys(fact for use in self.importances.values() for fact in use))
        if facts:
            yield ""
            yield Table(
                ["FEATURE", *(fact.upper() for fact in facts)],
                [
                    (name, *(_cell(use.get(fact)) for fact in facts))
                    for name, use in self.importances.items()
                ],
            )


@dataclass(frozen=True, repr=False)
class ModelDifferences(BlockResult):
    """Every fact in which two models differ: its name, and its value for either."""

    models: tuple[str, str]
    differences: list[tuple[str, Any, Any]]

    def as_dict(self) -> dict[str, Any]:
        """The differences as JSON."""
        return {"models": list(self.models), "differences": [list(row) for row in self.differences]}

    def _blocks(self) -> Iterator[Block]:
        rows = [
            (fact, _cell(own), _cell(other))
            for fact, own, other in self.differences
            if fact != "model"
        ]
        yield Table(["FACT", *self.models], rows)


@dataclass(frozen=True)
class AliasSwitch:
    """An alias that was switched from the model `left` to another one.

    `fetch_again` is the command that makes the new search request, None where the client scores.
    `undo` is the command that switches back, where there is one. `by_template` says whether the
    search template of the alias serves the new model.
    """

    alias: Alias
    left: str | None
    fetch_again: str | None
    undo: str | None = None
    by_template: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The switch as JSON."""
        alias = self.alias
        return {
            "name": alias.name,
            "store": alias.store,
            "current": alias.current,
            "previous": list(alias.previous),
            "fetch_again": self.fetch_again,
            "by_template": self.by_template,
        }

    def __str__(self) -> str:
        lines = [f"alias '{self.alias.name}' switched to {self.alias.current}"]
        if self.by_template:
            template = f"search template '{self.alias.name}'"
            lines.append(f"{template} serves it: its calls stay as they are")
        if self.left is not None:
            fetch = self.fetch_again
            instead = f"fetch them again: {fetch}" if fetch else "the client scores the model now"
            lines.append(f"requests that hold a model still use {self.left}: {instead}")
        if self.undo is not None:
            lines.append(f"to undo: {self.undo}")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Removal(ShortRepr):
    """Models that were deleted, or would be: then `done` is False.

    `alias` is a name that went with its models.
    """

    models: list[str]
    done: bool
    alias: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The removal as JSON."""
        return {"models": self.models, "deleted": self.done}

    def __str__(self) -> str:
        verb = "deleted" if self.done else "would be deleted:"
        lines = [f"{verb} {model}" for model in self.models] or ["no model to delete"]
        if self.done and self.alias is not None:
            lines.append(f"deleted the alias '{self.alias}'")
        if self.models and not self.done:
            lines.append(spelled("nothing was deleted yet: confirm with `yes=True`"))
        return "\n".join(lines)


@job
def overview(cluster: Cluster | UploadedModels) -> ModelList:
    """List the aliases and their models.

    Aliases of all stores, or with `store` of that one; unused models of one store only, and models
    that other tools have stored there.
    """
    engine, store = cluster.engine, cluster.store
    aliases = all_aliases(engine) if cluster.store_name is None else Aliases(engine, store).all()
    unused, foreign = model_lifecycle.unused_models(engine, store)
    return ModelList(
        aliases,
        store.list_models(),
        unused,
        foreign,
        store_kind=store.kind,
        store=store.name,
        unproven=dict(_unproven(engine, aliases)),
    )


def _unproven(engine: Engine, aliases: Sequence[Alias]) -> Iterator[tuple[str, str]]:
    """The aliases whose champion replaced another one without evidence, and why."""
    for alias in aliases:
        records = DeploymentRecords(engine, StorePlace(str(alias.store_kind), alias.store))
        record = records.find(alias.current, whole=False)
        if record is not None and record.switch and record.switch.get("unproven"):
            yield alias.name, str(record.switch["unproven"])


@job
def show_models(
    cluster: Cluster | UploadedModels,
    name: Annotated[str | None, _SHOWN_MODEL, Argument.NAME] = None,
) -> ModelDescription | ModelList:
    """List the aliases and their models, or show one model.

    Lists aliases of all stores, or with `store` of that one; unused models of one store only. Of
    one model shows where it comes from, and how it uses features: of an uploaded one also the check
    of its upload; of a FILE, its training record.
    """
    return overview(cluster) if name is None else show(cluster, name)


@job
def show(cluster: Cluster | UploadedModels, name: Annotated[str, _SHOWN_MODEL]) -> ModelDescription:
    """Show where a model comes from, and how it uses features.

    Of an uploaded model also the check of its upload; of a FILE, its training record; of a model
    that another tool has stored, its type and feature set.

    Raises BadInput for a model of owpc-ltr without a deployment record.
    """
    file = Path(name)
    if file.suffix == ".json" and file.is_file():
        description = ModelDescription(*describe_model_file(file))
    else:
        engine, store = cluster.engine, cluster.holding(name).store
        records, model = DeploymentRecords(engine, store), resolve(cluster, name)
        deployment = records.find(model)
        if deployment is None and not model_lifecycle.made_here(engine, store, [model]):
            facts = _foreign(store.get_model(model))
            return ModelDescription(facts, facts, {})
        deployment = deployment or records.get(model)
        used = importances(deployment.ranker())
        description = ModelDescription(deployment.as_dict(), provenance(deployment), used)
    warnings = description.content["record"].get("warnings") or ()
    give_warnings(f"in training: {warning}" for warning in warnings)
    return description


@job
def diff(
    cluster: Cluster | UploadedModels,
    name: _Model,
    other: Annotated[str, Help("The same, of another model.", metavar="OTHER")],
) -> ModelDifferences:
    """Show how two models differ.

    Compares data, settings and checks, and the weights of linear models.
    """
    first, second = _deployment(cluster, name), _deployment(cluster, other)
    return ModelDifferences((first.model, second.model), differences(first, second))


@job(finishes=True, changes_cluster=True)
def promote(
    cluster: Cluster | UploadedModels,
    name: Annotated[str, Help("NAME, or one of its models: NAME-HASH."), Argument.NAME],
    *,
    require: Require = None,
    unproven: Unproven = None,
) -> AliasSwitch:
    """Switch an alias to its challenger, or to another of its models.

    It replaces the champion with evidence (`require`) that it is better than what the alias serves
    now, or for a reason (`unproven`) that is recorded; else it is refused (exit code 5). Its search
    template is switched, too. Whole requests that applications already hold keep the former model:
    fetch them again.

    Raises Refused where there is no challenger or the alias may not be switched, BadInput where
    there is no such model.
    """
    grounds = SwitchGrounds.of(require, unproven, cluster.typed_options)
    store = cluster.holding(name).store
    alias = model_lifecycle.promote(cluster.engine, store, name, grounds)
    left = alias.previous[-1] if alias.previous else None
    return switch_message(cluster, alias, left)


@job(finishes=True, changes_cluster=True)
def rollback(
    cluster: Cluster | UploadedModels,
    name: Annotated[str, Help("The name that applications use."), Argument.NAME],
) -> AliasSwitch:
    """Roll an alias back to its previous model.

    `models.promote(name, unproven=REASON)` undoes it. Its search template is rolled back, too.
    Whole requests that applications already hold keep the model that was rolled back: fetch them
    again.

    Raises Refused where there is no previous model.
    """
    left = resolve(cluster, name)
    alias = model_lifecycle.roll_back(cluster.engine, cluster.holding(name).store, name)
    undo = f'owpc-ltr models promote {left} --unproven "REASON"{cluster.typed_options}'
    return switch_message(cluster, alias, left, undo)


@job(changes_cluster=True)
def delete(
    cluster: Cluster | UploadedModels,
    name: Annotated[
        str | None,
        Help("A model, NAME-HASH, or NAME for it and all of its models."),
        Argument.NAME,
    ] = None,
    *,
    unused: Annotated[
        bool, Help("All models that no alias uses or can be rolled back to.")
    ] = False,
    yes: Annotated[bool, Help("Delete them, instead of only listing them.")] = False,
) -> Removal:
    """Delete a model, a name with all of its models, or all unused models.

    Without `yes` they are only listed.

    A deleted model is also removed from the history of its name. Models that owpc-ltr did not make
    are kept.

    Raises Refused where an alias uses the model, or owpc-ltr did not make it.
    """
    if (name is None) is not unused:
        raise UsageError("which models? give one of NAME and `unused`")
    if name is None:
        models = model_lifecycle.prunable(cluster.engine, cluster.store)
        if yes:
            model_lifecycle.prune(cluster.engine, cluster.store, models)
        return Removal(models, yes)
    store = cluster.holding(name).store
    act = model_lifecycle.delete if yes else model_lifecycle.to_delete
    models = act(cluster.engine, store, name)
    return Removal(models, yes, None if name in models else name)


def resolve(cluster: Cluster | UploadedModels, name: str) -> str:
    """The model that NAME, NAME:challenger or NAME-HASH is."""
    store = cluster.holding(name).store
    aliases = Aliases(cluster.engine, store)
    model = aliases.resolve(name)
    if model != name:
        return model
    if split_immutable(name) is None:
        # A model that others have stored has any name.
        try:
            store.get_model(name)
        except Absent as absent:
            raise absent.among(alias.name for alias in aliases.all()) from absent
    return model


class UploadedModels:
    """The models of a cluster's store, and the aliases that applications use for them."""

    def __init__(self, cluster: Cluster) -> None:
        """Use the store of this cluster; a model may be in another one of it."""
        self._cluster, self.engine = cluster, cluster.engine
        self.store_name, self.typed_options = cluster.store_name, cluster.typed_options

    def __repr__(self) -> str:
        return f"UploadedModels({self.engine.settings.url!r})"

    @property
    def store(self) -> Store:
        """Where the models are stored."""
        return self._cluster.store

    @property
    def names(self) -> list[str]:
        """The aliases in all stores of the cluster."""
        return alias_names(self.engine, self._cluster.stores)

    def holding(self, model: str) -> Cluster:
        """The cluster with the store that a model, or the alias of one, is in."""
        return self._cluster.holding(model)

    overview = overview
    show = show
    diff = diff
    promote = promote
    rollback = rollback
    delete = delete
    resolve = resolve

    def deployment(self, name: str, *, whole: bool = False) -> DeploymentRecord | None:
        """A model's deployment record; None where it was never proved.

        Unless `whole`, it lacks the model itself, the models of its folds, and the samples.
        """
        records = DeploymentRecords(self.engine, self.holding(name).store)
        return records.find(self.resolve(name), whole=whole)

    def search_template(self, name: str | None = None) -> dict[str, Any] | None:
        """The body of a search by the search template of an alias; None where it has none.

        Its `params` are all that the template has, each with a default or an example.
        """
        called = the_name(self.engine, self._cluster.stores, name)
        templates = SearchTemplates(self.engine, self.holding(called).store)
        model = resolve(self, called)
        template = templates.of_model(model)
        if template is None or ":" in called or templates.serving(called) != model:
            return None
        return {"id": called, "params": template["params"]}

    def interval(self, name: str) -> ScoreInterval:
        """The interval of a model's scores, from its deployment record."""
        deployment = self.deployment(name)
        return deployment.interval if deployment else UNKNOWN


def _deployment(cluster: Cluster | UploadedModels, name: str) -> DeploymentRecord:
    records = DeploymentRecords(cluster.engine, cluster.holding(name).store)
    return records.get(resolve(cluster, name))


def _foreign(stored: StoredModel) -> dict[str, Any]:
    """What is known of a model that another tool has stored."""
    return {
        "model": stored.name,
        "made_by": "another tool: not owpc-ltr",
        "type": stored.type,
        "featureset": stored.featureset.name,
        "featureset_hash": stored.featureset.hash,
        "features": ", ".join(stored.featureset.feature_names),
    }


def switch_message(
    cluster: Cluster | UploadedModels, alias: Alias, left: str | None, undo: str | None = None
) -> AliasSwitch:
    """What is told of a switch: whether a template serves the model, and what fetches it again."""
    by_template, client_scored = False, False
    # The alias is switched already: a request that fails now must not say that it is not.
    with contextlib.suppress(OwpcLtrError):
        templates = SearchTemplates(cluster.engine, cluster.holding(alias.current).store)
        by_template = templates.serving(alias.name) == alias.current
    with contextlib.suppress(OwpcLtrError):
        store = cluster.holding(alias.current).store
        client_scored = is_client_scored(store.get_model(alias.current))
    request = f"owpc-ltr request --model {alias.name}{cluster.typed_options}"
    return AliasSwitch(
        alias, left, None if client_scored else request, undo, by_template=by_template
    )


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
