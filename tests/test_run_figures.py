"""Runs are measured as by trec_eval: what they lack is not retrieved, and still counts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG
from owpc_ltr_report.queries import example_documents

import owpc_ltr as ltr
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.evaluation.measurement import measure_on_data
from owpc_ltr.metrics import parse_metric
from tests.commands import commands_in
from tests.parted_samples import in_parts


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
            [made(query, *one) for query, own in of.items() for one in own.items()]
            for made, of in ((ir_measures.Qrel, self.grades), (ir_measures.ScoredDoc, self.listed))
        )
        found: dict[Any, dict[str, float]] = {measure: {} for measure in measures}
        for one in ir_measures.iter_calc(measures, qrels, run):
            found[one.measure][one.query_id] = one.value
        return found


@st.composite
def judged_runs(draw: st.DrawFn, ties: bool) -> Judged:
    """Short runs: cut ones, empty ones, ones of nothing judged; scores with ties or without."""
    grades: dict[str, dict[str, int]] = {}
    listed: dict[str, dict[str, float]] = {}
    for query in range(draw(st.integers(2, 5))):
        documents = [f"d{n}" for n in range(draw(st.integers(1, 8)))]
        grades[f"q{query}"] = {one: draw(st.integers(0, 3)) for one in documents}
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
        document_ids=[d for _, d, _ in of],
    )
    return Judged(data, run, grades, listed)


def judged_queries() -> RankingDataset:
    """Twelve queries of twenty documents."""
    labels = np.random.default_rng(3).integers(0, 4, 240)
    queries = np.repeat([f"q{number}" for number in range(12)], 20)
    ids = [f"d{row}" for row in range(240)]
    return make_dataset(np.zeros((240, 1)), labels, queries, document_ids=ids)


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
    parsed = [parse_metric(one) for one in metrics]
    found = measure_on_data({"run": judged.run}, judged.data, parsed, unjudged).rankers["run"]
    return dict(zip(metrics, found.values, strict=True))


@given(judged_runs(ties=False))
def test_a_run_that_lacks_documents_is_measured_as_trec_eval_does(judged: Judged) -> None:
    theirs = judged.ir_measures(*THEIRS.values())
    evaluated = ltr.evaluate(judged.run, judged.data, metrics=list(THEIRS)).per_query
    for name, values in figures(judged, list(THEIRS)).items():
        wanted = [theirs[THEIRS[name]][query] for query in judged.grades]
        assert values.tolist() == pytest.approx(wanted, abs=1e-9), name
        assert evaluated[name].to_pylist() == values.tolist()


@given(judged_runs(ties=True))
def test_trec_eval_takes_one_of_the_orders_of_tied_documents(judged: Judged) -> None:
    """Ours is their mean by default, and the worst and the best one if that is asked for."""
    for name, measure in THEIRS.items():
        theirs = judged.ir_measures(measure)[measure]
        wanted = np.array([theirs[query] for query in judged.grades])
        asked = [f"{name},ties={ties}" for ties in ("pessimistic", "expected", "optimistic")]
        low, mean, high = figures(judged, asked).values()
        assert (low <= wanted + 1e-9).all()
        assert (wanted <= high + 1e-9).all()
        assert (low <= mean + 1e-9).all()
        assert (mean <= high + 1e-9).all()


@given(judged_runs(ties=True), st.sampled_from(["ndcg@3", "ndcg", "map", "map@3"]))
def test_trec_eval_prints_of_a_short_run_what_is_explained(judged: Judged, name: str) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    found = ltr.explain_metric(judged.run, judged.data, name)
    theirs = name.replace("ndcg@", "ndcg_cut.").replace("map@", "map_cut.")
    printed = pytrec_eval.RelevanceEvaluator(judged.grades, {theirs}).evaluate(judged.listed)
    values = [one[theirs.replace(".", "_")] for one in printed.values()]
    (said,) = [one for one in found.elsewhere if one.library == "trec_eval"]
    assert said.value == pytest.approx(np.mean(values), abs=1e-9)
    assert found.value + sum(step.change for step in said.steps) == pytest.approx(said.value)
    assert found.value == pytest.approx(figures(judged, [name])[name].mean())
    lacking = [query for query in judged.grades if query not in judged.listed]
    assert found.absent == len(lacking)
    assert any("the run lacks are left out" in step.what for step in said.steps) == bool(lacking)
    if found.missing:
        assert {one.library for one in found.elsewhere} == {"trec_eval", "ranx"}


RANX = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ranx
grades, listed, measures = json.load(sys.stdin)
found = ranx.evaluate(ranx.Qrels(grades), ranx.Run(listed), measures, make_comparable=True)
json.dump({name: float(value) for name, value in found.items()}, sys.stdout)
"""


