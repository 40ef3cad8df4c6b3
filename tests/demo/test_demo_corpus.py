"""The demo's corpus and queries."""

from __future__ import annotations

import json
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_demo import corpus as corpus_module
from owpc_ltr_demo.corpus import (
    MODULE,
    MODULES,
    CandidatePool,
    DemoQuery,
    Document,
    candidate_pools,
    candidate_recall,
    candidates_of,
    index_body,
    make_queries,
    read_corpus,
    split_docstring,
    words_of,
)
from owpc_ltr_demo.demo import next_commands
from owpc_ltr_demo.session import DemoOptions, DemoSession
from typer.core import TyperGroup

from owpc_ltr.cli.app import app
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.errors import Refused
from tests.engine.memory_engine import whole
from tests.faults.selection import Selection
from tests.fresh_process import printed_by

THOROUGH = Selection.asked().thorough
ASKED_FOR = 1500 if THOROUGH else 400
# A third of the library: packages and single files, and modules that are compiled.
SOME = {"asyncio", "builtins", "collections", "concurrent", "datetime", "email", "heapq",
        "importlib", "json", "logging", "math", "os", "pathlib", "re", "string"}  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> tuple[Document, ...]:
    """The documents of some modules; `make test-all` reads all of them."""
    with pytest.MonkeyPatch.context() as patch:
        if not THOROUGH:
            others = sys.stdlib_module_names - SOME
            patch.setattr(corpus_module, "LEFT_OUT", corpus_module.LEFT_OUT | others)
        return read_corpus()


@pytest.fixture(scope="module")
def queries(corpus: tuple[Document, ...]) -> tuple[DemoQuery, ...]:
    return make_queries(corpus, ASKED_FOR)


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


@pytest.mark.thorough
def test_there_are_a_few_thousand_documents_of_every_kind(corpus: tuple[Document, ...]) -> None:
    assert 3000 <= len(corpus) <= 8000
    kinds = [document.kind for document in corpus]
    assert all(kinds.count(kind) > 200 for kind in ("module", "class", "function", "method"))


def test_ids_are_unique_and_sorted(corpus: tuple[Document, ...]) -> None:
    ids = [document.id for document in corpus]
    assert ids == sorted(set(ids))


def test_well_known_objects_are_there(corpus: tuple[Document, ...]) -> None:
    documents = {document.id: document for document in corpus}
    wanted = {
        "json": "module",
        "json.decoder.JSONDecoder": "class",
        "heapq.heappush": "function",
        "builtins.str.upper": "method",
        "collections.deque.rotate": "method",
        "datetime.date.today": "method",
        "math.gcd": "function",
    }
    assert {name: documents[name].kind for name in wanted if name in documents} == wanted
    today = documents["pathlib.PurePath.with_suffix"] if "pathlib.PurePath" in documents else None
    if today is not None:
        words = {name: today.content[name] for name in ("name_words", "parents")}
        assert words == {"name_words": "with suffix", "parents": "pathlib purepath pure path"}
        assert (today.content["parameters"], today.content["depth"]) == (1, 3)


def test_every_document_fits_the_mapping(corpus: tuple[Document, ...]) -> None:
    mapped = index_body()["mappings"]["properties"]
    for document in corpus:
        source = document.content
        # The engine fills `text` from the others.
        assert source.keys() == mapped.keys() - {"text"}
        for name, value in source.items():
            assert isinstance(value, int if mapped[name]["type"] == "integer" else str)


def test_nothing_private_and_no_module_that_acts_is_described(corpus: tuple[Document, ...]) -> None:
    for document in corpus:
        names = document.id.split(".")
        assert not any(name.startswith("_") for name in names)
        assert names[0] not in corpus_module.LEFT_OUT
        assert "test" not in names[:-1]


@pytest.mark.thorough
def test_the_corpus_is_the_same_in_another_process(corpus: tuple[Document, ...]) -> None:
    """Reading it imports nothing but the compiled modules."""
    script = (
        "import json, sys, sysconfig; from owpc_ltr_demo import corpus;"
        "from owpc_ltr_demo.corpus import make_queries; sysconfig.get_paths();"
        "before = set(sys.modules); c = corpus.read_corpus(); read = set(sys.modules) - before;"
        "asked = [q.query_id for q in make_queries(c, 200)];"
        "print(json.dumps([[vars(d) for d in c], asked, sorted(read)]))"
    )
    printed = printed_by(script, {"PYTHONHASHSEED": "12345", "PATH": ""})
    documents, asked, imported = json.loads(printed)
    assert documents == [vars(document) for document in corpus]
    assert asked == [query.query_id for query in make_queries(corpus, 200)]
    assert set(imported) <= MODULES.keys()


def test_a_python_without_its_source_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(
        corpus_module, "sysconfig", types.SimpleNamespace(get_path=lambda _: str(tmp_path))
    )
    with pytest.raises(Refused, match="does not hold its source"):
        list(corpus_module.read_sources())


def test_no_query_stands_in_the_document_that_it_asks_for(
    corpus: tuple[Document, ...], queries: tuple[DemoQuery, ...]
) -> None:
    documents = {document.id: document for document in corpus}
    for query in queries:
        document = documents[query.query_id.partition(":")[2]]
        for value in document.content.values():
            assert normal(query.text) not in normal(str(value))


def test_a_summary_repeated_below_is_no_query() -> None:
    document = example("m.f", "Give the first of them.", "Give the first\nof them. Or none.")
    assert make_queries([document], 10) == ()
    assert len(make_queries([example("m.f", "Give the first of them.", "Or none.")], 10)) == 1


