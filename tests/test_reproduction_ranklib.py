"""RankLib as a tool: what it trains is what it scores, and another file or a failure is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_papers import ranklib
from owpc_ltr_papers.folders import find_collections
from owpc_ltr_papers.folds import cut_of
from owpc_ltr_papers.jobs import DataFold, Tools
from owpc_ltr_papers.ranklib import RankLib, fetch_ranklib
from owpc_ltr_papers.ranklib_jobs import RANKERS, RankLibTraining, check_same

from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from tests.letor_samples import write_parts
from tests.ranklib_program import ranklib_or_skip

FEW = {
    "MART": {"tree": "5"},
    "LambdaMART": {"tree": "5"},
    "RankBoost": {"round": "5"},
    "AdaRank": {"round": "5"},
    "coordinate ascent": {"r": "1", "i": "3"},
    "linear regression": {},
}


@pytest.fixture(scope="module")
def program() -> RankLib:
    return ranklib_or_skip()


@pytest.fixture
def fold(tmp_path: Path) -> DataFold:
    (collection,) = find_collections(write_parts(tmp_path / "MQ2008")).collections
    return cut_of(collection).readers[0].read()


def tools(program: RankLib | None) -> Tools:
    return Tools(load(), Run(), (parse_metric("ndcg-letor@10"),), program)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("ranker", RANKERS)
def test_each_learner_s_model_scores_here_as_there(
    program: RankLib, fold: DataFold, ranker: str
) -> None:
    """`do` itself holds the two against each other, document by document."""
    job = RankLibTraining(f"RankLib {ranker}", ranker, options=FEW[ranker])
    done = job.do(fold, tools(program), None)
    assert done.model is not None
    assert len(done.result.values["ndcg-letor@10"]) == fold.test.n_queries
    assert 0 < done.result.validation <= 1


@pytest.mark.thorough
def test_rankboost_is_the_same_each_time(program: RankLib, fold: DataFold) -> None:
    job = RankLibTraining("RankLib RankBoost", "RankBoost", options=FEW["RankBoost"])
    one, other = (job.do(fold, tools(program), None).model for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.as_dict() == other.as_dict()


def test_scores_of_another_model_are_refused() -> None:
    theirs = np.array([0.5, 1.5, -2.0])
    check_same("RankLib MART", theirs + 3.0, theirs)
    with pytest.raises(Refused, match="away from RankLib's own scores"):
        check_same("RankLib MART", theirs * [1, 1.001, 1], theirs)


def fake(folder: Path, script: str) -> RankLib:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return RankLib(java, folder / "RankLib.jar")


@pytest.mark.parametrize("script", ["echo 'Error in reading' ", "echo Exception >&2", "exit 3"])
def test_a_failure_is_told_whatever_the_exit_code(tmp_path: Path, script: str) -> None:
    with pytest.raises(Refused, match="RankLib failed on -train x"):
        fake(tmp_path, script).run("-train", "x")
    fake(tmp_path, "echo fine").run("-train", "x")


def test_no_model_is_told(tmp_path: Path, fold: DataFold) -> None:
    job = RankLibTraining("RankLib MART", "MART")
    with pytest.raises(Refused, match="RankLib's MART wrote no model"):
        job.do(fold, tools(fake(tmp_path, "exit 0")), None)
    with pytest.raises(EngineUnavailable, match="ask for it with --with-ranklib"):
        job.do(fold, tools(None), None)


def test_another_file_than_was_pinned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "other.jar"
    jar.write_bytes(b"another program")
    said: list[str] = []

    class Repository:
        def __init__(self, *_: object) -> None: ...

        def fetch(self, _jar: object) -> Path:
            return jar

    monkeypatch.setenv("OWPC_LTR_HOME", str(tmp_path))
    monkeypatch.setattr(ranklib, "Maven", Repository)
    with pytest.raises(
        Refused, match=r"is not the com\.o19s:RankyMcRankFace:0\.1\.1 that was pinned"
    ):
        fetch_ranklib(said.append)
    assert said == [
        "fetching com.o19s:RankyMcRankFace:0.1.1 from Maven (180 kB; Apache License 2.0, parts of "
        "RankLib: BSD)"
    ]
