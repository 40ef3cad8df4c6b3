"""Bulk loads: every document is accounted for, and an index is complete or not there."""

from __future__ import annotations

import contextlib
import gzip
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrWarning
from owpc_ltr.data.documents import DocumentFile, with_document_fields
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.index import IndexReport, index_documents, load_index
from owpc_ltr.engine.staging_index import create_index
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from owpc_ltr.names import base_index
from tests.datasets import dataset
from tests.engine.fake_engine import Asked, Clock, FakeEngine, Reply
from tests.engine.small_cluster import Through, Unreliable

WHOLE = {"mappings": {"properties": {"n": {"type": "integer"}}}}
BAD_SETTINGS = {"settings": {"index.nosuch_setting": 1}}


def silent(_message: str, _done: float | None = None) -> None:
    """No progress."""


@dataclass
class Place:
    """An engine, and an index name that nobody else uses."""

    engine: Any
    name: str
    folder: Path

    def file(self, *lines: Any) -> DocumentFile:
        path = self.folder / "docs.jsonl"
        text = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text("\n".join(text) + "\n")
        return DocumentFile(path, "id")

    def fill(self, source: DocumentFile, **how: Any) -> IndexReport:
        return load_index(self.engine, self.name, source, **{"progress": silent, **how})

    def indices(self) -> list[str]:
        rows = self.engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
        return sorted(row["index"] for row in rows if row["index"].startswith(self.name))

    def numbers(self) -> list[int]:
        self.engine.request("POST", f"/{self.name}/_refresh")
        answer = self.engine.request("POST", f"/{self.name}/_search", body={"size": 100})
        return sorted(hit["_source"]["n"] for hit in answer["hits"]["hits"])

    def identity(self) -> str:
        (settings,) = self.engine.request("GET", f"/{self.name}/_settings").values()
        return str(settings["settings"]["index"]["uuid"])

    def behind(self) -> dict[str, Any]:
        """The indices whose name begins with this one, and their aliases."""
        aliases = self.engine.request("GET", f"/{self.name}%2A/_alias")
        return {index: content["aliases"] for index, content in aliases.items()}


@pytest.fixture
def place(node_url: str, tmp_path: Path) -> Iterator[Place]:
    engine = Engine(ConnectionSettings(node_url))
    made = Place(engine, f"filling-{uuid.uuid4().hex[:8]}", tmp_path)
    yield made
    made.engine = engine
    for name in made.indices():
        with contextlib.suppress(EngineRefusal):
            engine.request("DELETE", f"/{name}")
    engine.close()


def numbered(*numbers: Any) -> list[dict[str, Any]]:
    return [{"id": f"d{place}", "n": n} for place, n in enumerate(numbers)]


