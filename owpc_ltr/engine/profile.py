"""`profile`: what features, windows and a model cost in the live query, and the room they take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data import html
from owpc_ltr.data.options import Columns
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.options import DEFAULT_WINDOW, Params, QueryTemplate, SearchIndex
from owpc_ltr.engine.search.capacity import Capacity, capacity
from owpc_ltr.engine.search.latency import (
    FeatureCost,
    Samples,
    Subject,
    derived_from,
    feature_costs,
    window_latencies,
)
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import UsageError
from owpc_ltr.features.feature_set import FeatureSet, plain_params
from owpc_ltr.formats.model_conversion import is_client_scored
from owpc_ltr.formats.plugin_free import plugin_free_model
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.plain_text import ShortRepr, text_table
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, job, option_name, silent

if TYPE_CHECKING:
    from owpc_ltr.data.judgments.grouping import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.protocols import Model

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
        windows = text_table(_WINDOWS, self._window_rows())
        costs = costs_text(self.costs, self.searches)
        return "\n".join([costs, "", windows, *self.capacity.sentences()])

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
            "windows": [{"window": w, **found.as_dict()} for w, found in self.windows.items()],
            "derived": self.derived,
            "capacity": self.capacity.as_dict(),
        }

    def _window_rows(self) -> list[tuple[object, ...]]:
        return [(window, *found.as_dict().values()) for window, found in self.windows.items()]


def costs_text(costs: Sequence[FeatureCost], searches: dict[str, Samples]) -> str:
    """The costs as a table, and how long whole searches take."""
    return "\n".join([text_table(_COSTS, _cost_rows(costs)), *_cost_lines(costs, searches)])


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
        str | None, Help("The name of a feature set in the cluster."), Argument.FEATURESET
    ] = None,
    model: Annotated[
        Model | Path | str | None,
        Help(
            "An uploaded model's name, or a model's FILE.json; it has its own set.",
            names="model",
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

    given = plain_params(params)
    typed = [{"keywords": text, "query": text, **given} for text in keywords]
    if queries is not None:
        judged = (
            read_judgments(queries, columns=columns) if isinstance(queries, Path | str) else queries
        )
        typed += [{**given, **query.params} for query in judged.queries]
    if not typed:
        raise UsageError(
            f"there is no query to profile with: give {option_name('keywords')} or "
            f"{option_name('queries')}"
        )
    if model is None and featureset is None:
        raise UsageError(
            f"say what to profile: {option_name('featureset')}, or {option_name('model')}, which "
            "has its "
            "own set"
        )
    with _profiled(cluster, model, featureset, index) as (store, where, known, stored):
        return measure_profile(
            cluster.engine, store, Subject(where, cluster.template(where, query_template)[0],
            known, stored), typed, repeat=repeat, window=window, seed=seed, progress=progress,
        )  # fmt: skip


def measure_profile(
    engine: Engine,
    store: Store,
    given: Subject,
    params: Sequence[dict[str, Any]],
    *,
    repeat: int = REPEAT,
    window: int = DEFAULT_WINDOW,
    seed: int = 0,
    progress: Callable[[str, float | None], None] = silent,
) -> Profile:
    """Time the query without and with all features, with groups of them, and by window."""
    # Without the plugin the client may score: the engine gives the features. Of a model that runs
    # by scripts, which read several features at once, those features are what can be told apart.
    model = given.model
    runs = model is not None and not is_client_scored(model)
    subject = given if runs else replace(given, model=None)
    whole_model = runs and model is not None and plugin_free_model(model) is not None
    parts = replace(subject, model=None) if whole_model else subject
    asked = list(params)
    costs, whole = feature_costs(
        engine, store, parts, asked, repeat=repeat, window=window, seed=seed,
        progress=lambda done: progress("features", done),
    )  # fmt: skip
    latencies = window_latencies(
        engine, store, subject, asked, repeat=repeat, seed=seed,
        progress=lambda done: progress("windows", done),
    )  # fmt: skip
    room = capacity(engine, store, subject.featureset, subject.model, params[0])
    return Profile(
        subject.index, store.kind, queries=len(params), repeat=repeat, window=window,
        costs=tuple(costs), searches=whole, windows=latencies,
        derived=derived_from(subject.featureset), capacity=room,
    )  # fmt: skip


@contextmanager
def _profiled(
    cluster: Cluster, model: Model | Path | str | None, featureset: str | None, index: str | None
) -> Iterator[tuple[Store, str, FeatureSet, StoredModel | None]]:
    """The store, the index, the set, and the model where there is one, stored or on trial."""
    from owpc_ltr.engine.deployment.serving_mode import exported, searchable
    from owpc_ltr.models.model_file import load_scoring_model

    if model is None:
        store, where = cluster.holding_set(featureset).store, cluster.the_index(index)
        yield store, where, store.get_featureset(str(featureset)), None
        return
    if not isinstance(model, str) or Path(model).is_file():
        ranker = load_scoring_model(Path(model)) if isinstance(model, Path | str) else model
        wanted = ranker.record.get("featureset_hash")
        own = cluster.the_featureset(featureset, wanted)
        where = cluster.the_index(index)
        with searchable(
            cluster.store, exported(cluster.engine, cluster.store, ranker, own)
        ) as kept:
            yield cluster.store, where, own, kept
        return
    store, name = cluster.uploaded(model)
    stored = store.get_model(name)
    if featureset not in {None, stored.featureset.name}:
        raise UsageError(
            f"the model '{model}' has the feature set '{stored.featureset.name}', not "
            f"'{featureset}': leave out {option_name('featureset')}"
        )
    yield store, cluster.index_of(name, index), stored.featureset, stored
