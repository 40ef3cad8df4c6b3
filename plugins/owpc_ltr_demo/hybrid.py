"""The demo of hybrid search: vectors of the documentation, one weight a leg, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.files.output import write_output
from owpc_ltr_demo.corpus import (
    DemoQuery,
    Document,
    index_body,
    make_queries,
    pool_query,
    read_corpus,
)
from owpc_ltr_demo.latent_semantics import DIMENSIONS, LatentSemantics
from owpc_ltr_demo.session import HYBRID_INDEX, HYBRID_MODEL, SELECT, WINDOW, DemoSession, program

if TYPE_CHECKING:
    from pathlib import Path

    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.types import Matrix

FIELD = "vector"
LEGS = "python-docs-legs"


@dataclass(frozen=True)
class Corpus:
    """The documents, and the vectors of documents and queries."""

    documents: tuple[Document, ...]
    vectors: Matrix
    queries: tuple[DemoQuery, ...]
    of_queries: Matrix


def learn_to_fuse(session: DemoSession, url: str) -> list[str]:
    """The steps on a running node; returns commands that continue from there."""
    from owpc_ltr import connect

    cluster = connect(url)
    corpus = make_vectors(session)
    index_vectors(session, cluster, corpus)
    judged = judge(session, corpus)
    lint_usual_request(session, cluster, corpus)
    better = fuse_legs(session, cluster, judged)
    if better:
        upload_fusion(session, cluster, judged)
    return _next_commands(session, url, better=better)


def make_vectors(session: DemoSession) -> Corpus:
    """Vectors of documents and queries, by the words of the documents alone."""
    with session.step("vectors", "make vectors of the documentation, by latent semantic analysis"):
        with session.narrator.working() as show:
            show("reading the standard library", None)
            documents = read_corpus()
            texts = [_text(document) for document in documents]
            show("analysing its words", None)
            space = LatentSemantics.of(texts, seed=session.options.seed)
            vectors = space.vectors(texts)
            asked = make_queries(documents, session.options.queries)
            of_queries = space.vectors([query.text for query in asked])
        known = np.abs(of_queries).max(axis=1) > 0
        queries = tuple(query for query, has in zip(asked, known, strict=True) if has)
        session.narrator.line(
            f"{len(documents)} documents, {len(space.words)} words, {DIMENSIONS} dimensions; "
            f"{len(queries)} queries (summary lines), none of which a document contains"
        )
        session.figures |= {"documents": len(documents), "queries": len(queries)}
    return Corpus(documents, vectors, queries, of_queries[known])


def index_vectors(session: DemoSession, cluster: Cluster, corpus: Corpus) -> None:
    """The documentation with its vectors, indexed anew."""
    from owpc_ltr.engine.index import load_new_index

    with session.step("index", "index the documentation with its vectors"):
        body = index_body()
        body["settings"]["index.knn"] = True
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        body["mappings"]["properties"][FIELD] = {
            "type": "knn_vector", "dimension": DIMENSIONS, "method": method,
        }  # fmt: skip
        sources = (
            (document.id, {**document.source(), **_field(vector)})
            for document, vector in zip(corpus.documents, corpus.vectors, strict=True)
        )
        with session.narrator.working() as show:
            report = load_new_index(cluster.engine, HYBRID_INDEX, sources, body, show, merge=False)
        session.narrator.line(f"{report.documents} documents")


def judge(session: DemoSession, corpus: Corpus) -> Judgments:
    """Each summary line asks for its object, in words and by its vector; written as JSON lines."""
    from owpc_ltr.data.judgments import JudgedQuery, Judgments, write_judgments

    with session.step("judgments", "write the judged queries and the two legs"):
        judged = Judgments(
            [
                JudgedQuery(
                    query.query_id,
                    {"query": query.text, "keywords": query.text, FIELD: _rounded(vector)},
                    list(query.relevant),
                    np.array(list(query.relevant.values()), np.float32),
                )
                for query, vector in zip(corpus.queries, corpus.of_queries, strict=True)
            ]
        )
        write_judgments(judged, _file(session, "-judgments.jsonl"))
        _write_json(_file(session, "-legs.json"), legs())
        for ending in ("-judgments.jsonl", "-legs.json"):
            session.narrator.line(str(_file(session, ending)))
    return judged


def lint_usual_request(session: DemoSession, cluster: Cluster, corpus: Corpus) -> None:
    """A request as tutorials have it, and what spoils it."""
    from owpc_ltr import lint

    with session.step("lint", "look for traps in a usual hybrid request"):
        query, vector = corpus.queries[0], corpus.of_queries[0]
        request = usual_request(query.text, _rounded(vector))
        _write_json(_file(session, "-request.json"), request)
        found = lint(request, index=HYBRID_INDEX, cluster=cluster)
        for finding in found.findings:
            session.narrator.line(f"{finding.check}: {finding.example}")
        session.figures["lint"] = found.as_dict()


def fuse_legs(session: DemoSession, cluster: Cluster, judged: Judgments) -> bool:
    """Learn one weight a leg, and say whether it is better than the best leg alone."""
    from owpc_ltr import fuse

    with session.step("fuse", "learn one weight for each leg, and measure it on other queries"):
        with session.narrator.working() as show:
            found = fuse(
                cluster, legs(), judgments=judged, index=HYBRID_INDEX, window=WINDOW,
                metric=SELECT, complete=True, force=True, seed=session.options.seed,
                out=_file(session, "-fused.json"), progress=show,
                query_template_out=_file(session, "-query.json"),
            )  # fmt: skip
        for line in str(found).splitlines():
            session.narrator.line(line)
        session.figures["fuse"] = found.as_dict()
    return found.is_better


def upload_fusion(session: DemoSession, cluster: Cluster, judged: Judgments) -> None:
    """Upload the weights as any model, and measure live results of the one request."""
    with session.step("upload", "upload it, and measure live results"):
        with session.narrator.working() as show:
            uploaded = cluster.upload(
                _file(session, "-fused.json"),
                index=HYBRID_INDEX,
                name=HYBRID_MODEL,
                featureset=LEGS,
                progress=show,
            )
            live = cluster.compare_live(
                [HYBRID_MODEL], judgments=judged, index=HYBRID_INDEX, split="all",
                query_template=_file(session, "-query.json"), metrics=SELECT, progress=show,
            )  # fmt: skip
        parity = uploaded.parity
        session.narrator.line(
            f"'{uploaded.model}': engine and local scores differ by at most "
            f"{parity.largest_difference:.1e}"
        )
        after = live.pairs[0].comparison.mean_a
        session.figures |= {"parity": parity.largest_difference, "live": after}
        session.narrator.line(f"{SELECT} of its live results, all queries: {after:.4f}")


def legs() -> dict[str, Any]:
    """The two searches: the demo's full-text query, and the nearest vectors."""
    nearest = '{"knn": {"%s": {"vector": {{#toJson}}%s{{/toJson}}, "k": %d}}}'
    features = [
        {"name": "lexical", "params": ["keywords"], "template": pool_query("{{keywords}}")},
        {"name": "dense", "params": [FIELD], "template": nearest % (FIELD, FIELD, WINDOW)},
    ]
    return {"featureset": {"name": LEGS, "features": features}}


