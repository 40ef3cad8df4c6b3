"""`profile`: what features, windows and a model cost in the live query, and the room they take.

Every variant of a search is timed on the same queries in turn, in a new order each time, after a
warm-up: other load on the machine then affects all of them alike, and differences are paired. The
clock is ours, so that times are those an application waits.

Features are timed in groups. A query is searched with about half of the features, and with other
halves, as many times as there are features, so that each is in one half of the searches and every
two meet in a quarter: the cost of a feature is then the difference of two means over all searches,
whose noise is far below that of two searches (weighing designs; Hotelling, Annals of Mathematical
Statistics 15, 1944).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.blocks import Block, BlockResult, Table, html_of
from owpc_ltr.data.options import Columns
from owpc_ltr.engine.client.responses import SearchAnswer
from owpc_ltr.engine.model_size import Capacity, capacity, used_features
from owpc_ltr.engine.options import DEFAULT_WINDOW, Params, QueryTemplate, SearchIndex
from owpc_ltr.engine.search.request import check_query, rescore_clauses
from owpc_ltr.engine.stores import Search, Store
from owpc_ltr.engine.stores.feature_queries import render
from owpc_ltr.errors import UsageError
from owpc_ltr.features.feature_set import FeatureSet, plain_params
from owpc_ltr.files.output import finite_json
from owpc_ltr.formats.ltr_plugin import import_linear
from owpc_ltr.formats.plugin_free import plugin_free_model
from owpc_ltr.formats.stored_model import is_client_scored
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.names import check_index
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, job, silent

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.protocols import Model

WINDOWS = (10, 50, 100, 200, 500, 1000)
REPEAT = 30
"""How many queries are timed."""
_SHOWN = 10
WARM_UP = 3
K = TypeVar("K")
QueryParams = dict[str, Any]
Variant = Callable[[QueryParams], Search]
"""Makes the search of a query's params."""


@dataclass(frozen=True)
class SearchTimes:
    """How long searches take, in milliseconds."""

    median_ms: float
    p95_ms: float


@dataclass(frozen=True)
class FeatureCost:
    """What a feature costs, in milliseconds.

    `milliseconds` is the median over repeats; `low` and `high` are its 95 % interval, which has no
    upper end for a single repeat. No feature costs less than nothing: all three are clipped at 0,
    and an interval that begins there (`in_noise`) includes no cost at all.
    """

    feature: str
    milliseconds: float
    low: float
    high: float

    @property
    def in_noise(self) -> bool:
        """Whether the cost is not told from that of no feature at all."""
        return self.low <= 0


