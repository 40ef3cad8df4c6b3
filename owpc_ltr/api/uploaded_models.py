"""The models of a cluster: the names that applications use, and what is known of each model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.deployment.alias import Alias, Aliases
    from owpc_ltr.engine.deployment.deployment_record import Certificate, Certificates
    from owpc_ltr.engine.stores.store import Store
    from owpc_ltr.models.score_range import ScoreInterval


class UploadedModels:
    """The models of a cluster's store, and the aliases that point to them."""

    def __init__(
        self,
        engine: Engine,
        store: Callable[[], Store],
        holding: Callable[[str], Store] | None = None,
    ) -> None:
        """Use the cluster behind `engine`, and `store`; `holding` gives the store of a model."""
        self._engine, self._store = engine, store
        self._holding = holding or (lambda _: store())

    def aliases(self, *, everywhere: bool = False) -> list[Alias]:
        """The names that applications use, and the models that they point to.

        Those of this store, or `everywhere` those of all stores of the cluster.
        """
        from owpc_ltr.engine.deployment.alias import all_aliases

        return all_aliases(self._engine) if everywhere else self._aliases(self._store()).all()

    def names(self) -> list[str]:
        """Every model of the store, by its immutable name."""
        return self._store().list_models()

    def unused(self) -> list[str]:
        """The models of owpc-ltr that no name points to, nor can go back to."""
        from owpc_ltr.engine.deployment.model_lifecycle import prunable

        return prunable(self._engine, self._store())

    def resolve(self, name: str) -> str:
        """The model that NAME, NAME:challenger, NAME-HASH or NAME@HASH is."""
        store = self._holding(name)
        model = self._aliases(store).resolve(name)
        return self._certificates(store).called(model) if model == name else model

    def store_of(self, name: str) -> Store:
        """The store that a model, or the alias of one, is in."""
        return self._holding(name)

    def certificate(self, name: str) -> Certificate | None:
        """What is known of a model but its content; None where it was never proved."""
        found = self._certificates(self._holding(name))
        return found.find(self.resolve(name), whole=False)

    def interval(self, name: str) -> ScoreInterval:
        """Between which numbers a model's scores lie, as its certificate says."""
        from owpc_ltr.models.score_range import UNKNOWN

        certificate = self.certificate(name)
        return certificate.interval if certificate else UNKNOWN

    def show(self, name: str) -> Certificate:
        """Where a model comes from and what was proven of it. BadInput if it has no certificate."""
        return self._certificates(self._holding(name)).get(self.resolve(name))

    def facts(self, name: str) -> dict[str, Any]:
        """The same in few words, a fact a line."""
        from owpc_ltr.engine.deployment.deployment_record import provenance

        return provenance(self.show(name))

    def importances(self, name: str) -> dict[str, dict[str, Any]]:
        """What each feature does in a model: its weight, or how often trees split on it."""
        from owpc_ltr.models.feature_use import importances

        return importances(self.show(name).ranker())

    def differences(self, name: str, other: str) -> list[tuple[str, Any, Any]]:
        """Every fact in which two models differ, and for linear ones every weight."""
        from owpc_ltr.engine.deployment.deployment_record import differences

        return differences(self.show(name), self.show(other))

    def promote(self, name: str) -> Alias:
        """Let NAME point to its challenger, or to the model NAME-HASH, which must still be there.

        Raises Refused where there is no challenger, BadInput where there is no such model.
        """
        from owpc_ltr.engine.deployment.model_lifecycle import promote

        return promote(self._engine, self._holding(name), name)

    def rollback(self, name: str) -> Alias:
        """Let NAME point again to the model before."""
        return self._aliases(self._holding(name)).roll_back(name)

    def serving_mode(self, name: str) -> str:
        """Who scores with a model: `engine` or `client`."""
        from owpc_ltr.formats.model_conversion import is_client_scored

        stored = self._holding(name).get_model(self.resolve(name))
        return "client" if is_client_scored(stored) else "engine"

    def prune(self, names: Sequence[str]) -> None:
        """Remove these models and their certificates, or none if an alias points to one of them."""
        from owpc_ltr.engine.deployment.model_lifecycle import prune

        by_store: dict[str, tuple[Store, list[str]]] = {}
        for name in names:
            store = self._holding(name)
            called = self._certificates(store).called(name)
            by_store.setdefault(store.kind, (store, []))[1].append(called)
        for store, own in by_store.values():
            prune(self._engine, store, own)

    def deletable(self, name: str) -> list[str]:
        """What `delete` would remove."""
        from owpc_ltr.engine.deployment.model_lifecycle import doomed

        store = self._holding(name)
        return doomed(self._engine, store, self._certificates(store).called(name))

    def delete(self, name: str) -> list[str]:
        """Remove the model NAME-HASH, or NAME and all of its models; what was removed.

        Raises Refused where a name points to it, or owpc-ltr did not make it.
        """
        from owpc_ltr.engine.deployment.model_lifecycle import delete

        store = self._holding(name)
        return delete(self._engine, store, self._certificates(store).called(name))

    def _aliases(self, store: Store) -> Aliases:
        from owpc_ltr.engine.deployment.alias import Aliases

        return Aliases(self._engine, store)

    def _certificates(self, store: Store) -> Certificates:
        from owpc_ltr.engine.deployment.deployment_record import Certificates

        return Certificates(self._engine, store)