def usual_request(text: str, vector: Sequence[float]) -> dict[str, Any]:
    """OpenSearch's `hybrid` with its defaults."""
    nearest = {"knn": {FIELD: {"vector": list(vector), "k": 5}}}
    combination = {"technique": "geometric_mean"}
    processor = {"normalization-processor": {"combination": combination}}
    return {
        "query": {"hybrid": {"queries": [pool_query(text), nearest]}},
        "search_pipeline": {"phase_results_processors": [processor]},
    }


def _text(document: Document) -> str:
    words = document.source()
    return " ".join(str(words[name]) for name in ("name_words", "parents", "signature", "doc"))


def _field(vector: Any) -> dict[str, list[float]]:
    """A document without a known word has no vector: engines refuse zeros."""
    return {FIELD: _rounded(vector)} if vector.any() else {}


def _rounded(vector: Any) -> list[float]:
    return [round(float(each), 5) for each in vector]


def _file(session: DemoSession, ending: str) -> Path:
    return session.options.folder / f"{HYBRID_INDEX}{ending}"


def _write_json(path: Path, content: Any) -> None:
    write_output(path, f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode())


def _next_commands(session: DemoSession, url: str, *, better: bool) -> list[str]:
    command = program()
    legs_file, judged = _file(session, "-legs.json"), _file(session, "-judgments.jsonl")
    target = f"--index {HYBRID_INDEX} --url {url}"
    fused = f"{command} fuse {legs_file} --judgments {judged} --complete {target} --window 50"
    verify = [f"{command} verify {HYBRID_MODEL} {target}"] if better else []
    return [
        fused,
        f"{command} lint {_file(session, '-request.json')} {target}",
        *verify,
        f"{command} engine stop --port {session.options.port}",
    ]
