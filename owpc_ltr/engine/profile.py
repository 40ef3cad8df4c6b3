"""`profile`: what features, windows and a model cost in the live query, and the room they take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data import html
from owpc_ltr.data.options import Columns
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.model_size import Capacity, capacity
from owpc_ltr.engine.options import DEFAULT_WINDOW, Params, QueryTemplate, SearchIndex
from owpc_ltr.engine.search.latency import (
    FeatureCost,
    Samples,
    Subject,
    ask_with,
    derived_from,
    feature_costs,
    timed,
)
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import UsageError
from owpc_ltr.features.feature_set import FeatureSet, plain_params
from owpc_ltr.formats.model_conversion import is_client_scored
from owpc_ltr.formats.plugin_free import plugin_free_model
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, job, option_name, silent
from owpc_ltr.text import ShortRepr, text_table

if TYPE_CHECKING:
    from owpc_ltr.data.judgments.grouping import Judgments
    from owpc_ltr.engine.cluster import Cluster

WINDOWS = (10, 50, 100, 200, 500, 1000)
REPEAT = 30
"""How many queries are timed."""
_COSTS = ("FEATURE", "COSTS MS", "95 %", "BY THE ENGINE'S CLOCK")
_WINDOWS = ("WINDOW", "MEDIAN MS", "95 % MS", "ENGINE'S MEDIAN", "ENGINE'S 95 %")


@dataclass(frozen=True, repr=False)
class Profile(ShortRepr):
    """What each feature costs, whole searches (`all`, `none`), windows by their size, and room.

    `queries` were given, `repeat` of them timed, features in this `window`. `derived` names the
    features that others are derived from.
    """

    index: str
    store_kind: str
    queries: int
    repeat: int
    window: int
    costs: tuple[FeatureCost, ...]
    searches: dict[str, Samples]
    windows: dict[int, Samples]
    derived: dict[str, list[str]]
    capacity: Capacity

    def __str__(self) -> str:
        costs = [
            text_table(_COSTS, _cost_rows(self.costs)),
            *_cost_lines(self.costs, self.searches),
        ]
        windows = text_table(_WINDOWS, self._window_rows())
        return "\n".join([*costs, "", windows, *self.capacity.sentences()])

    def _repr_html_(self) -> str:
        windows = [[_two_places(cell) for cell in row] for row in self._window_rows()]
        costs = [[_two_places(cell) for cell in row] for row in _cost_rows(self.costs)]
        return html.block(
            f"Profile of {self.index}",
            html.table(_COSTS, costs),
            *map(html.line, _cost_lines(self.costs, self.searches)),
            html.table(_WINDOWS, windows),
            *map(html.line, self.capacity.sentences()),
        )

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as JSON."""
        return {
            "index": self.index,
            "store_kind": self.store_kind,
            "queries": self.queries,
            "repeat": self.repeat,
            "window": self.window,
            "features": [cost.as_dict() for cost in self.costs],
            "searches": {name: samples.as_dict() for name, samples in self.searches.items()},
            "windows": [{"window": w, **times.as_dict()} for w, times in self.windows.items()],
            "derived": self.derived,
            "capacity": self.capacity.as_dict(),
        }

    def _window_rows(self) -> list[tuple[object, ...]]:
        return [(window, *times.as_dict().values()) for window, times in self.windows.items()]


def _cost_rows(costs: Sequence[FeatureCost]) -> list[tuple[object, ...]]:
    return [
        (cost.feature, cost.milliseconds, f"[{cost.low:.2f}, {cost.high:.2f}]", cost.took)
        for cost in costs
    ]


def _cost_lines(costs: Sequence[FeatureCost], searches: dict[str, Samples]) -> list[str]:
    lines = []
    noise = sum(cost.in_noise for cost in costs)
    if noise:
        lines.append(
            f"{noise} of {len(costs)} within the noise of the timing (interval clipped at 0): "
            f"a larger {option_name('repeat')} tells smaller costs"
        )
    for name, words in (("all", "with all features"), ("none", "without any")):
        times = searches[name].as_dict()
        median, high = times["wall_median_ms"], times["wall_p95_ms"]
        lines.append(f"{words}: {median:.2f} ms (95 %: {high:.2f})")
    return lines


def _two_places(cell: object) -> object:
    if not isinstance(cell, float):
        return cell
    return "–" if math.isnan(cell) else f"{cell:.2f}"