@pytest.mark.skipif(importlib.util.find_spec("ranx") is None, reason="ranx is not installed")
def test_ranx_prints_of_a_short_run_what_is_explained() -> None:
    """Without ties, so that it runs as Python: it compiles for a minute."""
    data = judged_queries()
    rng = np.random.default_rng(7)
    ids, grades, listed = data.document_ids, {}, {"other": {"d1": 1.0}}
    assert ids is not None
    for number, query in enumerate(data.query_ids.to_pylist()):
        rows = range(20 * number, 20 * number + 20)
        grades[query] = {ids[row].as_py(): int(data.labels[row]) for row in rows}
        pool = rng.permutation([*grades[query], "x1", "x2"])[: 3 * number].tolist()
        listed |= {query: dict(zip(pool, rng.normal(size=len(pool)), strict=True))} if pool else {}
    lines = [(q, d, s) for q, own in listed.items() for d, s in own.items()]
    queries, documents, scores = zip(*lines, strict=True)
    run = TrecRun(pa.array(queries), pa.array(documents), np.array(scores), "t", "r")
    names = {"ndcg@5": "ndcg_burges@5", "map": "map", "map@3": "map@3"}
    ended = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps([grades, listed, list(names.values())]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, theirs in names.items():
        found = ltr.explain_metric(run, data, name).elsewhere
        (said,) = [one for one in found if f'"{theirs}", make_comparable=True' in one.call]
        assert said.value == pytest.approx(json.loads(ended.stdout)[theirs], abs=1e-9)


def graded(judged: Judged, query: str, condensed: bool) -> list[int]:
    """The grades of the documents that were retrieved, best first."""
    listed, grades = judged.listed.get(query, {}), judged.grades[query]
    order = sorted(listed, key=lambda one: -listed[one])
    return [grades.get(one, 0) for one in order if one in grades or not condensed]


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
    found = figures(judged, ["err", "rbp", "rbp@2", "precision@2"], unjudged)
    for number, query in enumerate(judged.grades):
        own = graded(judged, query, unjudged == "condensed")
        rbp = [0.2 * 0.8**rank * (grade > 0) for rank, grade in enumerate(own)]
        wanted = [err(own), sum(rbp), sum(rbp[:2]), sum(grade > 0 for grade in own[:2]) / 2]
        assert [values[number] for values in found.values()] == pytest.approx(wanted)


@given(judged_runs(ties=False))
def test_a_pair_is_in_the_right_order_only_if_its_better_document_is_retrieved(
    judged: Judged,
) -> None:
    found = figures(judged, ["pairwise-error"], "condensed")["pairwise-error"]
    for value, (query, grades) in zip(found, judged.grades.items(), strict=True):
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
    lacking = [one for one in judged.grades[query] if one not in judged.listed.get(query, {})]
    if not lacking:
        return
    run = judged.run
    longer = replace(
        run,
        query_ids=pa.array([*run.query_ids.to_pylist(), query]),
        document_ids=pa.array([*run.document_ids.to_pylist(), data.draw(st.sampled_from(lacking))]),
        scores=np.append(run.scores, -1.0),
    )
    for name in (*THEIRS, "err", "rbp", "pairwise-error"):
        metric = parse_metric(name)
        sign = 1 if metric.higher_is_better else -1
        before = figures(judged, [name], "condensed")[name]
        after = figures(replace(judged, run=longer), [name], "condensed")[name]
        assert (np.nan_to_num(sign * (after - before)) >= -1e-9).all(), name


def test_what_a_run_lacks_is_told_in_python_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = judged_queries()
    scores = np.random.default_rng(1).normal(size=data.n_documents)
    ltr.write_run(scores, data, tmp_path / "whole.run")
    ltr.write_run(scores[:200], data.select(np.arange(10)), tmp_path / "short.run", depth=3)
    with (tmp_path / "short.run").open("a") as file:
        file.write("q0 Q0 nobody 4 -9 owpc-ltr\nz Q0 d1 1 1 owpc-ltr\n")
    save_dataset(data, tmp_path / "data.parquet")
    absent = "2 of 12 queries are not in it: they count 0 (as trec_eval -c has it)"
    missing = "210 of 240 judged documents are not in it: they count as not retrieved"
    unjudged = "1 of its documents are not judged: they count as irrelevant"
    short, whole = (ltr.read_run(tmp_path / f"{name}.run") for name in ("short", "whole"))
    assert ltr.evaluate(short, data).warnings[:3] == (absent, missing, unjudged)
    against = ltr.evaluate(whole, data, baseline=short).warnings
    assert f"the run 2: {missing}" in against
    compared = ltr.compare(
        {"short": short, "whole": whole}, data=data, metrics="recall@10", resamples=200
    )
    assert {f"short: {absent}", f"short: {missing}"} <= set(compared.warnings)
    recall = compared.ranker("short").measured[0].mean
    assert recall < compared.ranker("whole").measured[0].mean
    command = commands_in(tmp_path, monkeypatch, capsys)
    code, out, _ = command("evaluate", "short.run", "data.parquet", "--metric", "recall@10")
    assert code == 0
    assert f"{recall:.4f}" in out
    assert "210 of 240 judged documents are not in it" in " ".join(out.split())
    code, out, _ = command("metrics", "--explain", "data.parquet", "short.run", "--metric", "map")
    assert code == 0
    assert "lacks 2 queries and 210 judged documents" in " ".join(out.split())
    assert "trec_eval" in out
    assert "XGBoost" not in out
    code, _, _ = command("evaluate", "short.run", "data.parquet", "--run", "again.run")
    assert code == 0
    again = (tmp_path / "again.run").read_text().splitlines()
    assert len(again) == 30


def test_a_folder_of_parts_has_the_figures_of_a_short_run_in_memory(tmp_path: Path) -> None:
    data = judged_queries()
    scores = np.random.default_rng(1).normal(size=data.n_documents)
    ltr.write_run(scores[:200], data.select(np.arange(10)), tmp_path / "short.run", depth=3)
    run = ltr.read_run(tmp_path / "short.run")
    folder = in_parts(data, tmp_path / "parts")
    whole, found = ltr.evaluate(run, data), ltr.evaluate(run, folder)
    by_query = found.per_query.sort_by("query_id")
    assert by_query.to_pydict() == whole.per_query.sort_by("query_id").to_pydict()
    assert found.warnings[:2] == whole.warnings[:2]


def test_a_document_that_a_run_did_not_retrieve_has_no_rank_in_a_report() -> None:
    data = judged_queries()
    before, after = np.arange(240.0), np.arange(240.0)
    after[0] = 1000.0
    before[:10], after[19] = np.nan, np.nan
    moved = example_documents(data, 0, (before, after))
    ranks = {one.doc_id: (one.rank, one.before) for one in moved}
    assert ranks["d0"] == (1, None)
    assert ranks["d19"] == (None, 1)
    assert ranks["d18"] == (2, 2)
    nothing = np.full(240, np.nan)
    assert not any(one.rank for one in example_documents(data, 3, (before, nothing)))
