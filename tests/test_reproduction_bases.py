"""Rerankings of bases: what is lifted ranks as before, and what changes nothing is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from owpc_ltr_papers.folders import find_collections
from owpc_ltr_papers.folds import cut_of
from owpc_ltr_papers.jobs import DataFold, Tools, Training
from owpc_ltr_papers.rerankings import UNCHANGED, Lifted, Reranking

from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Run
from tests.letor_samples import write_parts

TOOLS = Tools(load(), Run(), (parse_metric("ndcg-letor@10"),))
BASE = Training("RankSVM", "pairwise", "larank", is_base=True)


def fold(folder: Path) -> DataFold:
    (collection,) = find_collections(write_parts(folder)).collections
    return cut_of(collection).readers[0].read()


def test_a_lifted_base_ranks_as_before_and_has_no_score_of_0(tmp_path: Path) -> None:
    base = LinearModel(("1", "2", "3", "4"), np.array([1.0, 0.0, 0.0, 0.0]))
    features = np.array([[0, 1, 1, 1], [2, 0, 0, 0]], dtype=np.float32)
    lifted = Lifted(base, 0.5)
    assert lifted.score(features).tolist() == [0.5, 2.5]
    assert lifted.feature_names == base.feature_names
    assert lifted.as_dict()["by"] == 0.5
    lifted.save(tmp_path / "model.json")
    assert (tmp_path / "model.json").exists()


def test_scores_as_they_are_can_be_multiplied_once_they_are_lifted(tmp_path: Path) -> None:
    data = fold(tmp_path)
    weights = np.array([1.0, 0.0, 0.0, 0.0])
    base = LinearModel(data.training.feature_names, weights)
    for side in (data.training, data.validation, data.test):
        side.features[0, 0] = 0
    settings = {"reranker.positive": "as-is", "reranker.kernel_sums": "raw"}
    job = Reranking("as is", BASE, "listnet", settings, {"reranker.penalty": "0,1"}, lift=1e-9)
    done = job.do(data, TOOLS, base)
    assert np.isfinite(done.result.values["ndcg-letor@10"]).all()


def test_the_lift_is_part_of_what_a_job_is() -> None:
    job = Reranking("it", BASE, "listnet")
    assert job.described() != replace(job, lift=1e-9).described()
    assert job.described() != replace(job, base=replace(BASE, loss="owpc")).described()


def test_a_penalty_that_allows_nothing_leaves_the_base_and_says_so(tmp_path: Path) -> None:
    data = fold(tmp_path)
    base = BASE.do(data, TOOLS, None).model
    assert base is not None
    job = Reranking("still", BASE, "listnet", grid={"reranker.penalty": "1e30,1e31"})
    done = job.do(data, TOOLS, base)
    assert done.result.notes == (UNCHANGED,)
    own = parse_metric("ndcg-letor@10").per_query(
        base.score(data.test.features), data.test.labels, data.test.offsets
    )
    assert done.result.values["ndcg-letor@10"].tolist() == own.tolist()