@job(changes_cluster=True)
def profile(
    cluster: Cluster,
    *,
    featureset: Annotated[
        str | None, Help("The name of a feature set in the cluster."), Argument.NAME
    ] = None,
    model: Annotated[
        Model | Path | str | None,
        Help(
            "An uploaded model's name, or a model's FILE.json; it has its own set.",
            cli=str,
            metavar="NAME|FILE",
        ),
        Argument.RANKER,
    ] = None,
    index: SearchIndex = None,
    queries: Annotated[
        Judgments | Path | str | None,
        Reads("Judged queries, for what users type: TSV, CSV, qrels …", cli=Path),
    ] = None,
    columns: Columns = None,
    keywords: Annotated[Sequence[str], Help("What a user types; may be repeated.")] = (),
    params: Params = None,
    query_template: QueryTemplate = None,
    repeat: Annotated[int, Help("How many queries are timed.", min=1)] = REPEAT,
    window: Annotated[int, Help("The window in which features are timed.", min=1)] = DEFAULT_WINDOW,
    seed: Seed = 0,
    progress: Progress = silent,
) -> Profile:
    """Time the cost of features, windows and a model in a search.

    The query is timed without features, with all of them, with groups that show what each feature
    costs, and by window.

    A model rescores the window; without one, its features are returned. Costs and their intervals
    are clipped at 0: a cost whose interval begins at 0 is within the noise. A model that is not
    uploaded is stored in the cluster only during the command.

    Python: judged queries may have `params` of their own; for others `params` hold.
    """
    from owpc_ltr.host.judgment_lists import read_judgments

    shared = plain_params(params)
    typed = [{"keywords": text, "query": text, **shared} for text in keywords]
    if queries is not None:
        if isinstance(queries, Path | str):
            queries = read_judgments(queries, columns=columns)
        typed += [{**shared, **query.params} for query in queries.queries]
    if not typed:
        raise UsageError(
            f"there is no query to profile with: give {option_name('keywords')} or "
            f"{option_name('queries')}"
        )
    if model is None and featureset is None:
        raise UsageError(
            f"say what to profile: {option_name('featureset')}, or {option_name('model')}, which "
            "has its own set"
        )
    with _profiled(cluster, model, featureset, index) as (store, where, features, stored):
        query = cluster.template(where, query_template)[0]
        return measure_profile(
            cluster.engine, store, Subject(where, query, features, stored), typed,
            repeat=repeat, window=window, seed=seed, progress=progress,
        )  # fmt: skip


def measure_profile(
    engine: Engine,
    store: Store,
    subject: Subject,
    params: Sequence[dict[str, Any]],
    *,
    repeat: int = REPEAT,
    window: int = DEFAULT_WINDOW,
    seed: int = 0,
    progress: Progress = silent,
) -> Profile:
    """Time the query without and with all features, with groups of them, and by window."""
    # Without the plugin the client may score: the engine gives the features. Of a model that runs
    # by scripts, which read several features at once, those features are what can be told apart.
    parts = features = replace(subject, model=None)
    if subject.model is None or is_client_scored(subject.model):
        subject = features
    elif plugin_free_model(subject.model) is None:
        parts = subject
    costs, searches = feature_costs(
        engine, store, parts, params, repeat=repeat, window=window, seed=seed,
        progress=lambda done: progress("features", done),
    )  # fmt: skip
    windows = timed(
        engine, subject.index, {size: ask_with(store, subject, size) for size in WINDOWS}, params,
        repeat, seed=seed, progress=lambda done: progress("windows", done),
    )  # fmt: skip
    return Profile(
        subject.index, store.kind, queries=len(params), repeat=repeat, window=window,
        costs=tuple(costs), searches=searches, windows=windows,
        derived=derived_from(subject.featureset),
        capacity=capacity(engine, store, subject.featureset, subject.model, params[0]),
    )  # fmt: skip


@contextmanager
def _profiled(
    cluster: Cluster, model: Model | Path | str | None, featureset: str | None, index: str | None
) -> Iterator[tuple[Store, str, FeatureSet, StoredModel | None]]:
    """The store, the index, the set, and the model where there is one, stored or on trial."""
    from owpc_ltr.engine.deployment.serving_mode import exported, searchable

    if model is None:
        store, where = cluster.holding_set(featureset).store, cluster.the_index(index)
        yield store, where, store.get_featureset(str(featureset)), None
        return
    if not isinstance(model, str) or Path(model).is_file():
        ranker = load_scoring_model(Path(model)) if isinstance(model, Path | str) else model
        features = cluster.the_featureset(featureset, ranker.record.get("featureset_hash"))
        where = cluster.the_index(index)
        trial = exported(cluster.engine, cluster.store, ranker, features)
        with searchable(cluster.store, trial) as stored:
            yield cluster.store, where, features, stored
        return
    store, name = cluster.uploaded(model)
    stored = store.get_model(name)
    if featureset not in {None, stored.featureset.name}:
        raise UsageError(
            f"the model '{model}' has the feature set '{stored.featureset.name}', not "
            f"'{featureset}': leave out {option_name('featureset')}"
        )
    yield store, cluster.index_of(name, index), stored.featureset, stored
