"""TREC runs: they read back to the order that was written, and other tools find our figures."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ir_measures import AP, RR, nDCG

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.runs import TrecRun, read_run, write_scores
from owpc_ltr.errors import BadInput, OwpcLtrWarning, UsageError
from owpc_ltr.evaluation.measurement import model_data
from owpc_ltr.evaluation.run_files import write_run
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.reordering import ReorderingModel, dataset_scores


def dataset(sizes: tuple[int, ...] = (5, 1, 7), seed: int = 0) -> RankingDataset:
    rng = np.random.default_rng(seed)
    rows = sum(sizes)
    labels = rng.integers(0, 4, rows)
    # Every query has something relevant: what empty queries count is a matter of convention.
    labels[np.cumsum((0, *sizes))[:-1]] = 2
    return make_dataset(
        rng.normal(size=(rows, 2)),
        labels,
        np.repeat([f"q{number}" for number in range(len(sizes))], sizes),
        document_ids=[f"d{row}" for row in rng.permutation(rows)],
    )


DATA = dataset()


@given(scores=hnp.arrays(np.float64, DATA.n_documents, elements=st.floats(-1e300, 1e300)))
def test_scores_read_back_as_they_were_to_the_last_bit(
    scores: Vector, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run.trec"
    write_scores(scores, DATA, path)
    again = read_run(path).score_dataset(DATA)
    assert np.array_equal(again, scores)
    content = path.read_bytes()
    write_run(read_run(path), DATA, path)
    assert path.read_bytes() == content


def test_lines_are_best_first_and_tied_documents_as_they_stand(tmp_path: Path) -> None:
    data = make_dataset(np.zeros((5, 1)), [0] * 5, [2, 2, 2, 1, 1], document_ids=list("abcde"))
    write_run(np.array([1.0, 3, 1, -0.0, 0.0]), data, tmp_path / "r", tag="mine")
    assert (tmp_path / "r").read_text() == (
        "2 Q0 b 1 3 mine\n2 Q0 a 2 1 mine\n2 Q0 c 3 1 mine\n1 Q0 d 1 0 mine\n1 Q0 e 2 0 mine\n"
    )


def test_a_run_may_be_cut_at_a_depth(tmp_path: Path) -> None:
    scores = np.arange(13.0)
    write_run(scores, DATA, tmp_path / "all")
    write_run(scores, DATA, tmp_path / "two", depth=2)
    lines = (tmp_path / "all").read_text().splitlines()
    assert (tmp_path / "two").read_text().splitlines() == [
        line for line in lines if int(line.split()[3]) <= 2
    ]


def test_models_and_reorderings_write_the_scores_that_they_give(tmp_path: Path) -> None:
    model = LinearModel(DATA.feature_names, np.array([1.0, -0.3]))
    for ranker in (model, ReorderingModel(model, "any", None)):
        write_run(ranker, DATA, tmp_path / "r")
        assert np.array_equal(
            read_run(tmp_path / "r").score_dataset(DATA), model.score(DATA.features)
        )


def test_documents_without_ids_are_named_by_their_number(tmp_path: Path) -> None:
    data = replace(DATA, document_ids=None)
    with pytest.warns(OwpcLtrWarning, match="no ids: each is named by its number in its query"):
        write_run(np.arange(13.0), data, tmp_path / "r")
    assert (tmp_path / "r").read_text().startswith("q0 Q0 4 1 4 owpc-ltr\nq0 Q0 3 2 3 owpc-ltr\n")
    assert read_run(tmp_path / "r").score_dataset(data).tolist() == list(range(13))


def test_a_run_is_a_ranker_over_any_dataset_of_its_documents(tmp_path: Path) -> None:
    scores = np.arange(13.0)
    write_run(scores, DATA, tmp_path / "r")
    run = read_run(tmp_path / "r")
    part = DATA.select(np.array([2, 0]))
    chosen = model_data(run, part)
    assert (chosen.side, chosen.warnings) == ("all", ())
    assert dataset_scores(run, chosen.data).tolist() == [*range(6, 13), *range(5)]
    assert repr(run).startswith("TrecRun 'owpc-ltr': 3 queries, 13 lines of ")


def test_documents_that_a_run_lacks_have_no_score_and_are_not_written(tmp_path: Path) -> None:
    scores = np.linspace(-1e-9, -3, 13)
    write_run(scores, DATA, tmp_path / "r", depth=3)
    run = read_run(tmp_path / "r")
    with pytest.warns(OwpcLtrWarning, match="r: 6 of 13 documents are not in it: they are not ret"):
        found = run.score_dataset(DATA)
    absent = np.array([False] * 3 + [True] * 2 + [False] * 4 + [True] * 4)
    assert np.array_equal(found[~absent], scores[~absent])
    assert np.isnan(found[absent]).all()
    with pytest.warns(OwpcLtrWarning, match="6 of 13 documents"):
        write_run(run, DATA, tmp_path / "again", depth=9)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "r").read_bytes()


def test_documents_that_the_data_does_not_judge_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    write_run(np.arange(13.0), DATA, tmp_path / "r")
    smaller = make_dataset(
        DATA.features[:3],
        DATA.labels[:3],
        ["q0"] * 3,
        document_ids=DATA.document_ids[:3],  # type: ignore[index]
    )
    with pytest.warns(OwpcLtrWarning, match="2 of its documents are not in the data: they are lef"):
        assert read_run(tmp_path / "r").score_dataset(smaller).tolist() == [0, 1, 2]


def test_a_run_of_other_documents_is_refused(tmp_path: Path) -> None:
    write_run(np.arange(13.0), DATA, tmp_path / "r")
    other = replace(DATA, query_ids=pa.array(["a", "b", "c"]))
    with pytest.raises(BadInput, match=r"r ranks none of the data's 13 documents \('q0', 'd"):
        read_run(tmp_path / "r").score_dataset(other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: replace(d, query_ids=pa.array(["a b", "b", "c"])), "the query id 'a b' is empt"),
        (lambda d: replace(d, query_ids=pa.array(["", "b", "c"])), "the query id '' is empty or"),
        (lambda d: replace(d, document_ids=pa.array(["a\tb"] * 13)), r"the document id 'a\\tb' is"),
        (lambda d: replace(d, document_ids=pa.array(["a"] * 13)), "document 'a' stands twice in q"),
    ],
)
def test_ids_that_a_run_cannot_tell_apart_are_refused(
    change: Callable[[RankingDataset], RankingDataset], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        write_run(np.arange(13.0), change(DATA), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for strange in (np.nan, np.inf, -np.inf):
        scores = np.zeros(13)
        scores[4] = strange
        with pytest.raises(BadInput, match=r"scores\[4\] is -?(nan|inf), which has no place"):
            write_run(scores, DATA, tmp_path / "r")
    with pytest.raises(BadInput, match=r"scores have shape \(3,\) where 13 documents"):
        write_run(np.zeros(3), DATA, tmp_path / "r")
    with pytest.raises(UsageError, match="the tag 'a b' is one word"):
        write_run(np.zeros(13), DATA, tmp_path / "r", tag="a b")
    with pytest.raises(UsageError, match="a run of depth 0 has no lines"):
        write_run(np.zeros(13), DATA, tmp_path / "r", depth=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r: it is empty"),
        ("q Q0 d 1 2.5\n", "r, line 1: 'q Q0 d 1 2.5' is not 'query Q0 document rank score tag'"),
        ("q Q0 d 1 2 t\n\nq Q0 e x 2 t\n", "r, line 3: the rank 'x' is no number"),
        ("q Q0 d 1 2 t\nq Q0 e 2 nan t\n", "r, line 2: the score 'nan' is no number"),
        ("q Q0 d 1 1_0 t\n", "r, line 1: the score '1_0' is no number"),
        ("q Q0 d 1 1e999 t\n", "r, line 1: the score '1e999' is too large"),
        ("q Q0 d 1 2 t\nq Q0 e 2 1 u\n", "r, line 2: the tag 'u' after 't': keep one run a file"),
        (
            "p Q0 d 1 2 t\nq Q0 d 1 2 t\np Q0 d 2 1 t\n",
            "r, line 3: document 'd' of query 'p' is ranked on line 1 already: keep one",
        ),
    ],
)
def test_a_file_that_is_no_run_is_refused_by_line_and_value(
    text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        read_run(tmp_path / "r")


def test_runs_of_other_tools_are_read(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("q2\t0  d1 0 -1.5e-3 t\r\nq1 Q0 d1 7 +2 t\nq2 Q0 d2 1 .5 t")
    run = read_run(str(tmp_path / "r"))
    assert run.query_ids.to_pylist() == ["q2", "q1", "q2"]
    assert run.scores.tolist() == [-1.5e-3, 2, 0.5]


def compared(data: RankingDataset, scores: Vector, folder: Path) -> tuple[Any, Any]:
    """A written run and its judgments, as other tools read them from the files."""
    write_run(scores, data, folder / "run.trec")
    assert data.document_ids is not None
    queries = data.query_ids.take(
        pa.array(np.repeat(np.arange(data.n_queries), np.diff(data.offsets)))
    )
    rows = zip(queries.to_pylist(), data.document_ids.to_pylist(), data.labels, strict=True)
    lines = [f"{query} 0 {document} {int(label)}\n" for query, document, label in rows]
    (folder / "qrels").write_text("".join(lines))
    return folder / "qrels", folder / "run.trec"


OURS = {"ndcg@10,gain=linear": nDCG @ 10, "map": AP, "mrr": RR}


def ours(data: RankingDataset, scores: Vector) -> dict[str, float]:
    return {
        name: parse_metric(name).mean(scores, data.labels, data.offsets)
        for name in (*OURS, "ndcg@10")
    }


@pytest.mark.parametrize("seed", range(5))
def test_ir_measures_finds_our_figures_in_the_written_files(seed: int, tmp_path: Path) -> None:
    data = dataset((20, 3, 40, 11, 1, 15), seed)
    scores = np.random.default_rng(seed).normal(size=data.n_documents)
    qrels, run = compared(data, scores, tmp_path)
    found = ir_measures.calc_aggregate(
        OURS.values(),
        list(ir_measures.read_trec_qrels(str(qrels))),
        list(ir_measures.read_trec_run(str(run))),
    )
    values = ours(data, scores)
    for name, measure in OURS.items():
        assert found[measure] == pytest.approx(values[name], abs=1e-9), name


RANX = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ranx
pairs, measures = json.load(sys.stdin)
read = ranx.Qrels.from_file, ranx.Run.from_file
found = [
    ranx.evaluate(*(of(path, kind="trec") for of, path in zip(read, pair)), measures)
    for pair in pairs
]
json.dump([{name: float(value) for name, value in one.items()} for one in found], sys.stdout)
"""


