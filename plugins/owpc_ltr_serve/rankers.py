"""Rankers by the names that requests use: files, aliases and models of a cluster.

Names are resolved when they are first used, and again every few seconds in a thread of their own,
so that no request waits for that. A request keeps the ranker that it began with.
"""

from __future__ import annotations

import hashlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.data.feature_sources import (
    DocumentPairs,
    ExternalSource,
    document_pairs,
    external_entry,
    external_names,
    in_words,
)
from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.search.client_scoring import features_of_hits, find_featureset, prepare
from owpc_ltr.engine.stores import Absent, Store
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.ltr_plugin import import_linear
from owpc_ltr.formats.stored_model import client_model, is_client_scored, joined_in, joined_sources
from owpc_ltr.models.combined import ReorderingModel, load_model
from owpc_ltr.models.trees import HIGHEST
from owpc_ltr.names import check_name
from owpc_ltr_serve.endpoint import NoSuchModel

if TYPE_CHECKING:
    from owpc_ltr.data.external_features import ExternalTable

REFRESH = 2.0
"""Seconds after which a switched alias, or a replaced file, is followed."""
MOST_LOADED = 64
"""Names of a cluster that are held; the oldest one goes."""
_FAST = 0.005
"""Seconds for which other requests may wait: as long as Python lets a thread run."""
_PATIENCE = 10.0
"""Seconds for each request to the cluster by which a model is found."""
_log = logging.getLogger("owpc_ltr.serve")


ValuesOf = Callable[[Sequence[str]], Matrix]
"""The values of some documents of one query."""


@dataclass(frozen=True, eq=False)
class ExternalColumns:
    """External features in a model's order, and the table that each is found in."""

    feature_names: tuple[str, ...]
    tables: tuple[ExternalTable, ...]

    def of_query(self, query_id: str | None, params: Mapping[str, Any]) -> ValuesOf:
        """The way to the values of one query's documents; NaN where a table has no row.

        Raises UsageError at once where a table's key is not known of the query.
        """
        pairs = document_pairs([(query_id, params, [])])
        for table in self.tables:
            for name in table.source.keys:
                pairs.key(name, table.source.file)
        return lambda doc_ids: self.values(document_pairs([(query_id, params, doc_ids)]))

    def values(self, pairs: DocumentPairs) -> Matrix:
        """One row a pair, one column a feature."""
        columns = {
            name: column
            for table in self.tables
            for name, column in zip(table.feature_names, table.at(table.find(pairs)).T, strict=True)
        }
        return np.stack([columns[name] for name in self.feature_names], axis=1)


def columns_for(
    sources: Sequence[ExternalSource], tables: Sequence[ExternalTable], whose: str
) -> ExternalColumns | None:
    """The columns of these sources out of tables that may be newer; None where there are none.

    `whose` begins the error, as in "the model 'shop'". Raises UsageError where no table has one.
    """
    names = external_names(sources)
    if not names:
        return None
    holder = {name: table for table in tables for name in table.feature_names}
    lacking = [name for name in names if name not in holder]
    if lacking:
        given = " and no table given has it" if tables else ""
        raise UsageError(
            f"{whose} reads {in_words(lacking, sources)}, which is not in the index{given}: give "
            f"the table with `extra_features` FILE"
        )
    needed = {id(holder[name]) for name in names}
    return ExternalColumns(names, tuple(table for table in tables if id(table) in needed))


