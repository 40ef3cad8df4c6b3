"""`connect`: a cluster, and everything that is done in it.

    engine = connect("http://127.0.0.1:9200")
    engine.featuresets.push("movies.json", index="movies")
    engine.log_features("judgments.tsv", featureset="movies", index="movies", out="movies.parquet")
    engine.upload(model, name="movies-owpc")
    engine.search("insidious 2", model="movies-owpc")

An index, feature set or name that is left out is the one that the model or the cluster knows,
where only one can be meant; else UsageError names those that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.api.defaults import the_featureset, the_index, the_name

if TYPE_CHECKING:
    from owpc_ltr.api.feature_sets import FeatureSets
    from owpc_ltr.api.uploaded_models import UploadedModels
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.types import Duplicates, Judgments
    from owpc_ltr.engine.deployment.drift import Verified
    from owpc_ltr.engine.deployment.upload import Uploaded
    from owpc_ltr.engine.feature_log import LogReport
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.indexing import IndexReport
    from owpc_ltr.engine.search.compare import BeforeAndAfter
    from owpc_ltr.engine.search.profile import Profile
    from owpc_ltr.engine.search.request import SearchRequest
    from owpc_ltr.engine.store.base import Store
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model

Progress = Callable[[str, float | None], None]


def connect(
    url: str | None = None,
    *,
    store_kind: str | None = None,
    store: str | None = None,
    ca: Path | str | None = None,
    insecure: bool = False,
    caution: Callable[[str], None] | None = None,
) -> Cluster:
    """The cluster at `url`, of the environment or the configuration file, else the local node.

    Credentials come from OWPC_LTR_USER and OWPC_LTR_PASSWORD, OWPC_LTR_API_KEY, or the
    configuration file, never from an argument. `store_kind` is `ltr-plugin` or `plugin-free`;
    left out, what the cluster has. `store` names one of several stores. `caution` is told what the
    user must know (an unverified certificate, say); left out, it is a warning.

    Nothing is asked of the cluster yet. Raises UsageError and BadInput for settings that do not do.
    """
    from owpc_ltr.engine.http.client import connect as connect_to
    from owpc_ltr.errors import give_warnings

    tell = caution or (lambda line: give_warnings([line]))
    authority = None if ca is None else Path(ca)
    return Cluster(
        connect_to(url, ca=authority, insecure=insecure, caution=tell), store_kind, store
    )


class Cluster:
    """A cluster that answers requests, and the store in it of feature sets and models."""

    def __init__(self, engine: Engine, store_kind: str | None = None, store: str | None = None):
        self.engine = engine
        self._store_kind, self._store_name = store_kind, store

    def __repr__(self) -> str:
        return f"Cluster({self.engine.settings.url!r})"

    @cached_property
    def store(self) -> Store:
        """Where feature sets and models live; the cluster is asked which kind it has."""
        from owpc_ltr.engine.store.choose import choose_store

        return choose_store(self.engine, self._store_kind, self._store_name)

    @property
    def featuresets(self) -> FeatureSets:
        """The feature sets of the store: push, get, list, delete."""
        from owpc_ltr.api.feature_sets import FeatureSets

        return FeatureSets(self.engine, lambda: self.store)

    @property
    def models(self) -> UploadedModels:
        """The models of the store and their names: list, show, promote, roll back, prune."""
        from owpc_ltr.api.uploaded_models import UploadedModels

        return UploadedModels(self.engine, lambda: self.store)

    def index(
        self,
        documents: Path | str,
        index: str,
        *,
        id_field: str | None = None,
        settings: Mapping[str, Any] | None = None,
        existing: str = "refuse",
        progress: Progress | None = None,
    ) -> IndexReport:
        """Index the JSON lines of a file, every document accounted for.

        `id_field` names the field with the ids; left out, line numbers. `settings` has settings
        and mappings of a new index. `existing`: `refuse`, `append` or `recreate` one that is there.
        """
        from itertools import chain

        from owpc_ltr.engine.indexing import create_index, index_documents, merge_segments
        from owpc_ltr.files.json_lines import read_json_lines, with_ids

        show = progress or _quiet
        numbered = with_ids(read_json_lines(Path(documents)), id_field, str(documents))
        # The first document is looked at before anything is made or deleted.
        numbered = chain([next(numbered)], numbered)
        create_index(self.engine, index, dict(settings or {}) or None, existing=existing)
        report = index_documents(self.engine, index, numbered, show)
        if existing != "append":
            show("merging segments", None)
            merge_segments(self.engine, index)
        return report

    def log_features(
        self,
        judgments: Judgments | Path | str,
        out: Path | str,
        *,
        featureset: str | None = None,
        index: str | None = None,
        topics: Path | str | None = None,
        duplicates: Duplicates = "refuse",
        progress: Progress | None = None,
        **options: Any,
    ) -> LogReport:
        """The feature values of every judged document, as the dataset `out` (Parquet).

        `judgments` are `read_judgments`' or a file, read with `topics` and `duplicates` as there.
        Every one is logged, absent or rejected, and all are counted. Half-done work stays beside
        `out`: the same call goes on, to the same bytes. `options` are those of
        `owpc_ltr.engine.feature_log.LogOptions`.
        """
        import hashlib

        from owpc_ltr.api.judgments import read_judgments
        from owpc_ltr.engine.feature_log import LogOptions, log_features
        from owpc_ltr.errors import give_warnings

        logging, source = LogOptions(**options), None
        if isinstance(judgments, Path | str):
            source = hashlib.sha256(Path(judgments).read_bytes()).hexdigest()
            judged = read_judgments(judgments, topics=topics, duplicates=duplicates)
            give_warnings(judged.notes)
        else:
            judged = judgments
        where = the_index(self.engine, index)
        known = self.store.get_featureset(the_featureset(self.store, featureset))
        counted = _counted(progress or _quiet, judged.n_judgments)
        return log_features(
            self.engine, self.store, known, judged, where, Path(out),
            source=source, options=logging, progress=counted,
        )  # fmt: skip

    def upload(
        self,
        model: Model | Path | str,
        name: str | None = None,
        *,
        index: str | None = None,
        featureset: str | None = None,
        role: str = "champion",
        require_gain: Any = None,
        over: str = "champion",
        data: RankingDataset | None = None,
        tolerance: float = 1e-5,
        max_drift: float = 0.25,
        plugins: Sequence[Path | str] = (),
    ) -> Uploaded:
        """Store the model as NAME@HASH, prove its scores on documents, then let NAME point to it.

        `role` may be `challenger`. With the metric `require_gain` it must be better than `over` on
        the held-out queries of `data`. Raises Refused, with the model taken out again and the name
        where it was, if a score differs by more than `tolerance`, the gain is not shown, or a
        feature moved by more than `max_drift` standard deviations since training. `plugins` are
        files in which the metric may be.
        """
        from owpc_ltr.engine.deployment.gate import Gate
        from owpc_ltr.engine.deployment.upload import upload
        from owpc_ltr.errors import UsageError
        from owpc_ltr.host.registry import load
        from owpc_ltr.metrics import parse_metric
        from owpc_ltr.models.linear import load_model
        from owpc_ltr.models.parity_samples import parity_samples_of

        registry = load(map(Path, plugins))
        metric = None if require_gain is None else parse_metric(require_gain, registry)
        if metric is not None and data is None:
            raise UsageError("--require-gain needs judged queries to compare on: give --data FILE")
        gate = Gate(metric, data, over) if metric is not None and data is not None else None
        samples = None if data is None else parity_samples_of(data)
        path = Path(model) if isinstance(model, Path | str) else None
        ranker = load_model(path) if path is not None else model
        assert not isinstance(ranker, Path | str)  # noqa: S101 - told to the type checker
        called = the_name(self.engine, name, path)
        wanted = ranker.record.get("featureset_hash")
        trained_on = self.store.get_featureset(the_featureset(self.store, featureset, wanted))
        where = the_index(self.engine, index)
        return upload(
            self.engine, self.store, ranker, trained_on, where, called, tolerance,
            role=role, gate=gate, samples=samples, max_drift=max_drift,
        )  # fmt: skip

    def verify(
        self,
        name: str | None = None,
        *,
        index: str | None = None,
        tolerance: float = 1e-5,
        feature_drift: float = 0.1,
    ) -> Verified:
        """Prove an uploaded model again, from what the cluster remembers of it; `drift` is said."""
        from owpc_ltr.engine.deployment.drift import verify

        model = self.models.resolve(the_name(self.engine, name))
        limits = {"tolerance": tolerance, "feature_drift": feature_drift}
        return verify(self.engine, self.store, model, index, **limits)

    def request(
        self,
        keywords: str = "{{keywords}}",
        *,
        index: str,
        query: Mapping[str, Any] | Path | str | None = None,
        params: Mapping[str, Any] | None = None,
        size: int | None = None,
        window: int = 100,
    ) -> SearchRequest:
        """What a search asks for: the keywords in `query`, else in all text fields.

        `query` has `{{keywords}}` where the user's words go. It may be a file, and the whole body
        of a search, with filters, aggregations, highlighting …; its `size` holds unless given.
        """
        from owpc_ltr.engine.search.request import SearchRequest

        template, rest = self._template(index, query)
        own = rest.pop("size", 10)
        shown = own if size is None else size
        filled = {"keywords": keywords, "query": keywords, **(params or {})}
        return SearchRequest(index, template, filled, shown, window, rest)

    def search(
        self,
        keywords: str,
        *,
        model: str | None = None,
        reranker: ReorderingModel | None = None,
        index: str | None = None,
        title: str | None = None,
        deadline: float = 1.0,
        **asked: Any,
    ) -> BeforeAndAfter:
        """A search without and with an uploaded model, or with a reordering that the client does.

        `asked` is as for `request`: query, params, size, window. `title` is the field to show.
        `deadline` (seconds) is the reordering's; past it, the engine's order stays.
        """
        from dataclasses import replace

        from owpc_ltr.engine.search.compare import search, search_reordered
        from owpc_ltr.errors import UsageError
        from owpc_ltr.names import check_index

        if model is not None and reranker is not None:
            raise UsageError("give one of model and reranker: a search is ranked by one")
        if index is not None:
            check_index(index)
        if reranker is not None:
            request = self.request(keywords, index=the_index(self.engine, index), **asked)
            found = search_reordered(
                self.engine, self.store, request, reranker, title=title, deadline=deadline
            )
            return replace(found, index=request.index)
        name = self.models.resolve(the_name(self.engine, model))
        where = self._index_of(name, index)
        stored = self.store.get_model(name)
        request = self.request(keywords, index=where, **asked)
        found = search(self.engine, self.store, request, stored, title=title)
        return replace(found, index=where, model=name)

    def rescore_body(
        self,
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
        from owpc_ltr.names import check_index

        if index is not None:
            check_index(index)
        name = self.models.resolve(the_name(self.engine, model))
        request = self.request(keywords, index=self._index_of(name, index), **asked)
        interval = self.models.interval(name)
        if not math.isfinite(interval.low):
            window = max(request.window, request.size)
            give_warnings([
                f"nothing is known of the scores of '{name}': documents beyond the window of "
                f"{window} may pass those within it; upload it again to be safe"
            ])  # fmt: skip
        return request_body(self.store, self.store.get_model(name), request, interval)

    def profile(
        self,
        keywords: Sequence[str] = (),
        *,
        queries: Path | str | None = None,
        model: str | None = None,
        featureset: str | None = None,
        index: str | None = None,
        query: Mapping[str, Any] | Path | str | None = None,
        repeat: int = 30,
        window: int = 100,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Profile:
        """What features, windows and a model cost in the live query, in milliseconds.

        Asked with each of `keywords`, and with the judged `queries` of a file. With a model it is
        rescored; without, the features of the window come back.
        """
        from owpc_ltr.api.judgments import read_judgments
        from owpc_ltr.engine.search.profile import profile
        from owpc_ltr.errors import UsageError

        typed: list[dict[str, Any]] = [{"keywords": text, "query": text} for text in keywords]
        if queries is not None:
            typed += [query.params for query in read_judgments(queries).queries]
        if not typed:
            raise UsageError("there is no query to profile with: give --keywords or --queries")
        if model is None and featureset is None:
            raise UsageError("say what to profile: --featureset, or --model, which has its own set")
        stored = None if model is None else self.store.get_model(self.models.resolve(model))
        if stored is not None and featureset not in {None, stored.featureset.name}:
            raise UsageError(
                f"the model '{model}' has the feature set '{stored.featureset.name}', not "
                f"'{featureset}': leave --featureset out"
            )
        known = stored.featureset if stored else self.store.get_featureset(str(featureset))
        where = the_index(self.engine, index) if model is None else self._index_of(model, index)
        return profile(
            self.engine, self.store, where, self._template(where, query)[0], known, stored, typed,
            repeat=repeat, window=window, seed=seed, progress=progress or _quiet,
        )  # fmt: skip

    def _template(
        self, index: str, query: Mapping[str, Any] | Path | str | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The query with its places to fill in, and the rest of the body that it came in."""
        from owpc_ltr.engine.search.request import default_query, read_search, split_body

        if query is None:
            return default_query(self.engine, index), {}
        return read_search(Path(query)) if isinstance(query, Path | str) else split_body(query)

    def _index_of(self, model: str, given: str | None) -> str:
        """The index asked for, else the one that the model was proved on."""
        from owpc_ltr.names import check_index

        if given is not None:
            return check_index(given)
        certificate = self.models.certificate(model)
        return certificate.index if certificate is not None else the_index(self.engine, None)


def _quiet(_message: str, _done: float | None = None) -> None:
    """Show nothing."""


def _counted(show: Progress, judged: int) -> Callable[[int], None]:
    done = 0

    def advance(documents: int) -> None:
        nonlocal done
        done += documents
        show(f"{done:,} of {judged:,} judged documents", done / judged)

    return advance
