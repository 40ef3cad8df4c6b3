"""Searches: a cluster's searches with a model, the request for them, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.defaults import Progress, silent, tables_of, the_index
from owpc_ltr.engine.deployment.alias import the_name
from owpc_ltr.engine.options import DEFAULT_WINDOW

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.profile import Profile
    from owpc_ltr.engine.search.request import SearchRequest
    from owpc_ltr.engine.search.search import BeforeAndAfter
    from owpc_ltr.engine.stores.store import Store
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


def request(
    cluster: Cluster,
    keywords: str = "{{keywords}}",
    *,
    index: str,
    query: Mapping[str, Any] | Path | str | None = None,
    params: Mapping[str, Any] | None = None,
    size: int | None = None,
    window: int = DEFAULT_WINDOW,
    query_id: str | None = None,
) -> SearchRequest:
    """What a search asks for: the keywords in `query`, else in all text fields.

    `params` are further parameters of the query and of features: texts, numbers, lists (a
    query's vector, which may be an array) … `query` has `{{keywords}}` where the user's words
    go. It may be a file, and the whole body of a search, with filters, aggregations,
    highlighting …; its `size` holds unless given. `query_id` is what joined tables may know
    the query as.
    """
    from owpc_ltr.engine.search.request import COLLAPSE, SearchRequest
    from owpc_ltr.engine.stores.requirements import check_collapse
    from owpc_ltr.features.parameters import plain_params

    template, rest = cluster.template(index, query)
    if COLLAPSE in rest:
        check_collapse(cluster.engine.about())
    own = rest.pop("size", 10)
    shown = own if size is None else size
    filled = {"keywords": keywords, "query": keywords, **plain_params(params)}
    return SearchRequest(index, template, filled, shown, window, rest, query_id)


def search(
    cluster: Cluster,
    keywords: str,
    *,
    model: str | None = None,
    reranker: ReorderingModel | None = None,
    index: str | None = None,
    title: str | None = None,
    deadline: float = 1.0,
    extra_features: Any = None,
    **asked: Any,
) -> BeforeAndAfter:
    """A search without and with an uploaded model, or with a reordering that the client does.

    `asked` is as for `request`: query, params, size, window. `title` is the field to show.
    `extra_features` has the tables, as for `log_features`, of features that are in no index.
    `deadline` (seconds) is the reordering's; past it, the engine's order stays.
    """
    from dataclasses import replace

    from owpc_ltr.engine.search.search import search, search_reordered
    from owpc_ltr.errors import UsageError
    from owpc_ltr.names import check_index

    if model is not None and reranker is not None:
        raise UsageError("give one of model and reranker: a search is ranked by one")
    if index is not None:
        check_index(index)
    if reranker is not None:
        request = cluster.request(keywords, index=the_index(cluster.engine, index), **asked)
        found = search_reordered(
            cluster.engine, cluster.store, request, reranker,
            title=title, deadline=deadline, tables=tables_of(extra_features),
        )  # fmt: skip
        return replace(found, index=request.index)
    called = the_name(cluster.engine, cluster.stores, model)
    here, name = cluster.holding(called), cluster.models.resolve(called)
    where = cluster.index_of(name, index)
    stored = here.store.get_model(name)
    tables = tables_of(extra_features)
    request = cluster.request(keywords, index=where, **asked)
    found = search(cluster.engine, here.store, request, stored, title=title, tables=tables)
    return replace(found, index=where, model=name)


def rescore_body(
    cluster: Cluster,
    keywords: str = "{{keywords}}",
    *,
    model: str | None = None,
    index: str | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """The request that an application sends to /INDEX/_search; `asked` is as for `request`.

    Without keywords it is a search template, with {{keywords}} where the user's words go.
    Warns where documents beyond the window may pass those within it.
    """
    import math

    from owpc_ltr.engine.search.request import request_body
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.formats.plugin_free.form import score_shift
    from owpc_ltr.names import check_index

    if index is not None:
        check_index(index)
    called = the_name(cluster.engine, cluster.stores, model)
    here, name = cluster.holding(called), cluster.models.resolve(called)
    request = cluster.request(keywords, index=cluster.index_of(name, index), **asked)
    interval = cluster.models.interval(name)
    if not math.isfinite(interval.low):
        window = max(request.window, request.size)
        give_warnings([
            f"nothing is known of the scores of '{name}': documents beyond the window of "
            f"{window} may pass those within it; upload it again to be safe"
        ])  # fmt: skip
    stored = here.store.get_model(name)
    shift = score_shift(stored)
    if shift:
        give_warnings([
            f"scores of '{name}' in the engine are the model's plus {shift:.6g}, so that none "
            "is negative: the order is the model's"
        ])  # fmt: skip
    return request_body(here.store, stored, request, interval)


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
