"""Searches: a cluster's searches with a model, the request for them, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.defaults import Progress, silent, the_index
from owpc_ltr.engine.options import DEFAULT_WINDOW

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.profile import Profile
    from owpc_ltr.engine.stores.store import Store
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.protocols import Model


def profile(
    cluster: Cluster,
    keywords: Sequence[str] = (),
    *,
    queries: Path | str | None = None,
    params: Mapping[str, Any] | None = None,
    model: Model | Path | str | None = None,
    featureset: str | None = None,
    index: str | None = None,
    query: Mapping[str, Any] | Path | str | None = None,
    repeat: int = 30,
    window: int = DEFAULT_WINDOW,
    seed: int = 0,
    progress: Progress | None = None,
) -> Profile:
    """What features, windows and a model cost in the live query, in milliseconds.

    Asked with each of `keywords`, and with the judged `queries` of a file, which may have
    `params` of their own; else these hold. With a model it is rescored; without, the features
    of the window come back. `model` is an uploaded name, or a model or its file, which is in
    the cluster only meanwhile.
    """
    from owpc_ltr.engine.search.profile import profile
    from owpc_ltr.errors import UsageError
    from owpc_ltr.features.parameters import plain_params
    from owpc_ltr.host.judgment_lists import read_judgments

    given = plain_params(params)
    typed = [{"keywords": text, "query": text, **given} for text in keywords]
    if queries is not None:
        typed += [{**given, **query.params} for query in read_judgments(queries).queries]
    if not typed:
        raise UsageError("there is no query to profile with: give --keywords or --queries")
    if model is None and featureset is None:
        raise UsageError("say what to profile: --featureset, or --model, which has its own set")
    with _profiled(cluster, model, featureset, index) as (store, where, known, stored):
        return profile(
            cluster.engine, store, where, cluster.template(where, query)[0], known, stored,
            typed, repeat=repeat, window=window, seed=seed, progress=progress or silent,
        )  # fmt: skip


@contextmanager
def _profiled(
    cluster: Cluster, model: Model | Path | str | None, featureset: str | None, index: str | None
) -> Iterator[tuple[Store, str, FeatureSet, StoredModel | None]]:
    """The store, the index, the set, and the model where there is one, stored or on trial."""
    from owpc_ltr.engine.defaults import the_featureset
    from owpc_ltr.engine.deployment.serving_mode import exported, searchable
    from owpc_ltr.errors import UsageError
    from owpc_ltr.models.model_file import load_scoring_model

    if model is None:
        store, where = cluster.holding_set(featureset).store, the_index(cluster.engine, index)
        yield store, where, store.get_featureset(str(featureset)), None
        return
    if not isinstance(model, str) or Path(model).is_file():
        ranker = load_scoring_model(Path(model)) if isinstance(model, Path | str) else model
        wanted = ranker.record.get("featureset_hash")
        own = cluster.store.get_featureset(the_featureset(cluster.store, featureset, wanted))
        where = the_index(cluster.engine, index)
        with searchable(
            cluster.store, exported(cluster.engine, cluster.store, ranker, own)
        ) as kept:
            yield cluster.store, where, own, kept
        return
    store, name = cluster.holding(model).store, cluster.models.resolve(model)
    stored = store.get_model(name)
    if featureset not in {None, stored.featureset.name}:
        raise UsageError(
            f"the model '{model}' has the feature set '{stored.featureset.name}', not "
            f"'{featureset}': leave --featureset out"
        )
    yield store, cluster.index_of(name, index), stored.featureset, stored
