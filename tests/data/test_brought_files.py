"""Files as people bring them: what of each is read, or by which name it is refused.

A row of a table is one kind of file, with small values of our own.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.judgment_tables import read_queries
from owpc_ltr.data.letor import read_letor, stream_letor
from owpc_ltr.data.runs import read_run
from owpc_ltr.inspection.checks import warnings_of_log
from owpc_ltr.inspection.measures import column_facts
from owpc_ltr.models.model_file import load_scoring_model
from tests.commands import Run


class Kind(NamedTuple):
    """A kind of judgment list: how it is converted, and what comes of it."""

    name: str
    content: str | bytes
    options: str = ""
    notes: str = ""
    grades: dict[str, dict[str, float]] = {"cup": {"a": 3, "b": 0}}  # noqa: RUF012
    judges: tuple[str, ...] = ()
    file: str = "given"


def parquet(**columns: Any) -> bytes:
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file)
    return bytes(file.getvalue())


RRE: dict[str, Any] = {
    "index": "shop",
    "topics": [
        {
            "query_groups": [
                {
                    "queries": [{"template": "t.json", "placeholders": {"$query": "cup"}}],
                    "relevant_documents": {"a": {"gain": 3}, "b": {"gain": 0}},
                }
            ]
        }
    ],
}
RRE_OF_QUEPID = {
    "index": "shop",
    "queries": [
        {"placeholders": {"$query": "cup"}, "relevant_documents": {"0.0": ["b"], "3.0": ["a"]}}
    ],
}
CASE = {"case_name": "shop", "queries": [{"query_text": "cup", "ratings": {"a": 3.0, "b": 0.0}}]}
ONE_UNRATED = {"queries": [{"query": "cup", "ratings": {"a": 3, "b": 0}}, {"query": "pan",
    "ratings": {}}]}  # fmt: skip
GRADED = [{"query": "cup", "doc_id": "a", "grade": 3}, {"query": "cup", "doc_id": "b", "grade": 0}]
NAN = float("nan")

READ: dict[str, Kind] = {
    "a column for each judge, by address": Kind(
        "quepid", "query,docid,ann@shop.example,bob@shop.example\ncup,a,3,3\ncup,b,0,0\n",
        "--duplicates first", "2 columns are the grades of judges: 'ann@shop.example', 'bob@",
        judges=("ann@shop.example",),
    ),
    "a column for each judge, named": Kind(
        "csv", "query,docid,ann,bob\ncup,a,3,3\ncup,b,0,0\n",
        "--duplicates first --columns grade=bob,ann", "grades of judges: 'bob', 'ann'",
        judges=("bob",),
    ),
    "a judge with a comma in the name": Kind(
        "csv", 'query,docid,"Doe, Ann",bob\ncup,a,3,\ncup,b,0,\n',
        """--skip-unjudged --columns 'grade="Doe, Ann",bob'""",
        "grades of judges: 'Doe Ann', 'bob'",
        judges=("Doe Ann",),
    ),
    "a column with a comma in its name": Kind(
        "csv", 'typed,docid,"grade, last"\ncup,a,3\ncup,b,0\n',
        "--columns 'query=typed,grade=grade, last'",
    ),
    "parquet with null and NaN": Kind(
        "parquet", parquet(query=["cup"] * 4, doc_id=list("acbd"), grade=[3.0, None, 0.0, NAN]),
        "--skip-unjudged", "2 lines without a grade were left out",
    ),
    "a list of records": Kind("jsonl", json.dumps(GRADED, indent=1)),
    "a case of Quepid": Kind("quepid", json.dumps(CASE)),
    "a case of Quepid, indented": Kind("quepid", json.dumps(CASE, indent=2)),
    "the ratings of a case": Kind("quepid", json.dumps(ONE_UNRATED), "", "1 queries have no rat"),
    "ratings of RRE": Kind("quepid", json.dumps(RRE, indent=2)),
    "ratings for RRE by Quepid": Kind("quepid", json.dumps(RRE_OF_QUEPID)),
    "Quepid's export for learning to rank": Kind(
        "ranklib", "3 qid:1 # a cup\n0 qid:1 # b cup\n", "", "1 queries have their text from the",
    ),
    "the same of an older version": Kind(
        "ranklib", '3    qid:1 #    a; "cup"\n0    qid:1 #    b; "cup"\n', "", "their text from",
    ),
    "Quepid's export with all columns": Kind(
        "csv", "Team Name,Query Text,Doc ID,Doc Position,Title,Rating\n"
        "T,cup,a,1,Red cup,3\nT,cup,b,2,Blue cup,0\n",
        "", "'Doc Position', 'Title': what differs by document is no parameter",
    ),
    "an index of pandas": Kind("csv", ",query,doc_id,grade\n0,cup,a,3\n1,cup,b,0\n"),
    "a parameter that stands once": Kind(
        "jsonl", '{"query": "cup", "doc_id": "a", "grade": 3, "Team Name": "T"}\n'
        '{"query": "cup", "doc_id": "b", "grade": 0}\n',
    ),
    "numbers of lines": Kind(
        "tsv", "id\tquery_id\tquery\tproduct_id\tgrade\n0\t7\tcup\ta\t3\n1\t7\tcup\tb\t0\n",
        "--columns doc_id=product_id", "'id': what differs by document",
    ),
    "words for grades": Kind(
        "csv", "example_id,query,product_id,esci_label\n0,cup,a,E\n1,cup,b,I\n",
        "--columns doc_id=product_id,grade=esci_label --labels E=3,S=2,C=1,I=0", "'example_id'",
    ),
    "words for grades in parquet": Kind(
        "parquet", parquet(query=["cup", "cup"], doc_id=["a", "b"], grade=["Exact", "irrelevant"]),
        "--labels Exact=3,Irrelevant=0",
    ),
    "texts of the queries in a table": Kind(
        "tsv", "query_id\tdoc_id\tgrade\n7\ta\t3\n7\tb\t0\n", "--topics topics.tsv",
    ),
    "sep=; as a spreadsheet writes it": Kind(
        "csv", "sep=;\r\nquery;doc_id;grade\r\ncup;a;3\r\ncup;b;0\r\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_a_judgment_list_is_read_with_what_was_taken_for_what(kind: str, run: Run) -> None:
    name, content, options, notes, grades, judges, file = READ[kind]
    raw = content if isinstance(content, bytes) else content.encode()
    Path(file).write_bytes(raw)
    Path("topics.tsv").write_text("query_id\tquery\tquery_class\n7\tcup\tkitchen\n")
    code, _, err = run("judge", "convert", file, "--out", "read.tsv", *shlex.split(options))
    messages = " ".join(err.split())
    assert code == 0, messages
    assert notes in messages
    assert bool(messages) == bool(notes)
    queries = ltr.read_judgments("read.tsv").queries
    assert {
        query.params["query"]: dict(zip(query.doc_ids, query.grades.tolist(), strict=True))
        for query in queries
    } == grades
    assert {judge for query in queries for judge in query.judged_by or ()} == set(judges)
    # Nothing of a document has become a parameter of its query.
    known = {"keywords", "query", "Team Name"}
    assert all(query.params.keys() <= known for query in queries)
    assert reader_of(raw) == name


def reader_of(raw: bytes) -> str:
    from owpc_ltr.host.judgment_lists import reader_of_file
    from owpc_ltr.host.registry import installed

    Path("alone").write_bytes(raw)
    return reader_of_file(installed(), Path("alone")).name


def test_queries_of_a_spreadsheet_are_read_by_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "queries.csv"
    path.write_text("sep=;\r\nQuery Text;city\r\ncup;Rome\r\n")
    (query,) = read_queries(path)
    assert query.params == {"keywords": "cup", "query": "cup", "city": "Rome"}


CONVERT = "judge convert given --out read.tsv"
EVALUATE = "evaluate given --data data.txt"
REFUSED: dict[str, tuple[str | bytes, str, str]] = {
    "the rank of a run": (
        "query,docid,position\ncup,a,1\ncup,b,2\n", CONVERT,
        "no column is called 'grade': found 'query', 'docid', 'position'",
    ),
    "a price": ("query,docid,price\ncup,a,499\n", CONVERT, "no column is called 'grade'"),
    "a score and a rank": (
        "query,docid,score,position\ncup,a,3.5,1\n", f"{CONVERT} --duplicates mean",
        "for a column of each judge --columns grade=ann,bob",
    ),
    "names that may be anything": (
        "query,docid,ann,bob\ncup,a,3,2\n", CONVERT, "no column is called 'grade'",
    ),
    "a judge's id": ("query,docid,judge_id\ncup,a,17\n", CONVERT, "no column is called 'grade'"),
    "a judge that is not there": (
        "query,docid,ann\ncup,a,3\n", f"{CONVERT} --columns grade=ann,bob",
        "no column is called 'bob', which is given as the grade: its columns are 'query', 'docid'",
    ),
    "words without their grades": (
        "query,doc_id,label\ncup,a,Exact\n", CONVERT,
        "the grade 'Exact' is not a number that fits: write 0, 1, 2.5 …, or give the grades of",
    ),
    "a word that has no grade": (
        "query,doc_id,label\ncup,a,E\ncup,b,S\n", f"{CONVERT} --labels E=3,I=0",
        "line 3: the label 'S' is none of 'E', 'I': give its grade too",
    ),
    "grades that are no words": (
        parquet(query=["cup"], doc_id=["a"], grade=[1]), f"{CONVERT} --labels E=3",
        "the grades of given are numbers: leave out ",
    ),
    "NaN in a line": (
        '{"query": "cup", "doc_id": "a", "grade": 3}\n'
        '{"query": "cup", "doc_id": "b", "grade": NaN}\n', CONVERT,
        "cannot read given, line 2: ",
    ),
    "NaN in a list": (
        '[{"query": "cup", "doc_id": "b", "grade": NaN}]', CONVERT, "NaN is not a finite number",
    ),
    "a record without a document": (
        '[{"query": "cup", "doc_id": "a", "grade": 1}, 3]', CONVERT,
        "cannot read given, record 2: '3' is a number, not an object",
    ),
    "another JSON object": (
        json.dumps({"settings": {"a": 1}, "hits": 2}, indent=1), CONVERT,
        "it is one JSON object, with 'settings', 'hits', and no kind of judgments that is read",
    ),
    "a case of no kind": (
        '{"queries": [{"text": "cup"}]}', CONVERT, "it is no case of Quepid, with 'queries' that",
    ),
    "a book without documents": (
        '{"query_doc_pairs": [{"query_text": "cup"}]}', CONVERT, "pair 1 of given has no 'doc_id'",
    ),
    "a book of words": (
        '{"query_doc_pairs": [{"query_text": "cup", "doc_id": "a", "judgements": ["good"]}]}',
        CONVERT, 'a judgement of pair 1 of given is "good", not an object',
    ),
    "a book without ratings": (
        '{"query_doc_pairs": [{"query_text": "cup", "doc_id": "a", "judgements": [{}]}]}',
        CONVERT, "it has no judgment; 1 judgements without a rating were left out",
    ),
    "titles, not the texts of queries": (
        "3 qid:1 # a Red cup\n0 qid:1 # b Blue cup\n", CONVERT, "query '1' has no text: write '# ",
    ),
    "a workbook": (
        b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0" + bytes(8) + b"[Content_Types].xml", CONVERT,
        "cannot read given: it is a spreadsheet: save it as CSV (UTF-8)",
    ),
    "an older workbook": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(50), CONVERT,
        "cannot read given: it is an old Office file: save it as CSV",
    ),
    "an empty run": ("", EVALUATE, "given is not a model file, nor a run: it is empty"),
    "no run": ("hello\n", EVALUATE, "given is not a model file, nor a run ('query Q0 document ra"),
    "CatBoost": (
        '{"features_info": {}, "oblivious_trees": []}', "import given --out m.json",
        "cannot import given: it is a model of CatBoost, which is not read",
    ),
    "Solr": (
        '{"class": "org.apache.solr.ltr.model.LinearModel", "params": {}}',
        "import given --out m.json", "it is a model of Solr, which is not read",
    ),
    "Elasticsearch's without its trees": (
        '{"model_id": "m", "inference_config": {"learning_to_rank": {}}}',
        "import given --out m.json", "the Elasticsearch model has no 'definition': fetch it with",
    ),
    "JSON of anything": (
        '{"name": "m", "rows": []}', "import given --out m.json",
        "it is JSON with 'name', 'rows', and not a model in a known format: XGBoost's",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_is_not_read_is_refused_by_its_kind_in_one_line(kind: str, run: Run) -> None:
    content, command, message = REFUSED[kind]
    Path("given").write_bytes(content if isinstance(content, bytes) else content.encode())
    Path("data.txt").write_text("1 qid:q 1:1 # a\n0 qid:q 1:0 # b\n")
    err = run.refusal(3, *command.split())
    assert message in err
    assert err.count("\n") == 1
    assert not list(Path().glob("read.tsv*"))


@pytest.mark.parametrize(
    ("content", "tag"),
    [
        ("q Q0 b 1 2.5 bm25\nq Q0 a 2 1.5 bm25\n", "bm25"),
        ("q Q0 b 1 2.5 my own tag\nq Q0 a 2 1.5 my own tag\n", "my own tag"),
        ("q Q0 b 1 2.5\nq Q0 a 2 1.5\n", "given.run"),
        ("q\tb\t1\nq\ta\t2\n", "given.run"),
    ],
    ids=["TREC", "blanks in the tag", "without a tag", "MS MARCO"],
)
def test_a_run_of_each_form_ranks_the_same(content: str, tag: str, run: Run) -> None:
    Path("given.run").write_text(content)
    Path("data.txt").write_text("1 qid:q 1:1 # a\n0 qid:q 1:0 # b\n")
    ranking = read_run("given.run")
    assert (ranking.tag, ranking.lists()) == (tag, {"q": ["b", "a"]})
    out = run.output("evaluate", "given.run", "--data", "data.txt", "--metric", "mrr")
    assert "mrr" in out
    assert "0.5000" in out


def test_features_that_are_numbered_from_0_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    # As scikit-learn writes: zeros are left out, and so is the first feature of the first line.
    path.write_text("1 qid:1 1:5\n0 qid:1 0:2 2:7 # d\n0 qid:2 2:1\n")
    for data in (read_letor(path, threads=1), read_letor(path, threads=3)):
        assert data.feature_names == ("0", "1", "2")
        assert data.features.tolist() == [[0, 5, 0], [2, 0, 7], [0, 0, 1]]
    parts = [row for part in stream_letor(path) for row in part.features.tolist()]
    assert parts == data.features.tolist()
    assert read_letor(path, n_features=4).features[1].tolist() == [2, 0, 7, 0]
    with pytest.raises(ltr.OwpcLtrError, match="'2:7' is beyond the 2 features"):
        read_letor(path, n_features=2)


@pytest.mark.parametrize("number", ["1.79769313486231E308", "1.7976931348623157e+308"])
def test_the_largest_number_of_a_double_is_a_missing_value(number: str, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(f"1 qid:1 1:{number} 2:3\n0 qid:1 1:2 2:{number}\n")
    np.testing.assert_array_equal(read_letor(path).features, [[NAN, 3], [2, NAN]])
    for line in ("1 qid:1 1:1e300\n", "1 qid:1 1:1e309\n", f"{number} qid:1 1:1\n"):
        path.write_text(line)
        with pytest.raises(ltr.OwpcLtrError, match="beyond float32"):
            read_letor(path)


def test_a_document_that_stands_twice_in_a_query_is_named(run: Run) -> None:
    Path("data.txt").write_text("1 qid:7 1:1 # cup\n0 qid:7 1:2 # pan\n1 qid:7 1:3 # cup\n")
    (line,) = (
        finding["message"]
        for finding in json.loads(run.output("inspect", "data.txt", "--json"))["findings"]
        if finding["check"] == "repeated-documents"
    )
    assert line == (
        "1 of 3 documents stand in their query before with the same grade, as 'cup' in '7'"
    )


ROWS = np.array([[0.2, 0.9], [0.7, 0.1], [0.5, 0.5], [0.49, 0.2]], np.float32)
TREE = """<ensemble>
<tree id="1" weight="0.5">
<split><feature> 1 </feature><threshold> 0.5 </threshold>
<split pos="left"><output> -1.0 </output></split>
<split pos="right"><output> 2.0 </output></split>
</split></tree></ensemble>
"""
OF_TREE, OF_FOREST = [-0.5, 1.0, -0.5, -0.5], [-0.5, 1.5, -0.5, -0.5]


def elastic(decision: str, weights: list[float]) -> dict[str, Any]:
    """A tree as GET _ml/trained_models answers it, whose second feature is the model's first."""
    nodes = [
        {"node_index": 0, "decision_type": decision, "threshold": 0.5, "split_feature": 1,
         "default_left": True, "left_child": 1, "right_child": 2},
        {"node_index": 1, "leaf_value": [-1.0]},
        {"node_index": 2, "leaf_value": 2.0},
    ]  # fmt: skip
    names = ["body", "title"]
    ensemble = {
        "feature_names": names,
        "trained_models": [{"tree": {"feature_names": names, "tree_structure": nodes}}],
        "aggregate_output": {"weighted_sum": {"weights": weights}},
    }
    model = {"model_id": "m", "definition": {"trained_model": {"ensemble": ensemble}}}
    return {"count": 1, "trained_model_configs": [model]}