def ranx_figures(pairs: list[tuple[Path, Path]]) -> list[dict[str, float]]:
    """What ranx finds in pairs of qrels and run; as Python, for it compiles for a minute."""
    theirs = {"ndcg@10,gain=linear": "ndcg@10", "map": "map", "mrr": "mrr"}
    theirs["ndcg@10"] = "ndcg_burges@10"
    asked = [[str(path) for path in pair] for pair in pairs]
    ended = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps([asked, list(theirs.values())]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [{n: one[measure] for n, measure in theirs.items()} for one in json.loads(ended.stdout)]


def test_ranx_finds_our_figures_in_the_written_files(tmp_path: Path) -> None:
    if importlib.util.find_spec("ranx") is None:
        pytest.skip("ranx is not installed")
    pairs, wanted = [], []
    for seed in range(3):
        data = dataset((20, 3, 40, 11, 1, 15), seed)
        scores = np.random.default_rng(seed).normal(size=data.n_documents)
        folder = tmp_path / str(seed)
        folder.mkdir()
        pairs.append(compared(data, scores, folder))
        wanted.append(ours(data, scores))
    for found, own in zip(ranx_figures(pairs), wanted, strict=True):
        assert found == pytest.approx(own, abs=1e-9)


def test_under_ties_others_take_one_order_and_we_the_mean_over_all(tmp_path: Path) -> None:
    """trec_eval orders tied documents by falling id; our `ties=expected` is the mean over orders.

    The two lie between our pessimistic and optimistic figures, and differ.
    """
    labels, names = [1, 0, 0, 0], ["a", "b", "c", "d"]
    data = make_dataset(np.zeros((4, 1)), labels, ["q"] * 4, document_ids=names)
    scores = np.zeros(4)
    qrels, run = compared(data, scores, tmp_path)
    found = ir_measures.calc_aggregate(
        [RR],
        list(ir_measures.read_trec_qrels(str(qrels))),
        list(ir_measures.read_trec_run(str(run))),
    )[RR]
    figures = {
        ties: parse_metric(f"mrr,ties={ties}").mean(scores, data.labels, data.offsets)
        for ties in ("pessimistic", "expected", "optimistic", "file-order")
    }
    assert found == figures["pessimistic"] == 1 / 4  # d, c, b, a
    assert figures["expected"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert figures["optimistic"] == figures["file-order"] == 1


def test_a_run_is_kept_as_it_was_read() -> None:
    run = TrecRun(pa.array(["q"]), pa.array(["d"]), np.ones(1), "t", "r")
    assert run.score_dataset(make_dataset([[1]], [0], ["q"], document_ids=["d"])).tolist() == [1]
