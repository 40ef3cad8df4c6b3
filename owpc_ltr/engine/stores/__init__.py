"""`Store`: feature sets and models in a cluster, and how they are used in a search.

`choose_store` has the kind that fits a cluster. Both kinds keep the LTR plugin's JSON. What an
engine without the plugin must be able to do, and how many clauses it takes, is checked here too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.client.engine import About, Engine, Identity, search_index
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet, read_featureset
from owpc_ltr.formats.stored_model import StoredModel, read_model, same_model
from owpc_ltr.names import check_name, check_store, did_you_mean, only_one
from owpc_ltr.version import Version, parse_version

if TYPE_CHECKING:
    from owpc_ltr.arrays import Matrix
    from owpc_ltr.protocols import Model

KINDS = ("ltr-plugin", "plugin-free")
LARGEST_WINDOW = 10_000
TAKEN = {405, 409}
"""HTTP statuses that say: there is something of this name."""
USUAL_CLAUSES = 1024
"""What every engine takes that nobody has set lower."""
OLDEST = {"opensearch": (2, 13), "elasticsearch": (8, 8)}
"""The first versions that return the scores of named queries."""
_CLAUSES = "indices.query.bool.max_clause_count"
_NAMES = {"opensearch": "OpenSearch", "elasticsearch": "Elasticsearch"}


@dataclass(frozen=True)
class Search:
    """One search request: what goes into the URL and what goes into the body."""

    body: dict[str, Any]
    params: dict[str, str] = field(default_factory=dict)


class Store(ABC):
    """Feature sets and models in a cluster: with the LTR plugin, or without it.

    Every name is checked before it reaches a URL. All methods raise EngineUnavailable when the
    engine does not answer, and Refused, in one line, when it says no.
    """

    kind: str
    """`ltr-plugin` or `plugin-free`."""

    name: str | None
    """Which of the stores of its kind; None for the default one."""

    def __init__(self, engine: Engine, name: str | None = None) -> None:
        self._engine = engine
        self.name = None if name is None else check_store(name)
        self._place = place_of(self.kind, name, engine.settings.url)

    @abstractmethod
    def prepare(self) -> None:
        """Make the store if it is not there yet; harmless when it is."""

    @abstractmethod
    def put_featureset(self, featureset: FeatureSet, *, replace: bool = False) -> None:
        """Keep a feature set, after trying its templates where it has a validation."""

    def get_featureset(self, name: str) -> FeatureSet:
        """The feature set of this name; BadInput if there is none."""
        return read_featureset(self._get("featureset", name), f"feature set '{name}'")

    def list_featuresets(self) -> list[str]:
        """Names, sorted."""
        return self._names("featureset")

    def delete_featureset(self, name: str) -> None:
        """Take out a feature set; models keep their own copy of it."""
        self._delete("featureset", name)

    @abstractmethod
    def put_model(self, model: StoredModel) -> None:
        """Keep a model under a name that is not taken.

        An equal model under that name is success (a retry after a lost answer); another one is
        Refused: a name is never reused.
        """

    def get_model(self, name: str) -> StoredModel:
        """The model of this name; BadInput if there is none."""
        return read_model(self._get("model", name), f"model '{name}'")

    def list_models(self) -> list[str]:
        """Names, sorted."""
        return self._names("model")

    def delete_model(self, name: str) -> None:
        """Take out a model."""
        self._delete("model", name)

    @abstractmethod
    def log_search(
        self, featureset: FeatureSet, params: dict[str, Any], doc_ids: list[str]
    ) -> Search:
        """A search that returns exactly these documents (those that exist) with their features."""

    def logged(
        self, featureset: FeatureSet, index: str, sample: Mapping[str, Any]
    ) -> tuple[list[str], Matrix]:
        """The ids of a sample's documents that are in the index, and their features now."""
        import numpy as np

        doc_ids = sample["document_ids"]
        request = self.log_search(featureset, sample["params"], doc_ids)
        what = "judged documents"
        hits = search_index(self._engine, index, request.body, what, params=request.params).hits
        values = {hit["_id"]: self.features_of(featureset, hit) for hit in hits}
        ids = [doc_id for doc_id in doc_ids if doc_id in values]
        rows = [values[doc_id] for doc_id in ids]
        width = len(featureset.features)
        return ids, np.array(rows, dtype=np.float32).reshape(len(rows), width)

    @abstractmethod
    def export(self, model: Model, featureset: FeatureSet, name: str) -> StoredModel:
        """The model as this store keeps it and its engine runs it, whatever it costs.

        Raises Refused, before anything is sent, where the engine would not accept it.
        """

    @abstractmethod
    def features_of(self, featureset: FeatureSet, hit: dict[str, Any]) -> list[float]:
        """Feature values of one hit, in order; NaN where the query did not match.

        The hit is one of a `log_search`, or of a search with `window_log`, within its window.

        Raises Refused where the answer does not carry what was asked for.
        """

    @abstractmethod
    def window_log(self, featureset: FeatureSet, params: dict[str, Any], window: int) -> Search:
        """What an application's search adds to have the features of its best `window` hits.

        Neither the hits nor their order or scores change; it is one request all the same.
        """

    @abstractmethod
    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        """Rescore clauses that replace the score of the best `window` documents by the model's.

        `window` must be at least `from` + `size` of the search: a document beyond it is left with
        the score 0, which would put it above rescored documents with negative scores. (Each shard
        rescores its own best `window`, so that nothing beyond a window is then ever returned.) The
        engine sorts anew after each clause, beyond the window too, so that what one of several
        clauses brings below those beyond it is not in the window of the next: the search's request
        keeps that from happening. A search with `sort` or scroll cannot be rescored.
        """

    @abstractmethod
    def _get(self, what: str, name: str) -> Any:
        """A `featureset` or `model` as it was written. Raises Absent if there is none."""

    @abstractmethod
    def _names(self, what: str) -> list[str]:
        """The names of all feature sets or models, sorted."""

    @abstractmethod
    def _delete(self, what: str, name: str) -> None:
        """Take out a feature set or a model. Raises Absent if there is none."""


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
        store = PluginFreeStore(engine, name)
        # Without the right to ask, what an engine lacks shows where it is needed.
        if store.about is not None:
            check_engine(store.about)
        return store
    identity = _identity(engine)
    if identity.has_ltr:
        return LtrPluginStore(engine, name)
    if kind is None:
        check_engine(identity)
        return PluginFreeStore(engine, name, identity)
    raise UsageError(
        f"{engine.settings.url} does not list the LTR plugin (its plugins: "
        f"{', '.join(identity.plugins) or 'none'}): install it, or use `store_kind='plugin-free'`"
    )


