"""How fast `owpc-ltr serve` is: service times, latencies under a load, and its memory.

    python benchmarks/serve.py [--rates 100,300,500] [--seconds 10] [--memory 100000]
        [--url http://127.0.0.1:9200]

Requests of 100 documents with 25 features by value, made up, for a linear model and for 300 trees
of depth 6. In turn:

- service times: what a request takes of one core, from its bytes to the answer's, without HTTP
- HTTP: one connection, one request after another
- open loop: requests are sent when they are due, whether or not earlier ones are answered, and a
  latency begins when its request was due; one process has one core, the sender the others; then two
  processes and the sender share all cores
- with `--url`, documents by id, beside the engine's own search for the same features, in turn, each
  answer decoded
- with `--url`, searches of the gateway that show two linear models interleaved, beside the engine's
  own search and that with one model, in turn
- with `--memory`, what the service holds after so many requests
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from feature_logging import INDEX, features, make_index, words
from owpc_ltr_serve.endpoint import Call
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.rerank import rerank_endpoints

from owpc_ltr.engine.client.engine import Engine, open_engine
from owpc_ltr.engine.connect import connect
from owpc_ltr.engine.evidence import now
from owpc_ltr.engine.experiments import Experiment, Experiments
from owpc_ltr.engine.search.client_scoring import whole_answer
from owpc_ltr.engine.staging_index import drop_index
from owpc_ltr.engine.stores import choose_store
from owpc_ltr.engine.versioned_documents import INDEX as POINTERS
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import LEAF, Forest, TreeModel

DOCUMENTS, FEATURES, TREES, DEPTH = 100, 25, 300, 6
CONNECTIONS = 64
JSON = {"Content-Type": "application/json"}
SHARES = (50, 90, 99, 99.9)
NAMES = tuple(feature.name for feature in features().features)


def main() -> None:
    """Print a table of each kind."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        models = made_models(Path(folder))
        body = by_value(np.random.default_rng(5))
        print(f"{DOCUMENTS} documents × {FEATURES} features by value: {len(body):,} bytes\n")
        print_header("one core, without HTTP")
        for path in models:
            rankers = Rankers(connect("http://127.0.0.1:9"), [path])
            print_row(f"{path.stem}", service_times(rankers, body))
        for path in models:
            print_header(f"\n{path.stem}, over HTTP")
            with service(path) as one, cores_apart(one[1]):
                print_row("one at a time", one_at_a_time(one[0], body, 500))
                for rate in given.rates:
                    print_load([one], body, rate, given.seconds)
            with service(path) as one, service(path) as other:
                print_load([one, other], body, max(given.rates), given.seconds)
        if given.memory:
            with service(models[0]) as (port, process):
                print_memory(port, process, body, given.memory)
        if given.url:
            by_ids(given.url, models[0])
            by_experiments(given.url)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rates", type=lambda text: [float(one) for one in text.split(",")],
                        default=[100.0, 300.0, 500.0])  # fmt: skip
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--url", default=None)
    return parser.parse_args()


def made_models(folder: Path) -> list[Path]:
    """A linear model, and trees whose every path is as long as may be."""
    rng = np.random.default_rng(3)
    record = {"featureset_hash": features().hash}
    linear = LinearModel(NAMES, rng.normal(size=FEATURES), record=record)
    linear.save(folder / "linear.json")
    inner, nodes = 2**DEPTH - 1, 2 ** (DEPTH + 1) - 1
    places = np.arange(nodes)
    starts = np.repeat(np.arange(TREES) * nodes, nodes)
    is_leaf = np.tile(places >= inner, TREES)
    forest = Forest(
        np.arange(0, TREES * nodes, nodes, dtype=np.int32),
        np.where(is_leaf, LEAF, rng.integers(0, FEATURES, len(is_leaf))).astype(np.int32),
        np.where(is_leaf, 0, rng.uniform(0, 10, len(is_leaf))).astype(np.float32),
        np.where(is_leaf, 0, starts + 2 * np.tile(places, TREES) + 1).astype(np.int32),
        default_left=np.zeros(len(is_leaf), bool),
        value=np.where(is_leaf, rng.normal(size=len(is_leaf)), 0.0),
    )
    trees = TreeModel(NAMES, forest, record=record)
    trees.save(folder / f"{TREES} trees of depth {DEPTH}.json")
    return [folder / "linear.json", folder / f"{TREES} trees of depth {DEPTH}.json"]


def by_value(rng: np.random.Generator) -> bytes:
    rows = rng.uniform(0, 10, (DOCUMENTS, FEATURES)).astype(np.float32).astype(float)
    documents = [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()]
    return json.dumps({"query": "insidious", "documents": documents}).encode()


