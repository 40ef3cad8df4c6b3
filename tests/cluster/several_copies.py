"""An index of three shards, two copies each, and judgments of its documents."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.features.feature_set import Feature, FeatureSet

INDEX = "several-copies"
DOCUMENTS = 600
WORDS = ("pear", "apple", "plum", "fig", "quince")
FEATURESET = FeatureSet(
    INDEX,
    (
        Feature("text", ("query",), {"match": {"text": "{{query}}"}}),
        Feature("phrase", ("query",), {"match_phrase": {"text": "{{query}}"}}),
    ),
)


def judgments(queries: int = 40) -> Judgments:
    """Documents that are still there, ten a query."""
    there = [number for number in range(DOCUMENTS) if number % 3]
    return Judgments(
        [
            JudgedQuery(
                f"q{number}",
                {"query": f"{WORDS[number % 5]} {WORDS[number // 5 % 5]}"},
                [str(there[(number * 31 + place * 7) % len(there)]) for place in range(10)],
                np.array([place % 3 for place in range(10)], np.float32),
            )
            for number in range(queries)
        ]
    )


def fill(engine: Engine) -> None:
    """Write the index, and delete a third of it again; all copies are alike so far."""
    settings = {"number_of_shards": 3, "number_of_replicas": 1, "refresh_interval": "-1"}
    mappings = {"properties": {"text": {"type": "text"}}}
    engine.request("PUT", f"/{INDEX}", body={"settings": settings, "mappings": mappings})
    lines: list[Any] = []
    for number in range(DOCUMENTS):
        text = " ".join(WORDS[(number * 7 + place * place) % 5] for place in range(number % 6 + 1))
        lines += [{"index": {"_id": str(number)}}, {"text": text}]
    write(engine, lines)
    write(engine, [{"delete": {"_id": str(number)}} for number in range(0, DOCUMENTS, 3)])
    store = PluginFreeStore(engine)
    store.prepare()
    store.put_featureset(FEATURESET, replace=True)
    await_green(engine)


def write(engine: Engine, lines: list[Any]) -> None:
    answer = engine.request("POST", f"/{INDEX}/_bulk", ndjson=lines, params={"refresh": "true"})
    assert not answer["errors"]


def await_green(engine: Engine) -> None:
    green = {"wait_for_status": "green", "timeout": "60s", "wait_for_no_relocating_shards": True}
    assert not engine.request("GET", "/_cluster/health", params=green)["timed_out"]


def merge_primaries(engine: Engine) -> None:
    """Take deleted documents out of the primaries alone, which moves the scores of these copies.

    What a copy that comes back may ask for is kept; the nodes agree on it every half minute.
    """
    engine.request("POST", f"/{INDEX}/_flush", params={"force": "true"})
    until = time.monotonic() + 120
    while not _nothing_is_kept(engine):
        assert time.monotonic() < until
        time.sleep(1)
    only = {"primary_only": "true", "max_num_segments": 1}
    engine.request("POST", f"/{INDEX}/_forcemerge", params=only)
    engine.request("POST", f"/{INDEX}/_refresh")


def _nothing_is_kept(engine: Engine) -> bool:
    stats = engine.request("GET", f"/{INDEX}/_stats", params={"level": "shards"})
    return all(
        lease["retaining_seq_no"] > copy["seq_no"]["max_seq_no"]
        for copies in stats["indices"][INDEX]["shards"].values()
        for copy in copies
        for lease in copy["retention_leases"]["leases"]
    )


def log(engine: Engine, out: Path, **options: Any) -> LogReport:
    store = PluginFreeStore(engine)
    given = LogOptions(**{"chunk": 100, **options})
    return run_log(engine, store, FEATURESET, judgments(), INDEX, out, options=given)