@pytest.mark.parametrize("name", ["shop.csv", "shop.tsv", "shop.CSV.gz"])
def test_a_table_becomes_documents(name: str, tmp_path: Path) -> None:
    mark = "\t" if "tsv" in name else ","
    rows = [["id", "title", "note"], ["007", '"red, ""big""\nshoes"', ""], ["b", "blue", "new"]]
    content = ("\ufeff" + "".join(mark.join(row) + "\r\n" for row in rows)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(DocumentFile(tmp_path / name, "id")) == [
        ("007", {"id": "007", "title": 'red, "big"\nshoes'}),
        ("b", {"id": "b", "title": "blue", "note": "new"}),
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("id,id\na,b\n", "line 1: two columns of one name"),
        (",id\na,b\n", "line 1: two columns of one name, or one without"),
        ("id,n\na,1\nb,1,2\n", "line 3: 3 fields where the header has 2"),
        ('id,n\na,"1\n', "after line 1: not CSV in UTF-8: unexpected end"),
        (b"id,n\na,\xff\n", "after line 1: not CSV in UTF-8"),
        ("", "holds no document"),
        ("id\n", "holds no document"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_line(
    content: str | bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput, match=why):
        DocumentFile(path, "id").check(silent)


def test_the_mapping_makes_numbers_of_a_tables_texts(place: Place) -> None:
    path = place.folder / "shop.csv"
    path.write_text("id,n\na,3\nb,11\n")
    assert place.fill(DocumentFile(path, "id"), settings=WHOLE).documents == 2
    answer = place.engine.request(
        "POST", f"/{place.name}/_search", body={"query": {"range": {"n": {"gte": 10}}}}
    )
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == ["b"]


FAULTS: list[tuple[list[Any], Any, type[Exception], str]] = [
    ([*numbered(1), "{oops"], WHOLE, BadInput, "line 2: not JSON"),
    ([*numbered(1), {"n": 2}], WHOLE, BadInput, "line 2: no usable id in field 'id' .`id_field`.:"),
    ([*numbered(1, 2), {"id": "d0", "n": 3}], WHOLE, BadInput, "line 3: the id 'd0' is also on l"),
    ([], WHOLE, BadInput, "holds no document"),
    (numbered(*range(20), "many"), WHOLE, Refused, "does not take document 'd20'"),
    (numbered(1), BAD_SETTINGS, Refused, "nosuch_setting"),
    (numbered(1), {"aliases": [1]}, BadInput, "'aliases' of the index's settings are no object"),
]  # fmt: skip


@pytest.mark.thorough(sample=3)
@pytest.mark.parametrize(("lines", "settings", "kind", "why"), FAULTS)
@pytest.mark.parametrize("existing", ["refuse", "append", "recreate"])
def test_a_first_index_that_fails_leaves_nothing(
    lines: list[Any], settings: Any, kind: type[Exception], why: str, existing: str, place: Place
) -> None:
    with pytest.raises(kind, match=why):
        place.fill(place.file(*lines), settings=settings, existing=existing)
    assert place.indices() == []
    assert place.fill(place.file(*numbered(1, 2)), settings=WHOLE).documents == 2


@pytest.mark.parametrize(("lines", "settings", "kind", "why"), FAULTS)
def test_recreating_that_fails_leaves_the_old_index_as_it_was(
    lines: list[Any], settings: Any, kind: type[Exception], why: str, place: Place
) -> None:
    place.fill(place.file(*numbered(7, 8, 9)), settings=WHOLE)
    before = place.identity()
    with pytest.raises(kind, match=why):
        place.fill(place.file(*lines), settings=settings, existing="recreate")
    assert place.indices() == [place.name]
    assert place.numbers() == [7, 8, 9]
    assert place.identity() == before


def test_recreating_gives_the_index_that_making_it_first_does(place: Place) -> None:
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    body = {**WHOLE, "settings": settings, "aliases": {f"{place.name}-alias": {}}}
    place.fill(place.file(*numbered(1, 2, 3)), settings=WHOLE)
    messages: list[str] = []
    report = place.fill(
        place.file(*numbered(4, 5)), settings=body, existing="recreate",
        progress=lambda message, _: messages.append(message),
    )  # fmt: skip
    assert report == IndexReport(place.name, 2, 2)
    (made,) = place.indices()
    assert base_index(made) == place.name
    assert place.numbers() == [4, 5]
    description = place.engine.request("GET", f"/{place.name}")[made]
    assert description["mappings"]["properties"]["n"] == {"type": "integer"}
    assert description["settings"]["index"]["number_of_shards"] == "2"
    assert description["settings"]["index"]["number_of_replicas"] == "0"
    assert sorted(description["aliases"]) == [place.name, f"{place.name}-alias"]
    place.engine.request("PUT", f"/{place.name}/_doc/new", body={"n": 6})  # it can be written to
    assert place.numbers() == [4, 5, 6]
    assert messages[-1] == f"putting it in the place of '{place.name}'"


def test_what_the_engine_says_of_an_index_creates_another(place: Place) -> None:
    settings = {"settings": {"number_of_shards": 2}, "aliases": {f"{place.name}-old": {}}}
    place.fill(place.file(*numbered(1)), settings={**WHOLE, **settings})
    said = place.engine.request("GET", f"/{place.name}")
    place.fill(place.file(*numbered(1)), settings=said, existing="recreate")
    (description,) = place.engine.request("GET", f"/{place.name}").values()
    assert description["mappings"]["properties"]["n"] == {"type": "integer"}
    assert description["settings"]["index"]["number_of_shards"] == "2"
    place.fill(place.file(*numbered(1)), settings=WHOLE["mappings"], existing="recreate")
    (description,) = place.engine.request("GET", f"/{place.name}").values()
    assert description["mappings"]["properties"]["n"] == {"type": "integer"}


def test_an_index_can_be_made_anew_again_and_again_and_keeps_its_other_aliases(
    place: Place,
) -> None:
    place.fill(place.file(*numbered(0)), settings=WHOLE)
    properties = {"filter": {"term": {"n": 2}}, "is_write_index": True, "search_routing": "a"}
    place.engine.request("PUT", f"/{place.name}/_alias/{place.name}-twos", body=properties)
    for n in (1, 2, 3):
        report = place.fill(place.file(*numbered(n, 2)), settings=WHOLE, existing="recreate")
        assert (report.documents, place.numbers()) == (2, sorted([n, 2]))
        ((made, aliases),) = place.behind().items()
        assert aliases == {place.name: {}, f"{place.name}-twos": properties}
        assert made != place.name
    assert place.fill(place.file(*numbered(9)), existing="append").replaced == 1
    with pytest.raises(Refused, match=f"the index '{place.name}' exists"):
        place.fill(place.file(*numbered(9)))


def test_the_name_is_there_at_every_moment_of_a_recreation(place: Place) -> None:
    """After every single request the name means all old or all new documents."""
    place.fill(place.file(*numbered(7, 8)), settings=WHOLE)
    seen = []

    class Watching(Unreliable):
        def request(self, method: str, path: str, **given: Any) -> Any:
            answer = super().request(method, path, **given)
            seen.append(tuple(place.numbers()))
            return answer

    watching = Watching(place.engine, 10**9, KeyboardInterrupt)
    recreate(place, watching, 4, 5)
    assert sorted(set(seen)) == [(4, 5), (7, 8)]
    assert seen == sorted(seen, reverse=True)  # once it is the new one, it stays so


def recreate(place: Place, engine: Any, *numbers: int) -> None:
    load_index(engine, place.name, place.file(*numbered(*numbers)), WHOLE, existing="recreate",
               progress=silent)  # fmt: skip


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("existing", ["refuse", "append", "recreate"])
def test_of_two_runs_at_once_the_later_wins_and_the_other_stops(
    existing: str, place: Place
) -> None:
    """Whenever the second run begins and ends, the first can neither write nor finish any more."""
    first = 5 if existing == "recreate" else 2
    for after in (first, first + 3):
        for name in place.indices():
            place.engine.request("DELETE", f"/{name}")
        if existing == "recreate":
            place.fill(place.file(*numbered(7, 8)), settings=WHOLE)
        with contextlib.suppress(Refused):
            load_index(Rivalled(place, after, existing), place.name,  # type: ignore[arg-type]
                       place.file(*numbered(4, 5)), WHOLE, existing=existing,
                       progress=silent)  # fmt: skip
        assert place.numbers() in ([1, 2, 3], [4, 5])
        assert len(place.indices()) == 1


@dataclass
class Rivalled:
    """An engine on which, after so many requests, another run does the same."""

    place: Place
    after: int
    existing: str
    calls: int = 0

    def request(self, method: str, path: str, **given: Any) -> Any:
        answer = self.place.engine.request(method, path, **given)
        self.calls += 1
        if self.calls == self.after:
            path_of_rival = self.place.folder / "rival.jsonl"
            lines = (json.dumps(line) for line in numbered(1, 2, 3))
            path_of_rival.write_text("\n".join(lines))
            rival = DocumentFile(path_of_rival, "id")
            with contextlib.suppress(Refused):
                self.place.fill(rival, settings=WHOLE, existing=self.existing)
        return answer


def test_who_may_not_change_aliases_is_told_before_any_work(place: Place) -> None:
    """By the words of the engine, and by no request that makes or takes away anything."""
    place.fill(place.file(*numbered(7)), settings=WHOLE)
    asked: list[str] = []

    class Guarded(Unreliable):
        def request(self, method: str, path: str, **given: Any) -> Any:
            asked.append(f"{method} {path}")
            if path == "/_aliases":
                raise EngineUnavailable("no permissions for [indices:admin/aliases] (403)")
            return super().request(method, path, **given)

    with pytest.raises(EngineUnavailable, match="indices:admin/aliases"):
        recreate(place, Guarded(place.engine, 10**9, KeyboardInterrupt), 4)
    assert asked == [f"GET /{place.name}/_alias", "POST /_aliases"]


def test_a_load_that_is_interrupted_leaves_nothing(place: Place) -> None:
    broken = Unreliable(place.engine, 4, KeyboardInterrupt, again=False)
    with pytest.raises(KeyboardInterrupt):
        load_index(broken, place.name, place.file(*numbered(1)), WHOLE, progress=silent)  # type: ignore[arg-type]
    assert place.indices() == []


def test_an_incomplete_index_that_cannot_be_taken_away_is_named(place: Place) -> None:
    broken = Unreliable(place.engine, 4, lambda: EngineUnavailable("gone"))
    with (
        pytest.warns(OwpcLtrWarning, match=f"'{place.name}' is not used, and stays behind"),
        pytest.raises(EngineUnavailable),
    ):
        load_index(broken, place.name, place.file(*numbered(1)), WHOLE, progress=silent)  # type: ignore[arg-type]


def test_an_alias_of_another_index_is_not_made_anew(place: Place) -> None:
    place.fill(place.file(*numbered(1)), settings=WHOLE)
    alias = Place(place.engine, f"{place.name}-alias", place.folder)
    place.engine.request("PUT", f"/{place.name}/_alias/{alias.name}")
    with pytest.raises(Refused, match=f"alias of {place.name}"):
        alias.fill(place.file(*numbered(2)), existing="recreate")
    assert place.numbers() == [1]


@pytest.mark.parametrize("name", ["owpc-ltr-aliases", "owpc-ltr-store-mine", ".ltrstore_other",
                                  ".kibana_1", "ubi_events"])  # fmt: skip
@pytest.mark.parametrize("existing", ["refuse", "append", "recreate"])
def test_indices_of_the_cluster_of_plugins_and_of_owpc_ltr_are_never_touched(
    name: str, existing: str, place: Place
) -> None:
    before = place.engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    own = Place(place.engine, name, place.folder)
    with pytest.raises(UsageError, match=f"'{name}' is a name for what the cluster, a plugin or"):
        own.fill(place.file(*numbered(1)), existing=existing)
    after = place.engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    assert before == after


@dataclass
class Stuttering(Through):
    """An engine that gets every bulk twice, as where the first answer is lost."""

    def request(self, method: str, path: str, **given: Any) -> Any:
        if path.endswith("/_bulk"):
            self.engine.request(method, path, **given)
        return self.engine.request(method, path, **given)


def test_documents_that_were_sent_twice_replace_nothing_but_what_was_there(place: Place) -> None:
    place.fill(place.file({"id": "a", "n": 1}, {"id": "b", "n": 2}), settings=WHOLE)
    again = place.file({"id": "b", "n": 3}, {"id": "c", "n": 4}, {"id": "d", "n": 5})
    twice = Place(Stuttering(place.engine), place.name, place.folder)
    report = twice.fill(again, existing="append")
    assert (report.sent, report.replaced, place.numbers()) == (3, 1, [1, 3, 4, 5])


def test_line_numbers_do_not_overwrite_what_is_there(place: Place) -> None:
    path = place.file(*({"n": n} for n in range(3))).path
    by_line = DocumentFile(path)
    place.fill(by_line, settings=WHOLE)
    # The same file once more is what a run does that was stopped, and goes on.
    assert place.fill(by_line, existing="append").replaced == 3
    path.write_text('{"n": 0}\n{"n": 5}\n')
    with pytest.raises(Refused, match=r"a document '2'.* name the field of the ids"):
        place.fill(by_line, existing="append")
    assert place.numbers() == [0, 1, 2]
    # Behind empty lines the numbers are others than those there.
    path.write_text("\n\n\n" + '{"n": 9}\n')
    assert place.fill(by_line, existing="append").documents == 4
    # Ids of their own are written over: that is what appending with ids is for.
    assert place.fill(place.file({"id": "1", "n": 7}), existing="append").documents == 4
    assert place.numbers() == [1, 2, 7, 9]


@pytest.mark.parametrize("field", ["id", "_id", "ID", "doc_id", "docno"])
def test_line_numbers_are_no_ids_of_documents_that_have_ids(place: Place, field: str) -> None:
    # The judged document 2 would be that of the second line, and none would be missed.
    path = place.file({field: 1, "n": 1}, {"n": 2}, {field: 2, "n": 3}).path
    with pytest.raises(UsageError, match=rf"line 3: .*id.field.* has a field '{field}'"):
        place.fill(DocumentFile(path))
    with pytest.raises(UsageError, match=f"a field '{field}'"):
        with_document_fields(dataset(queries=2), ["n"], path)
    path.write_text(f'{{"{field}": 1, "n": 1}}\n{{"{field}": "2", "n": 2}}\n')
    assert DocumentFile(path).check(silent) == 2


def test_an_index_that_is_there_is_told_before_the_file_is_read_through(place: Place) -> None:
    place.fill(place.file(*numbered(1)), settings=WHOLE)
    with pytest.raises(Refused, match="`append`, or start it anew"):
        place.fill(place.file({"id": "1"}, "{broken"))
    with pytest.raises(Refused, match="`append`, or start it anew"):
        create_index(place.engine, place.name, None)


@given(st.lists(st.sampled_from("abcdef") | st.integers(0, 9), min_size=1, max_size=12))
def test_two_documents_of_one_id_are_found_wherever_they_stand(
    tmp_path_factory: pytest.TempPathFactory, ids: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("ids") / "docs.jsonl.gz"
    path.write_bytes(gzip.compress("".join(f"{json.dumps({'id': i})}\n" for i in ids).encode()))
    texts = [str(each) for each in ids]
    second = next((n for n, text in enumerate(texts) if text in texts[:n]), None)
    source = DocumentFile(path, "id")
    if second is None:
        assert source.check(silent) == len(ids)
        return
    first = texts.index(texts[second])
    words = f"line {second + 1}: the id '{texts[second]}' is also on line {first + 1}"
    with pytest.raises(BadInput, match=words):
        source.check(silent)


def test_ids_whose_hashes_are_equal_by_chance_are_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("owpc_ltr.data.documents.hash", lambda _: 1, raising=False)
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\n')
    assert DocumentFile(path, "id").check(silent) == 2
    path.write_text('{"id": "a"}\n{"id": "b"}\n{"id": "a"}\n')
    with pytest.raises(BadInput, match="line 3: the id 'a' is also on line 1"):
        DocumentFile(path, "id").check(silent)


BULK = "/docs/_bulk"


def documents(count: int) -> list[tuple[str, dict[str, Any]]]:
    return [(f"d{number}", {"n": number}) for number in range(count)]


def ids_of(asked: Asked) -> list[str]:
    return [line["index"]["_id"] for line in asked.body[::2]]


def bulk(status: Callable[[str], int], **error: Any) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        items = [
            {"index": {"_id": each, "status": status(each), "result": "created", **error}}
            for each in ids_of(asked)
        ]
        return Reply({"items": items})

    return answer


def fake_engine(fake: FakeEngine, count: int, *bulks: Any) -> Engine:
    fake.on("POST", BULK, *bulks)
    fake.on("POST", "/docs/_refresh", {"_shards": {"failed": 0}})
    fake.on("GET", "/docs/_count", {"count": count, "_shards": {"failed": 0}})
    return Engine(ConnectionSettings(fake.url))


@pytest.fixture
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def retrying() -> Retrying:
        clock = Clock()
        return Retrying(clock, clock.sleep)

    monkeypatch.setattr("owpc_ltr.engine.index.Retrying", retrying)


def test_documents_go_in_by_five_hundred_and_each_time_it_is_told(place: Place) -> None:
    messages: list[str] = []
    source = place.file(*numbered(*range(1201)))
    report = place.fill(source, progress=lambda message, _: messages.append(message))
    assert (report.sent, report.documents) == (1201, 1201)
    indexed = [line for line in messages if line.startswith("indexed")]
    assert indexed == [f"indexed {n} documents" for n in (500, 1000, 1201)]


@pytest.mark.usefixtures("_no_waiting")
def test_only_what_the_engine_was_too_busy_for_is_sent_again(fake: FakeEngine) -> None:
    busy = bulk(lambda document: 429 if document in {"d1", "d3"} else 201)
    engine = fake_engine(fake, 5, busy, bulk(lambda _: 201))
    index_documents(engine, "docs", documents(5), silent)
    first, second = fake.asked("POST", BULK)
    assert ids_of(first) == ["d0", "d1", "d2", "d3", "d4"]
    assert ids_of(second) == ["d1", "d3"]


@pytest.mark.usefixtures("_no_waiting")
def test_a_body_that_is_too_large_is_halved_until_it_fits(fake: FakeEngine) -> None:
    def answer(asked: Asked) -> Reply:
        if len(ids_of(asked)) > 2:
            return Reply({"error": "content too long"}, 413)
        return bulk(lambda _: 201)(asked)

    engine = fake_engine(fake, 5, answer)
    assert index_documents(engine, "docs", documents(5), silent).sent == 5
    sent = [ids_of(asked) for asked in fake.asked("POST", BULK)]
    taken = [each for part in sent if len(part) <= 2 for each in part]
    assert taken == ["d0", "d1", "d2", "d3", "d4"]


OTHERS: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "no items": {"errors": False},
    "items that are no list": {"items": {"0": 1}},
    "items of another operation": {"items": [{"create": {"_id": "d0", "status": 201}}]},
    "another document": {"items": [{"index": {"_id": "d9", "status": 201}}]},
    "no result": {"items": [{"index": {"_id": "d0", "status": 201}}]},
    "nothing done": {"items": [{"index": {"_id": "d0", "status": 200, "result": "noop"}}]},
    "a status of 400 digits": {"items": [{"index": {"_id": "d0", "status": 10**399}}]},
    "a status in words": {"items": [{"index": {"_id": "d0", "status": "201"}}]},
}


GIVEN_UP: dict[str, tuple[int, Any, type[Exception], str]] = {
    "busy for ever": (2, bulk(lambda _: 429), EngineUnavailable, "too busy to take 2 documents"),
    "too large alone": (1, Reply({"error": "content too long"}, 413), EngineRefusal, "413"),
    "of one of three": (
        3, Reply({"items": [{"index": {"status": 201}}]}), Refused, "answered for 1 of 3",
    ),
    "two counted of three": (
        3, bulk(lambda _: 201), Refused, "holds 2 documents after 3 were sent",
    ),
    **{
        what: (1, Reply(answer), EngineUnavailable, "documents sent is not an engine's answer")
        for what, answer in OTHERS.items()
    },
}  # fmt: skip
"""How many documents are sent, what the engine answers, and what is said of it."""


@pytest.mark.usefixtures("_no_waiting")
@pytest.mark.parametrize("what", GIVEN_UP)
def test_an_answer_that_does_not_say_what_became_of_each_document_is_not_believed(
    what: str, fake: FakeEngine
) -> None:
    sent, answer, kind, why = GIVEN_UP[what]
    engine = fake_engine(fake, 2, answer)
    with pytest.raises(kind, match=why):
        index_documents(engine, "docs", documents(sent), silent)


@pytest.mark.usefixtures("_no_waiting")
@pytest.mark.parametrize("path", ["/docs/_refresh", "/docs/_count"])
def test_a_refresh_or_count_of_a_part_of_the_index_is_refused(path: str, fake: FakeEngine) -> None:
    engine = fake_engine(fake, 1, bulk(lambda _: 201))
    for method in ("GET", "POST"):
        fake.on(method, path, {"count": 1, "_shards": {"failed": 1}})
    with pytest.raises(Refused, match="in a part of the index only"):
        index_documents(engine, "docs", documents(1), silent)
