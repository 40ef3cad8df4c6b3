"""The demo of hybrid search: vectors by latent semantic analysis, one weight for each leg."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr_demo.corpus import Document, index_body, read_corpus
from owpc_ltr_demo.queries import DemoQuery, make_queries, pool_query
from owpc_ltr_demo.session import HYBRID_INDEX, HYBRID_MODEL, SELECT, WINDOW, DemoSession, program

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.types import Matrix, Vector

FIELD = "vector"
DIMENSIONS = 96
LEGS = "python-docs-legs"
_WORD = re.compile(r"[a-z]{2,}")


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
    lint_usual_request(session, corpus)
    better = fuse_legs(session, cluster, judged)
    if better:
        upload_fusion(session, cluster, judged)
    return _next_commands(session, url, better=better)


def make_vectors(session: DemoSession) -> Corpus:
    """Vectors of documents and queries, by the words of the documents alone."""
    with session.step("vectors", "make vectors of the documentation, by latent semantic analysis"):
        with session.working() as show:
            show("reading the standard library", None)
            documents = read_corpus()
            texts = [_text(document) for document in documents]
            show("analysing its words", None)
            space = LatentSemantics.of(texts, seed=session.options.seed)
            vectors = space.vectors(texts)
            queries = make_queries(documents, session.options.queries)
            of_queries = space.vectors([query.text for query in queries])
        has_vector = np.abs(of_queries).max(axis=1) > 0
        queries = tuple(itertools.compress(queries, has_vector))
        session.line(
            f"{len(documents)} documents, {len(space.words)} words, {DIMENSIONS} dimensions; "
            f"{len(queries)} queries (summary lines), none of which a document contains"
        )
        session.figures |= {"documents": len(documents), "queries": len(queries)}
    return Corpus(documents, vectors, queries, of_queries[has_vector])


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
            (document.id, {**document.content, **_field(vector)})
            for document, vector in zip(corpus.documents, corpus.vectors, strict=True)
        )
        with session.working() as show:
            report = load_new_index(cluster.engine, HYBRID_INDEX, sources, body, show, merge=False)
        session.line(f"{report.documents} documents")


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
        write_judgments(judged, session.file("-judgments.jsonl"))
        session.write("-legs.json", _json(legs()))
        for ending in ("-judgments.jsonl", "-legs.json"):
            session.line(str(session.file(ending)))
    return judged


def lint_usual_request(session: DemoSession, corpus: Corpus) -> None:
    """A request as tutorials have it, and what spoils it."""
    from owpc_ltr import lint

    with session.step("lint", "look for traps in a usual hybrid request"):
        query, vector = corpus.queries[0], corpus.of_queries[0]
        request = usual_request(query.text, _rounded(vector))
        session.write("-request.json", _json(request))
        result = lint(request)
        for finding in result.findings:
            session.line(f"{finding.check}: {finding.message}")
        session.figures["lint"] = result.as_dict()


def fuse_legs(session: DemoSession, cluster: Cluster, judged: Judgments) -> bool:
    """Learn one weight a leg, and say whether it is better than the best leg alone."""
    from owpc_ltr import fuse

    with session.step("fuse", "learn one weight for each leg, and measure it on other queries"):
        with session.working() as show:
            fusion = fuse(
                cluster, legs(), judgments=judged, index=HYBRID_INDEX, window=WINDOW,
                metric=SELECT, complete=True, force=True, seed=session.options.seed,
                out=session.file("-fused.json"), progress=show,
                query_template_out=session.file("-query.json"),
            )  # fmt: skip
        for line in str(fusion).splitlines():
            session.line(line)
        session.figures["fuse"] = fusion.as_dict()
    return fusion.is_better


def upload_fusion(session: DemoSession, cluster: Cluster, judged: Judgments) -> None:
    """Upload the weights as any model, and measure live results of the one request."""
    with session.step("upload", "upload it, and measure live results"):
        with session.working() as show:
            uploaded = cluster.upload(
                session.file("-fused.json"), index=HYBRID_INDEX, name=HYBRID_MODEL,
                featureset=LEGS, progress=show,
            )  # fmt: skip
            live = cluster.compare_live(
                [HYBRID_MODEL], judgments=judged, index=HYBRID_INDEX, split="all",
                query_template=session.file("-query.json"), metrics=SELECT, progress=show,
            )  # fmt: skip
        parity = uploaded.parity
        session.line(
            f"'{uploaded.model}': engine and local scores differ by at most "
            f"{parity.largest_difference:.1e}"
        )
        after = live.pairs[0].comparison.mean_a
        session.figures |= {"parity": parity.largest_difference, "live": after}
        session.line(f"{SELECT} of its live results, all queries: {after:.4f}")


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
    words = document.content
    return " ".join(str(words[name]) for name in ("name_words", "parents", "signature", "doc"))


def _field(vector: Any) -> dict[str, list[float]]:
    """A document without a known word has no vector: engines refuse zeros."""
    return {FIELD: _rounded(vector)} if vector.any() else {}


def _rounded(vector: Any) -> list[float]:
    return [round(float(value), 5) for value in vector]


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False)


def _next_commands(session: DemoSession, url: str, *, better: bool) -> list[str]:
    command = program()
    legs_file, judged = session.file("-legs.json"), session.file("-judgments.jsonl")
    target = f"--index {HYBRID_INDEX} --url {url}"
    fused = f"{command} fuse {legs_file} --judgments {judged} --complete {target} --window 50"
    verify = [f"{command} verify {HYBRID_MODEL} {target}"] if better else []
    return [
        fused,
        f"{command} lint {session.file('-request.json')}",
        *verify,
        f"{command} engine stop --port {session.options.port}",
    ]


@dataclass(frozen=True)
class LatentSemantics:
    """The word space of a corpus: which words it has, their weights, and where each points.

    Deerwester, Dumais, Furnas, Landauer & Harshman, Indexing by Latent Semantic Analysis (1990):
    the leading singular vectors of the matrix of texts and words, here of 1 + log tf, times idf.
    Words that occur in the same texts get similar vectors, so that a text can be found by words
    that it does not have.

    `axes` has a row for each word. Shape: (words, dimensions).
    """

    words: dict[str, int]
    weights: Vector
    axes: Matrix

    @classmethod
    def of(
        cls, texts: Sequence[str], dimensions: int = DIMENSIONS, seed: int = 0
    ) -> LatentSemantics:
        """The space of texts; words that only one of them has are left out."""
        from scipy.sparse.linalg import svds

        occurs = Counter(word for text in texts for word in set(_words(text)))
        shared = sorted(word for word, count in occurs.items() if count > 1)
        columns = {word: column for column, word in enumerate(shared)}
        weights = np.log(len(texts) / np.array([occurs[word] for word in shared], np.float64))
        start = np.random.default_rng(seed).normal(size=min(len(texts), len(shared)))
        _, _, axes = svds(_weighted(texts, columns, weights), k=dimensions, v0=start)
        return cls(columns, weights, np.ascontiguousarray(axes.T, np.float32))

    def vectors(self, texts: Sequence[str]) -> Matrix:
        """A vector of length 1 for each text, or zeros where it has none of the words.

        Shape: (texts, dimensions).
        """
        vectors = _weighted(texts, self.words, self.weights) @ self.axes
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(text.lower())


def _weighted(texts: Sequence[str], known: dict[str, int], weights: Vector) -> Any:
    """The matrix of texts and words, each text of length 1."""
    from scipy.sparse import csr_array

    values: list[float] = []
    columns: list[int] = []
    starts = [0]
    for text in texts:
        counts = Counter(known[word] for word in _words(text) if word in known)
        frequencies = np.array([1 + np.log(count) for count in counts.values()])
        frequencies *= weights[list(counts)] if counts else 1
        values += (frequencies / max(float(np.linalg.norm(frequencies)), 1e-12)).tolist()
        columns += counts
        starts.append(len(columns))
    shape = (len(texts), len(known))
    return csr_array((np.array(values), np.array(columns, np.int32), np.array(starts)), shape)
