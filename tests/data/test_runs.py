"""TREC runs: read back in the order written, and measured as by trec_eval."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ir_measures import AP, RR, P, R, Success, nDCG

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning, read_run, save_dataset, write_run
from owpc_ltr.arrays import Vector
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.runs import TrecRun, write_scores
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.judged_data import choose_queries, compared_queries, model_data
from owpc_ltr.evaluation.measurement import ComparisonPlan, measure_on_data
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.combined import ReorderingModel, dataset_scores
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.datasets import in_parts
from tests.fresh_process import Evaluate


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
        doc_ids=[f"d{row}" for row in rng.permutation(rows)],
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


def test_lines_are_best_first_tied_documents_as_they_stand_and_cut_at_a_depth(
    tmp_path: Path,
) -> None:
    data = make_dataset(np.zeros((5, 1)), [0] * 5, [2, 2, 2, 1, 1], doc_ids=list("abcde"))
    scores = np.array([1.0, 3, 1, -0.0, 0.0])
    lines = ["2 Q0 b 1 3 mine", "2 Q0 a 2 1 mine", "2 Q0 c 3 1 mine", "1 Q0 d 1 0 mine"]
    lines.append("1 Q0 e 2 0 mine")
    for depth, kept in ((None, lines), (2, [*lines[:2], *lines[3:]])):
        write_run(scores, data, tmp_path / "r", tag="mine", depth=depth)
        assert (tmp_path / "r").read_text().splitlines() == kept


def test_models_and_reorderings_write_the_scores_that_they_give(tmp_path: Path) -> None:
    model = LinearModel(DATA.feature_names, np.array([1.0, -0.3]))
    for ranker in (model, ReorderingModel(model, "any", None)):
        write_run(ranker, DATA, tmp_path / "r")
        scores = read_run(tmp_path / "r").score_dataset(DATA)
        assert np.array_equal(scores, model.score(DATA.features))


def test_documents_without_ids_are_named_by_their_number(tmp_path: Path) -> None:
    data = replace(DATA, doc_ids=None)
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
        scores_of_run = run.score_dataset(DATA)
    absent = np.array([False] * 3 + [True] * 2 + [False] * 4 + [True] * 4)
    assert np.array_equal(scores_of_run[~absent], scores[~absent])
    assert np.isnan(scores_of_run[absent]).all()
    with pytest.warns(OwpcLtrWarning, match="6 of 13 documents"):
        write_run(run, DATA, tmp_path / "again", depth=9)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "r").read_bytes()


def test_documents_that_the_data_does_not_judge_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    write_run(np.arange(13.0), DATA, tmp_path / "r")
    run = read_run(tmp_path / "r")
    doc_ids: Any = DATA.doc_ids
    smaller = make_dataset(DATA.features[:3], DATA.labels[:3], ["q0"] * 3, doc_ids=doc_ids[:3])
    with pytest.warns(OwpcLtrWarning, match="2 of its documents are not in the data: they are lef"):
        assert run.score_dataset(smaller).tolist() == [0, 1, 2]
    other = replace(DATA, query_ids=pa.array(["a", "b", "c"]))
    with pytest.raises(BadInput, match=r"r ranks none of the data's 13 documents \('q0', 'd"):
        run.score_dataset(other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_ids": pa.array(["a b", "b", "c"])}, "the query id 'a b' is empt"),
        ({"query_ids": pa.array(["", "b", "c"])}, "the query id '' is empty or"),
        ({"doc_ids": pa.array(["a\tb"] * 13)}, r"the document id 'a\\tb' is"),
        ({"doc_ids": pa.array(["a"] * 13)}, "document 'a' occurs twice in q"),
    ],
)
def test_ids_that_a_run_cannot_tell_apart_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        write_run(np.arange(13.0), replace(DATA, **change), tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("scores", "how", "error", "message"),
    [
        *(
            (
                np.where(np.arange(13) == 4, strange, 0.0),
                {},
                BadInput,
                r"scores\[4\] is -?(nan|inf)",
            )
            for strange in (np.nan, np.inf, -np.inf)
        ),
        (np.zeros(3), {}, BadInput, r"scores have shape \(3,\) where 13 documents"),
        (np.zeros(13), {"tag": "a b"}, UsageError, "the tag 'a b' is one word"),
        (np.zeros(13), {"depth": 0}, UsageError, "a run of depth 0 has no lines"),
    ],
)
def test_what_cannot_be_written_is_refused(
    scores: Vector, how: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        write_run(scores, DATA, tmp_path / "r", **how)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r: it is empty"),
        ("q Q0 d 1\n", "r, line 1: 'q Q0 d 1' is not 'query Q0 document rank score tag'"),
        ("q d 1\nq e 2 t\n", "r, line 2: 'q e 2 t' is not 'query Q0 document rank score tag'"),
        ("q d 0.5\n", "r, line 1: the rank '0.5' is not a number"),
        ("q Q0 d 1 2 t\n\nq Q0 e x 2 t\n", "r, line 3: the rank 'x' is not a number"),
        ("q Q0 d 1 2 t\nq Q0 e 2 nan t\n", "r, line 2: the score 'nan' is not a number"),
        ("q Q0 d 1 1_0 t\n", "r, line 1: the score '1_0' is not a number"),
        ("q Q0 d 1 1e999 t\n", "r, line 1: the score '1e999' is too large"),
        ("q Q0 d 1 2 t\nq Q0 e 2 1 u\n", "r, line 2: the tag 'u' after 't': keep one run a file"),
        (
            "p Q0 d 1 2 t\nq Q0 d 1 2 t\np Q0 d 2 1 t\n",
            "r, line 3: document 'd' of query 'p' is ranked on line 1",
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
    assert data.doc_ids is not None
    queries = data.query_ids.take(
        pa.array(np.repeat(np.arange(data.n_queries), np.diff(data.offsets)))
    )
    rows = zip(queries.to_pylist(), data.doc_ids.to_pylist(), data.labels, strict=True)
    lines = [f"{query} 0 {document} {int(label)}\n" for query, document, label in rows]
    (folder / "qrels").write_text("".join(lines))
    return folder / "qrels", folder / "run.trec"


def judged_data(seed: int) -> tuple[RankingDataset, Vector]:
    data = dataset((20, 3, 40, 11, 1, 15), seed)
    return data, np.random.default_rng(seed).normal(size=data.n_documents)


OURS = {"ndcg@10,gain=linear": nDCG @ 10, "map": AP, "mrr": RR}


def ours(data: RankingDataset, scores: Vector) -> dict[str, float]:
    return {
        name: parse_metric(name).mean(scores, data.labels, data.offsets)
        for name in (*OURS, "ndcg@10")
    }


def ir_measures_figures(measures: Any, qrels: Path, run: Path) -> dict[Any, float]:
    judged = list(ir_measures.read_trec_qrels(str(qrels)))
    listed = list(ir_measures.read_trec_run(str(run)))
    figures_of: dict[Any, float] = ir_measures.calc_aggregate(measures, judged, listed)
    return figures_of


@pytest.mark.parametrize("seed", range(5))
def test_ir_measures_finds_our_figures_in_the_written_files(seed: int, tmp_path: Path) -> None:
    data, scores = judged_data(seed)
    theirs = ir_measures_figures(OURS.values(), *compared(data, scores, tmp_path))
    values = ours(data, scores)
    for name, measure in OURS.items():
        assert theirs[measure] == pytest.approx(values[name], abs=1e-9), name


RANX = """
pairs, measures = given
read = ranx.Qrels.from_file, ranx.Run.from_file
values = [
    ranx.evaluate(*(of(path, kind="trec") for of, path in zip(read, pair)), measures)
    for pair in pairs
]
found = [{name: float(value) for name, value in one.items()} for one in values]
"""


def ranx_figures(ranx: Evaluate, pairs: list[tuple[Path, Path]]) -> list[dict[str, float]]:
    """What ranx finds in pairs of qrels and run."""
    theirs = {"ndcg@10,gain=linear": "ndcg@10", "map": "map", "mrr": "mrr"}
    theirs["ndcg@10"] = "ndcg_burges@10"
    results = ranx(RANX, [[[str(path) for path in pair] for pair in pairs], list(theirs.values())])
    return [{name: result[measure] for name, measure in theirs.items()} for result in results]


@pytest.mark.thorough
def test_ranx_finds_our_figures_in_the_written_files(ranx: Evaluate, tmp_path: Path) -> None:
    pairs, wanted = [], []
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        pairs.append(compared(*judged_data(seed), folder))
        wanted.append(ours(*judged_data(seed)))
    for figures_of_pair, own in zip(ranx_figures(ranx, pairs), wanted, strict=True):
        assert figures_of_pair == pytest.approx(own, abs=1e-9)


def test_under_ties_others_take_one_order_and_we_the_mean_over_all(tmp_path: Path) -> None:
    """trec_eval orders tied documents by falling id; our `ties=expected` is the mean over orders.

    In file order the relevant one comes first.
    """
    data = make_dataset(np.zeros((4, 1)), [1, 0, 0, 0], ["q"] * 4, doc_ids=["a", "b", "c", "d"])
    scores = np.zeros(4)
    reciprocal_rank = ir_measures_figures([RR], *compared(data, scores, tmp_path))[RR]
    expected, in_file_order = (
        parse_metric(f"mrr,ties={ties}").mean(scores, data.labels, data.offsets)
        for ties in ("expected", "file-order")
    )
    assert reciprocal_rank == 1 / 4  # d, c, b, a
    assert expected == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert in_file_order == 1


@dataclass(frozen=True)
class Judged:
    """Judged queries, and a run of some of their documents, of others, and of other queries."""

    data: RankingDataset
    run: TrecRun
    grades: dict[str, dict[str, int]]
    listed: dict[str, dict[str, float]]

    def ir_measures(self, *measures: Any) -> dict[Any, dict[str, float]]:
        """Each measure of each judged query; ir_measures asks trec_eval, with -c."""
        qrels, run = (
            [made(query, *item) for query, own in of.items() for item in own.items()]
            for made, of in ((ir_measures.Qrel, self.grades), (ir_measures.ScoredDoc, self.listed))
        )
        by_measure: dict[Any, dict[str, float]] = {measure: {} for measure in measures}
        for figure in ir_measures.iter_calc(measures, qrels, run):
            by_measure[figure.measure][figure.query_id] = figure.value
        return by_measure


@st.composite
def judged_runs(draw: st.DrawFn, ties: bool) -> Judged:
    """Short runs: cut ones, empty ones, ones of nothing judged; scores with ties or without."""
    grades: dict[str, dict[str, int]] = {}
    listed: dict[str, dict[str, float]] = {}
    for query in range(draw(st.integers(2, 5))):
        documents = [f"d{n}" for n in range(draw(st.integers(1, 8)))]
        grades[f"q{query}"] = {document: draw(st.integers(0, 3)) for document in documents}
        pool = draw(st.permutations([*documents, "x1", "x2", "x3"]))
        top = pool[: draw(st.integers(0, len(pool)))]
        scores = [
            float(draw(st.integers(0, 3)) if ties else len(top) - rank) for rank in range(len(top))
        ]
        if top:
            listed[f"q{query}"] = dict(zip(top, scores, strict=True))
    first = next(iter(grades))
    listed.setdefault(first, {})["d0"] = 2.5
    if draw(st.booleans()):
        listed["not judged"] = {"d0": 1.0, "d1": 0.5}
    rows = [(q, d, s) for q, own in listed.items() for d, s in own.items()]
    run = TrecRun(
        pa.array([q for q, _, _ in rows]),
        pa.array([d for _, d, _ in rows]),
        np.array([s for _, _, s in rows]),
        "t",
        "r",
    )
    of = [(q, d, g) for q, own in grades.items() for d, g in own.items()]
    data = make_dataset(
        np.zeros((len(of), 1)),
        [g for _, _, g in of],
        [q for q, _, _ in of],
        doc_ids=[d for _, d, _ in of],
    )
    return Judged(data, run, grades, listed)


THEIRS = {
    "ndcg@3,gain=linear": nDCG @ 3,
    "ndcg,gain=linear": nDCG,
    "map": AP,
    "map@2": AP @ 2,
    "mrr": RR,
    "mrr@2": RR @ 2,
    "precision@5": P @ 5,
    "recall@3": R @ 3,
    "winner-takes-all": Success @ 1,
}


def figures(judged: Judged, metrics: list[str], unjudged: str = "zero") -> dict[str, Vector]:
    """Each metric of each query, as `compare` has them."""
    parsed = tuple(parse_metric(metric) for metric in metrics)
    of = compared_queries(judged.data, choose_queries({}, judged.data))
    plan = ComparisonPlan(parsed, unjudged)
    values = measure_on_data({"run": judged.run}, judged.data, of, plan).rankers["run"]
    return dict(zip(metrics, values.values, strict=False))


@given(judged_runs(ties=False))
def test_a_run_that_lacks_documents_is_measured_as_trec_eval_does(judged: Judged) -> None:
    theirs = judged.ir_measures(*THEIRS.values())
    evaluated = ltr.evaluate(judged.run, judged.data, metrics=list(THEIRS))
    queries = [
        JudgedQuery(query, {"query": query}, list(own), np.array([*own.values()], np.float32))
        for query, own in judged.grades.items()
    ]
    # Judgments have no features, and a run needs none.
    by_judgments = ltr.evaluate(judged.run, Judgments(queries), metrics=list(THEIRS))
    for name, values in figures(judged, list(THEIRS)).items():
        wanted = [theirs[THEIRS[name]][query] for query in judged.grades]
        assert values.tolist() == pytest.approx(wanted, abs=1e-9), name
        assert evaluated[name].per_query.tolist() == values.tolist()
        assert by_judgments[name].per_query.tolist() == values.tolist()


@given(judged_runs(ties=True), st.sampled_from(["ndcg@3", "ndcg", "map", "map@3"]))
def test_trec_eval_prints_of_a_short_run_what_is_explained(judged: Judged, name: str) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    explanation = ltr.explain_metric(judged.run, judged.data, name)
    theirs = name.replace("ndcg@", "ndcg_cut.").replace("map@", "map_cut.")
    printed = pytrec_eval.RelevanceEvaluator(judged.grades, {theirs}).evaluate(judged.listed)
    values = [figure[theirs.replace(".", "_")] for figure in printed.values()]
    (said,) = [elsewhere for elsewhere in explanation.elsewhere if elsewhere.library == "trec_eval"]
    assert said.value == pytest.approx(np.mean(values), abs=1e-9)
    assert explanation.value + sum(step.change for step in said.steps) == pytest.approx(said.value)
    assert explanation.value == pytest.approx(figures(judged, [name])[name].mean())
    lacking = [query for query in judged.grades if query not in judged.listed]
    assert explanation.absent == len(lacking)
    assert any("the run lacks are left out" in step.what for step in said.steps) == bool(lacking)
    if explanation.missing:
        assert {elsewhere.library for elsewhere in explanation.elsewhere} == {"trec_eval"}


def graded(judged: Judged, query: str, condensed: bool) -> list[int]:
    """The grades of the documents that were retrieved, best first."""
    listed, grades = judged.listed.get(query, {}), judged.grades[query]
    order = sorted(listed, key=lambda document: -listed[document])
    return [grades.get(document, 0) for document in order if document in grades or not condensed]


def err(retrieved: list[int]) -> float:
    """The expected reciprocal rank of a list."""
    value, reached = 0.0, 1.0
    for rank, grade in enumerate(retrieved, 1):
        value += reached * (2**grade - 1) / 16 / rank
        reached *= 1 - (2**grade - 1) / 16
    return value


@pytest.mark.parametrize("unjudged", ["zero", "condensed"])
@given(judged=judged_runs(ties=False))
def test_metrics_of_gains_see_the_documents_retrieved_alone(judged: Judged, unjudged: str) -> None:
    values_by_metric = figures(judged, ["err", "rbp", "rbp@2", "precision@2"], unjudged)
    for number, query in enumerate(judged.grades):
        own = graded(judged, query, unjudged == "condensed")
        rbp = [0.2 * 0.8**rank * (grade > 0) for rank, grade in enumerate(own)]
        wanted = [err(own), sum(rbp), sum(rbp[:2]), sum(grade > 0 for grade in own[:2]) / 2]
        assert [values[number] for values in values_by_metric.values()] == pytest.approx(wanted)


@given(judged_runs(ties=False))
def test_a_pair_is_in_the_right_order_only_if_its_better_document_is_retrieved(
    judged: Judged,
) -> None:
    errors = figures(judged, ["pairwise-error"], "condensed")["pairwise-error"]
    for value, (query, grades) in zip(errors, judged.grades.items(), strict=True):
        scores = {name: judged.listed.get(query, {}).get(name, -np.inf) for name in grades}
        pairs = [(a, b) for a in grades for b in grades if grades[a] > grades[b]]
        wrong = sum(not scores[a] > scores[b] for a, b in pairs)
        assert value == pytest.approx(wrong / len(pairs) if pairs else np.nan, nan_ok=True)


@given(judged_runs(ties=True), st.data())
def test_what_is_retrieved_further_down_never_makes_a_run_worse(
    judged: Judged, data: st.DataObject
) -> None:
    """So that a run without results has the worst figures of all."""
    query = data.draw(st.sampled_from(list(judged.grades)))
    lacking = [
        document
        for document in judged.grades[query]
        if document not in judged.listed.get(query, {})
    ]
    if not lacking:
        return
    run = judged.run
    longer = replace(
        run,
        query_ids=pa.array([*run.query_ids.to_pylist(), query]),
        doc_ids=pa.array([*run.doc_ids.to_pylist(), data.draw(st.sampled_from(lacking))]),
        scores=np.append(run.scores, -1.0),
    )
    for name in (*THEIRS, "err", "rbp", "pairwise-error"):
        metric = parse_metric(name)
        sign = 1 if metric.higher_is_better else -1
        before = figures(judged, [name], "condensed")[name]
        after = figures(replace(judged, run=longer), [name], "condensed")[name]
        assert (np.nan_to_num(sign * (after - before)) >= -1e-9).all(), name


def judged_queries() -> RankingDataset:
    """Twelve queries of twenty documents."""
    labels = np.random.default_rng(3).integers(0, 4, 240)
    queries = np.repeat([f"q{number}" for number in range(12)], 20)
    ids = [f"d{row}" for row in range(240)]
    return make_dataset(np.zeros((240, 1)), labels, queries, doc_ids=ids)


@pytest.fixture
def short(tmp_path: Path) -> tuple[RankingDataset, Vector]:
    """Queries, scores, and `short.run`, which lacks some queries and documents."""
    data = judged_queries()
    scores = np.random.default_rng(1).normal(size=data.n_documents)
    ltr.write_run(scores[:200], data.select(np.arange(10)), tmp_path / "short.run", depth=3)
    return data, scores


def test_what_a_run_lacks_is_told_in_python_and_on_the_command_line(
    short: tuple[RankingDataset, Vector], run: Run, tmp_path: Path
) -> None:
    data, scores = short
    ltr.write_run(scores, data, tmp_path / "whole.run")
    with (tmp_path / "short.run").open("a") as file:
        file.write("q0 Q0 nobody 4 -9 owpc-ltr\nz Q0 d1 1 1 owpc-ltr\n")
    save_dataset(data, tmp_path / "data.parquet")
    absent = "2 of 12 queries are not in it: they count 0 (as trec_eval -c has it)"
    missing = "210 of 240 judged documents are not in it: they count as not retrieved"
    unjudged = "1 of its documents are not judged: they count as irrelevant"
    some, whole = (ltr.read_run(tmp_path / f"{name}.run") for name in ("short", "whole"))
    assert ltr.evaluate(some, data).warnings[:3] == (absent, missing, unjudged)
    against = ltr.evaluate(whole, data, baseline=some).warnings
    assert f"the run 2: {missing}" in against
    compared = ltr.compare(
        {"short": some, "whole": whole}, data=data, metrics="recall@10", resamples=200
    )
    assert {f"short: {absent}", f"short: {missing}"} <= set(compared.warnings)
    recall = compared.ranker("short").measured[0].mean
    assert recall < compared.ranker("whole").measured[0].mean
    data_of = ("--data", "data.parquet")
    out = run.output("evaluate", "short.run", *data_of, "--metric", "recall@10")
    assert f"{recall:.4f}" in out
    assert "210 of 240 judged documents are not in it" in " ".join(out.split())
    out = run.output("plugins", "metrics", "--explain", "short.run", *data_of, "--metric", "map")
    assert "lacks 2 queries and 210 judged documents" in " ".join(out.split())
    assert "trec_eval" in out
    assert "XGBoost" not in out
    run.output("evaluate", "short.run", *data_of, "--run", "again.run")
    assert len((tmp_path / "again.run").read_text().splitlines()) == 30


def test_a_run_is_measured_by_judgments_alone(run: Run, tmp_path: Path) -> None:
    """AP by hand: (1 + 2/3)/2 for q1, 1/2 for q2, and q3 is not in the run."""
    (tmp_path / "a.run").write_text(
        "q1 Q0 d3 1 3.5 a\nq1 Q0 x9 2 2.5 a\nq1 Q0 d1 3 1.5 a\nq2 Q0 d4 1 3.5 a\nq2 Q0 x8 2 2 a\n"
    )
    (tmp_path / "b.run").write_text("q1 Q0 d1 1 2 b\nq2 Q0 d5 1 3 b\nq3 Q0 d6 1 3 b\n")
    rows = [
        ("q1", "d1", 3),
        ("q1", "d2", 0),
        ("q1", "d3", 1),
        ("q2", "d4", 1),
        ("q2", "d5", 2),
        ("q3", "d6", 1),
    ]
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {grade}\n" for q, d, grade in rows))
    csv = "".join(f"{q},{q},{d},{grade}\n" for q, d, grade in rows)
    (tmp_path / "j.csv").write_text(f"query_id,query,doc_id,grade\n{csv}")
    (tmp_path / "other.csv").write_text(f"qid,query,sku,stars\n{csv}")
    expected = ((1 + 2 / 3) / 2 + 1 / 2) / 3
    figures = ["--metric", "map", "--metric", "precision@5", "--json"]
    columns = ["--columns", "doc_id=sku,grade=stars"]
    for data in (["qrels"], ["j.csv"], ["other.csv", *columns]):
        printed = json.loads(run.output("evaluate", "a.run", "--data", *data, *figures))
        means = [row["mean"] for row in printed["rankers"][0]["metrics"]]
        assert means == pytest.approx([expected, 0.2])
    for of_data in (tmp_path / "qrels", ltr.read_judgments(tmp_path / "j.csv")):
        evaluation = ltr.evaluate(tmp_path / "a.run", of_data, metrics="map")
        assert evaluation["map"].mean == pytest.approx(expected)
        assert "1 of 3 queries are not in it: they count 0 (as trec_eval -c has it)" in (
            evaluation.warnings
        )
        explanation = ltr.explain_metric(tmp_path / "a.run", of_data, "map")
        assert explanation.value == pytest.approx(expected)
        with pytest.raises(UsageError, match="judgments have no features"):
            ltr.evaluate("feature:1", of_data, baseline=tmp_path / "a.run")
    both = run.output("compare", "a.run", "b.run", "--data", "qrels", "--metric", "map")
    assert f"{expected:.4f}" in both
    out = run.output("plugins", "metrics", "--explain", "a.run", "--data", "qrels")
    assert "the run lacks 1 queries and 3 judged documents" in " ".join(out.split())


def test_a_folder_of_parts_has_the_figures_of_a_short_run_in_memory(
    short: tuple[RankingDataset, Vector], tmp_path: Path
) -> None:
    data, run = short[0], ltr.read_run(tmp_path / "short.run")
    whole, of_parts = ltr.evaluate(run, data), ltr.evaluate(run, in_parts(data, tmp_path / "parts"))
    by_query = of_parts.per_query.sort_by("query_id")
    assert by_query.to_pydict() == whole.per_query.sort_by("query_id").to_pydict()
    assert of_parts.warnings[:2] == whole.warnings[:2]
