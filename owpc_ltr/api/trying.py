"""Models that serve searches for a while: uploaded ones by name, others on trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.api.live import Tried
from owpc_ltr.data.external_features.columns import refuse_unused
from owpc_ltr.engine.defaults import tables_of, the_featureset, the_index
from owpc_ltr.engine.deployment.serving_mode import on_trial
from owpc_ltr.engine.search.serving import with_stored
from owpc_ltr.formats.external_features import joined_sources
from owpc_ltr.formats.model_conversion import joined_in
from owpc_ltr.models.reordering import ReorderingModel, load_model

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.protocols import Model


@contextmanager
def trying(
    cluster: Cluster,
    model: Model | ReorderingModel | Path | str,
    index: str | None,
    featureset: str | None,
    extra_features: Any,
) -> Iterator[Tried]:
    """A model that serves searches: one of the cluster by its name, or another on trial."""
    if isinstance(model, str) and not Path(model).is_file():
        cluster = cluster.holding(model)
        name = cluster.models.resolve(model)
        stored, certificate = cluster.store.get_model(name), cluster.models.certificate(name)
        known = (certificate.record, certificate.interval) if certificate else ({}, None)
        tables = tables_of(extra_features)
        refuse_unused(joined_in(stored), tables, f"the model '{name}'")
        serve = with_stored(cluster.engine, cluster.store, stored, known[1], tables)
        yield Tried(serve, cluster.index_of(name, index), stored.featureset, known[0])
        return
    ranker = load_model(Path(model)) if isinstance(model, Path | str) else model
    own = None
    if featureset is not None or not isinstance(ranker, ReorderingModel):
        wanted = ranker.record.get("featureset_hash")
        own = cluster.store.get_featureset(the_featureset(cluster.store, featureset, wanted))
    tables = tables_of(extra_features)
    refuse_unused(joined_sources(ranker), tables, "the model")
    with on_trial(cluster.engine, cluster.store, ranker, own, tables) as serve:
        yield Tried(serve, the_index(cluster.engine, index), own, ranker.record)
