"""What the tests of uploads share: an upload, what it leaves in the registry, and a lying store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Alias, Aliases
from owpc_ltr.engine.deployment.deployment_record import Certificates
from owpc_ltr.engine.deployment.upload import Uploaded, upload
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.protocols import Model
from tests.engine.small_cluster import FEATURESET, Small

KINDS = ["plugin-free", "ltr-plugin"]


def put(small: Small, model: Model, **options: Any) -> Uploaded:
    return upload(small.engine, small.store, model, FEATURESET, small.index, small.name, **options)


def put_beside(small: Small, model: Model, engine: Any, **options: Any) -> Uploaded:
    """An upload through an engine of the test's own."""
    engine = cast(Engine, engine)
    store = small.store_through(engine)
    return upload(engine, store, model, FEATURESET, small.index, small.name, **options)


def state(small: Small) -> tuple[Alias | None, list[str], list[bool]]:
    """The alias, the models in the store, and which of them have a certificate."""
    models = small.store.list_models()
    certificates = Certificates(small.engine, small.store)
    return (
        Aliases(small.engine, small.store).find(small.name),
        models,
        [certificates.find(model, whole=False) is not None for model in models],
    )


@dataclass
class Liar:
    """A store whose rescoring is a little off."""

    store: Store
    by: float = 1.001

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        clauses = self.store.rescore(model, params, window)
        clauses[0]["query"]["rescore_query_weight"] *= self.by
        return clauses


def liar(small: Small, by: float = 1.001) -> Small:
    return replace(small, store=cast(Store, Liar(small.store, by)))