def service_times(rankers: Rankers, body: bytes, times: int = 2_000) -> list[float]:
    """Milliseconds of the processor for each of some requests."""
    handler = rerank_endpoints(rankers, Metrics(rankers.states))[0].handler
    found = []
    for _ in range(times):
        call = Call("/v1/rerank", body, time.monotonic() + 60)
        began = time.thread_time()
        handler(call)
        found.append(1e3 * (time.thread_time() - began))
    return found[times // 10 :]


Service = tuple[int, subprocess.Popen[str]]
"""Its port and its process."""


@contextlib.contextmanager
def service(path: Path | str, *options: str) -> Iterator[Service]:
    """A service of one model."""
    line = [sys.executable, "-m", "owpc_ltr", "serve", str(path), "--port", "0", *options]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stderr is not None
        # A line before it says which cluster is used.
        while " at http" not in (told := process.stderr.readline()):
            assert told, f"the service ended with {process.wait(30)}"
        yield int(told.rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def cores_apart(process: subprocess.Popen[str]) -> Iterator[None]:
    """All threads of a process have one core, and this process has the others."""
    cores = sorted(os.sched_getaffinity(0))
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores[:1])
    os.sched_setaffinity(0, cores[1:] or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def one_at_a_time(port: int, body: bytes, times: int) -> list[float]:
    """Milliseconds of requests over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    found = []
    for _ in range(times):
        began = time.perf_counter()
        connection.request("POST", "/v1/rerank", body, JSON)
        answer = connection.getresponse()
        answer.read()
        found.append(1e3 * (time.perf_counter() - began))
        assert answer.status == 200
    connection.close()
    return found[times // 10 :]


def print_load(services: Sequence[Service], body: bytes, rate: float, seconds: float) -> None:
    ports = [port for port, _ in services]
    began, cpu = time.perf_counter(), sum(cpu_seconds(process) for _, process in services)
    latencies, refused = asyncio.run(open_loop(ports, body, rate, int(rate * seconds)))
    wall = time.perf_counter() - began
    used = (sum(cpu_seconds(process) for _, process in services) - cpu) / len(latencies)
    processes = "" if len(services) == 1 else f", {len(services)} processes"
    print_row(
        f"{rate:g}/s due{processes}", latencies,
        f"{len(latencies) / wall:7.1f}/s done, {refused} not 200, {1e3 * used:.2f} ms CPU each",
    )  # fmt: skip


async def open_loop(
    ports: Sequence[int], body: bytes, rate: float, count: int
) -> tuple[list[float], int]:
    """Milliseconds from when each request was due to its whole answer; how many were refused.

    Each port has as many connections as the others.
    """
    head = "POST /v1/rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    due: asyncio.Queue[float | None] = asyncio.Queue()
    latencies: list[float] = []
    refused = 0

    async def connection(port: int) -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := await due.get()) is not None:
            writer.write(request)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            latencies.append(1e3 * (time.perf_counter() - began))
            refused += b" 200 " not in answer[:20]
        writer.close()

    each = range(CONNECTIONS // len(ports))
    tasks = [asyncio.create_task(connection(port)) for port in ports for _ in each]
    start = time.perf_counter() + 0.1
    for number in range(count):
        when = start + number / rate
        await asyncio.sleep(max(0.0, when - time.perf_counter()))
        due.put_nowait(when)
    for _ in tasks:
        due.put_nowait(None)
    await asyncio.gather(*tasks)
    return latencies, refused


def print_memory(port: int, process: subprocess.Popen[str], body: bytes, requests: int) -> None:
    print(f"\nresident memory of the service, {requests:,} requests one after another")
    done = 0
    for until in sorted({0, requests // 100, requests // 10, requests // 2, requests}):
        if until > done:
            one_at_a_time(port, body, until - done)
            done = until
        print(f"{done:12,} {resident(process):8.1f} MB")


def by_ids(url: str, path: Path) -> None:
    """Documents by id: the service, and the engine's search for the same features, in turn."""
    engine = open_engine(url)
    store = choose_store(engine, "plugin-free", "benchmark-serve")
    make_index(engine, 1, 0)
    store.prepare()
    store.put_featureset(features())
    rng = np.random.default_rng(9)
    options = ("--url", url, "--store-kind", "plugin-free", "--store", store.name or "")
    try:
        with service(path, "--index", INDEX, *options) as (port, _):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            alone: list[float] = []
            served: list[float] = []
            for _ in range(300):
                query = words(rng, 3)
                ids = [str(one) for one in rng.choice(5_000, DOCUMENTS, replace=False)]
                search = store.log_search(features(), {"query": query}, ids)
                body = json.dumps({"query": query, "documents": ids}).encode()

                def ask(body: bytes = body) -> None:
                    connection.request("POST", "/v2/rerank", body, JSON)
                    answer = connection.getresponse()
                    content = answer.read()
                    assert answer.status == 200, content

                def search_alone(search: Any = search) -> None:
                    whole_answer(engine, INDEX, search, 30.0)

                # Each is first in turn, so that neither always finds warm caches.
                ways = [(alone, search_alone), (served, ask)]
                for found, way in ways[:: 1 if len(alone) % 2 else -1]:
                    found.append(milliseconds(way))
        print_header("\nby id")
        print_row("the engine alone", alone[30:])
        print_row("the service", served[30:])
        added = np.array(served[30:]) - np.array(alone[30:])
        print_row("what it adds", added.tolist())
    finally:
        drop_index(engine, INDEX)
        store.delete_featureset(features().name)
        engine.close()


def by_experiments(url: str) -> None:
    """Searches of a window of 100: the engine's own, with a model, and with two interleaved.

    The two rankers have one feature set, or two, which takes a second search.
    """
    engine = open_engine(url)
    store = choose_store(engine, "plugin-free", "benchmark-serve")
    make_index(engine, 1, 0)
    store.prepare()
    fewer = FeatureSet("benchmark-fewer", features().features[:-1])
    rng = np.random.default_rng(3)
    arms = []
    for number, featureset in enumerate((features(), features(), fewer)):
        names = featureset.feature_names
        model = LinearModel(names, rng.normal(size=len(names)))
        arms.append(f"benchmark-0000000{number}")
        store.put_featureset(featureset)
        store.put_model(export_linear(model, featureset, arms[-1]))
    for name, b in (("benchmark-one-set", arms[1]), ("benchmark-two-sets", arms[2])):
        Experiments(engine).start(Experiment(name, arms[0], b, INDEX, now()))
    options = ("--index", INDEX, "--url", url, "--store-kind", "plugin-free",
               "--store", store.name or "")  # fmt: skip
    asked = {
        "the engine alone": None,
        "a model": {"model": arms[0]},
        "two, one feature set": {"experiment": "benchmark-one-set"},
        "two, two feature sets": {"experiment": "benchmark-two-sets"},
    }
    try:
        with service(arms[0], *options) as (port, _):
            print_header("\nsearches, window 100")
            for what, values in searched_in_turn(port, engine, asked).items():
                print_row(what, values)
    finally:
        for name in ("benchmark-one-set", "benchmark-two-sets"):
            engine.request("DELETE", f"/{POINTERS}/_doc/experiment%2F{name}")
        drop_index(engine, INDEX)
        for arm in arms:
            store.delete_model(arm)
        for featureset in (features(), fewer):
            store.delete_featureset(featureset.name)
        engine.close()


def searched_in_turn(
    port: int, engine: Engine, asked: Mapping[str, Any], times: int = 400
) -> dict[str, list[float]]:
    """Milliseconds of each way to search; each is first in turn."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    rng = np.random.default_rng(9)
    taken: dict[str, list[float]] = {what: [] for what in asked}
    for number in range(times):
        query = words(rng, 3)
        body: dict[str, Any] = {"query": {"match": {"body": query}}, "size": 10}
        turn = number % len(asked)
        for what in [*asked, *asked][turn : turn + len(asked)]:
            began = time.perf_counter()
            if asked[what] is None:
                engine.request("POST", f"/{INDEX}/_search", body=body)
            else:
                own = {**asked[what], "params": {"query": query}}
                user = {"client_id": f"c{number}"}
                content = json.dumps({**body, "ext": {"owpc_ltr": own, "ubi": user}})
                connection.request("POST", f"/{INDEX}/_search", content, JSON)
                answer = connection.getresponse()
                answer.read()
                status = answer.headers["X-LTR-Status"]
                assert status in {"ranked", "interleaved"}, status
            taken[what].append(1e3 * (time.perf_counter() - began))
    return {what: values[times // 10 :] for what, values in taken.items()}


def milliseconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: subprocess.Popen[str]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def print_header(title: str) -> None:
    print(f"{title:32}" + "".join(f"{f'p{share:g}':>9}" for share in SHARES) + "      max   (ms)")


def print_row(what: str, values: Sequence[float], more: str = "") -> None:
    found = [*np.percentile(values, SHARES).tolist(), max(values)]
    print(f"{what:32}" + "".join(f"{one:9.2f}" for one in found) + f"   {more}", flush=True)


if __name__ == "__main__":
    main()
