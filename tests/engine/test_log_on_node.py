"""Feature logging on a real node: the values are the queries' own scores, and kills do no harm."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed.protocol.pickle import dumps, loads
from owpc_ltr_dask import use_workers
from typer.testing import CliRunner

from owpc_ltr.cli.app import app
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine, open_engine
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex
from owpc_ltr.engine.feature_log import log as log_module
from owpc_ltr.engine.feature_log import snapshot
from owpc_ltr.engine.feature_log.log import LogReport, id_advice, run_log
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, Refused, UsageError, WorkersUnavailable
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.mustache import variables
from tests.engine.log_runs import digest

INDEX = "feature-log-test"
WORDS = ("apple", "pear", "plum", "fig", "quince", "medlar", "sloe")
DOCUMENTS = 60
OPTIONS = LogOptions(pause=0, chunk=20, in_flight=2)


def some(words: tuple[str, ...], number: int) -> str:
    return " ".join(word for place, word in enumerate(words) if (number * 7 + place) % 3)


def featureset() -> FeatureSet:
    def factor(field: str) -> dict[str, Any]:
        return {"function_score": {"field_value_factor": {"field": field}, "boost_mode": "replace"}}

    templates: dict[str, Any] = {
        "title": {"match": {"title": "{{query}}"}},
        "all": {"match": {"body": {"query": "{{query}}", "operator": "and"}}},
        "phrase": {"match_phrase": {"body": "{{query}}"}},
        "both": {"multi_match": {"query": "{{query}}", "fields": ["title^2", "body"]}},
        "recent": {"range": {"year": {"gte": "{{year}}"}}},
        "year": factor("year"),
        "zero": {"constant_score": {"filter": {"match_all": {}}, "boost": 0.0}},
    }
    return FeatureSet(
        "feature-log-test",
        tuple(
            Feature(name, tuple(sorted(variables(json.dumps(template)))), template)
            for name, template in templates.items()
        ),
    )


def judgments() -> Judgments:
    """Six queries of twelve documents; two of the seventy-two are not in the index."""
    return Judgments(
        [
            JudgedQuery(
                f"q{number}",
                {"query": some(WORDS[number : number + 3], number), "year": str(1990 + 5 * number)},
                [str((number * 11 + 5 * place) % (DOCUMENTS + 2)) for place in range(12)],
                np.array([place % 3 for place in range(12)], np.float32),
            )
            for number in range(6)
        ]
    )


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    engine = open_engine(node_url)
    text = {"type": "text", "analyzer": "english"}
    properties = {"title": text, "body": text, "year": {"type": "integer"}}
    drop_index(engine, INDEX)
    create_index(
        engine,
        INDEX,
        {"settings": {"number_of_shards": 2}, "mappings": {"properties": properties}},
    )
    index_documents(
        engine,
        INDEX,
        (
            (
                str(number),
                {
                    "title": some(WORDS, number),
                    "body": f"{some(WORDS[::-1], number + 1)} {some(WORDS, number * 3)}",
                    "year": 1980 + number,
                },
            )
            for number in range(DOCUMENTS)
        ),
        lambda _message, _done: None,
    )
    store = PluginFreeStore(engine)
    store.prepare()
    store.put_featureset(featureset(), replace=True)
    yield engine
    engine.request("DELETE", f"/{INDEX}")
    store.delete_featureset(featureset().name)
    engine.close()


def log(engine: Engine, out: Path, options: LogOptions = OPTIONS, **changes: Any) -> LogReport:
    store = PluginFreeStore(engine)
    given: dict[str, Any] = {"judgments": judgments(), "index": INDEX, **changes}
    return run_log(
        engine,
        store,
        store.get_featureset("feature-log-test"),
        given["judgments"],
        given["index"],
        out,
        options=options,
        workers=given.get("workers"),
        progress=given.get("progress", lambda _: None),
    )


def lenient(**changes: Any) -> LogOptions:
    return LogOptions(**{"pause": 0, "chunk": 20, "in_flight": 2, "max_absent": 0.5, **changes})


def judging(*doc_ids: str) -> list[JudgedQuery]:
    return [JudgedQuery("q", {"query": "x"}, list(doc_ids), np.zeros(len(doc_ids), np.float32))]


def test_swapped_columns_are_told_and_leave_nothing_behind(engine: Engine, tmp_path: Path) -> None:
    texts, grades = [f"red {word}" for word in WORDS], np.zeros(len(WORDS), np.float32)
    swapped = Judgments(
        [JudgedQuery(f"{n}", {"query": f"{n}", "year": "1990"}, texts, grades) for n in range(20)]
    )
    options = LogOptions(pause=0)
    with pytest.raises(Refused, match=r"as the judged queries do: are the columns swapped"):
        log(engine, tmp_path / "out.parquet", options, judgments=swapped)
    assert list(tmp_path.iterdir()) == []
    assert log(engine, tmp_path / "out.parquet", lenient()).counts.logged > 0


def test_ids_of_another_kind_are_shown_with_the_field_that_holds_them(
    engine: Engine, tmp_path: Path
) -> None:
    strangers = Judgments([
        replace(query, doc_ids=[f"SKU-{doc_id}" for doc_id in query.doc_ids])
        for query in judgments().queries
    ])  # fmt: skip
    with pytest.raises(Refused) as caught:
        log(engine, tmp_path / "out.parquet", LogOptions(pause=0), judgments=strangers)
    said = str(caught.value)
    assert said.startswith(f"none of 72 judged documents is in '{INDEX}': judged 'SKU-0'; ids in")
    assert said.endswith("'; is it the right index and id field?")
    assert "--max-absent" not in said

    index = f"{INDEX}-ids"
    drop_index(engine, index)
    documents = ((str(n), {"sku": f"SKU-{n}", "ean": 100 + n}) for n in range(3))
    advice = id_advice(engine, INDEX, judging("x" * 99))
    assert advice.startswith(f"judged '{'x' * 39}…'; ids in the")
    create_index(engine, index, {})
    assert "is empty: is it the right index" in id_advice(engine, index, judging("SKU-1"))
    index_documents(engine, index, documents, lambda _message, _done: None)
    try:
        for judged, name in (["SKU-7", "SKU-1"], "sku"), (["102"], "ean"):
            advice = id_advice(engine, index, judging(*judged))
            assert advice.endswith(
                f"; the field '{name}' holds the judged ids: index again with --id-field {name}"
            )
    finally:
        drop_index(engine, index)


def test_an_alias_stands_for_its_index(engine: Engine, tmp_path: Path) -> None:
    alias = f"{INDEX}-alias"
    engine.request("PUT", f"/{INDEX}/_alias/{alias}")
    log(engine, tmp_path / "alias.parquet", lenient(), index=alias)
    manifest = load_dataset(tmp_path / "alias.parquet").manifest
    engine.request("DELETE", f"/{INDEX}/_alias/{alias}")
    assert manifest is not None
    assert manifest["index"]["name"] == alias
    assert list(manifest["index"]["indices"]) == [INDEX]


def test_an_index_that_is_not_there_is_one_line(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'feature-log-tost' .* did you mean 'feature-log-test'"):
        log(engine, tmp_path / "features.parquet", index="feature-log-tost")
    with pytest.raises(BadInput, match="there is no index 'feature-log-nowhere'"):
        log(engine, tmp_path / "out.parquet", index="feature-log-nowhere")
    assert list(tmp_path.iterdir()) == []


# Asked from other processes.


class Written:
    """Workers whose calls go as bytes, as they do to other processes, and are made here."""

    def __init__(self, processes: int = 2) -> None:
        self.processes = self.threads = processes
        self.sent: list[bytes] = []

    def each(self, calls: Sequence[Callable[[], Any]]) -> Iterator[Any]:
        for call in calls:
            self.sent.append(dumps(call))
            yield loads(self.sent[-1])()


@pytest.fixture
def logged_remotely_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked for here but what is kept of an interrupted run."""

    def _refuse(*_: Any) -> Any:
        raise AssertionError("this process asked for features")

    monkeypatch.setattr(log_module, "Values", SimpleNamespace(joined=_refuse))


