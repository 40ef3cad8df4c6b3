"""What a learned fusion is worth, and how often it would ship something worse than words alone.

    owpc-ltr engine start --with-vectors
    python benchmarks/hybrid.py ~/data --url http://127.0.0.1:9200 med cisi npl movies

The folder has `classic-ir/` (med.tar.xz, cisi.tar.xz, npl.tar.xz: the classic test collections)
and `msrd-movies/`; `movies-untuned` searches all of its fields alike. Vectors are latent semantic
analysis (truncated SVD of log tf × idf), made here. Each collection is indexed, fused, uploaded and
evaluated live; the live figure must be the local one. Then 200 draws of 50 queries decide by
themselves whether to ship: `worse` counts those whose model is worse than the words alone on the
queries that were not drawn.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

import owpc_ltr as ltr
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.splits import hashes_of
from owpc_ltr.evaluation.significance import compare_paired
from owpc_ltr.fusion.evaluation import EQUAL, LEARNED, RRF, Fusion, LoggedLegs, learn
from owpc_ltr.metrics import parse_metric
from owpc_ltr.training.plan import model_plan

NDCG = parse_metric("ndcg@10")
DIMENSIONS = {"med": 100, "cisi": 100, "npl": 200, "movies": 128, "movies-untuned": 128}
MOVIES = ("title", "overview", "tags", "genres", "director", "actors", "characters")
STOP_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "and",
            "are",
            "as",
            "at",
            "be",
            "by",
            "for",
            "from",
            "has",
            "have",
            "in",
            "is",
        ),
        *("it", "its", "of", "on", "or", "that", "the", "to", "was", "were", "which", "with"),
        *("this", "these", "those", "what", "how", "can"),
    )
)
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class JudgedCollection:
    """Documents by id, query texts by id, and grades by query and document."""

    documents: dict[str, dict[str, Any]]
    queries: dict[str, str]
    grades: dict[str, dict[str, int]]
    complete: bool
    """Whether what is not listed is irrelevant."""


def collection(folder: Path, name: str, most: int) -> JudgedCollection:
    """A collection, with so many of its queries at most, by the hash of their ids."""
    if name.startswith("movies"):
        found = _movies(folder / "msrd-movies")
    else:
        found = _classic(folder / "classic-ir" / f"{name}.tar.xz", name)
    ids = [one for one in found.queries if found.grades.get(one)]
    order = np.argsort(hashes_of(ids, "owpc-ltr"))[:most]
    return replace(found, queries={ids[n]: found.queries[ids[n]] for n in np.sort(order)})


def _movies(folder: Path) -> JudgedCollection:
    with gzip.open(folder / "movies-corpus.jsonl.gz", "rt") as lines:
        documents = {str(one["id"]): one for one in map(json.loads, lines)}
    queries: dict[str, str] = {}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    with gzip.open(folder / "movies-judgments.tsv.gz", "rt") as lines:
        next(lines)
        for line in lines:
            query, text, document, grade = line.rstrip("\n").split("\t")
            queries[query] = text
            grades[query][document] = int(grade)
    return JudgedCollection(documents, queries, grades, complete=False)


def _classic(path: Path, name: str) -> JudgedCollection:
    with tarfile.open(path) as archive:
        texts = {
            Path(one.name).name.lower(): file.read().decode("latin-1")
            for one in archive
            if one.isfile() and (file := archive.extractfile(one)) is not None
        }
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    if name == "npl":
        documents = {i: {"text": text} for i, text in _between_slashes(texts["doc-text"])}
        queries = dict(_between_slashes(texts["query-text"]))
        for query, listed in _between_slashes(texts["rlv-ass"]):
            grades[query] = dict.fromkeys(listed.split(), 1)
        return JudgedCollection(documents, queries, grades, complete=True)
    documents = {i: {"title": t, "text": w} for i, t, w in _smart(texts[f"{name}.all"])}
    queries = {i: f"{title} {text}".strip() for i, title, text in _smart(texts[f"{name}.qry"])}
    for line in texts[f"{name}.rel"].splitlines():
        words = line.split()
        if words:
            grades[words[0]][words[2 if name == "med" else 1]] = 1
    return JudgedCollection(documents, queries, grades, complete=True)


def _smart(text: str) -> Iterator[tuple[str, str, str]]:
    for part in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, _, rest = part.partition("\n")
        fields = re.split(r"^\.([A-Z])\s*$", rest, flags=re.MULTILINE)
        of = {
            key: " ".join(value.split())
            for key, value in zip(fields[1::2], fields[2::2], strict=True)
        }
        yield number.strip(), of.get("T", ""), of.get("W", "")


def _between_slashes(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\s*/\s*$", text, flags=re.MULTILINE):
        number, _, rest = part.strip().partition("\n")
        if number.strip().isdigit():
            yield number.strip(), " ".join(rest.lower().split())


def semantic_vectors(
    texts: Sequence[str], queries: Sequence[str], dimensions: int
) -> tuple[Any, Any]:
    """Unit vectors of documents and queries (n, dimensions); 0 where no word is known."""
    vocabulary: dict[str, int] = {}
    counts = [Counter(_terms(text)) for text in texts]
    for one in counts:
        for term in one:
            vocabulary.setdefault(term, len(vocabulary))

    def matrix(of: Sequence[Counter[str]]) -> Any:
        cells = [
            (row, vocabulary[term], 1 + np.log(n))
            for row, one in enumerate(of)
            for term, n in one.items()
            if term in vocabulary
        ]
        rows, columns, values = zip(*cells, strict=True)
        return sparse.csr_matrix((values, (rows, columns)), shape=(len(of), len(vocabulary)))

    plain = matrix(counts)
    frequency = np.asarray((plain > 0).sum(axis=0)).ravel()
    rarity = sparse.diags(np.where(frequency > 1, np.log(len(texts) / frequency), 0))
    weighed = plain @ rarity
    length = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1)).ravel())
    weighed = sparse.diags(1 / np.maximum(length, 1e-9)) @ weighed
    _, _, directions = svds(weighed, k=dimensions, random_state=0)
    asked = matrix([Counter(_terms(text)) for text in queries]) @ rarity
    return _unit(weighed @ directions.T), _unit(asked @ directions.T)


def _terms(text: str) -> list[str]:
    words = (word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS)
    return [word[:-1] if word.endswith("s") and len(word) > 3 else word for word in words]


def _unit(rows: Any) -> Any:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _text_of(document: dict[str, Any]) -> str:
    values = [document.get(field) or "" for field in ("title", "text", *MOVIES)]
    return " ".join(" ".join(one) if isinstance(one, list) else str(one) for one in values)


def fused(
    cluster: ltr.Cluster, name: str, found: JudgedCollection, folder: Path
) -> tuple[Fusion, float]:
    """What fuse finds, and the live figure of the uploaded model on all queries."""
    index, dimensions = f"hybrid-{name}", DIMENSIONS[name]
    vectors, asked = semantic_vectors(
        [_text_of(one) for one in found.documents.values()],
        list(found.queries.values()),
        dimensions,
    )
    lines = []
    for (key, one), vector in zip(found.documents.items(), vectors, strict=True):
        known = {"vector": vector.round(6).tolist()} if vector.any() else {}
        lines.append(json.dumps({**one, "id": key, **known}))
    (folder / "documents.jsonl").write_text("\n".join(lines))
    fields = MOVIES if name.startswith("movies") else ("title", "text")
    english = {"type": "text", "analyzer": "english"}
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
    vector_field = {"type": "knn_vector", "dimension": dimensions, "method": method}
    settings = {
        "settings": {"index": {"knn": True, "number_of_shards": 1, "number_of_replicas": 0}},
        "mappings": {
            "dynamic": False,
            "properties": {**dict.fromkeys(fields, english), "vector": vector_field},
        },
    }
    cluster.index(
        folder / "documents.jsonl", index=index, id_field="id", settings=settings, recreate=True
    )
    how: dict[str, Any] = {"fields": list(fields), "type": "most_fields"}
    if name == "movies":
        how = {"fields": ["title^2", *fields[1:]], "tie_breaker": 0.3}
    elif name == "movies-untuned":
        how = {"fields": list(fields)}
    words = {"multi_match": {"query": "{{keywords}}", **how}}
    nearest = '{"knn": {"vector": {"vector": {{#toJson}}vector{{/toJson}}, "k": 100}}}'
    legs = {
        "featureset": {
            "name": index,
            "features": [
                {"name": "lexical", "params": ["keywords"], "template": words},
                {"name": "dense", "params": ["vector"], "template": nearest},
            ],
        }
    }
    judged = Judgments([
        JudgedQuery(
            key,
            {"keywords": text, "vector": (vector if vector.any() else vector + 0.01).tolist()},
            list(found.grades[key]),
            np.array(list(found.grades[key].values()), np.float32),
        )
        for (key, text), vector in zip(found.queries.items(), asked, strict=True)
    ])  # fmt: skip
    template = folder / "query.json"
    result = ltr.fuse(
        cluster, legs, judgments=judged, index=index, complete=found.complete,
        query_template_out=template,
    )  # fmt: skip
    cluster.upload(result.model, index=index, name=index, featureset=index)
    live = cluster.compare_live(
        [index],
        index=index,
        judgments=judged,
        query_template=template,
        metrics=str(NDCG),
        split="all",
    )
    return result, live.rankers[0].measured[0].mean


def part_of(legs: LoggedLegs, queries: Any) -> LoggedLegs:
    """Some of the queries."""
    starts = legs.data.offsets
    rows = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in queries])
    return LoggedLegs(
        legs.data.select(queries), legs.found[rows], legs.served[rows], legs.shards[rows],
        [legs.grades[one] for one in queries],
    )  # fmt: skip


def shipped(legs: LoggedLegs, draws: int, size: int) -> tuple[float, float]:
    """The share of draws that would ship, and that would ship what is worse than words alone."""
    rng = np.random.default_rng(0)
    plan = model_plan(metric=NDCG)
    words = legs.values(legs.alone(0), legs.found[:, 0], NDCG)
    ships = worse = 0
    for _ in range(draws):
        drawn = np.sort(rng.choice(legs.data.n_queries, size, replace=False))
        part = part_of(legs, drawn)
        learned = learn(part, plan)
        alone = [part.values(part.alone(n), part.found[:, n], NDCG) for n in (0, 1)]
        best = max(alone, key=lambda values: float(values.mean()))
        values = part.values(learned.scores, part.served, NDCG)
        found = compare_paired(values, best, seed=0, resamples=2000).verdict()
        if found.outcome == "better":
            ships += 1
            scores = learned.model.score(legs.data.features)
            gain = legs.values(scores, legs.served, NDCG) - words
            worse += bool(np.delete(gain, drawn).mean() < 0)
    return ships / draws, worse / draws


def main() -> None:
    """Print a row for each collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", choices=sorted(DIMENSIONS))
    parser.add_argument("--url")
    parser.add_argument("--queries", type=int, default=3000, help="of a collection, at most")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--size", type=int, default=50)
    given = parser.parse_args()
    cluster = ltr.connect(given.url)
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            found = collection(given.folder, name, given.queries)
            one, live = fused(cluster, name, found, Path(folder))
        means = {r.name: r.means[one.metric].mean for r in one.comparison.rankers}
        recall = "/".join(f"{share:.2f}" for share in (*one.recall.legs.values(), one.recall.union))
        row = ", ".join(
            f"{label} {means[label]:.3f}"
            for label in ("lexical", "dense", RRF, EQUAL, one.best_engine, LEARNED)
        )
        print(f"{name} ({one.comparison.n_queries} queries): recall {recall}; {row}")
        print(f"  {one.headline}")
        local = float(one.on_all_queries.mean())
        print(f"  the model of all queries: {local:.4f} local, {live:.4f} live")
        if one.comparison.n_queries > given.size and given.draws:
            ships, worse = shipped(one.logged, given.draws, given.size)
            print(f"  {given.draws} draws of {given.size}: {ships:.1%} ship, {worse:.1%} worse")


if __name__ == "__main__":
    main()