def test_a_summary_that_two_objects_share_is_no_query() -> None:
    twins = [example("m.f", "Give the first one."), example("m.g", "give the first ONE")]
    assert make_queries(twins, 10) == ()


@pytest.mark.parametrize("summary", ["", "Too short.", "word " * 31])
def test_summaries_too_short_or_long_are_no_queries(summary: str) -> None:
    assert make_queries([example("m.f", summary)], 10) == ()


def test_a_module_is_asked_for_with_its_members() -> None:
    module = example("m", "All that counts and more.", kind="module")
    members = [example(f"m.f{number}", "x") for number in range(3)]
    (query,) = make_queries([module, *members, example("m.f0.deep", "x")], 10)
    assert query.kind == MODULE
    assert query.relevant == {"m": 2, "m.f0": 1, "m.f1": 1, "m.f2": 1}


def test_queries_are_a_sample_that_a_larger_one_contains(
    corpus: tuple[Document, ...], queries: tuple[DemoQuery, ...]
) -> None:
    assert len(queries) == ASKED_FOR
    assert len({query.query_id for query in queries}) == ASKED_FOR
    assert {query.query_id for query in make_queries(corpus, ASKED_FOR // 5)} < {
        query.query_id for query in queries
    }
    modules = sum(query.kind == MODULE for query in queries)
    assert ASKED_FOR / 30 < modules < ASKED_FOR / 3


def test_relevant_documents_exist(
    corpus: tuple[Document, ...], queries: tuple[DemoQuery, ...]
) -> None:
    ids = {document.id for document in corpus}
    assert all(query.relevant.keys() <= ids for query in queries)


@given(st.text(alphabet="abcXYZ09_", max_size=20))
def test_splitting_a_name_loses_no_letter(name: str) -> None:
    assert words_of(name).replace(" ", "") == name.replace("_", "").lower()


@given(st.text(max_size=200))
def test_summary_and_rest_are_the_docstring(text: str) -> None:
    parts = split_docstring("f", text)
    assert len((parts.signature + parts.summary + parts.rest).split()) <= len(text.split()) + 2
    assert parts.summary or not text.strip()


@pytest.mark.parametrize(
    ("text", "signature", "summary", "rest"),
    [
        ("Do it, e.g. Now. Then rest.", "", "Do it, e.g. Now.", "Then rest."),
        ("One line\nwithout a stop\n\nMore.", "", "One line without a stop", "More."),
        ("f(x) -> int\n\nGive x. Fast.", "f(x) -> int", "Give x.", "Fast."),
        ("f(x) -> the int of x", "f(x)", "the int of x", ""),
        ("f(x) -- give x\nas it is", "f(x)", "give x as it is", ""),
        ("Read version 3.2 of it.", "", "Read version 3.2 of it.", ""),
    ],
)
def test_docstrings_are_cut_where_their_summary_ends(
    text: str, signature: str, summary: str, rest: str
) -> None:
    parts = split_docstring("f", text)
    assert (parts.signature, parts.summary, parts.rest) == (signature, summary, rest)


def test_a_pool_holds_what_was_found_and_nothing_that_was_not() -> None:
    query = DemoQuery("q", "some words", MODULE, {"b": 2, "z": 1})
    pool = candidates_of(answering(["c", "b", "a"]), "docs", query)
    assert pool == CandidatePool(query, ("a", "b", "c"))
    assert query.judged(pool.doc_ids).grades.tolist() == [0, 2, 0]
    assert pool.recall == 0.5
    assert candidate_recall([pool, CandidatePool(query, ("b", "z"))]) == 0.75


def test_the_order_of_a_pool_is_not_the_ranking() -> None:
    query = DemoQuery("q", "some words", MODULE, {"b": 1})
    orders = (["c", "b", "a"], ["a", "b", "c"])
    assert candidates_of(answering(orders[0]), "docs", query) == candidates_of(
        answering(orders[1]), "docs", query
    )


def test_half_an_answer_is_not_taken_for_a_pool() -> None:
    query = DemoQuery("q", "some words", MODULE, {"b": 1})
    with pytest.raises(Refused, match="part of the index"):
        candidates_of(answering(["b"], timed_out=True), "docs", query)


def test_pools_come_in_the_order_of_their_queries() -> None:
    asked = [DemoQuery(str(n), "some words", MODULE, {str(n): 1}) for n in range(20)]
    shares: list[float | None] = []
    pools = candidate_pools(answering([]), "docs", asked, lambda _, share: shares.append(share))
    assert [candidates_of.query for candidates_of in pools] == asked
    assert shares[-1] == 1.0


def example(name: str, summary: str, doc: str = "", kind: str = "function") -> Document:
    content = {"id": name, "name": name.rpartition(".")[2], "kind": kind, "doc": doc}
    return Document(name, kind, summary, content)


def answering(ids: list[str], *, timed_out: bool = False) -> Engine:
    """An engine that gives these hits to every search."""
    answer = whole([{"_id": name} for name in ids], len(ids)) | {"timed_out": timed_out}
    return cast("Engine", types.SimpleNamespace(request=lambda *_, **__: answer))


def test_the_commands_that_go_on_are_accepted_as_printed(tmp_path: Path) -> None:
    root: Any = typer.main.get_command(app)
    session = DemoSession(DemoOptions(port=9999, folder=tmp_path))
    context = typer.Context(root)
    for line in next_commands(session, "http://127.0.0.1:9999"):
        command, words = root, shlex.split(line)[1:]
        while isinstance(command, TyperGroup):
            command, words = command.get_command(context, words[0]), words[1:]
        assert command.make_context(line, words).params