@pytest.mark.usefixtures("logged_remotely_only")
@pytest.mark.parametrize("processes", [1, 2, 5])
def test_whoever_asks_the_bytes_are_the_same(
    engine: Engine, tmp_path: Path, processes: int, undisturbed: str
) -> None:
    workers = Written(processes)
    report = log(engine, tmp_path / "out.parquet", lenient(in_flight=None), workers=workers)
    assert digest(tmp_path / "out.parquet") == undisturbed
    assert len(workers.sent) == 3
    assert report.counts.judged == 72


@pytest.fixture(scope="module")
def undisturbed(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of a log that was asked for here."""
    out = tmp_path_factory.mktemp("undisturbed") / "out.parquet"
    log(engine, out, lenient(in_flight=None))
    return digest(out)


def test_workers_go_on_with_what_is_kept(engine: Engine, tmp_path: Path, undisturbed: str) -> None:
    class Failing(Written):
        def each(self, calls: Sequence[Callable[[], Any]]) -> Iterator[Any]:
            yield from super().each(calls[:2])
            raise WorkersUnavailable("all workers have ended")

    out = tmp_path / "out.parquet"
    with pytest.raises(WorkersUnavailable):
        log(engine, out, lenient(), workers=Failing())
    workers = Written()
    report = log(engine, out, lenient(), workers=workers)
    assert (len(workers.sent), report.resumed) == (1, 48)
    assert digest(out) == undisturbed


def test_workers_get_their_share_of_what_is_allowed_and_no_secrets(
    node_url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWPC_LTR_USER", "logger")
    monkeypatch.setenv("OWPC_LTR_PASSWORD", "canary-9f3")
    knowing = open_engine(node_url)
    assert knowing.settings.credentials is not None
    workers = Written(2)
    log(knowing, tmp_path / "out.parquet", lenient(in_flight=5, rate=1e6), workers=workers)
    knowing.close()
    for sent in workers.sent:
        assert b"canary" not in sent
        assert str(knowing.settings.credentials.authorization).encode() not in sent
        asking = loads(sent).args[0]
        assert (asking.options.in_flight, asking.options.rate) == (2, 5e5)
        assert asking.limit == 2
    with pytest.raises(UsageError, match="less than one search for each of 6 workers"):
        log(engine, tmp_path / "few.parquet", lenient(in_flight=5), workers=Written(6))


def test_workers_are_refused_where_no_snapshot_is_taken(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "open_point_in_time", lambda *_, **__: (None, "no right to"))
    with pytest.raises(Refused, match="has no point in time: log without workers"):
        log(engine, tmp_path / "out.parquet", lenient(), workers=Written())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [None, Written()], ids=["asked here", "asked elsewhere"])
def test_a_search_with_too_many_clauses_is_named(
    engine: Engine, out: Path, workers: Written | None
) -> None:
    long = judgments()
    long.queries[0].params["query"] = " ".join(f"word{n}" for n in range(1100))
    with pytest.raises(Refused, match=r"document '0' of query 'q0' cannot be logged: .*too_many"):
        log(engine, out, judgments=long, workers=workers)
    assert workers is None or len(workers.sent) == 1


def test_a_refusal_is_the_same_on_the_other_side() -> None:
    for kind in (EngineRefusal, NoSuchIndex):
        refusal = kind("GET /x", 404, "index_not_found_exception", "no such index [x]")
        back = loads(dumps(refusal))
        assert type(back) is kind
        assert (str(back), vars(back)) == (str(refusal), vars(refusal))


@pytest.mark.filterwarnings("ignore::owpc_ltr.errors.OwpcLtrWarning")  # of two documents
@pytest.mark.usefixtures("logged_remotely_only")
def test_the_command_has_the_workers_ask(
    node_url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    workers, places = Written(), []

    @contextmanager
    def given(place: str, *, plugins: Sequence[Path] = ()) -> Iterator[Written]:
        del plugins
        places.append(place)
        yield workers

    monkeypatch.setattr("owpc_ltr_dask.use_workers", given)
    file = tmp_path / "judgments.tsv"
    file.write_text(
        "query_id\tdoc_id\tgrade\tquery\tyear\nq\t1\t2\tapple\t1982\nq\t2\t0\tapple\t1982\n"
    )
    words = [
        "log-features",
        "--judgments",
        file,
        "--out",
        tmp_path / "out.parquet",
        "--index",
        INDEX,
    ]
    words += ["--dask", "local:3", "--url", node_url, "--featureset", featureset().name]
    result = CliRunner().invoke(app, [*map(str, words), "--store-kind", "plugin-free"])
    assert result.exit_code == 0, result.output
    assert (places, len(workers.sent)) == (["local:3"], 1)
    assert "2 judged = 2 logged" in result.output


@pytest.mark.usefixtures("logged_remotely_only")
def test_workers_log_and_one_that_is_killed_costs_its_chunk(
    engine: Engine, tmp_path: Path, undisturbed: str
) -> None:
    with use_workers("local:2") as workers:
        processes = list(workers.client.run(os.getpid).values())

        def kill_one(_: int) -> None:
            if processes:
                os.kill(processes.pop(), signal.SIGKILL)
                processes.clear()

        log(engine, tmp_path / "out.parquet", lenient(), workers=workers, progress=kill_one)
    assert digest(tmp_path / "out.parquet") == undisturbed
