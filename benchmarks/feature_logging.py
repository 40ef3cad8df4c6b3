"""How fast features are logged, beside one search per query and feature.

    python benchmarks/feature_logging.py --url http://127.0.0.1:9200 [--queries 300] [--in-flight 4]
        [--shards 3 --replicas 1] [--pace]
        [--index movies --featureset movies --judgments movies-judgments.tsv.gz]

Query–document pairs a second: on your own index, or on made-up documents that are taken away
afterwards (24 judged documents a query, 25 features). The peer sends what most people write first:
for each query and feature, one search for the judged documents, one after the other, over the same
client; the last column is against the peer with as many in flight as we have. Also: how long it
takes to decode an answer with json, and with orjson if it is installed. `--pace` compares, in place
of all that, a fixed 4 in flight with as many as the engine takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine, open_engine
from owpc_ltr.engine.feature_log.log import run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.engine.stores import Store, choose_store
from owpc_ltr.engine.stores.feature_queries import render
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.host.judgment_lists import read_judgments

INDEX = "owpc-ltr-benchmark-logging"
DOCUMENTS, JUDGED, WORDS = 10_000, 24, 20_000
TEXT_FIELDS = ("title", "body", "tags")


@dataclass(frozen=True)
class LogWork:
    """What is logged, and where."""

    engine: Engine
    store: Store
    featureset: FeatureSet
    index: str
    judgments: Judgments

    def part(self, queries: int) -> LogWork:
        """The same with the first queries only."""
        return replace(self, judgments=Judgments(self.judgments.queries[:queries]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of feature logging.")
    parser.add_argument("--url", default=None)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=0)
    parser.add_argument("--pace", action="store_true")
    parser.add_argument("--index", default=None)
    parser.add_argument("--featureset", default=None)
    parser.add_argument("--judgments", type=Path, default=None)
    arguments = parser.parse_args()
    engine = open_engine(arguments.url)
    store = choose_store(engine, None, None)
    own = arguments.index is not None
    if own:
        judgments = read_judgments(arguments.judgments)
        featureset = store.get_featureset(arguments.featureset)
        work = LogWork(engine, store, featureset, arguments.index, judgments)
    else:
        work = made_up(engine, store, arguments.queries, arguments.shards, arguments.replicas)
    try:
        if arguments.pace:
            compare_paces(work.part(arguments.queries), arguments.runs)
            return
        measure(work.part(arguments.queries), arguments.in_flight, arguments.runs)
    finally:
        if not own:
            engine.request("DELETE", f"/{INDEX}")
            store.delete_featureset(work.featureset.name)


def measure(work: LogWork, in_flight: list[int], runs: int) -> None:
    queries = work.judgments.queries
    print(
        f"{work.store.kind}, {len(queries)} queries, {work.judgments.n_judgments} documents, "
        f"{len(work.featureset.features)} features"
    )
    our_rate(work, in_flight[0])  # the engine's code gets compiled
    for number in in_flight:
        compare(work, number, runs)
    compare_decoders(work)


def compare(work: LogWork, in_flight: int, runs: int) -> None:
    """All ways by turns, so that a busy machine slows all; medians."""
    few = work.part(max(len(work.judgments.queries) // 10, 1))
    rates = [
        (our_rate(work, in_flight), peer_rate(few, 1), peer_rate(few, in_flight))
        for _ in range(runs)
    ]
    ours, peer, busy_peer = (statistics.median(column) for column in zip(*rates, strict=True))
    print(
        f"  {in_flight} in flight: {ours:6.0f} pairs/s; one search per query and feature "
        f"{peer:5.0f} pairs/s: {ours / peer:.1f} times; with {in_flight} in flight "
        f"{busy_peer:5.0f} pairs/s: {ours / busy_peer:.1f} times"
    )


def compare_paces(work: LogWork, runs: int) -> None:
    """As many as the engine bears, beside a fixed number; by turns, so that load slows both."""
    our_rate(work, 4)  # the engine's code gets compiled
    turns = [(our_rate(work, 4), our_rate(work, None)) for _ in range(runs)]
    fixed, free = (statistics.median(column) for column in zip(*turns, strict=True))
    ratios = ", ".join(f"{theirs / ours:.2f}" for ours, theirs in turns)
    print(
        f"{work.judgments.n_judgments} documents: at most 4 in flight {fixed:.0f} pairs/s, as many "
        f"as it bears {free:.0f} pairs/s ({ratios})"
    )


def our_rate(work: LogWork, in_flight: int | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        report = run_log(
            work.engine,
            work.store,
            work.featureset,
            work.judgments,
            index=work.index,
            out=Path(folder) / "dataset.parquet",
            options=LogOptions(in_flight=in_flight, max_absent=1.0),
        )
    return report.pairs_per_second


def peer_rate(work: LogWork, in_flight: int) -> float:
    def ask(task: tuple[JudgedQuery, Feature]) -> int:
        query, feature = task
        body = {
            "size": len(query.doc_ids),
            "_source": False,
            "query": {
                "bool": {
                    "filter": [{"ids": {"values": query.doc_ids}}],
                    "must": [render(feature.template, query.params)],
                }
            },
        }
        path = f"/{work.index}/_search"
        return len(work.engine.request("POST", path, body=body)["hits"]["hits"])

    features = work.featureset.features
    tasks = [(query, feature) for query in work.judgments.queries for feature in features]
    started = time.perf_counter()
    with ThreadPoolExecutor(in_flight) as pool:
        found = sum(pool.map(ask, tasks))
    assert found
    return work.judgments.n_judgments / (time.perf_counter() - started)


def compare_decoders(work: LogWork) -> None:
    query = work.judgments.queries[0]
    search = work.store.log_search(work.featureset, dict(query.params), query.doc_ids)
    path = f"/{work.index}/_search"
    started = time.perf_counter()
    answer = work.engine.request("POST", path, params=search.params, body=search.body)
    whole = time.perf_counter() - started
    text = json.dumps(answer, separators=(",", ":")).encode()
    line = f"  an answer has {len(text):,} bytes and takes {whole * 1e3:.1f} ms; decoding: "
    line += f"json {microseconds(json.loads, text):.0f} µs"
    try:
        line += f", orjson {microseconds(import_module('orjson').loads, text):.0f} µs"
    except ImportError:
        line += " (orjson is not installed)"
    print(line)


def microseconds(decode: Callable[[bytes], Any], text: bytes) -> float:
    started = time.perf_counter()
    for _ in range(1000):
        decode(text)
    return (time.perf_counter() - started) * 1e3


def features() -> FeatureSet:
    """25 features: each text field by six query types, four of several fields, three numbers."""
    kinds: dict[str, Callable[[str], dict[str, Any]]] = {
        "match": lambda f: {"match": {f: "{{query}}"}},
        "all": lambda f: {"match": {f: {"query": "{{query}}", "operator": "and"}}},
        "phrase": lambda f: {"match_phrase": {f: {"query": "{{query}}", "slop": 3}}},
        "prefix": lambda f: {"match_bool_prefix": {f: "{{query}}"}},
        "fuzzy": lambda f: {"match": {f: {"query": "{{query}}", "fuzziness": 1}}},
        "constant": lambda f: {"constant_score": {"filter": {"match": {f: "{{query}}"}}}},
    }
    templates = {f"{f}_{kind}": make(f) for f in TEXT_FIELDS for kind, make in kinds.items()}
    for kind in ("best_fields", "most_fields", "cross_fields", "phrase"):
        body = {"query": "{{query}}", "fields": list(TEXT_FIELDS), "type": kind}
        templates[f"multi_{kind}"] = {"multi_match": body}
    for number in ("votes", "year", "rating"):
        factor = {"field_value_factor": {"field": number, "modifier": "log1p"}}
        templates[number] = {"function_score": {"query": {"match_all": {}}, **factor}}
    return FeatureSet(
        "owpc-ltr-benchmark",
        tuple(
            Feature(name, ("query",) if "{{" in json.dumps(template) else (), template)
            for name, template in templates.items()
        ),
    )


def words(rng: np.random.Generator, count: int) -> str:
    """Words as common as words are."""
    return " ".join(f"w{n}" for n in np.minimum(rng.zipf(1.3, count), WORDS))


def made_up(engine: Engine, store: Store, queries: int, shards: int, replicas: int) -> LogWork:
    work = LogWork(engine, store, features(), INDEX, make_judgments(queries))
    make_index(engine, shards, replicas)
    store.prepare()
    store.put_featureset(work.featureset, replace=True)
    return work


def make_index(engine: Engine, shards: int, replicas: int) -> None:
    rng = np.random.default_rng(0)
    text = {"type": "text", "analyzer": "english"}
    properties = {**dict.fromkeys(TEXT_FIELDS, text), "votes": {"type": "integer"}}
    properties |= {"year": {"type": "integer"}, "rating": {"type": "float"}}
    copies = {"number_of_shards": shards, "number_of_replicas": replicas}
    settings = {"settings": copies, "mappings": {"properties": properties}}
    drop_index(engine, INDEX)
    create_index(engine, INDEX, settings)
    documents = (
        (
            str(number),
            {
                "title": words(rng, 5),
                "body": words(rng, 60),
                "tags": words(rng, 8),
                "votes": int(rng.integers(0, 9999)),
                "year": int(rng.integers(1950, 2025)),
                "rating": float(rng.uniform(0, 10)),
            },
        )
        for number in range(DOCUMENTS)
    )
    index_documents(engine, INDEX, documents, lambda _message, _done: None)


def make_judgments(queries: int) -> Judgments:
    rng = np.random.default_rng(1)
    return Judgments(
        [
            JudgedQuery(
                f"q{number}",
                {"query": words(rng, 3)},
                [str(d) for d in rng.choice(DOCUMENTS, JUDGED, replace=False)],
                rng.integers(0, 3, JUDGED).astype(np.float32),
            )
            for number in range(queries)
        ]
    )


if __name__ == "__main__":
    main()
