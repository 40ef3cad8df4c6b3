"""The attempts of an alias in its cluster: each is counted once, whatever happens to its write."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from owpc_ltr.engine.attempts import ClusterAttempts
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.deployment.alias import all_aliases, pinned_models
from owpc_ltr.engine.versioned_documents import INDEX
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, OwpcLtrWarning
from owpc_ltr.evaluation.attempts import AttemptsFile, Sketch, sketch_of
from owpc_ltr.evaluation.comparison import compare_results
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import Unreliable
from tests.engine.test_write_faults import EVERY, KINDS, Faulty
from tests.evaluation.test_attempts import results_of


def queries(first: int, last: int) -> Sketch:
    return sketch_of(pa.array([f"query {n}" for n in range(first, last)]))


def attempt(
    engine: Any, candidate: str, on: Sketch | None = None, metric: str = "map", alias: str = "m"
) -> int:
    made = ClusterAttempts(cast("Engine", engine), alias, candidate=candidate)
    return made.count(on or queries(0, 100), metric, {})


def made(engine: Any, alias: str = "m") -> list[str]:
    attempts = ClusterAttempts(cast("Engine", engine), alias, candidate="-").made()
    return [each.candidate for each in attempts]


def test_each_candidate_metric_and_set_of_queries_is_an_attempt_that_counts_once() -> None:
    engine = MemoryCluster()
    assert [attempt(engine, name) for name in "abca"] == [0, 1, 2, 0]
    assert attempt(engine, "a", metric="ndcg@10") == 3
    assert attempt(engine, "a", queries(0, 120)) == 4
    assert attempt(engine, "a", queries(500, 600)) == 0
    assert attempt(engine, "a", alias="other") == 0
    # New ids and other spellings of the same texts are the same queries.
    ids = pa.array([f"id {n}" for n in range(100)])
    same = sketch_of(ids, pa.array([f" QUERY  {n}" for n in range(100)]))
    assert attempt(engine, "b", same) == 1
    # What was said first is said again, whatever came since.
    assert [attempt(engine, name) for name in "cba"] == [2, 1, 0]
    assert made(engine) == ["a", "b", "c", "a", "a", "a"]
    assert all_aliases(cast("Engine", engine)) == []
    assert pinned_models(cast("Engine", engine)) == {}


def test_leaving_out_one_query_or_another_is_one_attempt_or_another() -> None:
    """Most sets that differ in one query have the same smallest hashes, and are not the same."""
    texts = [f"query {n}" for n in range(200)]
    sketches = [sketch_of(pa.array(texts[:n] + texts[n + 1 :])) for n in range(200)]
    (smallest, many), *_ = Counter(str(sketch["sketch"]) for sketch in sketches).most_common()
    assert many > 100
    alike = [sketch for sketch in sketches if str(sketch["sketch"]) == smallest]
    engine = MemoryCluster()
    assert [attempt(engine, "a", sketch) for sketch in alike[:4]] == [0, 1, 2, 3]


def test_a_comparison_counts_in_the_cluster_and_in_no_file(rng: np.random.Generator) -> None:
    engine, b = MemoryCluster(), rng.random(40)
    counted = []
    for name in ("x", "y"):
        attempts = ClusterAttempts(cast("Engine", engine), "m", candidate=name)
        comparison = compare_results(results_of(rng.random(40), b, attempts=attempts))
        counted.append(comparison.earlier_comparisons)
    assert counted == [0, 1]
    text = " ".join(comparison.correction()[0].split())
    assert text == (
        "p corrected for 1 earlier comparison on these queries: it counts 3 times (in the "
        "cluster, for the alias 'm'; of 40 queries, 21 must be new to start anew)"
    )
    assert not AttemptsFile().path.exists()


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_whose_writes_go_astray_is_counted_once(kind: str, before: int) -> None:
    """At each of its writes, or two; while it is repeated, others count theirs."""
    for faults in [
        {1: kind},
        {2: kind},
        {1: kind, 2: kind},
        {1: kind, 3: kind},
        {2: kind, 3: kind},
    ]:
        cluster = MemoryCluster()
        for number in range(before):
            attempt(cluster, f"earlier {number}")
        faulty = Faulty(cluster, dict(faults))
        others, counts = 0, []
        for _ in range(len(faults) + 1):
            try:
                counts.append(attempt(faulty, "new"))
                break
            except EngineUnavailable:
                others += 1
                attempt(cluster, f"other {others}")
                faulty.arrive(10**6)
        faulty.arrive(10**9)
        names = made(cluster)
        assert sorted(names) == sorted(set(names)), (kind, faults)
        assert len(names) == before + others + 1, (kind, faults)
        # Its number is that of its place in the list, which no late write has changed.
        assert counts == [names.index("new")], (kind, faults)
        assert attempt(cluster, "new") == counts[0]


def test_a_lost_answer_is_no_failure_and_a_lost_request_is_one() -> None:
    cluster = MemoryCluster()
    attempt(cluster, "first")
    for lost, names in [(True, ["first", "new"]), (False, ["first", "new"])]:
        # Read, index, write.
        broken = Unreliable(
            cast("Engine", cluster), 3, lambda: EngineUnavailable("gone"), lost, again=False
        )
        if lost:
            assert attempt(broken, "new") == 1
        else:
            with pytest.raises(EngineUnavailable, match="gone"):
                attempt(broken, "lost")
        assert made(cluster) == names


@pytest.mark.parametrize(
    "content",
    [
        None, [], {}, {"format": 1}, {"format": 1, "made": None}, {"format": 1, "made": [{}]},
        {"format": 1, "made": ["a"]},
    ],
)  # fmt: skip
def test_a_damaged_document_is_an_error_and_never_nothing(content: Any) -> None:
    cluster = MemoryCluster()
    attempt(cluster, "a")
    cluster.request("PUT", f"/{INDEX}/_doc/attempts%2Fm", body={"attempts": content})
    with pytest.raises(
        BadInput, match=r"attempts of the alias 'm' are damaged .*snapshot"
    ) as error:
        attempt(cluster, "b")
    assert error.value.exit_code == 3
    cluster.request("PUT", f"/{INDEX}/_doc/attempts%2Fm", body={"attempts": {"format": 2}})
    with pytest.raises(BadInput, match="later version"):
        attempt(cluster, "b")


@pytest.mark.parametrize(
    ("field", "value"),
    [("candidate", 1), ("earlier", "0"), ("earlier", True), ("queries", {}), ("queries", None),
     ("queries", {"n": 1, "sketch": [1], "all": ""}), ("time", None), ("metric", 3)],
)  # fmt: skip
def test_each_damaged_field_is_found(field: str, value: Any) -> None:
    cluster = MemoryCluster()
    attempt(cluster, "a")
    source = json.loads(json.dumps(cluster.indices[INDEX].documents["attempts/m"][0]))
    source["attempts"]["made"][0][field] = value
    cluster.request("PUT", f"/{INDEX}/_doc/attempts%2Fm", body=source)
    with pytest.raises(BadInput, match="damaged"):
        attempt(cluster, "b")


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (1, EngineUnavailable("gone")),
        (3, EngineRefusal("it", 403, "cluster_block_exception", "index is read-only")),
    ],
)
def test_what_the_engine_refuses_or_does_not_answer_is_an_error(
    number: int, fault: OwpcLtrError
) -> None:
    cluster = MemoryCluster()
    with pytest.raises(type(fault)):
        attempt(Unreliable(cast("Engine", cluster), number, lambda: fault), "a")
    assert made(cluster) == []


def test_whether_attempts_can_be_written_is_known_before_one_is_made() -> None:
    cluster = MemoryCluster()
    for before in ([], ["a"]):
        attempts = ClusterAttempts(cast("Engine", cluster), "m", candidate="-")
        assert attempts.may_count(for_evidence=True)
        assert made(cluster) == before
        attempt(cluster, "a")
    faults: dict[OwpcLtrError, bool] = {
        EngineRefusal("it", 409, "version_conflict_engine_exception", "another came"): True,
        EngineRefusal("it", 400, "", "no"): False,
        NotAllowed("no permissions"): False,
    }
    for fault, is_writable in faults.items():
        engine = cast(
            "Engine", Unreliable(cast("Engine", cluster), 3, partial(_same, fault), again=False)
        )
        with nullcontext() if is_writable else pytest.raises(type(fault)):
            assert ClusterAttempts(engine, "m", candidate="-").may_count(for_evidence=True)
    engine = cast(
        "Engine",
        Unreliable(
            cast("Engine", cluster), 3, partial(_same, NotAllowed("no permissions")), again=False
        ),
    )
    with pytest.warns(OwpcLtrWarning, match="is no evidence for a switch: no permissions"):
        assert not ClusterAttempts(engine, "m", candidate="-").may_count(for_evidence=False)


def _same(fault: OwpcLtrError) -> OwpcLtrError:
    return fault


def test_the_document_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr.engine.attempts._MOST", 3)
    cluster = MemoryCluster()
    assert [attempt(cluster, name) for name in "abcde"] == [0, 1, 2, 3, 3]
    assert made(cluster) == ["c", "d", "e"]


def test_on_a_real_node_concurrent_attempts_are_all_counted_one_after_another(
    engine: Engine,
) -> None:
    alias = f"attempts-{uuid.uuid4().hex[:8]}"
    names = [f"candidate {n}" for n in range(24 if EVERY else 16)]
    # Each is sent twice, as two machines would.
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda name: attempt(engine, name, alias=alias), names * 2))
    first, second = counts[: len(names)], counts[len(names) :]
    assert first == second
    assert sorted(first) == list(range(len(names)))
    assert [first[names.index(name)] for name in made(engine, alias)] == sorted(first)
    assert attempt(engine, "another", queries(30, 130), alias=alias) == len(names)
    assert attempt(engine, "another", queries(200, 300), alias=alias) == 0
    # The document is none of an alias, and a damaged one is found.
    assert alias not in {existing.name for existing in all_aliases(engine)}
    path = f"/{INDEX}/_doc/attempts%2F{alias}"
    engine.request("PUT", path, body={"attempts": {"format": 1}})
    with pytest.raises(BadInput, match="damaged"):
        attempt(engine, "b", alias=alias)
    engine.request("DELETE", path)
