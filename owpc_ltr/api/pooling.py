"""Rankers as they are named for a pool: queries, uploaded models, TREC runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.uploaded_models import UploadedModels
    from owpc_ltr.data.joined_tables.table import JoinedTable
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.search.judgment_pool import PoolPlan
    from owpc_ltr.engine.store.base import Store


def pool_plan(
    engine: Engine,
    store: Store,
    models: UploadedModels,
    rankers: Sequence[Path | str | Mapping[str, Any]],
    index: str,
    template: Callable[[], dict[str, Any]],
    tables: Sequence[JoinedTable] = (),
    **how: Any,
) -> PoolPlan:
    """What is asked for a pool; `template` is the query that uploaded models rescore.

    In the `tables` is what they read from outside the index.
    Raises UsageError where there is no ranker, or one is neither a file nor uploaded.
    """
    from owpc_ltr.data.judgments.run_lists import read_run_lists
    from owpc_ltr.engine.search.judgment_pool import PoolPlan
    from owpc_ltr.engine.search.serving import query_alone, with_stored

    if not rankers:
        raise UsageError("there is no ranker to pool: give queries, uploaded names or TREC runs")
    ways: list[Any] = []
    runs = []
    for ranker in rankers:
        if isinstance(ranker, Mapping) or Path(ranker).suffix == ".json":
            ways.append((query_alone(engine, store), _query(ranker)))
        elif Path(ranker).is_file():
            runs.append(read_run_lists(Path(ranker)))
        else:
            name = models.resolve(str(ranker))
            stored = store.get_model(name)
            interval = models.interval(name)
            serve = with_stored(engine, store, stored, interval, tables)
            ways.append((serve, template()))
    return PoolPlan(index, ways, runs, **how)


def _query(ranker: Path | str | Mapping[str, Any]) -> dict[str, Any]:
    from owpc_ltr.engine.search.request import read_search

    query = dict(ranker) if isinstance(ranker, Mapping) else read_search(Path(ranker))[0]
    if "kind" in query and "record" in query:
        raise BadInput(f"{ranker} is a model, not a query: upload it, and give its name")
    return query