def _identity(engine: Engine) -> Identity:
    """What the cluster runs; where it may not be asked, `store_kind` spares the question."""
    try:
        return engine.identity()
    except NotAllowed as refusal:
        raise NotAllowed(
            f"{refusal}; or say `store_kind='plugin-free'`, which does not ask for plugins"
        ) from refusal


def rescorer(
    query: dict[str, Any], window: int, *, own_weight: float, weight: float, **more: str
) -> dict[str, Any]:
    """A clause that adds weighted scores of a query to those that the best documents have."""
    weights = {"query_weight": own_weight, "rescore_query_weight": weight}
    return {
        "window_size": check_window(window),
        "query": {"rescore_query": query, **weights, **more},
    }


def silent_rescore(query: dict[str, Any], window: int) -> list[dict[str, Any]]:
    """A rescorer that computes a query for the best documents, and adds nothing to their scores."""
    return [rescorer(query, window, own_weight=1, weight=0)]


def check_window(window: int) -> int:
    """A window that every engine takes by default."""
    if not 1 <= window <= LARGEST_WINDOW:
        raise UsageError(f"a window is 1 to {LARGEST_WINDOW} documents, not {window}")
    return window


def is_number(value: object) -> bool:
    """Whether it is a number that a float holds: JSON has integers of any length.

    >>> [is_number(each) for each in (1.5, float("inf"), 7, 10**400, "1", True, None)]
    [True, True, True, False, False, False, False]
    """
    return type(value) is float or (type(value) is int and abs(value) < 1 << 1000)


