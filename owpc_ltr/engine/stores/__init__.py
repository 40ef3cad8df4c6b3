"""Feature sets and models in a cluster, with or without the plugin."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from owpc_ltr.engine.client.engine import Identity
from owpc_ltr.engine.client.responses import NotAllowed
from owpc_ltr.engine.stores.store import Store, check_engine
from owpc_ltr.errors import UsageError
from owpc_ltr.names import check_store

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine

KINDS = ("ltr-plugin", "plugin-free")


def choose_store(engine: Engine, kind: str | None = None, name: str | None = None) -> Store:
    """The store of this kind; without one, what the cluster has: the LTR plugin, or none.

    `name` tells stores of one cluster apart. Raises UsageError for a kind that is not there, and
    Refused for an engine that is too old to do without the plugin.
    """
    from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
    from owpc_ltr.engine.stores.plugin_free import PluginFreeStore

    if name is not None:
        check_store(name)
    if kind not in {None, *KINDS}:
        raise UsageError(f"there is no store of kind '{kind}': {' or '.join(KINDS)}")
    if kind == PluginFreeStore.kind:
        # Without the right to ask, what an engine lacks shows where it is needed.
        about = None
        with suppress(NotAllowed):
            about = engine.about()
            check_engine(about)
        return PluginFreeStore(engine, name, about)
    identity = _identity(engine)
    if identity.has_ltr:
        return LtrPluginStore(engine, name)
    if kind is None:
        check_engine(identity)
        return PluginFreeStore(engine, name, identity)
    raise UsageError(
        f"{engine.settings.url} does not list the LTR plugin (its plugins: "
        f"{', '.join(identity.plugins) or 'none'}): install it, or use --store-kind plugin-free"
    )


def _identity(engine: Engine) -> Identity:
    """What the cluster runs; where it may not be asked, --store-kind spares the question."""
    try:
        return engine.identity()
    except NotAllowed as refusal:
        raise NotAllowed(
            f"{refusal}; or say --store-kind plugin-free, which does not ask for plugins"
        ) from refusal
