"""Preparation: node, index, feature set, candidates, logged features; the demo as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import owpc_ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.judgment_tables import write_judgments
from owpc_ltr.data.splits import DatasetSplits, HashSplit, split_queries
from owpc_ltr.engine.client.engine import Engine, open_engine, search_index
from owpc_ltr.engine.feature_log.log import run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.index import index_documents, load_new_index
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.engine.stores import Store, choose_store
from owpc_ltr.engine.stores.feature_queries import render
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import FeatureSet, load_featureset
from owpc_ltr.files.output import write_output
from owpc_ltr.host.commands import run_plugin_job
from owpc_ltr.host.project import PROJECT_FILE, project_text
from owpc_ltr_demo.corpus import (
    MODULE,
    CandidatePool,
    Document,
    candidate_pools,
    candidate_recall,
    index_body,
    judgments_of,
    make_queries,
    pool_query,
    read_corpus,
)
from owpc_ltr_demo.session import INDEX, PROJECT, DemoSession

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.files.strict_json import Json
    from owpc_ltr.signatures import Progress

KEYWORDS = "{{keywords}}"
Splits = DatasetSplits[RankingDataset]


def text_fields(featureset: FeatureSet) -> list[str]:
    """The fields of which a feature is the plain BM25 score. Raises BadInput for none."""
    fields = [_plain_match(feature.template) for feature in featureset.features]
    if not any(fields):
        raise BadInput(f"feature set '{featureset.name}' has no plain match feature to tune with")
    return [field for field in fields if field is not None]


def engine_scores(engine: Engine, query: dict[str, Any], data: RankingDataset) -> Vector:
    """The engine's own scores of all documents; 0 where the query does not match."""
    if data.doc_ids is None or data.query_params is None:
        raise Refused("the dataset was not logged from an engine: run the demo from its start")
    scores = []
    for number, params in enumerate(data.query_params.to_pylist()):
        doc_ids = data.doc_ids[int(data.offsets[number]) : int(data.offsets[number + 1])]
        names = doc_ids.to_pylist()
        filled = render(query, json.loads(params))
        body = {
            "size": len(names),
            "query": {"bool": {"filter": {"ids": {"values": names}}, "must": filled}},
            "_source": False,
        }
        hits = search_index(engine, INDEX, body, "scores", scored=True).hits
        by_id = {hit["_id"]: hit["_score"] for hit in hits}
        scores += [by_id.get(name, 0.0) for name in names]
    return np.array(scores)


def _plain_match(template: Json) -> str | None:
    """The field of a `match` query with nothing but the keywords."""
    if not isinstance(template, dict) or template.keys() != {"match"}:
        return None
    ((field, content),) = template["match"].items()
    return str(field) if content in (KEYWORDS, {"query": KEYWORDS}) else None


_SCRATCH = f"{INDEX}-candidates"


@dataclass(frozen=True)
class LoggedFeatures:
    """The results of the steps before training: engine, candidates, and the dataset's splits."""

    engine: Engine
    store: Store
    featureset: FeatureSet
    pools: list[CandidatePool]
    splits: Splits


def log_corpus(session: DemoSession, engine: Engine) -> LoggedFeatures:
    """The steps before training, on a running node."""
    documents = index_corpus(session, engine)
    store, featureset = push_featureset(session, engine)
    pools = find_candidates(session, engine, documents)
    splits = log_candidates(session, engine, store, featureset, pools)
    return LoggedFeatures(engine, store, featureset, pools, splits)


def start_node(session: DemoSession) -> Engine:
    """The demo's own node, started or found running, as the first step."""
    with session.step("node", "start a local OpenSearch node for the demo"):
        return running_node(session)


def running_node(session: DemoSession) -> Engine:
    """The demo's own node, started or found running."""
    port = session.options.port
    with session.working() as show:
        status = run_plugin_job("engine start", port=port, progress=show)
    session.line(f"opensearch {status.version} answers at {status.url}")
    session.figures["node"] = {"url": status.url, "version": status.version}
    return open_engine(status.url)


def index_corpus(session: DemoSession, engine: Engine) -> tuple[Document, ...]:
    """All documents, indexed anew."""
    with session.step("index", "index the documentation of this Python's standard library"):
        with session.working() as show:
            show("reading the standard library", None)
            documents = read_corpus()
            sources = ((document.id, document.content) for document in documents)
            report = load_new_index(engine, INDEX, sources, index_body(), show, merge=False)
        session.line(
            f"{report.documents} modules, classes, functions and methods; the summary line of each "
            "docstring is held back, because it will be the query"
        )
        session.figures["documents"] = report.documents
    return documents


def push_featureset(session: DemoSession, engine: Engine) -> tuple[Store, FeatureSet]:
    """The engine's store, with the shipped feature set."""
    with session.step("featureset", "push a feature set"):
        store = choose_store(engine)
        store.prepare()
        featureset = load_featureset(featureset_file())
        store.put_featureset(featureset, replace=True)
        session.line(
            f"{len(featureset.features)} features of {featureset_file().name}, each a query "
            f"({store.kind} store)"
        )
    return store, featureset


