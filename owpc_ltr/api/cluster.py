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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.api.defaults import the_featureset, the_index, the_name

if TYPE_CHECKING:
    from owpc_ltr.api.feature_sets import FeatureSets
    from owpc_ltr.api.live import LiveProof, Tried
    from owpc_ltr.api.uploaded_models import UploadedModels
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.joined_tables.table import JoinedTable
    from owpc_ltr.data.judgments.types import Duplicates, JudgedQuery, Judgments
    from owpc_ltr.engine.deployment.drift import Verified
    from owpc_ltr.engine.deployment.upload import Uploaded
    from owpc_ltr.engine.feature_log import LogReport
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.indexing import IndexReport
    from owpc_ltr.engine.search.compare import BeforeAndAfter
    from owpc_ltr.engine.search.judgment_pool import Pooled
    from owpc_ltr.engine.search.live_evaluation import LiveEvaluation
    from owpc_ltr.engine.search.profile import Profile
    from owpc_ltr.engine.search.request import SearchRequest
    from owpc_ltr.engine.store.base import Store
    from owpc_ltr.features.feature_set import FeatureSet
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
    from owpc_ltr.names import check_store

    if store is not None:
        check_store(store)
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
        """The models of the store and their names: list, show, promote, roll back, delete."""
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

        The whole file is read once before anything is made, in little memory: BadInput names a
        line that cannot be, or two of one id. An index that cannot be completed is taken away
        again, and one to be recreated stays as it is until the new one is complete.
        """
        from owpc_ltr.engine.filling import fill_index
        from owpc_ltr.files.document_file import DocumentFile

        source = DocumentFile(Path(documents), id_field)
        show = progress or _quiet
        return fill_index(self.engine, index, source, settings, existing=existing, progress=show)

    def log_features(
        self,
        judgments: Judgments | Path | str,
        out: Path | str,
        *,
        featureset: str | None = None,
        index: str | None = None,
        topics: Path | str | None = None,
        duplicates: Duplicates = "refuse",
        skip_unjudged: bool = False,
        join: Any = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> LogReport:
        """The feature values of every judged document, as the dataset `out` (Parquet).

        `judgments` are `read_judgments`' or a file, read with `topics`, `duplicates` and
        `skip_unjudged` as there.
        `join` is a table of features from outside the index, or a list of them: Parquet files or
        data frames with `query_id` (or `query`, the text), `document_id`, or both, and columns of
        numbers, which come after the features of the set; NaN where a table has no row.
        Every one is logged, absent or rejected, and all are counted. Half-done work stays beside
        `out`: the same call goes on, to the same bytes. `options` are those of
        `owpc_ltr.engine.feature_log.LogOptions`. Features that no document has a value for, or
        all the same, are warned of.
        """
        import hashlib

        from owpc_ltr.api.judgments import read_judgments
        from owpc_ltr.engine.feature_log import LogOptions, log_features
        from owpc_ltr.errors import UsageError, give_warnings
        from owpc_ltr.files.output import output_file

        tables = join if isinstance(join, list | tuple) else [join]
        given = [one for one in (judgments, topics, *tables) if isinstance(one, Path | str)]
        target = output_file(out, given)
        if target is None:
            raise UsageError("half-done work is kept beside the dataset: name a file, not -")
        logging, source = LogOptions(**options), None
        if isinstance(judgments, Path | str):
            reading: dict[str, Any] = {"topics": topics, "duplicates": duplicates}
            judged = read_judgments(judgments, skip_unjudged=skip_unjudged, **reading)
            source = hashlib.sha256(Path(judgments).read_bytes()).hexdigest()
            give_warnings(judged.notes)
        else:
            judged = judgments
        where = the_index(self.engine, index)
        known = self.store.get_featureset(the_featureset(self.store, featureset))
        counted = _counted(progress or _quiet, judged.n_judgments)
        report = log_features(
            self.engine, self.store, known, judged, where, target,
            source=source, options=logging, joined=_tables(join), progress=counted,
        )  # fmt: skip
        give_warnings(report.warnings)
        return report

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
        keep: int | None = None,
        allow_slow: bool = False,
        live: LiveProof | None = None,
        max_drift: float = 0.25,
        probe_share: float = 0.5,
        budget: float = 10.0,
        client_scored: bool = False,
        join: Any = None,
        plugins: Sequence[Path | str] = (),
    ) -> Uploaded:
        """Store the model as NAME-HASH, prove its scores on documents, then let NAME point to it.

        `role` may be `challenger`. With the metric `require_gain` it must be better than `over` on
        the held-out queries of `data`; or, with `live` judgments, in what users get from the whole
        index: than the query alone where NAME points to nothing yet, or `over="query"`. `keep` is
        how many earlier models the name can go back to (5 at first); `allow_slow` takes a model
        that the engine's cache has no room for. Without the LTR plugin, trees run inside the engine
        where they fit and add no more than `budget` milliseconds to a search, measured on the
        index; else the client scores them. With `client_scored` the client scores whatever it is:
        also a model of features that are in no index, which searches then look up in tables;
        `join` has such tables, as for `log_features`, to prove that. `plugins` are files in which
        the metric may be.
        Raises Refused, with the model taken out again and the name where it was, if a score
        differs by more than `tolerance`, the gain is not shown, or a feature moved by more than
        `max_drift` standard deviations since training, or less than `probe_share` of the documents
        or queries of the proof are in the index.
        """
        from owpc_ltr.engine.deployment.gate import Gate
        from owpc_ltr.engine.deployment.live_gate import LiveGate
        from owpc_ltr.engine.deployment.store_form import Budget
        from owpc_ltr.engine.deployment.upload import upload
        from owpc_ltr.errors import UsageError, give_warnings
        from owpc_ltr.host.registry import load
        from owpc_ltr.metrics import parse_metric
        from owpc_ltr.models.linear import load_model
        from owpc_ltr.models.parity_samples import parity_samples_of

        registry = load(map(Path, plugins))
        metric = None if require_gain is None else parse_metric(require_gain, registry)
        if metric is not None and data is None and live is None:
            raise UsageError("--require-gain needs judged queries to compare on: give --data FILE")
        if metric is None and live is not None:
            raise UsageError("--live proves a gain: say in which metric with --require-gain")
        tables = _tables(join)
        gate: Gate | LiveGate | None = None
        if metric is not None and data is not None:
            gate = Gate(metric, data, over)
        samples = None if data is None else parity_samples_of(data)
        path = Path(model) if isinstance(model, Path | str) else None
        ranker = load_model(path) if path is not None else model
        assert not isinstance(ranker, Path | str)  # noqa: S101 - told to the type checker
        called = the_name(self.engine, self.store, name, path)
        wanted = ranker.record.get("featureset_hash")
        trained_on = self.store.get_featureset(the_featureset(self.store, featureset, wanted))
        where = the_index(self.engine, index)
        if data is not None:
            self._warn_of_judgments(data, trained_on, index, live)
        query = self._template(where, live.query)[0] if live is not None else None
        if metric is not None and live is not None:
            gate = LiveGate(
                live.question(where, query or {}, [metric], trained_on),
                over, live.queries, live.progress, tables,
            )  # fmt: skip
        uploaded = upload(
            self.engine, self.store, ranker, trained_on, where, called, tolerance,
            role=role, gate=gate, samples=samples, keep=keep, allow_slow=allow_slow,
            max_drift=max_drift, probe_share=probe_share, budget=Budget(budget, query),
            client_scored=client_scored, tables=tables,
        )  # fmt: skip
        give_warnings(uploaded.cautions)
        return uploaded

    def verify(
        self,
        name: str | None = None,
        *,
        index: str | None = None,
        tolerance: float = 1e-5,
        feature_drift: float = 0.1,
        probe_share: float = 0.5,
        join: Any = None,
    ) -> Verified:
        """Prove an uploaded model again, from what the cluster remembers of it; `drift` is said.

        What the model reads from outside the index is looked up in the tables of `join`; without
        them it is as at the upload, of which is warned.
        Raises Refused where less than `probe_share` of its documents or queries are in the index.
        """
        from owpc_ltr.engine.deployment.drift import verify

        model = self.models.resolve(the_name(self.engine, self.store, name))
        tables = _tables(join)
        limits = {
            "tolerance": tolerance, "feature_drift": feature_drift, "probe_share": probe_share
        }  # fmt: skip
        return verify(self.engine, self.store, model, index, tables=tables, **limits)

    def request(
        self,
        keywords: str = "{{keywords}}",
        *,
        index: str,
        query: Mapping[str, Any] | Path | str | None = None,
        params: Mapping[str, Any] | None = None,
        size: int | None = None,
        window: int = 100,
        query_id: str | None = None,
    ) -> SearchRequest:
        """What a search asks for: the keywords in `query`, else in all text fields.

        `params` are further parameters of the query and of features: texts, numbers, lists (a
        query's vector, which may be an array) … `query` has `{{keywords}}` where the user's words
        go. It may be a file, and the whole body of a search, with filters, aggregations,
        highlighting …; its `size` holds unless given. `query_id` is what joined tables may know
        the query as.
        """
        from owpc_ltr.api.parameters import plain_params
        from owpc_ltr.engine.search.request import COLLAPSE, SearchRequest
        from owpc_ltr.engine.store.needs import check_collapse

        template, rest = self._template(index, query)
        if COLLAPSE in rest:
            check_collapse(self.engine.about())
        own = rest.pop("size", 10)
        shown = own if size is None else size
        filled = {"keywords": keywords, "query": keywords, **plain_params(params)}
        return SearchRequest(index, template, filled, shown, window, rest, query_id)

    def search(
        self,
        keywords: str,
        *,
        model: str | None = None,
        reranker: ReorderingModel | None = None,
        index: str | None = None,
        title: str | None = None,
        deadline: float = 1.0,
        join: Any = None,
        **asked: Any,
    ) -> BeforeAndAfter:
        """A search without and with an uploaded model, or with a reordering that the client does.

        `asked` is as for `request`: query, params, size, window. `title` is the field to show.
        `join` has the tables, as for `log_features`, of features that are in no index.
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
                self.engine, self.store, request, reranker,
                title=title, deadline=deadline, tables=_tables(join),
            )  # fmt: skip
            return replace(found, index=request.index)
        name = self.models.resolve(the_name(self.engine, self.store, model))
        where = self._index_of(name, index)
        stored = self.store.get_model(name)
        tables = _tables(join)
        request = self.request(keywords, index=where, **asked)
        found = search(self.engine, self.store, request, stored, title=title, tables=tables)
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
        from owpc_ltr.interop.plain_engine.form import score_shift
        from owpc_ltr.names import check_index

        if index is not None:
            check_index(index)
        name = self.models.resolve(the_name(self.engine, self.store, model))
        request = self.request(keywords, index=self._index_of(name, index), **asked)
        interval = self.models.interval(name)
        if not math.isfinite(interval.low):
            window = max(request.window, request.size)
            give_warnings([
                f"nothing is known of the scores of '{name}': documents beyond the window of "
                f"{window} may pass those within it; upload it again to be safe"
            ])  # fmt: skip
        stored = self.store.get_model(name)
        shift = score_shift(stored)
        if shift:
            give_warnings([
                f"scores of '{name}' in the engine are the model's plus {shift:.6g}, so that none "
                "is negative: the order is the model's"
            ])  # fmt: skip
        return request_body(self.store, stored, request, interval)

    def profile(
        self,
        keywords: Sequence[str] = (),
        *,
        queries: Path | str | None = None,
        params: Mapping[str, Any] | None = None,
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

        Asked with each of `keywords`, and with the judged `queries` of a file, which may have
        `params` of their own; else these hold. With a model it is
        rescored; without, the features of the window come back.
        """
        from owpc_ltr.api.judgments import read_judgments
        from owpc_ltr.api.parameters import plain_params
        from owpc_ltr.engine.search.profile import profile
        from owpc_ltr.errors import UsageError

        given = plain_params(params)
        typed = [{"keywords": text, "query": text, **given} for text in keywords]
        if queries is not None:
            typed += [{**given, **query.params} for query in read_judgments(queries).queries]
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

    def evaluate_live(
        self,
        model: Model | ReorderingModel | Path | str,
        proof: LiveProof,
        metrics: Sequence[Any] | str = ("ndcg@10", "map", "mrr"),
        *,
        index: str | None = None,
        featureset: str | None = None,
        join: Any = None,
        seed: int = 0,
    ) -> LiveEvaluation:
        """What users get from the whole index with a model, against the query alone.

        `model` is an uploaded name, or a model or its file, which is in the cluster only meanwhile.
        Unless `proof` says otherwise, the queries that it was trained with are left out, as far as
        its record knows them. `join` has the tables, as for `log_features`, of features that are in
        no index. Raises UsageError for a metric that cannot be measured live.
        """
        from dataclasses import replace

        from owpc_ltr.engine.search.live_evaluation import evaluate_live
        from owpc_ltr.engine.search.serving import query_alone
        from owpc_ltr.evaluation.held_out import held_out_caution, queries_of_side
        from owpc_ltr.evaluation.judgment_checks import live_findings
        from owpc_ltr.metrics import Metric, parse_metric

        asked = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
        parsed = [one if isinstance(one, Metric) else parse_metric(one) for one in asked]
        with self._tried(model, index, featureset, join) as tried:
            where, query = tried.index, self._template(tried.index, proof.query)[0]
            question = proof.question(where, query, parsed, tried.featureset, seed)
            ids = [one.query_id for one in question.queries]
            chosen, side = queries_of_side(tried.record, ids, proof.queries)
            kept = replace(question, queries=[question.queries[n] for n in chosen.tolist()])
            before = query_alone(self.engine, self.store)
            found = evaluate_live(kept, before, tried.serve, proof.progress)
        doubts = live_findings(found.recall, found.judged, kept.window, found.n_queries)
        cautions = held_out_caution(tried.record, side, "the model")
        return replace(found, side=side, warnings=(*cautions, *doubts))

    def check_judgments(
        self,
        judgments: Judgments | RankingDataset | Path | str,
        *,
        index: str | None = None,
        query: Mapping[str, Any] | Path | str | None = None,
        window: int = 100,
        progress: Progress | None = None,
    ) -> list[str]:
        """What looks harmful in judgments when the engine is asked some of their queries."""
        from owpc_ltr.api.live import check_live, judged_queries

        where = the_index(self.engine, index)
        judged = judged_queries(judgments)
        template = self._template(where, query)[0]
        return check_live(self.engine, self.store, where, template, judged, window, progress)

    def pool(
        self,
        queries: Sequence[JudgedQuery] | Path | str,
        rankers: Sequence[Path | str | Mapping[str, Any]],
        out: Path | str | None = None,
        *,
        index: str | None = None,
        depth: int = 20,
        fields: Sequence[str] = (),
        judged: Judgments | Path | str | None = None,
        query: Mapping[str, Any] | Path | str | None = None,
        params: Mapping[str, Any] | None = None,
        window: int = 100,
        in_flight: int = 4,
        seed: int = 0,
        join: Any = None,
        progress: Progress | None = None,
    ) -> Pooled:
        """The documents to judge next: what rankers bring to the top, in a drawn order.

        `rankers` are queries (objects, or files in JSON), uploaded names, which rescore `query`,
        and TREC runs. With `out` they are written as a CSV whose `grade` column is to be filled,
        with `fields` of each document. What `judged` has already is left out, and counted. `join`
        has the tables, as for `log_features`, of features that are in no index. `params` are those
        of queries that have none of their own.
        """
        from owpc_ltr.api.live import judged_queries, with_params
        from owpc_ltr.api.pooling import pool_plan
        from owpc_ltr.data.judgments.asked import read_queries
        from owpc_ltr.data.judgments.sheet import write_sheet
        from owpc_ltr.engine.search.judgment_pool import pool
        from owpc_ltr.files.output import output_file

        if out is not None:
            files = (queries, judged, query, *rankers)
            output_file(out, [one for one in files if isinstance(one, Path | str)])
        asked = read_queries(Path(queries)) if isinstance(queries, Path | str) else list(queries)
        asked = with_params(asked, params)
        known = judged_queries(judged) if judged is not None else []
        where = the_index(self.engine, index)
        place = (self.engine, self.store, self.models)
        plan = pool_plan(
            *place, rankers, where, lambda: self._template(where, query)[0],
            tables=_tables(join),
            depth=depth, fields=fields, window=window, seed=seed, in_flight=in_flight,
        )  # fmt: skip
        done = {one.query_id: frozenset(one.document_ids) for one in known}
        found = pool(self.engine, plan, asked, done, progress)
        if out is not None:
            write_sheet(found.queries, fields, found.shown, Path(out))
        return found

    @contextmanager
    def _tried(
        self,
        model: Model | ReorderingModel | Path | str,
        index: str | None,
        featureset: str | None,
        join: Any,
    ) -> Iterator[Tried]:
        """A model that serves searches: one of the cluster by its name, or another on trial."""
        from owpc_ltr.api.live import Tried
        from owpc_ltr.data.joined_tables.served import refuse_unused
        from owpc_ltr.engine.deployment.trial import on_trial
        from owpc_ltr.engine.search.serving import with_stored
        from owpc_ltr.interop.client_scored import joined_in
        from owpc_ltr.interop.joined_features import joined_sources
        from owpc_ltr.models.reordering import ReorderingModel, load_ranker

        if isinstance(model, str) and not Path(model).is_file():
            name = self.models.resolve(model)
            stored, certificate = self.store.get_model(name), self.models.certificate(name)
            known = (certificate.record, certificate.interval) if certificate else ({}, None)
            tables = _tables(join)
            refuse_unused(joined_in(stored), tables, f"the model '{name}'")
            serve = with_stored(self.engine, self.store, stored, known[1], tables)
            yield Tried(serve, self._index_of(name, index), stored.featureset, known[0])
            return
        ranker = load_ranker(Path(model)) if isinstance(model, Path | str) else model
        own = None
        if featureset is not None or not isinstance(ranker, ReorderingModel):
            wanted = ranker.record.get("featureset_hash")
            own = self.store.get_featureset(the_featureset(self.store, featureset, wanted))
        tables = _tables(join)
        refuse_unused(joined_sources(ranker), tables, "the model")
        with on_trial(self.engine, self.store, ranker, own, tables) as serve:
            yield Tried(serve, the_index(self.engine, index), own, ranker.record)

    def _warn_of_judgments(
        self,
        data: RankingDataset,
        featureset: FeatureSet,
        index: str | None,
        live: LiveProof | None,
    ) -> None:
        """Say what looks harmful in the judgments; the engine is asked where one is named."""
        from owpc_ltr.errors import give_warnings
        from owpc_ltr.evaluation.judgment_checks import judgment_findings
        from owpc_ltr.features.text_scores import text_scores

        doubts = judgment_findings(data, text_scores(featureset))
        asks = index is not None and data.document_ids is not None and data.query_params is not None
        if asks and live is None:
            doubts += self.check_judgments(data, index=index)
        give_warnings(doubts)

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


def _tables(join: Any) -> tuple[JoinedTable, ...]:
    """The tables of `join`; where there are none, what reads them is not imported."""
    if join is None:
        return ()
    from owpc_ltr.data.joined_tables.reading import read_joined_tables

    return read_joined_tables(join)


def _quiet(_message: str, _done: float | None = None) -> None:
    """Show nothing."""


def _counted(show: Progress, judged: int) -> Callable[[int], None]:
    done = 0

    def advance(documents: int) -> None:
        nonlocal done
        done += documents
        show(f"{done:,} of {judged:,} judged documents", done / judged)

    return advance