def keep_featureset(store: Store, featureset: FeatureSet, create: Callable[[], None]) -> None:
    """Create a set; an equal one of that name is success, another one Refused."""
    try:
        create()
    except EngineRefusal as refusal:
        if refusal.status not in TAKEN:
            raise
        # Also what a retry sees after its first answer was lost.
        if store.get_featureset(featureset.name).hash != featureset.hash:
            raise Refused(
                f"there is another feature set '{featureset.name}' already: take another name, or "
                "replace it: `replace`"
            ) from refusal
    except EngineUnavailable as fault:
        # The answer may be all that was lost.
        if not _has_featureset(store, featureset):
            raise fault from fault.__cause__


def keep_model(store: Store, model: StoredModel, create: Callable[[], None]) -> None:
    """Create a model and read it back: what counts is what lies in the store.

    An answer can be lost after the model was stored, and the set that the engine copies can be
    changed by somebody else in between.
    """
    check_name("model", model.name)
    _check_featureset(store, model)
    taken: OwpcLtrError | None = None
    try:
        create()
    except EngineRefusal as refusal:
        if refusal.status not in TAKEN:
            raise
        taken = refusal
    except EngineUnavailable as fault:
        if not _is_there(store, model):
            raise fault from fault.__cause__
        return
    if same_model(store.get_model(model.name), model):
        return
    if taken is not None:
        raise Refused(
            f"there is another model '{model.name}' already, and a name is never used again: take "
            "another one"
        ) from taken
    store.delete_model(model.name)
    raise Refused(
        f"the feature set '{model.featureset.name}' was changed while the model '{model.name}' was "
        "stored, so the model was removed again: try once more"
    )


def place_of(kind: str, name: str | None, url: str) -> str:
    """A store as messages call it.

    >>> place_of("plugin-free", "shop", "http://127.0.0.1:9200")
    "the plugin-free store 'shop' of http://127.0.0.1:9200"
    """
    return f"the {kind} store{f' {name!r}' if name else ''} of {url}"


def file_advice(what: str, name: str) -> str:
    """What to do about a file that is named in place of what was stored from it; empty for none."""
    command = "upload" if what == "model" else "featureset push"
    return f"it is a file: owpc-ltr {command} {name} first" if Path(name).is_file() else ""


class Absent(BadInput):
    """Something is not in a store: `what` is `model` or `feature set`."""

    def __init__(self, what: str, name: str, place: str, names: Iterable[str] = ()) -> None:
        self.what, self.name, self._place = what, name, place
        otherwise = file_advice(what, name) or "check the name, or the `store`"
        advice = did_you_mean(name, names, otherwise)
        super().__init__(f"there is no {what} '{name}' in {place}: {advice}")

    def among(self, names: Iterable[str]) -> Absent:
        """The same error, which asks whether one of these is meant."""
        return Absent(self.what, self.name, self._place, names)


def words_of(what: str) -> str:
    """What a document of a store is called, by its `type`."""
    return "feature set" if what == "featureset" else what


@contextmanager
def naming_close_sets(store: Store) -> Iterator[None]:
    """In this block a feature set that is not there is told with the one whose name is close."""
    try:
        yield
    except Absent as absent:
        names: Iterable[str] = ()
        with suppress(OwpcLtrError):  # advice may not hide what it is about
            names = store.list_featuresets()
        raise absent.among(names) from absent


def choose_featureset(
    store: Store, name: str | None, trained_hash: str | None = None
) -> FeatureSet:
    """The feature set of this name, the one with this hash, or the only one of the store."""
    if name is not None:
        with naming_close_sets(store):
            featureset = store.get_featureset(check_name("feature set", name))
        differs = trained_hash not in {None, featureset.hash}
        if differs and (trained_on := _hashed(store, trained_hash)):
            raise UsageError(
                f"feature set '{name}' is not the one that the model was trained on, which is "
                f"'{trained_on.name}': give that as `featureset`, or none"
            )
        return featureset
    if trained_hash is None:
        names = store.list_featuresets()
        only = only_one(names, "feature set", "`featureset`", f"the {store.kind} store")
        return store.get_featureset(only)
    if trained_on := _hashed(store, trained_hash):
        return trained_on
    raise UsageError(
        f"no feature set in the {store.kind} store is the one that the model was trained on: "
        "push it there, or name another with `featureset`, or its store with `store_kind`"
    )


def _hashed(store: Store, trained_hash: str | None) -> FeatureSet | None:
    """The feature set of the store that has this hash, if one does."""
    stored = map(store.get_featureset, store.list_featuresets())
    return next((featureset for featureset in stored if featureset.hash == trained_hash), None)


