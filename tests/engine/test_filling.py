"""A new index is complete or not there; an old one stays until the new one is complete."""

from __future__ import annotations

import contextlib
import gzip
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.engine.filling import fill_index
from owpc_ltr.engine.http.client import Engine, EngineRefusal
from owpc_ltr.engine.http.connection import ConnectionSettings
from owpc_ltr.engine.indexing import IndexReport
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrWarning, Refused, UsageError
from owpc_ltr.files.document_file import DocumentFile
from tests.engine.small_cluster import Unreliable

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
        return fill_index(self.engine, self.name, source, **{"progress": silent, **how})

    def indices(self) -> list[str]:
        rows = self.engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
        return sorted(row["index"] for row in rows if row["index"].startswith(self.name))

    def numbers(self) -> list[int]:
        self.engine.request("POST", f"/{self.name}/_refresh")
        answer = self.engine.request("POST", f"/{self.name}/_search", body={"size": 100})
        return sorted(hit["_source"]["n"] for hit in answer["hits"]["hits"])

    def identity(self) -> str:
        settings = self.engine.request("GET", f"/{self.name}/_settings")[self.name]
        return str(settings["settings"]["index"]["uuid"])


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


FAULTS: list[tuple[list[Any], Any, type[Exception], str]] = [
    ([*numbered(1), "{oops"], WHOLE, BadInput, "line 2: not JSON"),
    ([*numbered(1), {"n": 2}], WHOLE, BadInput, "line 2: no usable id"),
    ([*numbered(1, 2), {"id": "d0", "n": 3}], WHOLE, BadInput, "line 3: the id 'd0' stands in "
     "line 1 already"),
    ([], WHOLE, BadInput, "holds no document"),
    (numbered(*range(20), "many"), WHOLE, Refused, "does not take document 'd20'"),
    (numbered(1), BAD_SETTINGS, Refused, "nosuch_setting"),
]  # fmt: skip


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
    body = {**WHOLE, "settings": {"number_of_shards": 2, "number_of_replicas": 0},
            "aliases": {f"{place.name}-alias": {}}}  # fmt: skip
    place.fill(place.file(*numbered(1, 2, 3)), settings=WHOLE)
    told: list[str] = []
    report = place.fill(
        place.file(*numbered(4, 5)), settings=body, existing="recreate",
        progress=lambda message, _: told.append(message),
    )  # fmt: skip
    assert report == IndexReport(place.name, 2, 2)
    assert place.indices() == [place.name]
    assert place.numbers() == [4, 5]
    found = place.engine.request("GET", f"/{place.name}")[place.name]
    assert found["mappings"]["properties"]["n"] == {"type": "integer"}
    assert found["settings"]["index"]["number_of_shards"] == "2"
    assert found["settings"]["index"]["number_of_replicas"] == "0"
    assert list(found["aliases"]) == [f"{place.name}-alias"]
    place.engine.request("PUT", f"/{place.name}/_doc/new", body={"n": 6})  # it can be written to
    assert place.numbers() == [4, 5, 6]
    assert told[-1] == f"putting it in the place of '{place.name}'"


def requests_of_a_recreation(place: Place) -> list[str]:
    """What recreating asks for, in order, the name of the index beside made plain."""
    counting = Unreliable(place.engine, 10**9, KeyboardInterrupt)
    fill_index(counting, place.name, place.file(*numbered(1)), WHOLE, existing="recreate",  # type: ignore[arg-type]
               progress=silent)  # fmt: skip
    return counting.asked


def test_wherever_recreating_is_stopped_all_old_or_all_new_documents_are_there(
    place: Place,
) -> None:
    place.fill(place.file(*numbered(7, 8)), settings=WHOLE)
    steps = len(requests_of_a_recreation(place))
    assert steps >= 9
    for step in range(1, steps + 1):
        _start_over(place)
        broken = Unreliable(place.engine, step, KeyboardInterrupt, lost_answer=True, again=False)
        with contextlib.suppress(KeyboardInterrupt), _warnings_allowed():
            fill_index(
                broken,  # type: ignore[arg-type]
                place.name,
                place.file(*numbered(4, 5)),
                WHOLE,
                existing="recreate",
                progress=silent,
            )
        left = [_numbers_of(place, name) for name in place.indices()]
        assert [7, 8] in left or [4, 5] in left, (step, broken.asked)


def _start_over(place: Place) -> None:
    for name in place.indices():
        place.engine.request("DELETE", f"/{name}")
    place.fill(place.file(*numbered(7, 8)), settings=WHOLE)


