"""Documents that a log names by a field of theirs are found by it; what is not has a name too."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_clicks.counting import AGAIN, refuse_without_clicks
from owpc_ltr_clicks.encoding import DocumentCodes
from owpc_ltr_clicks.judge_clicks import count_ubi
from owpc_ltr_clicks.ubi import UbiOptions, snapshot
from owpc_ltr_clicks.ubi.snapshot import FieldLookup

from owpc_ltr import Cluster, connect
from owpc_ltr.errors import BadInput, Refused
from tests.clicks.counts import act, cells_of, counted, counts, event, query
from tests.commands import Run
from tests.engine.ubi_indices import drop, filled, ubi_indices

PRODUCTS = "ubi-tested-products"
MAPPING: dict[str, Any] = {
    "properties": {
        "sku": {"type": "keyword"}, "number": {"type": "long"}, "title": {"type": "text"},
        "code": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "name": {"type": "text", "fields": {
            "raw": {"type": "keyword"}, "n": {"type": "token_count", "analyzer": "standard"}}},
        "maker": {"properties": {"id": {"type": "keyword"}}},
    }
}  # fmt: skip
DOCUMENTS = [
    {"sku": "S-1", "number": 1, "title": "one", "code": "C 1", "name": "A one"},
    {"sku": "S-2", "number": 2, "title": "two", "code": "C 2"},
    {"sku": ["S-3", "S-3b"], "number": 3, "title": "three", "code": "C 3"},
    # Two variants of one article.
    {"sku": "S-4", "number": 4, "title": "four"},
    {"sku": "S-4", "number": 5, "title": "four, too"},
]
IDS = [f"{number * 7919}" for number in range(len(DOCUMENTS))]


@pytest.fixture(scope="module")
def cluster(node_url: str) -> Iterator[Cluster]:
    connected = connect(node_url)
    filled(connected.engine, PRODUCTS, DOCUMENTS, MAPPING)
    yield connected
    drop(connected.engine, PRODUCTS)


def by(field: str, document: str, **more: Any) -> dict[str, Any]:
    return {"event_attributes": {"object": {"object_id": document, "object_id_field": field},
                                 "position": {"ordinal": 1}}, **more}  # fmt: skip


@pytest.mark.parametrize("values", [1, 2, 1000])
def test_documents_are_found_by_words_numbers_and_parts_of_text(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, values: int
) -> None:
    monkeypatch.setattr(snapshot, "VALUES", values)
    lookup = FieldLookup(cluster.engine, PRODUCTS)
    assert lookup("sku", ["S-1", "S-3b", "S-4", "s-1", "S"]) == {
        "S-1": [IDS[0]], "S-3b": [IDS[2]], "S-4": sorted(IDS[3:5]),
    }  # fmt: skip
    assert lookup("number", ["2", "02", "two", "9", "9" * 30]) == {"2": [IDS[1]]}
    assert lookup("code", ["C 2", "2"]) == {"C 2": [IDS[1]]}
    assert lookup("name", ["A one", "one"]) == {"A one": [IDS[0]]}
    for field, why in (
        ("title", "which is text"),
        ("isbn", "which is not there"),
        ("maker", "which is"),
    ):
        with pytest.raises(Refused, match=f"cannot be found by '{field}', {why}"):
            lookup(field, ["x"])


def test_what_a_search_has_no_room_for_is_asked_for_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_MOST_HITS", 2)
    lookup = FieldLookup(cluster.engine, PRODUCTS)
    assert lookup("number", ["1", "2", "3", "4", "5"]) == {
        str(number): [IDS[number - 1]] for number in range(1, 6)
    }


def test_judgments_are_of_documents_as_the_index_knows_them(
    cluster: Cluster,
) -> None:
    # The lists of the plugin say nowhere by what; a document has two numbers; one has none.
    lists = [query(n, ["S-1", "S-2", "S-3", "S-3b", "S-4", "gone"]) for n in range(6)]
    acts = [act(n, "", 0) | by("sku", "S-2" if n < 3 else "S-3b") for n in range(6)]
    other = [act(n, "", 0) | by("isbn", "S-1") for n in range(2)]
    with ubi_indices(cluster.engine, lists, [*acts, *other]) as indices:
        ubi = UbiOptions(**indices._asdict())
        behaviour = count_ubi(cluster, ubi, index=PRODUCTS, min_people=1)
        plain = count_ubi(cluster, ubi, min_people=1)
    assert cells_of(behaviour) == {
        ("rambo", IDS[0], 1): (6, 0, 6, 0), ("rambo", IDS[1], 2): (6, 3, 6, 3),
        ("rambo", IDS[2], 3): (6, 3, 3, 3),
    }  # fmt: skip
    account = behaviour.event_counts
    assert (account.document_field, account.looked_up) == ("sku", True)
    assert account.unusable == {
        "a document that the index does not have": 6,
        "a document that several of the index may be": 6,
        "a document named by 'isbn', not by 'sku'": 2,
        AGAIN: 6,
    }
    assert account.read == account.used + sum(account.unusable.values())
    # The liar: what is not looked up is of documents that no engine knows.
    assert not set(plain.counts.documents.to_pylist()) & set(IDS)


def test_documents_may_be_named_by_a_subfield_of_the_field_that_events_name(
    cluster: Cluster,
) -> None:
    lists = [query(n, ["A one", "B"]) for n in range(6)]
    acts = [act(n, "", 0) | by("name", "A one") for n in range(6)]
    with ubi_indices(cluster.engine, lists, acts) as indices:
        ubi = UbiOptions(**indices._asdict())
        for field in (None, "name", "name.raw"):
            behaviour = count_ubi(
                cluster,
                ubi,
                index=PRODUCTS,
                document_field=field,
                min_people=1,
            )
            assert behaviour.counts.documents.to_pylist() == [IDS[0]]
            assert behaviour.counts.clicked.sum() > 0
        other = count_ubi(cluster, ubi, document_field="sku", min_people=1)
        with pytest.raises(BadInput, match="name the field that the events name, with `document_f"):
            refuse_without_clicks(other)


def test_the_command_finds_documents_of_a_file_and_warns_where_it_does_not(
    cluster: Cluster, tmp_path: Path, run: Run
) -> None:
    rows = [event(f"s{n}", f"S-{d}", d, "click" if d == 2 and not n else "view")
            for n in range(5) for d in (1, 2, 3)]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), "events.parquet")
    words = ("judge", "clicks", "events.parquet", "--out", "j.tsv", "--document-field", "sku")
    place = ("--url", cluster.engine.settings.url, "--index", PRODUCTS)
    code, _, err = run(*words)
    assert (code, "documents are named by 'sku', and log-features" in err) == (0, True)
    code, _, err = run(*words, *place)
    assert (code, "named by" in err) == (0, False)
    with (tmp_path / "j.tsv").open(newline="") as file:
        judged = list(csv.DictReader(file, delimiter="\t"))
    assert {line["doc_id"] for line in judged} == set(IDS[:3])
    assert "by 'isbn', which is not there" in run.refusal(5, *words[:-1], "isbn", *place)
    assert "--slices is for --from-ubi" in run.refusal(2, *words, "--slices", "2")


def test_the_same_text_of_two_fields_is_two_documents() -> None:
    lists = [query(n, ["7", "8"], object_id_field="_id") for n in range(3)]
    acts = [act(n, "", 0) | by("sku" if n else "_id", "7") for n in range(3)]
    behaviour = counts(lists, acts)
    assert cells_of(behaviour) == {("rambo", "7", 1): (3, 1, 3, 1), ("rambo", "8", 2): (3, 0, 2, 0)}
    assert behaviour.event_counts.unusable == {"a document named by 'sku', not by '_id'": 2}
    assert behaviour.event_counts.document_field == "_id"


FIELDS = st.sampled_from([None, "", "sku", "_id"])


@given(st.lists(st.tuples(st.sampled_from("abc"), FIELDS), min_size=1, max_size=12))
def test_a_document_is_kept_or_left_out_as_one_looks_at_each(
    events: list[tuple[str, str | None]],
) -> None:
    documents = DocumentCodes()
    ids, fields = (pa.array(part, pa.string()) for part in zip(*events, strict=True))
    codes = documents.codes(ids, fields)
    its = {"a": ["1"], "b": ["1"], "c": ["2", "3"]}
    settled = documents.resolved("sku", lambda _, values: {value: its[value] for value in values})
    texts = settled.texts.to_pylist()
    for (word, field), place in zip(events, settled.places[codes].tolist(), strict=True):
        reason = None if place < len(texts) else settled.reasons[place - len(texts)]
        if field == "_id":
            assert reason == "a document named by '_id', not by 'sku'"
        elif len(its[word]) > 1:
            assert reason == "a document that several of the index may be"
        else:
            assert texts[place] == its[word][0]


def test_a_log_that_names_no_field_is_as_it_was() -> None:
    rows = [event("s", d, place) for place, d in enumerate("abc", 1)]
    plain, said = counted(rows), counted([{**row, "object_id_field": "_id"} for row in rows])
    assert cells_of(plain) == cells_of(said)
    assert (plain.event_counts.document_field, said.event_counts.document_field) == (None, "_id")
