"""`owpc-ltr explain --data` and `owpc_ltr.explain`: a query of a dataset, without an engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset, save_model
from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.explanations.explanation import bar
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import TreeModel
from tests.commands import Run
from tests.datasets import crowded, weights
from tests.small_models import random_forest

DATA = crowded(6)


def forest(data: RankingDataset) -> TreeModel:
    grown = random_forest(np.random.default_rng(5), data.features, 30, 4, 3)
    return TreeModel(data.feature_names, grown)


@pytest.fixture
def run(run: Run, tmp_path: Path) -> Run:
    """Runs commands where there are data and models."""
    ltr.save_dataset(DATA, tmp_path / "data.parquet")
    save_model(weights(1, -0.5, 0), tmp_path / "linear.json")
    save_model(forest(DATA), tmp_path / "trees.json")
    return run


def of(model: str, *words: str) -> tuple[str, ...]:
    return ("explain", f"{model}.json", "--data", "data.parquet", *words, "--query-id", "q2")


@pytest.mark.parametrize("model", ["linear", "trees"])
def test_the_best_documents_are_listed_with_bars_within_80_columns(run: Run, model: str) -> None:
    code, out, err = run(*of(model, "--size", "4"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line for line in lines if not line.startswith("   ") and "[" not in line][:4]
    assert [heading.split()[0] for heading in headings] == ["1", "2", "3", "4"]
    result = json.loads(run(*of(model, "--size", "4", "--json"))[1])
    for hit in result["hits"]:
        added = result["baseline"] + sum(each["contribution"] for each in hit["features"])
        assert added == pytest.approx(hit["score"])


@pytest.mark.parametrize("model", ["linear", "trees"])
def test_one_document_is_told_fully(run: Run, model: str) -> None:
    listed = json.loads(run(*of(model, "--size", "4", "--json"))[1])["hits"]
    code, out, err = run(*of(model, listed[3]["document_id"]))
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "rank 4 of 16" in out
    assert ("weight -0.5" in out) == (model == "linear")
    assert ("tree " in out) == (model == "trees")
    result = json.loads(run(*of(model, listed[3]["document_id"], "--json"))[1])
    assert result["hits"][0]["document_id"] == listed[3]["document_id"]
    assert len(result["hits"]) == 1


def test_python_gives_what_the_command_prints(run: Run) -> None:
    result = json.loads(run(*of("linear", "--json"))[1])
    explanation = ltr.explain(weights(1, -0.5, 0), DATA, query_id="q2", size=10)
    assert json.loads(json.dumps(explanation.as_dict())) == {**result, "model": "the linear model"}


def test_documents_without_ids_are_called_by_their_rows(tmp_path: Path) -> None:
    data = make_dataset([[1.0], [3.0], [2.0]], [0, 1, 0], ["q", "q", "q"], ["a"])
    model = LinearModel(("a",), np.ones(1))
    explanation = ltr.explain(model, data, query_id="q")
    assert [hit.document_id for hit in explanation.hits] == ["2", "3", "1"]
    assert [hit.rank_before for hit in explanation.hits] == [None] * 3
    # The same of a folder of parts, of which one query is read.
    folder = tmp_path / "parts"
    ltr.partition(data, out=folder, buckets=2)
    parted = ltr.explain(model, ltr.open_dataset(folder), query_id="q")
    assert [hit.score for hit in parted.hits] == [3.0, 2.0, 1.0]


def test_a_reranker_of_a_dataset_is_explained_by_its_own_terms(run: Run) -> None:
    trained = ltr.train_reranker(
        DATA, base="feature:1", loss="listnet", settings={"reranker.penalty": 0.1},
        validation_share=0, test_share=0,
    )  # fmt: skip
    explanation = ltr.explain(trained, DATA, query_id="q2")
    assert any(hit.parts[0].amount for hit in explanation.hits)
    trained.save("reranker.json")
    code, out, err = run(*of("reranker", explanation.hits[3].document_id))
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "the list by cosine adds" in out
    for hit in explanation.hits:
        assert [part.name for part in hit.parts] == ["the list by cosine"]
        total = explanation.baseline + hit.contributions.sum() + hit.parts[0].amount
        assert np.isclose(total, hit.score)


def test_what_cannot_be_explained_is_said_in_one_line(run: Run, tmp_path: Path) -> None:
    model = weights(1, 0, 0)
    with pytest.raises(UsageError, match="no query of the data has the id 'q77'"):
        ltr.explain(model, DATA, query_id="q77")
    with pytest.raises(BadInput):
        ltr.explain(LinearModel(("x",), np.ones(1)), DATA, query_id="q1")
    with pytest.raises(UsageError, match="'d999' is not among the 16 documents of 'q1'"):
        ltr.explain(model, DATA, "d999", query_id="q1")
    ltr.write_run(model.score(DATA.features), DATA, tmp_path / "run.trec")
    with pytest.raises(UsageError, match="a run has no features"):
        ltr.explain(tmp_path / "run.trec", DATA, query_id="q1")
    refused = [
        (("explain", "linear.json", "--data", "data.parquet"), "--query-id"),
        (of("linear", "--url", "http://x"), "--url has no effect without --search …: leave it out"),
        ((*of("linear"), "--window", "5"), "--window has no effect without --search: leave it out"),
    ]
    for words, said in refused:
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        assert said in err
    assert run("explain", "none.json", "--data", "data.parquet", "--query-id", "q1")[0] == 3


def test_letor_text_is_explained_as_well(run: Run) -> None:
    write_letor(DATA, Path("data.txt"))
    out = run.output("explain", "feature:2", "--data", "data.txt", "--query-id", "q1", "--json")
    assert json.loads(out)["model"] == "feature:2"


def test_bars_of_both_signs_share_an_axis() -> None:
    amounts = [4.0, -2.0]
    assert bar(4.0, amounts) == " " * 8 + "█" * 16
    assert bar(-2.0, amounts) == "█" * 8
    assert bar(-1.0, amounts) == "    ████"
    assert bar(0.0, [0.0]) == bar(1.0, [np.inf, 1.0]) == ""