@contextlib.contextmanager
def _warnings_allowed() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        yield


def _numbers_of(place: Place, name: str) -> list[int]:
    return Place(place.engine, name, place.folder).numbers()


def test_a_clone_that_is_refused_is_told_with_where_the_documents_are(place: Place) -> None:
    place.fill(place.file(*numbered(7)), settings=WHOLE)
    asked = requests_of_a_recreation(place)
    clone = next(n for n, each in enumerate(asked, 1) if "/_clone/" in each)
    refusal = EngineRefusal("PUT", 500, "x", "no clones today")
    broken = Unreliable(place.engine, clone, lambda: refusal, again=False)
    with pytest.raises(Refused, match=r"all documents are in the index .*no clones today"):
        fill_index(broken, place.name, place.file(*numbered(4, 5)), WHOLE,  # type: ignore[arg-type]
                   existing="recreate", progress=silent)  # fmt: skip
    (kept,) = place.indices()
    assert _numbers_of(place, kept) == [4, 5]


def test_an_incomplete_index_that_cannot_be_taken_away_is_named(place: Place) -> None:
    broken = Unreliable(place.engine, 4, lambda: EngineUnavailable("gone"))
    with (
        pytest.warns(OwpcLtrWarning, match=f"'{place.name}' is not used, and stays behind"),
        pytest.raises(EngineUnavailable),
    ):
        fill_index(broken, place.name, place.file(*numbered(1)), WHOLE, progress=silent)  # type: ignore[arg-type]


def test_an_alias_is_not_made_anew(place: Place) -> None:
    place.fill(place.file(*numbered(1)), settings=WHOLE)
    alias = Place(place.engine, f"{place.name}-alias", place.folder)
    place.engine.request("PUT", f"/{place.name}/_alias/{alias.name}")
    with pytest.raises(Refused, match=f"alias of {place.name}"):
        alias.fill(place.file(*numbered(2)), existing="recreate")
    assert place.numbers() == [1]


@pytest.mark.parametrize("name", ["owpc-ltr-store", "owpc-ltr-pointers", "owpc-ltr-store-mine",
                                  ".ltrstore", ".ltrstore_other"])  # fmt: skip
@pytest.mark.parametrize("existing", ["refuse", "append", "recreate"])
def test_the_products_own_indices_are_never_touched(name: str, existing: str, place: Place) -> None:
    before = place.engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    own = Place(place.engine, name, place.folder)
    with pytest.raises(UsageError, match=f"'{name}' is a name for what owpc-ltr itself keeps"):
        own.fill(place.file(*numbered(1)), existing=existing)
    after = place.engine.request("GET", "/_cat/indices", params={"format": "json", "h": "index"})
    assert before == after


def test_line_numbers_do_not_overwrite_what_is_there(place: Place) -> None:
    path = place.file(*({"n": n} for n in range(3))).path
    by_line = DocumentFile(path)
    place.fill(by_line, settings=WHOLE)
    with pytest.raises(Refused, match="say with --id-field where the ids stand"):
        place.fill(by_line, existing="append")
    assert place.numbers() == [0, 1, 2]
    # Behind empty lines the numbers are others than those there.
    path.write_text("\n\n\n" + '{"n": 9}\n')
    assert place.fill(by_line, existing="append").documents == 4
    # Ids of their own are written over: that is what appending with ids is for.
    assert place.fill(place.file({"id": "1", "n": 7}), existing="append").documents == 4
    assert place.numbers() == [1, 2, 7, 9]


def test_an_index_that_is_there_is_told_before_the_file_is_read_through(place: Place) -> None:
    place.fill(place.file(*numbered(1)), settings=WHOLE)
    with pytest.raises(Refused, match="--append, or start it anew"):
        place.fill(place.file({"id": "1"}, "{broken"))


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
    words = f"line {second + 1}: the id '{texts[second]}' stands in line {first + 1} already"
    with pytest.raises(BadInput, match=words):
        source.check(silent)


def test_ids_whose_hashes_are_equal_by_chance_are_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("owpc_ltr.files.document_file.hash", lambda _: 1, raising=False)
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\n')
    assert DocumentFile(path, "id").check(silent) == 2
    path.write_text('{"id": "a"}\n{"id": "b"}\n{"id": "a"}\n')
    with pytest.raises(BadInput, match="line 3: the id 'a' stands in line 1"):
        DocumentFile(path, "id").check(silent)