@dataclass(frozen=True, repr=False)
class Profile(BlockResult):
    """What each feature costs, whole searches (`all`, `none`), windows by their size, and room.

    `queries` were given, `repeat` of them timed, features in this `window`. `derived` names the
    features that others are derived from.
    """

    index: str
    store_kind: str
    queries: int
    repeat: int
    window: int
    features: tuple[FeatureCost, ...]
    searches: dict[str, SearchTimes]
    windows: dict[int, SearchTimes]
    derived: dict[str, list[str]]
    capacity: Capacity

    def _repr_html_(self) -> str:
        return html_of([f"Profile of {self.index}", *self._blocks()])

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as JSON."""
        windows = [{"window": size, **asdict(times)} for size, times in self.windows.items()]
        return dict(finite_json({**asdict(self), "windows": windows}))

    def _blocks(self) -> Iterator[Block]:
        costs = self.features
        rows = [(c.feature, c.milliseconds, f"[{c.low:.2f}, {c.high:.2f}]") for c in costs]
        yield Table(("FEATURE", "COSTS MS", "95 %"), rows)
        noise = sum(cost.in_noise for cost in costs)
        if noise:
            yield (
                f"{noise} of {len(costs)} within the noise of the timing (interval clipped at 0): "
                f"a larger `repeat` tells smaller costs"
            )
        for name, words in (("all", "with all features"), ("none", "without any")):
            times = self.searches[name]
            yield f"{words}: {times.median_ms:.2f} ms (95 %: {times.p95_ms:.2f})"
        yield ""
        sizes = [(size, times.median_ms, times.p95_ms) for size, times in self.windows.items()]
        yield Table(("WINDOW", "MEDIAN MS", "95 % MS"), sizes)
        yield from self.capacity.sentences()


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
    keywords: Annotated[Sequence[str], Help("What a user types.")] = (),
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
        raise UsageError("there is no query to profile with: give `keywords` or `queries`")
    if model is None and featureset is None:
        raise UsageError("say what to profile: `featureset`, or `model`, which has its own set")
    with _profiled(cluster, model, featureset, index) as (store, where, features, stored):
        query = cluster.template(where, query_template)[0]
        return measure_profile(
            cluster.engine,
            store,
            Subject(where, query, features, stored),
            typed,
            repeat=repeat,
            window=window,
            seed=seed,
            progress=progress,
        )


def measure_profile(
    engine: Engine,
    store: Store,
    subject: Subject,
    params: Sequence[QueryParams],
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
        engine, store, parts, params, repeat=repeat, window=window, seed=seed, progress=progress
    )
    windows = time_variants(
        engine,
        subject.index,
        {size: with_features(store, subject, size) for size in WINDOWS},
        params,
        repeat,
        seed=seed,
        progress=progress,
    )
    return Profile(
        subject.index,
        store.kind,
        queries=len(params),
        repeat=repeat,
        window=window,
        features=tuple(costs),
        searches=searches,
        windows=windows,
        derived=subject.featureset.derived_from,
        capacity=capacity(engine, store, subject.featureset, subject.model, params[0]),
    )


@contextmanager
def _profiled(
    cluster: Cluster, model: Model | Path | str | None, featureset: str | None, index: str | None
) -> Iterator[tuple[Store, str, FeatureSet, StoredModel | None]]:
    """The store, the index, the set, and the model where there is one, stored or on trial."""
    from owpc_ltr.engine.deployment.trial import exported, searchable

    if model is None:
        store, where = cluster.holding_set(featureset).store, cluster.the_index(index)
        yield store, where, store.get_featureset(str(featureset)), None
        return
    if not isinstance(model, str) or Path(model).is_file():
        ranker = load_scoring_model(Path(model)) if isinstance(model, Path | str) else model
        features = cluster.the_featureset(featureset, ranker.record.get("featureset_hash"))
        where = cluster.the_index(index)
        trial = exported(cluster.store, ranker, features)
        with searchable(cluster.store, trial) as stored:
            yield cluster.store, where, features, stored
        return
    store, name = cluster.uploaded(model)
    stored = store.get_model(name)
    if featureset not in {None, stored.featureset.name}:
        raise UsageError(
            f"the model '{model}' has the feature set '{stored.featureset.name}', not "
            f"'{featureset}': leave out `featureset`"
        )
    yield store, cluster.index_of(name, index), stored.featureset, stored


@dataclass(frozen=True)
class Subject:
    """What is profiled: the features of a set in an application's query, or a model of them.

    With a model the engine rescores; without one it returns the features of the whole window, as
    for a reranker.
    """

    index: str
    query: dict[str, Any]
    featureset: FeatureSet
    model: StoredModel | None = None


def time_variants(
    engine: Engine,
    index: str,
    variants: Mapping[K, Variant],
    queries: Sequence[QueryParams],
    repeat: int,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[K, SearchTimes]:
    """Search with one query a repeat in every variant."""
    turns = [list(variants.values())] * (WARM_UP + repeat)
    random = np.random.default_rng(seed)
    passed = _time_turns(engine, index, turns, queries, random, stage="windows", progress=progress)
    return {name: _summary(column) for name, column in zip(variants, passed.T, strict=True)}


def _summary(milliseconds: Vector) -> SearchTimes:
    return SearchTimes(*map(float, np.percentile(milliseconds, (50, 95))))


def _time_turns(
    engine: Engine,
    index: str,
    turns: Sequence[Sequence[Variant]],
    queries: Sequence[QueryParams],
    random: np.random.Generator,
    *,
    stage: str,
    progress: Progress,
) -> NDArray[np.float64]:
    """Milliseconds of each turn's variants on one query, (turns, variants), without a warm-up.

    The variants of a turn are searched in random order.
    """
    repeat = len(turns) - WARM_UP
    if repeat < 1:
        raise UsageError(f"`repeat` is 1 or more, not {repeat}")
    passed = []
    for turn, variants in enumerate(turns, -WARM_UP):
        params = queries[turn % len(queries)]
        # Made before the clock starts: rendering templates is not the engine's work.
        searches = [variant(params) for variant in variants]
        milliseconds = np.empty(len(searches))
        for place in random.permutation(len(searches)):
            milliseconds[place] = _time_search(engine, index, searches[place])
        passed.append(milliseconds)
        if turn >= 0:
            progress(stage, (turn + 1) / repeat)
    return np.array(passed[WARM_UP:])


def _time_search(engine: Engine, index: str, search: Search) -> float:
    sent = {"request_cache": "false", "allow_partial_search_results": "false", **search.params}
    path = f"/{check_index(index)}/_search"
    started = time.perf_counter()
    answer = engine.request("POST", path, params=sent, body=search.body)
    milliseconds = 1000 * (time.perf_counter() - started)
    SearchAnswer.read(answer, search.body, "the timed search")
    return milliseconds


def query_alone(store: Store, subject: Subject, window: int) -> Variant:
    """The application's query by itself, which counts its hits where that with features does."""
    check_query(subject.query)
    logs = subject.model is None
    body = {"size": window if logs else _SHOWN, "_source": False}
    if logs and store.kind != "ltr-plugin":
        body["track_total_hits"] = True

    def search(params: QueryParams) -> Search:
        return Search({"query": render(subject.query, params), **body})

    return search


