"""A name moved to another of its models: to its challenger, or to one that was there before."""

from __future__ import annotations

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.aliases import Alias, Aliases
from owpc_ltr.engine.deployment.certificates import Certificates
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput
from owpc_ltr.names import split_immutable


def promote(engine: Engine, store: Store, name: str) -> Alias:
    """Let a name point to its challenger, or to the model of it that is given by its own name.

    Raises Refused where there is no challenger, BadInput where there is no such model.
    """
    aliases, certificates = Aliases(engine, store), Certificates(engine, store)
    if split_immutable(name) is None or aliases.find(name) is not None:
        return aliases.promote(name)
    model = certificates.called(name)
    certificate = certificates.find(model, whole=False)
    if certificate is None or certificate.alias_name is None:
        raise BadInput(
            f"there is no proven model '{name}' in {engine.settings.url}: check the name and the "
            "--store, or upload it again"
        )
    # The certificate may have outlived its model: what is gone raises here.
    store.get_model(model)
    return aliases.promote(certificate.alias_name, model)
