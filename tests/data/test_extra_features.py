"""External features (`--extra-features`): tables looked up, and models of their features."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import export_model, read_external_features, save_dataset, train_reranker
from owpc_ltr.data import external_features as table_module
from owpc_ltr.data.construction import join_datasets, make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.external_features import external_values, hashed
from owpc_ltr.data.feature_sources import (
    DocumentPairs,
    ExternalSource,
    document_pairs,
    external_entry,
    sources_in,
)
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.deployment.deployment_record import describe_model_file
from owpc_ltr.engine.deployment.serving_mode import with_external_features
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.stored_model import (
    StoredModel,
    check_features,
    client_model,
    for_engine,
    index_features,
    joined_in,
    joined_used,
    samples_of_columns,
    store_for_client,
)
from owpc_ltr.models.analysis import features_used, without_last_columns
from owpc_ltr.models.combined import AverageModel, average
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel, Normaliser
from owpc_ltr.models.model_file import load_scoring_model, packed, save_model, unpacked, with_record
from owpc_ltr.models.networks import NetworkModel
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model
from owpc_ltr.training.train import train
from tests.datasets import frame, table_of, train_on_all, written

WORDS = st.sampled_from(["", "a", "b", "ab", "ba", "é", "a b", "ab" * 40])
KEYS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=40)
NUMBERS = st.floats(width=32, allow_infinity=False)


def judged(pairs: list[tuple[str, str]]) -> DocumentPairs:
    """A query of one document for each pair."""
    queries = [query for query, _ in pairs]
    documents = pa.array([document for _, document in pairs], pa.string())
    return DocumentPairs(queries, queries, np.ones(len(pairs), np.int64), documents)


def poor(columns: Any, seed: int) -> Any:
    """Numbers that nearly all texts share at first, then few."""
    return hashed(columns, seed) & np.uint64(2 ** min(4 * seed, 60) - 1)


@pytest.mark.parametrize("number", [hashed, poor])
@given(rows=st.dictionaries(st.tuples(WORDS, WORDS), NUMBERS, min_size=1), asked=KEYS)
def test_values_are_those_of_a_dictionary_whatever_numbers_texts_share(
    number: Any, rows: dict[tuple[str, str], float], asked: list[tuple[str, str]]
) -> None:
    keys, numbers = list(rows), np.array(list(rows.values()), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "hashed", number)
        both = table_of(
            {"query_id": [k[0] for k in keys], "doc_id": [k[1] for k in keys], "x": numbers}
        )
        values = both.at(both.find(judged(asked)))[:, 0]
    expected = np.array([rows.get(pair, math.nan) for pair in asked], np.float32)
    np.testing.assert_array_equal(values, expected)


@given(rows=st.dictionaries(WORDS, NUMBERS, min_size=1), asked=KEYS)
@pytest.mark.parametrize("key", ["query_id", "query", "document_id"])
def test_a_table_without_the_other_key_is_by_one_alone(
    key: str, rows: dict[str, float], asked: list[tuple[str, str]]
) -> None:
    table = table_of({key: list(rows), "x": np.array(list(rows.values()), np.float32)})
    values = table.at(table.find(judged(asked)))[:, 0]
    own = 1 if key == "document_id" else 0
    expected = np.array([rows.get(pair[own], math.nan) for pair in asked], np.float32)
    np.testing.assert_array_equal(values, expected)


def test_numbers_of_texts_know_where_a_column_ends() -> None:
    columns = [pa.array(["a", "ab", ""]), pa.array(["bc", "c", "abc"])]
    assert len(set(hashed(columns, 1).tolist())) == 3
    assert hashed(columns, 1).tolist() != hashed(columns, 2).tolist()
    longer = pa.array(["x", "a", "ab", "", "y"])
    np.testing.assert_array_equal(hashed([longer.slice(1, 3)], 1), hashed([columns[0]], 1))


def test_a_file_of_many_row_groups_is_as_the_frame_that_it_was_written_from(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    columns = {
        "query": pa.array([f"q{n % 50}" for n in range(1000)]).dictionary_encode(),
        "Document_ID": np.arange(1000, dtype=np.int64),
        "clicks": pa.array([None if n % 7 == 0 else n for n in range(1000)], pa.int32()),
        "fresh": rng.random(1000) < 0.5,
        "rate": rng.normal(size=1000),
    }
    path = written(tmp_path / "ctr.parquet", columns, row_group_size=64)
    (from_file,), (from_frame,) = (
        read_external_features(path),
        read_external_features([frame(columns)]),
    )
    assert from_file.source.keys == ("query", "document_id")
    assert from_file.feature_names == ("clicks", "fresh", "rate")
    assert (from_file.source.file, from_frame.source.file) == ("ctr.parquet", "frame 1")
    pairs = judged([(f"q{n % 50}", str(n)) for n in range(0, 1000, 3)])
    values = from_file.at(from_file.find(pairs))
    np.testing.assert_array_equal(values, from_frame.at(from_frame.find(pairs)))
    np.testing.assert_array_equal(values[:, 2], columns["rate"][::3].astype(np.float32))
    np.testing.assert_array_equal(np.isnan(values[:, 0]), np.arange(0, 1000, 3) % 7 == 0)
    np.testing.assert_array_equal(values[:, 1], columns["fresh"][::3])
    other = pd.DataFrame({"document_id": ["1", "2"], "rate": [0.5, math.nan]})
    (popular,) = read_external_features(other)
    assert popular.source.keys == ("document_id",)


def test_tables_that_were_read_are_not_read_again_and_known_however_they_are_cut() -> None:
    tables = read_external_features([frame({"doc_id": ["a"], "x": [1]})])
    again = read_external_features([*tables, frame({"doc_id": ["a"], "y": [1]})])
    assert again[0] is tables[0]
    assert read_external_features(tables[0]) == tables
    assert [table.source.file for table in again] == ["frame 1", "frame 2"]
    whole = frame({"doc_id": [str(n) for n in range(10)], "x": np.arange(10.0)})
    cut = pa.concat_tables([whole.slice(0, 3), whole.slice(3)])
    digests = [
        read_external_features(table)[0].source.sha256 for table in (whole, cut, whole.slice(1))
    ]
    assert digests[0] == digests[1] != digests[2]


TWO = {"query_id": ["q1", "q2"], "document_id": ["d1", "d2"]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a key that comes back": (
        {"query_id": ["q", "p", "q"], "document_id": ["d", "d", "d"], "x": [1, 2, 3]},
        "query_id 'q', document_id 'd' is in row 1 (index 0) and again in row 3 (index 2)",
    ),
    "an infinite number": ({**TWO, "x": [1.0, -math.inf]}, "row 2 (index 1): 'x' is -inf"),
    "a number beyond float32": ({**TWO, "x": [1e300, 1.0]}, "row 1 (index 0): 'x' is 1e+300"),
    "text": ({**TWO, "brand": [None, "acme"]}, "row 2 (index 1): 'brand' is 'acme'"),
    "a list": ({**TWO, "v": [[1.0], [2.0]]}, "row 1 (index 0): 'v' is '[1.0]'"),
    "a date": (
        {**TWO, "v": pd.to_datetime(["2026-01-01", "2026-01-02"])},
        "row 1 (index 0): 'v' is '2026",
    ),
    "a key that is missing": ({**TWO, "query_id": ["q1", None], "x": [1, 2]}, "no value in row 2"),
    "a key that is not text": ({"doc_id": [1.5, 2.0], "x": [1, 2]}, "text or whole numbers"),
    "no key": ({"sku": ["a"], "x": [1]}, "needs query_id or query, or document_id, or both; found"),
    "nothing but keys": (TWO, "no column of numbers"),
    "no row": ({"doc_id": pa.array([], pa.string()), "x": pa.array([], pa.int8())}, "no row"),
    "two keys of one role": ({"doc_id": ["a"], "document_id": ["a"], "x": [1]}, "both name the"),
    "the query twice": ({"query_id": ["a"], "query": ["a"], "x": [1]}, "rows are found by one"),
    "a reserved name": ({**TWO, "Label": [1, 2]}, "'Label': a dataset has a column of that name"),
    "a name with a comma": ({**TWO, "a,b": [1, 2]}, "'a,b': an empty name, or one with a comma"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_joined_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    columns, message = REFUSED[name]
    path = written(tmp_path / "ctr.parquet", columns)
    for given_table, file in ((path, "ctr.parquet"), (frame(columns), "frame 1")):
        with pytest.raises(BadInput) as caught:
            read_external_features(given_table)
        text = str(caught.value)
        assert text.startswith(f"cannot use {file}")
        assert message in text


def test_a_row_is_named_by_its_place_in_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owpc_ltr.data.external_features._BATCH_ROWS", 10)
    ids = [f"d{n}" for n in range(35)]
    for column, message in (
        ([math.inf if n == 32 else n for n in range(35)], r"row 33 \(index 32\): 'x' is inf"),
        (
            pa.array([None] * 31 + ["no", None, None, None], pa.string()),
            r"row 32 \(index 31\): 'x' is 'no'",
        ),
    ):
        path = written(tmp_path / "far.parquet", {"doc_id": ids, "x": column})
        with pytest.raises(BadInput, match=message):
            read_external_features(path)
    path = written(tmp_path / "far.parquet", {"doc_id": [*ids[:34], "d21"], "x": range(35)})
    with pytest.raises(
        BadInput, match=r"'d21' is in row 22 \(index 21\) and again in row 35 \(index 34\)"
    ):
        read_external_features(path)


def test_a_file_that_is_no_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ctr.parquet"
    path.write_bytes(b"PAR1 and so on")
    with pytest.raises(
        BadInput, match=r"cannot read .*ctr\.parquet: it is not a complete Parquet file"
    ):
        read_external_features(path)
    save_dataset(make_dataset([[1.0]], [1], ["a"]), path)
    with pytest.raises(BadInput, match="it is a dataset of owpc-ltr, with labels"):
        read_external_features(path)


def queries() -> list[JudgedQuery]:
    return [
        JudgedQuery(
            f"q{q}", {"keywords": f"words {q}"}, [f"d{q + d}" for d in range(3)],
            np.zeros(3, np.float32),
        )
        for q in range(2)
    ]  # fmt: skip


def test_an_account_of_a_table_counts_pairs_and_rows() -> None:
    ctr = table_of({"query": ["words 0", "words 0", "x"], "doc_id": ["d1", "d9", "d1"], "ctr": [
        0.5, 1, 1]})  # fmt: skip
    popular = table_of({"doc_id": ["d1", "d2", "d7"], "views": [10, 20, 70], "age": [1, 2, 3]})
    external = external_values([ctr, popular], queries(), ["title"])
    assert external.feature_names == ("ctr", "views", "age")
    expected = [[np.nan] * 3, [0.5, 10, 1], [np.nan, 20, 2]]
    expected += [[np.nan, 10, 1], [np.nan, 20, 2], [np.nan] * 3]
    np.testing.assert_array_equal(external.values, np.array(expected, np.float32))
    keys = ("rows", "matched", "unmatched", "unused")
    assert [[account[key] for key in keys] for account in external.accounts] == [
        [3, 1, 5, 2],
        [3, 4, 2, 1],
    ]
    assert [(account["keys"], account["features"]) for account in external.accounts] == [
        (["query", "document_id"], ["ctr"]), (["document_id"], ["views", "age"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"query_id": ["qid:0", "q"], "doc_id": ["d0", "d1"], "x": [1, 2]},
            "none of its 2 rows is of a judged pair: it has query_id 'qid:0', document_id 'd0', "
            "for instance, and the judgments query_id 'q0', document_id 'd0'",
        ),
        ({"doc_id": ["D0"], "x": [1]}, "a judged document: it has document_id 'D0', for instance"),
        ({"query": ["Words 0"], "x": [1]}, "the judgments query 'words 0'"),
    ],
)
def test_a_table_of_other_ids_is_refused_with_both_sides(
    columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        external_values([table_of(columns)], queries(), [])
    assert message in str(caught.value)


def test_a_name_belongs_to_one_feature() -> None:
    views = frame({"doc_id": ["d0"], "views": [1]})
    with pytest.raises(BadInput, match="the feature set has a feature 'views' too"):
        external_values(read_external_features(views), queries(), ["title", "views"])
    with pytest.raises(BadInput, match="cannot use frame 2: frame 1 has a feature 'views' too"):
        read_external_features([views, views])


def test_a_query_without_what_a_table_asks_for_is_named() -> None:
    with pytest.raises(UsageError, match=r"by 'query_id', and this query has no id.*`query_id`"):
        table_of({"query_id": ["a"], "x": [1]}).find(
            document_pairs([(None, {"query": "a"}, ["d"])])
        )
    by_text = table_of({"query": ["a"], "x": [1]})
    with pytest.raises(UsageError, match="query 'q7' has no text"):
        by_text.find(document_pairs([("q7", {"keywords": 3}, ["d"])]))
    assert by_text.find(
        document_pairs([(None, {"keywords": [1], "query": "a"}, ["d"])])
    ).tolist() == [0]


SOURCE = ExternalSource("ctr.parquet", "ab" * 32, ("document_id",), ("ctr",))


def test_where_columns_are_from_survives_a_file_a_split_and_joining(tmp_path: Path) -> None:
    def part(query: str, *sources: ExternalSource) -> Any:
        manifest = {"judged": 2, **external_entry(list(sources))} if sources else None
        features = [[1.0, 2.0], [3.0, 4.0]]
        return make_dataset(features, [0, 1], [query, query], ["title", "ctr"], manifest=manifest)

    save_dataset(part("a", SOURCE), tmp_path / "a.parquet")
    dataset = load_dataset(tmp_path / "a.parquet")
    assert sources_in(dataset.manifest) == (SOURCE,)
    assert sources_in(dataset.select(np.array([0])).manifest) == (SOURCE,)
    later = replace(SOURCE, file="may.parquet", sha256="cd" * 32)
    whole = join_datasets([dataset, part("b", later), part("c", SOURCE)], ["a", "b", "c"])
    assert sources_in(whole.manifest) == (SOURCE, later)
    with pytest.raises(BadInput, match="'ctr' is an external feature in one of a and d"):
        join_datasets([dataset, part("d")], ["a", "d"])
    assert join_datasets([part("d"), part("e")], ["d", "e"]).manifest is None


@pytest.mark.parametrize(
    "record_of_tables", [3, {}, [3], [{"file": "a"}], [{**SOURCE.as_dict(), "keys": "q"}]]
)
def test_a_record_of_something_else_is_damaged(record_of_tables: Any) -> None:
    if record_of_tables == {}:
        assert sources_in({"joined_tables": record_of_tables}) == ()
        return
    with pytest.raises(BadInput, match="the record is damaged: its 'joined_tables'"):
        sources_in({"joined_tables": record_of_tables}, "the record")


SOURCE_MODELS = ExternalSource("ctr.parquet", "ab" * 32, ("query", "document_id"), ("ctr", "views"))
NAMES = ("title", "body", *SOURCE_MODELS.features)
SET = FeatureSet(
    "small",
    tuple(Feature(name, ("query",), {"match": {name: "{{query}}"}}) for name in NAMES[:2]),
)


def matrix(rows: int = 8, columns: int = 4) -> Any:
    return np.random.default_rng(5).normal(size=(rows, columns)).astype(np.float32)


def record() -> dict[str, Any]:
    probe = {"query_id": "q", "params": {}, "document_ids": ["a", "b"], "labels": [0.0, 1.0]}
    return {
        **external_entry([SOURCE_MODELS]),
        "featureset_hash": SET.hash,
        "feature_ranges": [[0.0] * 4, [1.0] * 4],
        "probes": [{**probe, "features": packed(matrix(2))}],
    }


def split(feature: int) -> Forest:
    """One tree of one split."""
    return Forest(
        np.array([0], np.int32), np.array([feature, -1, -1], np.int32),
        np.array([0, 0, 0], np.float32), np.array([1, 0, 0], np.int32),
        np.array([False] * 3), np.array([0.0, 1.0, 2.0]),
    )  # fmt: skip


def models(reads: int | None) -> list[Model]:
    """A model of each kind that reads the title, and this column too where one is named."""
    weights = np.array([1.0, 0, 0, 0])
    trees = [TreeModel(NAMES, split(0), record=record())]
    curves = {NAMES[0]: Curve(np.array([0.0, 1]), np.array([0.0, 2]))}
    if reads is not None:
        weights[reads] = 2.0
        trees.append(TreeModel(NAMES, split(reads), record=record()))
        curves[NAMES[reads]] = Curve(np.array([0.0, 1]), np.array([1.0, 2]))
    normalisers = {"title": Normaliser("standard", 1, 2), "ctr": Normaliser("standard", 1, 2)}
    linear = LinearModel(NAMES, weights, normalisers, record())
    average = AverageModel(NAMES, (linear, trees[-1]), np.array([0.5, 0.5]), record())
    return [linear, trees[-1], AdditiveModel(NAMES, curves, record()), average]


@pytest.mark.parametrize("model", models(None), ids=lambda model: model.kind)
def test_a_model_that_makes_nothing_of_joined_features_scores_the_same_without_them(
    model: Model,
) -> None:
    small = for_engine(model)
    assert small.feature_names == SET.feature_names == index_features(model)
    np.testing.assert_array_equal(small.score(matrix()[:, :2]), model.score(matrix()))
    assert sources_in(small.record) == ()
    assert small.record["joined_left_out"] == ["ctr", "views"]
    assert small.record["feature_ranges"] == [[0.0] * 2, [1.0] * 2]
    (probe,) = small.record["probes"]
    np.testing.assert_array_equal(unpacked(probe["features"], 2, 2), matrix(2)[:, :2])
    check_features(small, SET)
    check_features(model, SET)


@pytest.mark.parametrize("reads", [2, 3])
@pytest.mark.parametrize("kind", [model.kind for model in models(2)])
def test_a_model_that_reads_one_is_not_for_an_engine_and_says_which(kind: str, reads: int) -> None:
    (model,) = [each for each in models(reads) if each.kind == kind]
    assert joined_used(model) == (NAMES[reads],)
    with pytest.raises(Refused) as caught:
        for_engine(model)
    for words in (f"reads '{NAMES[reads]}' (from ctr.parquet)", "no engine can run it",
                  "train without it", "`upload(client_scored=True)`"):  # fmt: skip
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="not used"):
        without_last_columns(model, SOURCE_MODELS.features)


def test_a_kind_that_mixes_its_features_reads_all_of_them() -> None:
    network = NetworkModel(NAMES, np.zeros((1, 4)), np.zeros(1), np.zeros(1), record())
    assert features_used(network) == set(NAMES)
    with pytest.raises(Refused, match=r"'ctr' .*, 'views' "):
        for_engine(network)


def test_an_export_is_refused_or_made_as_if_the_columns_had_never_been(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"target": "opensearch", "version": "3.8.0", "featureset": SET}
    with pytest.raises(Refused, match=r"'ctr' .from ctr\.parquet."):
        export_model(models(2)[0], out=tmp_path / "none.json", **asked)
    assert not (tmp_path / "none.json").exists()
    normalisers = {"title": Normaliser("standard", 1, 2)}
    never = LinearModel(SET.feature_names, np.array([1.0, 0]), normalisers)
    for model, out in ((models(None)[0], "small.json"), (never, "never.json")):
        export_model(model, out=tmp_path / out, **asked)
    assert (tmp_path / "small.json").read_bytes() == (tmp_path / "never.json").read_bytes()


@pytest.mark.parametrize("model", models(2), ids=lambda model: model.kind)
def test_what_the_client_scores_is_stored_with_where_its_columns_are_from(model: Model) -> None:
    stored = store_for_client(model, SET, "m")
    assert joined_in(stored) == (SOURCE_MODELS,)
    np.testing.assert_array_equal(client_model(stored).score(matrix()), model.score(matrix()))
    lying = {key: part for key, part in stored.definition.items() if key != "joined_tables"}
    with pytest.raises(BadInput, match="damaged: it reads other features"):
        client_model(StoredModel("m", stored.type, lying, SET))
    with pytest.raises(BadInput, match="damaged: its 'joined_tables'"):
        client_model(StoredModel("m", stored.type, {**lying, "joined_tables": [1]}, SET))
    plain = store_for_client(with_record(for_engine(models(None)[0]), {}), SET, "m")
    assert joined_in(plain) == ()
    assert joined_in(StoredModel("m", "model/linear", {}, SET)) == ()


def test_a_record_whose_columns_are_not_the_last_is_damaged() -> None:
    model = models(None)[0]
    lying = with_record(model, external_entry([replace(SOURCE_MODELS, features=("title", "ctr"))]))
    with pytest.raises(BadInput, match="its external features are not its last ones"):
        for_engine(lying)
    with pytest.raises(BadInput, match="the model's record is damaged"):
        index_features(with_record(model, {"joined_tables": [{"file": 1}]}))


def test_an_average_knows_the_tables_of_all_its_models() -> None:
    later = replace(SOURCE_MODELS, sha256="cd" * 32)
    model, other = models(2)[0], with_record(models(2)[0], {**record(), **external_entry([later])})
    mean = average([model, other])
    assert sources_in(mean.record) == (SOURCE_MODELS, later)
    assert joined_used(mean) == ("ctr",)


def test_the_ltr_plugins_store_keeps_no_model_for_clients() -> None:
    case: Any = SimpleNamespace(store=SimpleNamespace(kind="ltr-plugin"), model=models(2)[0])
    with pytest.raises(Refused, match="`store_kind='plugin-free'`"):
        with_external_features(case, client_scored=True)
    plain = {"query_id": "q", "params": {}, "document_ids": ["a"]}
    assert samples_of_columns([plain], 4, [0, 1]) == [plain]


def judged_models(queries: int = 60) -> RankingDataset:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20 * queries, 3)).astype(np.float32)
    labels = (rows[:, 1] + 0.5 * rows[:, 0] + 0.8 * rng.normal(size=len(rows)) > 1).astype(float)
    return make_dataset(
        rows[:, [0, 2, 1]], labels, np.repeat(np.arange(queries), 20),
        feature_names=("title", "body", "ctr"), featureset_hash=SET.hash,
        manifest=external_entry([SOURCE]),
    )  # fmt: skip


def test_a_trained_model_knows_which_of_its_features_are_joined(tmp_path: Path) -> None:
    data = judged_models()
    model = train_on_all(data, settings={"C": 1.0})
    save_model(model, tmp_path / "m.json")
    back = load_scoring_model(tmp_path / "m.json")
    assert sources_in(back.record) == sources_in(data.manifest) != ()
    assert joined_used(back) == ("ctr",)
    _, description, _ = describe_model_file(tmp_path / "m.json")
    assert description["joined.ctr"] == "ctr.parquet, by document_id (abababababab)"
    plain = train_on_all(replace(data, manifest=None), settings={"C": 1.0})
    assert "joined_tables" not in plain.record
    np.testing.assert_array_equal(plain.score(data.features), model.score(data.features))


def test_a_joined_feature_is_left_out_where_it_gains_least() -> None:
    data = judged_models(120)
    swapped = replace(data, features=data.features[:, [0, 2, 1]].copy(), feature_scales=None)
    for judged, used in ((data, ("ctr",)), (swapped, ())):
        sides = judged.split(0.4, 0.2)
        model = train(
            sides.training, validation=sides.validation, settings={"C": 1.0}, metric="ndcg@10",
            max_features=2,
        )  # fmt: skip
        assert model.feature_names == ("title", "body", "ctr")
        assert joined_used(model) == used
    assert for_engine(model).feature_names == SET.feature_names


def test_a_reordering_of_joined_features_knows_it_too() -> None:
    data = judged_models(30)
    base = train_on_all(data, settings={"C": 1.0})
    ranker = train_reranker(
        data, base=base, settings={"penalty": 1.0}, validation_share=0, test_share=0
    )
    assert sources_in(ranker.record) == sources_in(data.manifest)
    assert index_features(ranker) == ("title", "body")