def with_features(
    store: Store, subject: Subject, window: int, names: Sequence[str] | None = None
) -> Variant:
    """The live query with the features of these names only (None: with all)."""
    bare = query_alone(store, subject, window)
    model = subject.model
    window = window if model is None else max(window, _SHOWN)
    featureset, by_plugin = subject.featureset, store.kind == "ltr-plugin"
    if names is not None and not by_plugin:
        # Those derived from others go, for they cost the engine nothing.
        some = tuple(feature for feature in featureset.features if feature.name in names)
        featureset = replace(featureset, features=some)
        model = None if model is None else _only_weights(model, names)

    def search(params: QueryParams) -> Search:
        base = bare(params)
        if model is None:
            added = store.window_log(featureset, _needed(featureset, params), window)
        else:
            needed = _needed(model.featureset, params)
            added = Search({"rescore": rescore_clauses(store, model, needed, window)})
        if names is not None and by_plugin:
            for step in added.body["rescore"]:
                # The plugin then computes these features only.
                step["query"]["rescore_query"]["sltr"]["active_features"] = list(names)
        return Search({**base.body, **added.body}, added.params)

    return search


def _only_weights(model: StoredModel, names: Sequence[str]) -> StoredModel:
    """A linear model in which every other feature weighs nothing, so that it is not computed."""
    linear = import_linear(model)
    weights = dict(zip(linear.feature_names, map(float, linear.weights), strict=True))
    normalisers = model.feature_normalizers
    return replace(
        model,
        definition={name: weight for name, weight in weights.items() if name in names},
        feature_normalizers={name: n for name, n in normalisers.items() if name in names},
    )


def _needed(featureset: FeatureSet, params: QueryParams) -> QueryParams:
    return {name: params[name] for name in featureset.params if name in params}


def feature_costs(
    engine: Engine,
    store: Store,
    subject: Subject,
    queries: Sequence[QueryParams],
    *,
    repeat: int,
    window: int = DEFAULT_WINDOW,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[list[FeatureCost], dict[str, SearchTimes]]:
    """The cost of each feature, dearest first, and the times with `all` features and `none`."""
    names = np.array(computed(store, subject))
    if not len(names):
        raise UsageError("there is no feature that the engine computes: nothing to profile")
    without, with_all = query_alone(store, subject, window), with_features(store, subject, window)

    def in_group(group: NDArray[np.bool_]) -> Variant:
        return (
            with_features(store, subject, window, names[group].tolist()) if group.any() else without
        )

    random = np.random.default_rng(seed)
    designs = [hadamard_design(len(names), random) for _ in range(WARM_UP + repeat)]
    turns = [[without, with_all, *map(in_group, groups)] for groups in designs]
    passed = _time_turns(
        engine, subject.index, turns, queries, random, stage="features", progress=progress
    )
    costs = [
        feature_effects(groups, row[2:])
        for groups, row in zip(designs[WARM_UP:], passed, strict=True)
    ]
    by_feature = [
        _cost(name, column)
        for name, column in zip(names.tolist(), np.transpose(costs), strict=True)
    ]
    searches = {"none": _summary(passed[:, 0]), "all": _summary(passed[:, 1])}
    return sorted(by_feature, key=lambda cost: -cost.milliseconds), searches


def hadamard_design(n: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which of `n` features each search of a turn has, (searches, n): by a Hadamard matrix.

    Each feature is in half of the searches, each two of them in a quarter. Which columns of the
    matrix they are, and which sign means that a search has the feature, is drawn anew each time.
    """
    from scipy.linalg import hadamard

    size = 1 << n.bit_length()
    signs = hadamard(size)[:, 1 + random.permutation(size - 1)[:n]]
    return np.asarray(signs * random.choice((-1, 1), size=n) > 0)


def feature_effects(groups: NDArray[np.bool_], passed: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each feature adds: the mean of the searches that have it less that of those without."""
    signs = np.where(groups, 2.0, -2.0) / len(groups)
    return np.asarray(passed @ signs)


def _cost(name: str, costs: Vector) -> FeatureCost:
    """The cost of a feature, by what it cost in each repeat."""
    low, middle, high = np.percentile(costs, (25, 50, 75))
    # The notch of a box plot (McGill, Tukey & Larsen 1978), the 95 % interval of a median.
    half = 1.57 * (high - low) / np.sqrt(len(costs)) if len(costs) > 1 else np.inf
    ends = (middle, middle - half, middle + half)
    return FeatureCost(name, *(max(0.0, float(end)) for end in ends))


def computed(store: Store, subject: Subject) -> tuple[str, ...]:
    """The features that the engine computes for this subject, in order.

    Without the plugin a feature of weight 0 is left out of the rescorers.
    """
    featureset = subject.featureset
    names = tuple(name for name in featureset.feature_names if name not in featureset.derived_from)
    if subject.model is None or store.kind == "ltr-plugin":
        return names
    used = used_features(subject.model)
    return tuple(name for name in names if name in used)
