"""Reranking: learned with the base as a candidate, kept in one file, and from the command line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_rerankers.exchangeable import Exchangeable

from owpc_ltr import load_model, save_model
from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import fields_of, with_document_fields
from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.models.combined import ReorderingModel, dataset_scores, feature_ranker, read_base
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.protocols import Run
from owpc_ltr.training.options import PENALTIES
from owpc_ltr.training.rerankers import RerankingPlan, fit_reranker, reranking_plan
from tests.commands import Run as RunCommand
from tests.datasets import crowded, weights

KERNEL = {"reranker.kernels": "rbf"}
LOGISTIC = {"loss.inner": "logistic"}


@pytest.fixture(scope="module")
def learned() -> ReorderingModel:
    plan = reranking_plan(Pairwise, Exchangeable, {**KERNEL, **LOGISTIC})
    reranked = fit_reranker(crowded(), weights(1, 0, 0), plan, Run(), crowded(seed=4))
    assert reranked.record["chosen"] is not None
    return reranked


@dataclass(frozen=True)
class Backwards:
    """A loss that wants irrelevant documents on top."""

    name: ClassVar[str] = "backwards"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    def value_and_gradient(self, scores: Vector, labels: Any, weights: Any) -> Any:
        return Pairwise(inner="logistic").value_and_gradient(scores, 1 - labels, weights)


def test_what_no_pointwise_score_tells_is_learned(learned: ReorderingModel) -> None:
    record = learned.record
    base, *others = record["table"]
    assert [row["reranker.penalty"] for row in others] == list(PENALTIES)
    assert record["validation"] == max(row["validation"] for row in others)
    assert record["validation"] > base["validation"] + 0.3
    assert record["select"] == "ndcg@10"


def test_the_base_stays_where_nothing_is_better_than_it() -> None:
    data = crowded()
    labels = (data.features[:, 0] > 1).astype(np.float32)
    perfect = make_dataset(data.features, labels, np.repeat(data.query_ids.to_pylist(), 16))
    plan = reranking_plan(Backwards, Exchangeable, KERNEL)
    reranked = fit_reranker(perfect, weights(1, 0, 0), plan, Run(), perfect)
    assert (reranked.record["chosen"], reranked.reordering) == (None, None)
    scores = reranked.rerank_dataset(data)
    assert scores.tobytes() == weights(1, 0, 0).score(data.features).tobytes()


def test_a_metric_that_is_an_error_is_made_small() -> None:
    plan = reranking_plan(Pairwise, Exchangeable, {**KERNEL, **LOGISTIC}, metric="pairwise-error")
    record = fit_reranker(crowded(), weights(1, 0, 0), plan, Run(), crowded(seed=4)).record
    assert record["validation"] == min(row["validation"] for row in record["table"])
    assert record["chosen"] is not None


def test_a_file_scores_as_what_was_saved_list_by_list(
    learned: ReorderingModel, tmp_path: Path
) -> None:
    data = crowded(seed=5)
    save_model(learned, tmp_path / "r.json")
    again = load_model(tmp_path / "r.json")
    assert isinstance(again, ReorderingModel)
    scores = learned.rerank_dataset(data)
    assert again.rerank_dataset(data).tobytes() == scores.tobytes()
    assert again.record == json.loads(json.dumps(learned.record))
    assert isinstance(again.base, LinearModel)
    alone = np.concatenate([learned.rerank(query.features) for query in data])
    np.testing.assert_array_equal(scores, alone)
    with pytest.raises(BadInput, match="ranks whole lists"):
        load_scoring_model(tmp_path / "r.json")


def test_a_plain_model_is_a_ranker_also_as_a_reordering_without_a_reranker(tmp_path: Path) -> None:
    model, data = weights(1, 2, 3), crowded()
    save_model(model, tmp_path / "m.json")
    assert isinstance(load_model(tmp_path / "m.json"), LinearModel)
    # It needs no plugin.
    save_model(ReorderingModel(model, "nobody", None), tmp_path / "r.json")
    scores = dataset_scores(load_model(tmp_path / "r.json"), data)
    np.testing.assert_array_equal(scores, model.score(data.features))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base": None}, "damaged"),
        ({"base": {"kind": "linear"}}, "damaged"),
        ({"base": {"kind": "reordering"}}, "ranks whole lists"),
        ({"reordering": {"weights": []}}, "damaged"),
        ({"reordering": []}, "damaged"),
    ],
)
def test_a_damaged_file_is_refused_by_name(
    change: dict[str, Any], message: str, learned: ReorderingModel, tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    save_model(learned, path)
    content = {**json.loads(path.read_text()), **change}
    del content["digest"]  # as one does who changes a file by hand
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_parts_of_other_features_and_settings_of_no_part_are_refused(
    learned: ReorderingModel, tmp_path: Path
) -> None:
    other = LinearModel(("1", "2", "4"), np.ones(3))
    save_model(ReorderingModel(other, learned.reranker, learned.reordering), tmp_path / "r.json")
    with pytest.raises(BadInput, match="other features"):
        load_model(tmp_path / "r.json")
    plan: RerankingPlan = reranking_plan(Pairwise, Exchangeable, {"reranker.penalty": 0.1})
    with pytest.raises(BadInput, match="other features"):
        fit_reranker(crowded(), other, plan, Run())
    with pytest.raises(UsageError, match=r"write loss\.NAME or reranker\.NAME"):
        plan.make({"optimizer.C": 1})


def test_a_feature_is_a_base_bit_for_bit() -> None:
    data = crowded()
    data.features[3, 1] = np.nan
    scores = feature_ranker("feature:2", data).score(data.features)
    np.testing.assert_array_equal(scores, np.nan_to_num(data.features[:, 1].astype(np.float64)))
    with pytest.raises(UsageError, match="no feature is called '9'"):
        read_base("feature:9", data)


def test_several_candidates_need_validation_queries() -> None:
    plan = reranking_plan(Pairwise, Exchangeable, KERNEL)
    with pytest.raises(UsageError, match="8 candidates need validation"):
        fit_reranker(crowded(), weights(1, 0, 0), plan, Run())
    fixed = reranking_plan(Pairwise, Exchangeable, {**KERNEL, "reranker.penalty": "0.1"})
    assert fit_reranker(crowded(), weights(1, 0, 0), fixed, Run()).record["chosen"] is not None


def corpus(path: Path, data: RankingDataset, **fields: Callable[[int], Any]) -> Path:
    assert data.doc_ids is not None
    ids = sorted(set(data.doc_ids.to_pylist()), reverse=True)
    lines = [
        json.dumps({"key": doc_id, **{name: of(int(doc_id[1:])) for name, of in fields.items()}})
        for doc_id in [*ids, "d99999"]
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_fields_are_joined_by_document_id(tmp_path: Path) -> None:
    data = crowded()
    path = corpus(
        tmp_path / "c.jsonl.gz", data, site=lambda i: {"name": f"s{i % 3}"}, vector=lambda i: [i, 1]
    )
    fields = fields_of(with_document_fields(data, ["site.name", "vector", "_id"], path, "key"))
    assert fields["site.name"][:4] == ["s0", "s1", "s2", "s0"]
    assert fields["vector"][7] == [7, 1]
    assert fields["_id"][5] == "d5"
    chosen = with_document_fields(data, ["vector"], path, "key").select(np.array([2]))
    assert fields_of(chosen)["vector"][0] == [32, 1]


def test_what_cannot_be_joined_is_refused(tmp_path: Path) -> None:
    data = crowded()
    path = corpus(tmp_path / "c.jsonl", data, site=lambda i: i if i % 2 else f"s{i}")
    nameless = make_dataset(np.ones((2, 1)), [0, 1], ["a", "a"])
    missing = r"does not hold document 'd0' \(ids: line numbers\): .* with `id_field`"
    for dataset, file, key, message in (
        (data, path, "key", "several kinds"),
        (data, path, None, missing),
        (data, None, None, "with `documents`"),
        (nameless, path, None, "no document ids"),
    ):
        with pytest.raises(BadInput, match=message):
            with_document_fields(dataset, ["site"], file, key)
    assert with_document_fields(data, [], None) is data


@pytest.mark.parametrize("kernel", ["same:site", "similarity:text", "link:links"])
def test_a_kernel_of_a_field_learns_what_features_do_not_tell(kernel: str, tmp_path: Path) -> None:
    """Relevant documents share a site, words and links, each list its own; features are noise."""
    rng = np.random.default_rng(0)
    labels = np.tile([1, 1, 1, 0, 0, 0, 0, 0], 40)
    data = make_dataset(
        rng.normal(size=(320, 3)),
        labels,
        np.repeat([f"q{q}" for q in range(40)], 8),
        doc_ids=pa.array([f"d{i}" for i in range(320)]),
    )

    def shared(i: int) -> str:
        return f"w{i // 8}" if i < 320 and labels[i] else f"x{i}"

    path = corpus(
        tmp_path / "c.jsonl", data, site=shared, text=lambda i: f"the {shared(i)} thing {i}",
        links=lambda i: [f"d{8 * (i // 8)}"] if shared(i) < "x" else [f"d{i}"],
    )  # fmt: skip
    plan = reranking_plan(Pairwise, Exchangeable, {**LOGISTIC, "reranker.kernels": kernel})
    data = with_document_fields(data, plan.field_names, path, "key")
    training, validation = data.select(np.arange(20)), data.select(np.arange(20, 40))
    reranked = fit_reranker(training, weights(1, 0, 0), plan, Run(), validation)
    assert reranked.record["validation"] > 0.99
    assert reranked.field_names == plan.field_names


def uneven(data: RankingDataset) -> RankingDataset:
    """The queries without the last document of every second one."""
    kept = np.ones(data.n_documents, dtype=bool)
    kept[data.offsets[1::2] - 1] = False
    rows = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))[kept]
    ids = np.array(data.query_ids.to_pylist())[rows]
    return make_dataset(
        data.features[kept], data.labels[kept], ids, feature_names=data.feature_names
    )


@pytest.fixture
def run(run: RunCommand, tmp_path: Path) -> RunCommand:
    """Runs commands where there are data and a base model."""
    # Lists of other lengths: of one shape they would be warned of.
    write_letor(uneven(crowded(60)), tmp_path / "data.txt")
    save_model(weights(1, 0, 0), tmp_path / "base.json")
    return run


def unexpected(err: str) -> list[str]:
    """Warnings but the one that labels disagree with any ranker of single documents: so they do."""
    return [line for line in err.splitlines() if "the labels have the reverse" not in line]


def test_the_command_line_learns_measures_and_compares(run: RunCommand) -> None:
    learn = ("train-reranker", "data.txt", "--reranker", "exchangeable", "--loss", "pairwise")
    settings = ("--set", "reranker.kernels=rbf", "--set", "loss.inner=logistic")
    code, out, err = run(*learn, *settings, "--base", "base.json", "--out", "r.json")
    assert (code, unexpected(err)) == (0, [])
    assert "the base" in out
    assert "chosen: " in out
    measure = ("evaluate", "r.json", "--data", "data.txt", "--baseline", "base.json", "--json")
    out = run.output(*measure, "--metric", "ndcg@10")
    answer = json.loads(out)
    assert answer["split"] == "test"
    assert answer["pairs"][0]["mean_difference"] > 0.2
    code, out, _ = run(*learn, *settings, "--base", "feature:1", "--out", "f.json", "--json",
                       "--grid", "penalty=1,0.1")  # fmt: skip
    assert code == 0
    assert [row.get("reranker.penalty") for row in json.loads(out)["table"]] == [None, "1", "0.1"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "--base"),
        (("--base", "base.json", "--optimizer", "larank"), 2, "--optimizer"),
        (("--reranker", "exchangeable", "--base", "no.json"), 3, "no.json"),
        (("--reranker", "nobody", "--base", "base.json"), 2, "no reranker is named 'nobody'"),
        (("--reranker", "exchangeable", "--base", "base.json", "--set",
          "reranker.kernels=same:site"), 3, "with --documents"),
    ],
)  # fmt: skip
def test_what_the_command_line_cannot_do_is_one_line(
    words: tuple[str, ...],
    code: int,
    message: str,
    run: RunCommand,
    tmp_path: Path,
) -> None:
    ended, out, err = run(
        "train-reranker", "data.txt", "--loss", "pairwise", "--out", "o.json", *words
    )
    assert (ended, out) == (code, "")
    assert message in err
    assert len(unexpected(err)) == 1
    assert not (tmp_path / "o.json").exists()
