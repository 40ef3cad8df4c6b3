"""The first half of the demo: a node, an index, a feature set, judged queries, logged features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import owpc_ltr
from owpc_ltr_demo.corpus import Document, index_body, read_corpus
from owpc_ltr_demo.judged import MODULE, Pool, make_queries, pool_recall, pools
from owpc_ltr_demo.narration import Progress
from owpc_ltr_demo.walk import INDEX, Cluster, Walk

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.engine.client.engine import Engine


def start_node(walk: Walk) -> Engine:
    """The demo's own node, started or found running, as the first step."""
    with walk.step("node", "start a real OpenSearch node, for the demo alone"):
        return running_node(walk)


def running_node(walk: Walk) -> Engine:
    """The demo's own node, started or found running."""
    from owpc_ltr_node import local_node as node

    from owpc_ltr.engine.client.engine import open_engine

    with walk.narrator.working() as show:
        report = _NodeNews(show)
        status = node.start(node.LocalNode(port=walk.options.port), report)
    for line in report.lines:
        walk.narrator.line(line)
    walk.narrator.line(f"opensearch {status.version} answers at {status.url}")
    walk.figures["node"] = {
        "url": status.url,
        "version": status.version,
        "ltr_plugin": status.ltr_plugin,
    }
    return open_engine(status.url)


def index_corpus(walk: Walk, engine: Engine) -> tuple[Document, ...]:
    """All documents, indexed anew."""
    from owpc_ltr.engine.index import load_new_index

    with walk.step("index", "index the documentation of this Python's standard library"):
        with walk.narrator.working() as show:
            show("reading the standard library", None)
            documents = read_corpus()
            sources = ((document.id, document.source()) for document in documents)
            report = load_new_index(engine, INDEX, sources, index_body(), show, merge=False)
        walk.narrator.line(
            f"{report.documents} modules, classes, functions and methods; the summary line of each "
            "docstring is held back, because it will be the query"
        )
        walk.figures["documents"] = report.documents
    return documents


def push_featureset(walk: Walk, engine: Engine) -> Cluster:
    """The store that the engine has, with the shipped feature set in it."""
    from owpc_ltr.engine.stores import choose_store
    from owpc_ltr.features.loading import load_featureset

    with walk.step("featureset", "push a feature set"):
        store = choose_store(engine)
        store.prepare()
        featureset = load_featureset(featureset_file())
        store.put_featureset(featureset, replace=True)
        walk.narrator.line(
            f"{len(featureset.features)} features of {featureset_file().name}, each a query "
            f"({store.kind} store)"
        )
        walk.figures |= {"features": len(featureset.features), "store_kind": store.kind}
    return Cluster(engine, store, featureset)


def find_candidates(walk: Walk, engine: Engine, documents: Sequence[Document]) -> list[Pool]:
    """The queries and what full-text search finds for them; without those where it is nothing."""
    with walk.step("candidates", "ask for what is known to be there"):
        queries = make_queries(documents, walk.options.queries)
        with walk.narrator.working() as show:
            found = pools(engine, INDEX, queries, show)
        modules = sum(query.kind == MODULE for query in queries)
        recall = pool_recall(found)
        walk.narrator.line(
            f"{len(queries) - modules} summary lines, each asking for its object, and {modules} "
            "module synopses, each asking for the module and its members"
        )
        walk.narrator.line(
            f"candidates: the {max(len(pool.document_ids) for pool in found)} best of a full-text "
            f"query, which finds {recall:.1%} of the answers; the rest is lost for every ranker"
        )
        walk.figures |= {
            "queries": len(queries),
            "module_queries": modules,
            "pool_recall": recall,
        }
    return [pool for pool in found if pool.document_ids]


def log_candidates(
    walk: Walk, cluster: Cluster, found: Sequence[Pool]
) -> DatasetSplits[RankingDataset]:
    """The features of all candidates, in a dataset that is split by query."""
    from owpc_ltr.data.judgments import write_judgments
    from owpc_ltr.engine.feature_log import LogOptions, log_features

    with walk.step("log", "log the features of every candidate"):
        judgments = judgments_of(found)
        write_judgments(judgments, walk.options.file("-judgments.tsv"))
        with walk.narrator.working() as show:
            report = log_features(
                cluster.engine,
                cluster.store,
                cluster.featureset,
                judgments,
                INDEX,
                walk.options.file(".parquet"),
                options=LogOptions(restart=True),
                progress=_counted(show, judgments.n_judgments),
            )
        account = report.counts
        walk.narrator.line(
            f"{account.judged} pairs of query and document: {account.logged} logged, "
            f"{account.absent} absent, {sum(account.rejected.values())} rejected; "
            f"{report.pairs_per_second:,.0f} pairs a second"
        )
        walk.figures |= {
            "pairs": account.judged,
            "pairs_per_second": report.pairs_per_second,
        }
    return _split(report.path)


def featureset_file() -> Path:
    """The shipped feature set, in a wheel or in a checkout."""
    packed = Path(str(resources.files(owpc_ltr))) / "featuresets" / f"{INDEX}.json"
    checkout = Path(owpc_ltr.__file__).parents[1] / "featuresets" / f"{INDEX}.json"
    return packed if packed.is_file() else checkout


def judgments_of(found: Sequence[Pool]) -> Judgments:
    """The candidates with their labels, as judgments."""
    from owpc_ltr.data.judgments import JudgedQuery, Judgments

    return Judgments(
        [
            JudgedQuery(
                pool.query.query_id,
                {"keywords": pool.query.text, "query": pool.query.text},
                list(pool.document_ids),
                np.array(pool.labels, dtype=np.float32),
            )
            for pool in found
        ]
    )


def _split(path: Path) -> DatasetSplits[RankingDataset]:
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.data.splits import HashSplit, split_queries

    return split_queries(read_dataset(path), HashSplit(), path.name)


def _counted(show: Progress, total: int) -> Callable[[int], None]:
    done = 0

    def advance(documents: int) -> None:
        nonlocal done
        done += documents
        show(f"{done:,} of {total:,} pairs", done / total)

    return advance


class _NodeNews:
    """Keeps what the node says until its progress is off the terminal."""

    def __init__(self, show: Progress) -> None:
        self.lines: list[str] = []
        self._show = show

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advance(self, task: str, done: float, total: float) -> None:
        self._show(task, done / total if total else None)