@dataclass(frozen=True, eq=False)
class ServedRanker:
    """A ranker that answers requests: one immutable model.

    `model` is NAME-HASH, or NAME@DIGEST of a file. `engine`, `store` and `featureset` are what the
    features of documents are asked with, and `index` where the documents are; see
    `Rankers.located`. `samples` are judged documents with the features of training.
    """

    model: str
    ranker: ReorderingModel
    joined: ExternalColumns | None = None
    engine: Engine | None = None
    store: Store | None = None
    featureset: FeatureSet | None = None
    index: str | None = None
    samples: tuple[dict[str, Any], ...] = ()
    is_fast: bool = False
    """Whether it scores a hundred documents within some milliseconds."""

    def features(self, values: ValuesOf | None, hits: Sequence[dict[str, Any]]) -> Matrix:
        """The features of hits, one row each; external ones, looked up in `values`, come last."""
        assert self.store and self.featureset  # noqa: PT018, S101 - for mypy
        rows = features_of_hits(self.store, self.featureset, hits)
        return rows if values is None else np.hstack([rows, values([hit["_id"] for hit in hits])])

    def score(self, matrix: Matrix, fields: Fields | None = None) -> Vector:
        """One score a document of one list. Raises Refused where one is no finite 32-bit number.

        Engines keep scores in 32 bits.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.ranker.rerank(matrix, None, fields)
        bad = np.flatnonzero(~(np.abs(scores) <= HIGHEST))
        if len(bad):
            raise Refused(
                f"the model '{self.model}' gives document {bad[0]} the score {scores[bad[0]]}, "
                "which is not a finite 32-bit number: its features are far from those of training"
            )
        return scores


@dataclass
class _NameState:
    """What a name means at present. `fault` is why it cannot be followed any more.

    A model of the cluster is gone then; a file's is the one that was loaded last.
    """

    ranker: ServedRanker
    confirmed: float
    """When the cluster, or the file, last said so."""
    fault: OwpcLtrError | None = None
    signature: Any = None
    """Of a file: what changes with its content."""
    path: Path | None = None


@dataclass
class Rankers:
    """The rankers that are served; safe to share between threads.

    `models` are files (served under the file's name without `.json`) and names of the cluster;
    where there are none, every model of the cluster is served. The first is the default.
    """

    cluster: Cluster
    models: Sequence[Path | str] = ()
    index: str | None = None
    tables: Sequence[ExternalTable] = ()
    plugins: Sequence[Path | str] = ()
    searches: ConcurrencyLimiter | None = None
    """Limits the searches that requests send to the cluster, if there is a limit."""
    refresh: float = REFRESH
    _names: dict[str, _NameState] = field(default_factory=dict, init=False)
    _loaded: dict[tuple[str, str | None, str], ServedRanker] = field(
        default_factory=dict, init=False
    )
    _located: dict[tuple[str, str | None], ServedRanker] = field(default_factory=dict, init=False)
    _allowed: dict[str, Path | None] = field(default_factory=dict, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _unconfirmed: set[str] = field(default_factory=set, init=False)
    _started: bool = field(default=False, init=False)
    _answered: float | None = field(default=None, init=False)
    _listed: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.cluster = self.cluster.within(_PATIENCE)
        for model in self.models:
            name, path = _named(model)
            if name in self._allowed:
                raise UsageError(f"two models are called '{name}': rename one of the files")
            self._allowed[name] = path

    @property
    def engine(self) -> Engine:
        """The engine that requests are sent to."""
        engine = self.cluster.engine
        return engine if self.searches is None else engine.limited(self.searches)

    def start(self) -> None:
        """Load what is served, and follow it from now on. Raises what a model cannot be loaded for.

        Where every model of the cluster is served, its aliases are loaded, and a warning says which
        cannot be. Nothing happens where it was started before.
        """
        if self._started:
            return
        self._started = True
        for name in self._allowed:
            self.get(name)
        for name in () if self._allowed else self._aliases():
            try:
                self.get(name)
            except EngineUnavailable:
                raise
            except OwpcLtrError as error:
                _log.warning("'%s' is not served: %s", name, error)
        self._listed = tuple(self._names)
        threading.Thread(target=self._follow, daemon=True, name="owpc-ltr-follow").start()
        threading.Thread(target=self._watch, daemon=True, name="owpc-ltr-watch").start()

    def stop(self) -> None:
        """Follow nothing any more."""
        self._ended.set()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are served: those given, or the aliases that were there at the start."""
        return tuple(self._allowed) or self._listed

    def get(self, name: str | None = None) -> ServedRanker:
        """The ranker that a name means now; None is the default.

        Raises NoSuchModel, and what the model could not be loaded for.
        """
        name = self._default() if name is None else name
        if name not in self._names and self._allowed and name not in self._allowed:
            raise NoSuchModel(f"no model '{name[:80]}' is served here: {_some(self.names)}")
        return self.arm(name)

    def arm(self, name: str) -> ServedRanker:
        """The ranker of an experiment's arm, whatever names are served: NAME-HASH, or an alias.

        Raises NoSuchModel, and what the model could not be loaded for.
        """
        state = self._names.get(name) or self._load(name)
        if state.fault is not None and state.path is None:
            # Raised again and again, it must not gather the frames of all requests.
            raise state.fault.with_traceback(None)
        return state.ranker

    def loaded(self, name: str | None) -> ServedRanker | None:
        """The ranker that a name means now, where it is state without asking; else None."""
        state = self._names.get(self._default() if name is None else name)
        if state is None or (state.fault is not None and state.path is None):
            return None
        return state.ranker

    def states(self) -> dict[str, dict[str, Any]]:
        """Of each name its model, the seconds since that was confirmed, and a fault if any."""
        now = time.monotonic()
        return {
            name: {
                "model": state.ranker.model,
                "confirmed_seconds_ago": round(now - state.confirmed, 1),
                **({"fault": str(state.fault)} if state.fault else {}),
            }
            for name, state in list(self._names.items())
        }

    def silence(self) -> float | None:
        """The seconds since the engine last answered; None where it never has."""
        return None if self._answered is None else time.monotonic() - self._answered

    def _aliases(self) -> list[str]:
        engine, stores = self.cluster.engine, self.cluster.stores
        return [alias.name for store in stores for alias in Aliases(engine, store).all()]

    def _default(self) -> str:
        names = self.names
        if self._allowed or len(names) == 1:
            return names[0]
        raise NoSuchModel(f"say which model ranks, with 'model': {_some(names)}")

    def _load(self, name: str) -> _NameState:
        with self._lock:
            state = self._names.get(name)
            if state is None:
                path = self._allowed.get(name)
                state = self._of_cluster(name) if path is None else self._of_file(name, path)
                while len(self._names) >= max(MOST_LOADED, len(self._allowed)):
                    self._names.pop(next(iter(self._names)))
                self._names[name] = state
        return state

    def _of_cluster(self, name: str) -> _NameState:
        with _missing():
            check_name("model", name.partition(":")[0])
            return _NameState(self._uploaded(*self.cluster.uploaded(name)), time.monotonic())

    def _uploaded(self, store: Store, model: str) -> ServedRanker:
        """An immutable model, loaded once."""
        key = (store.kind, store.name, model)
        with self._lock:
            ranker = self._loaded.get(key)
            if ranker is None:
                ranker = self._load_uploaded(store, model)
                # Only what a name means now is held.
                used = {id(state.ranker) for state in self._names.values()}
                self._loaded = {k: v for k, v in self._loaded.items() if id(v) in used}
                self._loaded[key] = ranker
        return ranker

    def _load_uploaded(self, store: Store, model: str) -> ServedRanker:
        record = DeploymentRecords(self.cluster.engine, store).find(model)
        if record is not None and record.content:
            local, featureset, index = record.ranker(), record.featureset, record.index
            sources, samples = joined_sources(local), record.samples
        else:
            stored = store.get_model(model)
            local = client_model(stored) if is_client_scored(stored) else import_linear(stored)
            featureset, sources, index, samples = stored.featureset, joined_in(stored), None, ()
        joined = columns_for(sources, self.tables, f"the model '{model}'")
        ranker = ReorderingModel(local, "", None, external_entry(sources))
        return ServedRanker(
            model,
            ranker,
            joined=joined,
            engine=self.engine,
            store=store,
            featureset=featureset,
            index=self.index or index,
            samples=samples,
            is_fast=_is_fast(ranker),
        )

    def located(self, served: ServedRanker) -> ServedRanker:
        """The ranker with what the features of documents are asked with.

        A file does not say where its feature set is: the cluster is asked, once. Raises BadInput
        where no feature set is the one that it was trained on, UsageError where it is not clear
        which index is meant.
        """
        if served.store is not None and served.index is not None:
            return served
        key = (served.model, served.index)
        located = self._located.get(key)
        if located is None:
            store, featureset = served.store, served.featureset
            if store is None:
                store = self.cluster.store
                featureset = find_featureset(store, served.ranker)
            index = served.index or self.cluster.the_index(None)
            located = replace(
                served, engine=self.engine, store=store, featureset=featureset, index=index
            )
            with self._lock:
                while len(self._located) >= MOST_LOADED:
                    self._located.pop(next(iter(self._located)))
                self._located[key] = located
        return located

    def _of_file(self, name: str, path: Path) -> _NameState:
        signature = _signature(path)
        ranker = load_model(path, self.plugins)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        if not isinstance(ranker, ReorderingModel):
            ranker = ReorderingModel(ranker, "", None, ranker.record)
        joined = columns_for(joined_sources(ranker), self.tables, f"the model {path}")
        samples = tuple(ranker.record.get("probes") or ())
        served = ServedRanker(
            f"{name}@{digest}",
            ranker,
            joined,
            index=self.index,
            samples=samples,
            is_fast=_is_fast(ranker),
        )
        return _NameState(served, time.monotonic(), signature=signature, path=path)

    def _follow(self) -> None:
        while not self._ended.wait(self.refresh):
            for name, state in list(self._names.items()):
                self._refresh(name, state)

    def _watch(self) -> None:
        """Ask the engine again and again whether it is there.

        In a thread of its own: one that also loads models is late.
        """
        engine = self.cluster.engine.within(self.refresh)
        while not self._ended.is_set():
            answered = True
            try:
                engine.request("GET", "/")
            except (EngineRefusal, NotAllowed):
                pass
            except EngineUnavailable:
                answered = False
            if answered:
                self._answered = time.monotonic()
            self._ended.wait(self.refresh)

    def _refresh(self, name: str, state: _NameState) -> None:
        """Look whether a name means another model now; what cannot be asked stays as it is."""
        try:
            fresh = self._fresh(name, state)
        except EngineUnavailable as error:
            if name not in self._unconfirmed:
                _log.warning("the model of '%s' is not confirmed any more: %s", name, error)
            self._unconfirmed.add(name)
            return
        except OwpcLtrError as error:
            if str(state.fault) != str(error):
                end = "is not served any more" if state.path is None else "stays as it was"
                _log.error("'%s' %s: %s", name, end, error)
            fresh = replace(state, fault=error)
        if name in self._unconfirmed:
            _log.warning("the model of '%s' is confirmed again", name)
            self._unconfirmed.discard(name)
        if fresh.fault is None and fresh.ranker.model != state.ranker.model:
            _log.warning("'%s' is %s now, it was %s", name, fresh.ranker.model, state.ranker.model)
        with self._lock:
            if name in self._names:
                self._names[name] = fresh

    def _fresh(self, name: str, state: _NameState) -> _NameState:
        if state.path is None:
            store = state.ranker.store
            assert store is not None  # noqa: S101 - told to the type checker
            with _missing():
                # Also what looks like NAME-HASH may be an alias: shop-20261123.
                model = Aliases(self.cluster.engine, store).resolve(name)
                return _NameState(self._uploaded(store, model), time.monotonic())
        if state.fault is not None or _signature(state.path) != state.signature:
            return self._of_file(name, state.path)
        return replace(state, confirmed=time.monotonic())


def _named(model: Path | str) -> tuple[str, Path | None]:
    """The name that a model is served under, and its file where it is one."""
    path = Path(model)
    if isinstance(model, Path) or path.suffix == ".json":
        return path.name.removesuffix(".json"), path
    check_name("model", model.partition(":")[0])
    return model, None


def _is_fast(ranker: ReorderingModel) -> bool:
    """Whether a hundred documents are scored within `_FAST`; what that needs is compiled."""
    prepare(ranker)
    rows = np.zeros((100, len(ranker.feature_names)), np.float32)
    best = math.inf
    for _ in range(3 if ranker.reordering is None else 0):
        began = time.perf_counter()
        ranker.rerank(rows)
        best = min(best, time.perf_counter() - began)
    return best <= _FAST


@contextmanager
def _missing() -> Iterator[None]:
    """Around requests for a model: one that is not there is no such model."""
    try:
        yield
    except (UsageError, Absent) as error:
        raise NoSuchModel(str(error)) from error


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        about = path.stat()
    except OSError as error:
        raise BadInput(f"cannot read the model {path}: {error.strerror}") from error
    return about.st_mtime_ns, about.st_size, about.st_ino


def _some(names: Sequence[str]) -> str:
    return f"there are {', '.join(names[:8])}" if names else "there is none"
