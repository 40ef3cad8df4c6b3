# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Movies: words and vectors
#
# Whether to fuse lexical and vector search, on 9,750 movies and judged queries of
# [MSRD](https://github.com/metarank/msrd) (CC BY-SA 4.0). The vectors are made of the movies' own
# words, so that no model is downloaded: latent semantic analysis, by scipy. `MSRD_MOVIES` names
# the folder with `movies-corpus.jsonl.gz` and `movies-judgments.tsv.gz`; the node is one that
# `owpc-ltr engine start --with-vectors` has started, or another with the k-NN plugin.

# %%
import csv
import gzip
import hashlib
import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

import owpc_ltr as ltr

data, folder = Path(os.environ["MSRD_MOVIES"]), Path(tempfile.mkdtemp())
with gzip.open(data / "movies-corpus.jsonl.gz", "rt") as lines:
    movies = [json.loads(line) for line in lines]
with gzip.open(data / "movies-judgments.tsv.gz", "rt") as lines:
    judged = list(csv.DictReader(lines, delimiter="\t"))
# A sample by hash: the file's order is not one of chance.
ids = sorted({row["query_id"] for row in judged}, key=lambda q: hashlib.sha256(q.encode()).digest())
sample = set(ids[:500])
judged = [row for row in judged if row["query_id"] in sample]
queries = {row["query_id"]: row["query"] for row in judged}
print(f"{len(movies):,} movies, {len(queries)} of {len(ids):,} queries, {len(judged):,} judgments")

# %% [markdown]
# ## Vectors
#
# Each movie is a row of weighted words (1 + log tf, times idf); the leading 128 singular vectors
# give it 128 numbers. A query is put into the same space.


# %%
def words(movie: dict) -> list[str]:
    """A movie's words, those of its title twice."""
    parts = [movie["title"], movie["title"], movie["overview"]]
    for name in ("tags", "genres", "director", "actors", "characters"):
        value = movie[name]
        parts += value if isinstance(value, list) else [value]
    return split(" ".join(map(str, parts)))


def split(text: str) -> list[str]:
    """Lower-case words."""
    return re.findall(r"[a-z0-9]+", text.lower())


texts = [words(movie) for movie in movies]
occurs = Counter(word for text in texts for word in set(text))
column = {word: n for n, (word, count) in enumerate(occurs.items()) if count > 1}
column = {word: n for n, word in enumerate(column)}
idf = np.log(len(texts) / np.array([occurs[word] for word in column]))


def weighted(texts: list[list[str]]) -> csr_array:
    """Rows of length 1."""
    counts = [Counter(column[word] for word in text if word in column) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(each) for each in counts])
    columns = np.array([word for each in counts for word in each], int)
    values = (1 + np.log([n for each in counts for n in each.values()])) * idf[columns]
    lengths = np.sqrt(np.bincount(rows, values**2, len(texts)))
    return csr_array((values / lengths[rows], (rows, columns)), (len(texts), len(column)))


matrix = weighted(texts)
_, _, axes = svds(matrix, k=128, v0=np.ones(min(matrix.shape)))


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1; zeros stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


vectors = unit(matrix @ axes.T)
of_query = dict(
    zip(queries, unit(weighted([split(text) for text in queries.values()]) @ axes.T), strict=True)
)
print(f"{len(column):,} words, vectors of {vectors.shape[1]} numbers")


# %%
def rounded(vector: np.ndarray) -> list[float]:
    """A vector as JSON."""
    return [round(float(x), 5) for x in vector]


with (folder / "movies.jsonl").open("w") as lines:
    for movie, vector in zip(movies, vectors, strict=True):
        lines.write(json.dumps({**movie, "vector": rounded(vector)}) + "\n")
with (folder / "judgments.jsonl").open("w") as lines:
    for row in judged:
        if of_query[row["query_id"]].any():
            row["grade"] = float(row["grade"])
            lines.write(json.dumps({**row, "vector": rounded(of_query[row["query_id"]])}) + "\n")

text, name = {"type": "text", "analyzer": "english"}, {"type": "text"}
fields = dict.fromkeys(("title", "overview", "tags", "genres"), text)
fields |= dict.fromkeys(("director", "actors", "characters"), name)
method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
fields["vector"] = {"type": "knn_vector", "dimension": 128, "method": method}
settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0}
body = {"settings": settings, "mappings": {"properties": fields}}
(folder / "settings.json").write_text(json.dumps(body))

cluster = ltr.connect()
print(
    cluster.index(
        folder / "movies.jsonl", index="movies-vectors", id_field="id",
        settings=folder / "settings.json", recreate=True,
    )
)  # fmt: skip

# %% [markdown]
# ## One weight for each leg, or an honest no
#
# The lexical leg is a tuned one: the honest baseline.

# %%
lexical = {
    "multi_match": {
        "query": "{{keywords}}",
        "fields": [
            "title^2", "overview", "tags", "genres", "director", "actors", "characters",
        ],
        "tie_breaker": 0.3,
    }
}  # fmt: skip
dense = '{"knn": {"vector": {"vector": {{#toJson}}vector{{/toJson}}, "k": 100}}}'
legs = {
    "featureset": {
        "name": "movies-legs",
        "features": [
            {"name": "lexical", "params": ["keywords"], "template": lexical},
            {"name": "dense", "params": ["vector"], "template": dense},
        ],
    }
}
found = ltr.fuse(
    cluster, legs, judgments=folder / "judgments.jsonl", index="movies-vectors", complete=True
)
print(found)

# %% [markdown]
# `complete` says that documents without a judgment are irrelevant. Of these movies many are not
# judged, which favours the search that the judged ones came from: words.
#
# ## What a usual request would have done
#
# OpenSearch's `hybrid` with the geometric mean and a `k` of 5, on the first query.

# %%
first = next(iter(queries))
request = {
    "query": {
        "hybrid": {
            "queries": [
                json.loads(json.dumps(lexical).replace("{{keywords}}", queries[first])),
                {"knn": {"vector": {"vector": rounded(of_query[first]), "k": 5}}},
            ]
        }
    },
    "search_pipeline": {
        "phase_results_processors": [
            {"normalization-processor": {"combination": {"technique": "geometric_mean"}}}
        ]
    },
}
print(queries[first])
print(ltr.lint(request, index="movies-vectors", cluster=cluster))