MIN_MAX = {"min_max": {"minimum": -1.0, "maximum": 3.0}}
LINEAR = {"type": "model/linear", "definition": {"title": 2, "body": -1}}
MODELS: dict[str, tuple[Any, list[float]]] = {
    "weights alone": ({"title": 2, "body": -1}, (ROWS @ [2, -1]).tolist()),
    "a negative minimum": (
        {**LINEAR, "feature_normalizers": {"body": MIN_MAX}},
        (2 * ROWS[:, 0] - (ROWS[:, 1] + 1) / 4).tolist(),
    ),
    "RankLib's trees without a comment": (TREE, OF_TREE),
    "RankLib's forest without a comment": (TREE + TREE.replace("2.0", "4.0"), OF_FOREST),
    "Elasticsearch's trees": (elastic("lte", [0.5]), OF_TREE),
    "Elasticsearch's, below": (elastic("lt", [0.5]), [-0.5, 1.0, 1.0, -0.5]),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_of_another_tool_scores_as_there(kind: str, run: Run) -> None:
    content, scores = MODELS[kind]
    Path("given").write_text(content if isinstance(content, str) else json.dumps(content))
    Path("names.txt").write_text("title\nbody\n")
    run.output("import", "given", "--features", "names.txt", "--out", "m.json")
    np.testing.assert_allclose(load_scoring_model(Path("m.json")).score(ROWS), scores, atol=1e-6)


def objectives() -> dict[str, dict[str, Any]]:
    return {
        "ranker": {"objective": "lambdarank"},
        "missing values and zeros": {"objective": "lambdarank", "zero_as_missing": True},
        "mean of a forest": {
            "objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5,
        },
        "logistic": {"objective": "binary", "sigmoid": 2.0},
    }  # fmt: skip


@pytest.mark.parametrize("kind", objectives())
def test_a_dump_of_lightgbm_is_the_model_that_it_saves(
    kind: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rows = np.round(rng.normal(size=(300, 3)), 1).astype(np.float32)
    rows[rng.random(rows.shape) < 0.2] = NAN
    labels = (np.nan_to_num(rows[:, 0]) + np.nan_to_num(rows[:, 1]) > 0).astype(int)
    settings = {"verbose": -1, "num_leaves": 6, "min_data_in_leaf": 3, "num_threads": 1}
    data = lightgbm.Dataset(rows, labels, group=[30] * 10, feature_name=["a", "b", "c"])
    booster = lightgbm.train({**settings, **objectives()[kind]}, data, 4)
    booster.save_model(tmp_path / "m.txt")
    (tmp_path / "m.json").write_text(json.dumps(booster.dump_model()))
    saved, dumped = (ltr.import_model(tmp_path / name) for name in ("m.txt", "m.json"))
    assert dumped.record["imported"]["notes"] == saved.record["imported"]["notes"]
    assert dumped.score(rows) == pytest.approx(saved.score(rows), rel=1e-12)
    assert dumped.score(rows) == pytest.approx(booster.predict(rows), rel=1e-5, abs=1e-6)


DAMAGE: dict[str, tuple[Callable[[Any], object], str]] = {
    "a name with a blank": (lambda m: m["feature_names"].append("d e"), "with a blank"),
    "a category": (
        lambda m: m["tree_info"][0]["tree_structure"].update(decision_type="=="), "categorical",
    ),
    "a missing_type": (
        lambda m: m["tree_info"][0]["tree_structure"].update(missing_type="x"), "missing_type",
    ),
    "no children": (
        lambda m: m["tree_info"][0]["tree_structure"].pop("left_child"), "has no 'left_child'",
    ),
    "linear leaves": (
        lambda m: m["tree_info"][0]["tree_structure"]["right_child"].update(leaf_coeff=[]),
        "linear leaves",
    ),
    "several outputs": (lambda m: m.update(num_class=3), "num_class '3'"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_no_engine_scores_is_refused_in_a_dump_too(damage: str, tmp_path: Path) -> None:
    change, message = DAMAGE[damage]
    leaves = [{"leaf_value": 0.5}, {"leaf_value": -0.5}]
    split = {"split_feature": 0, "threshold": 0.5, "decision_type": "<=", "default_left": True}
    children = dict(zip(("left_child", "right_child"), leaves, strict=True))
    content: dict[str, Any] = {
        "feature_names": ["a", "b"],
        "objective": "lambdarank",
        "tree_info": [{"tree_structure": {**split, "missing_type": "NaN", **children}}],
    }
    path = tmp_path / "m.json"
    path.write_text(json.dumps(content))
    assert ltr.import_model(path).score(ROWS[:, ::-1]).tolist() == [-0.5, 0.5, 0.5, 0.5]
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ltr.OwpcLtrError, match=message):
        ltr.import_model(path)


def graded(path: Path, prefix: str, grades: range) -> str:
    rows = [f"{prefix} {q},d{d},{d},ann" for q in range(8) for d in grades]
    path.write_text("\n".join(["query,doc_id,grade,judged_by", *rows]) + "\n")
    return str(path)


def test_merging_tells_of_grades_without_0_and_of_two_scales(run: Run, tmp_path: Path) -> None:
    low = graded(tmp_path / "low.csv", "cup", range(1, 5))
    code, _, err = run("judge", "merge", low, "--out", "m.tsv")
    assert code == 0
    assert "the grades are 1 to 4, and none is 0: metrics take" in " ".join(err.split())
    four = graded(tmp_path / "four.csv", "cup", range(5))
    three = graded(tmp_path / "three.csv", "pan", range(4))
    Path(three).write_text(Path(three).read_text().replace("ann", "model:m"))
    _, _, err = run("judge", "merge", four, three, "--out", "m.tsv")
    warning = "raters may use different scales (ann 0 to 4, model:m 0 to 3)"
    assert warning in " ".join(err.split())
    _, _, err = run("judge", "merge", four, "--out", "m.tsv")
    assert err == ""


def test_logging_and_training_tell_of_labels_without_0() -> None:
    data = ltr.make_dataset([[1.0], [2.0], [3.0]], [1, 2, 4], ["a", "a", "a"])
    (line,) = warnings_of_log(column_facts(data.features), data.feature_names, data)
    assert line.startswith("no document is irrelevant: the lowest label is 1, and a label above 0")
    with pytest.raises(ltr.OwpcLtrError, match="no document is irrelevant: the lowest label is 1"):
        ltr.train(data, settings={"C": 1.0}, metric="map", validation_share=0, test_share=0)