def find_candidates(
    session: DemoSession, engine: Engine, documents: Sequence[Document]
) -> list[CandidatePool]:
    """The queries with candidates from full-text search; those without candidates are left out."""
    with session.step("candidates", "find candidates of known-item queries by full-text search"):
        queries = make_queries(documents, session.options.queries)
        with session.working() as show:
            pools = candidate_pools(engine, INDEX, queries, show)
        modules = sum(query.kind == MODULE for query in queries)
        recall = candidate_recall(pools)
        session.line(
            f"queries: {len(queries) - modules} summary lines, whose answer is their object, and "
            f"{modules} module synopses, whose answers are the module and its members"
        )
        session.line(
            f"candidates: the {max(len(pool.doc_ids) for pool in pools)} best of a full-text "
            f"query, which finds {recall:.1%} of the answers; no ranker can find the others"
        )
        session.figures |= {"queries": len(queries), "pool_recall": recall}
    return [pool for pool in pools if pool.doc_ids]


def log_candidates(
    session: DemoSession,
    engine: Engine,
    store: Store,
    featureset: FeatureSet,
    pools: Sequence[CandidatePool],
) -> Splits:
    """The features of all candidates, in a dataset split by query."""
    with session.step("log", "log the features of every candidate"):
        judgments = judgments_of(pools)
        total = judgments.n_judgments
        write_judgments(judgments, session.file("-judgments.tsv"))
        with session.working() as show:
            report = run_log(
                engine,
                store,
                featureset,
                judgments,
                index=INDEX,
                out=session.file(".parquet"),
                options=LogOptions(restart=True),
                progress=lambda done: show(f"{done:,} of {total:,} pairs", done / total),
            )
        counts = report.counts
        session.line(
            f"{counts.judged} pairs of query and document: {counts.logged} logged, "
            f"{counts.absent} absent, {sum(counts.rejected.values())} rejected; "
            f"{report.pairs_per_second:,.0f} pairs per second"
        )
        session.figures["pairs"] = counts.judged
    return split_queries(read_dataset(report.path), HashSplit(), report.path.name)


def featureset_file() -> Path:
    """The shipped feature set, in a wheel or a checkout."""
    packed = Path(str(resources.files(owpc_ltr))) / "featuresets" / f"{INDEX}.json"
    checkout = Path(owpc_ltr.__file__).parents[1] / "featuresets" / f"{INDEX}.json"
    return packed if packed.is_file() else checkout


def write_files(session: DemoSession, engine: Engine) -> dict[str, Any]:
    """Write the demo's corpus, settings, feature set, judgments and query; how many of each.

    Candidates are found by the engine, in a temporary index that is deleted.
    """
    with session.working() as show:
        show("reading the standard library", None)
        documents = read_corpus()
        pools = _candidates(engine, documents, session.options.queries, show)
    held_back = len(pools) // 5
    judged, new = judgments_of(pools[held_back:]), judgments_of(pools[:held_back])
    lines = (json.dumps(document.content, ensure_ascii=False) for document in documents)
    written = {
        ".jsonl": (f"{len(documents)} documents, their ids in the field id", "\n".join(lines)),
        "-index.json": ("settings and mapping of the index", json.dumps(index_body(), indent=2)),
        "-features.json": ("the feature set", featureset_file().read_text("utf-8").rstrip("\n")),
        "-query.json": ("an application's query", json.dumps(pool_query(KEYWORDS), indent=2)),
    }
    for ending, (what, text) in written.items():
        session.line(f"{session.write(ending, text)}: {what}")
    for ending, part, what in (
        ("-judgments.tsv", judged, f"queries, {judged.n_judgments} judged documents"),
        ("-judgments-new.tsv", new, "further queries, to be added later"),
    ):
        write_judgments(part, session.file(ending))
        session.line(f"{session.file(ending)}: {len(part.queries)} {what}")
    project, values = session.options.folder / PROJECT_FILE, {"url": engine.settings.url, **PROJECT}
    write_output(project, project_text({key: (text, "") for key, text in values.items()}).encode())
    session.line(f"{project}: what commands take where no option says otherwise")
    return {
        "folder": str(session.options.folder),
        "documents": len(documents),
        "queries": len(judged.queries),
        "judged": judged.n_judgments,
        "new_queries": len(new.queries),
    }


def _candidates(
    engine: Engine, documents: tuple[Document, ...], size: int, show: Progress
) -> list[CandidatePool]:

    drop_index(engine, _SCRATCH)
    create_index(engine, _SCRATCH, index_body())
    try:
        sources = ((document.id, document.content) for document in documents)
        index_documents(engine, _SCRATCH, sources, show)
        pools = candidate_pools(engine, _SCRATCH, make_queries(documents, size), show)
    finally:
        drop_index(engine, _SCRATCH)
    return [pool for pool in pools if pool.doc_ids]