def _check_featureset(store: Store, model: StoredModel) -> None:
    """Refuse a model whose features are not those that lie in the store under that name."""
    stored = store.get_featureset(model.featureset.name)
    if stored.hash == model.featureset.hash:
        return
    changed = changed_features(model.featureset, stored, most=5)
    raise Refused(
        f"the stored feature set '{stored.name}' is not the one of the model '{model.name}' "
        f"({changed} changed): push the model's set under another name, or log and train again"
    )


def changed_features(before: FeatureSet, after: FeatureSet, most: int | None = None) -> str:
    """The names of the features in which two sets differ, at most so many of them."""
    old, new = ({feature.name: feature for feature in part.features} for part in (before, after))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"'{name}'" for name in changed[:most]) or "the order of features"


def _has_featureset(store: Store, featureset: FeatureSet) -> bool:
    try:
        return store.get_featureset(featureset.name).hash == featureset.hash
    except Absent:
        return False


def _is_there(store: Store, model: StoredModel) -> bool:
    try:
        return same_model(store.get_model(model.name), model)
    except OwpcLtrError:
        return False


def check_engine(about: About) -> None:
    """Refuse an engine that does not return the scores of named queries, before any work."""
    oldest, version = OLDEST.get(about.distribution), _version(about)
    if oldest is not None and version is not None and version < oldest:
        needed = " or ".join(f"{_NAMES[name]} {a}.{b}" for name, (a, b) in OLDEST.items())
        raise Refused(
            f"{_NAMES[about.distribution]} {about.version} is too old to do without the LTR "
            f"plugin: that needs {needed} or later; upgrade it, or install the plugin"
        )


def _version(about: About) -> Version | None:
    """An engine's version; None for one that says nothing, whose own refusals say what it lacks."""
    try:
        return parse_version(about.version)
    except UsageError:
        return None


class NoWindowScores(Refused):
    """The features of hits cannot come with the search that finds them."""


def check_window_scores(about: About | None) -> None:
    """Raise NoWindowScores for an engine that returns no scores of queries named in a rescorer.

    Every feature would seem missing: OpenSearch does so before 3.2, without a word. So one whose
    version is not known (None) might.
    """
    if about is None:
        raise NoWindowScores("the account may not ask for the engine's version")
    version = _version(about)
    if about.distribution == "opensearch" and version is not None and version < (3, 2):
        raise NoWindowScores(
            f"OpenSearch {about.version} returns no scores of queries named inside a rescorer, by "
            "which features come with a search: that needs OpenSearch 3.2 or Elasticsearch 8.8 or "
            "later; upgrade it, or use a linear model, which needs none"
        )


def check_collapse(about: About) -> None:
    """Refuse an engine that does not collapse results which it rescores."""
    version = _version(about)
    if version is not None and (about.distribution != "elasticsearch" or version < (8, 15)):
        raise UsageError(
            f"the search's body has a 'collapse', and {_NAMES[about.distribution]} "
            f"{about.version} does not collapse results that it rescores, as Elasticsearch 8.15 "
            "and later do: leave it out, and group the hits in the application"
        )


def most_clauses(engine: Engine) -> int | None:
    """How many clauses one search may have; None where the engine alone can tell.

    Elasticsearch reckons with its heap, and says only at a search what was too much; so does an
    engine whose settings are not ours to read.
    """
    try:
        if engine.about().distribution != "opensearch":
            return None
        text = cluster_setting(engine, _CLAUSES)
    except (NotAllowed, EngineRefusal):
        return None
    return int(text) if text is not None and text.isdigit() else None


def cluster_setting(engine: Engine, name: str) -> str | None:
    """A setting as the cluster has it: what is set comes before what is by default."""
    # A filter takes the dots of a flat name for a path, and finds nothing.
    params = {"include_defaults": True, "flat_settings": True}
    answer = engine.request("GET", "/_cluster/settings", params=params)
    for layer in ("transient", "persistent", "defaults"):
        settings = answer.get(layer) if isinstance(answer, dict) else None
        value = settings.get(name) if isinstance(settings, dict) else None
        if value is not None:
            return str(value)
    return None
