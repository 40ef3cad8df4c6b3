"""Protocols end to end: honest, resumable, and never another data set's figures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_papers.folders import find_collections
from owpc_ltr_papers.jobs import Job, JobRunner, Result, Tools, plan_of
from owpc_ltr_papers.protocols import Method, parts_of
from owpc_ltr_papers.reproduce import PROTOCOLS, Row, chosen_of, fact_rows

import owpc_ltr as ltr
from owpc_ltr.data.letor import read_letor, write_letor
from owpc_ltr.errors import BadInput, OwpcLtrWarning, Refused, Stopped, UsageError
from owpc_ltr.files.output import Journal
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from owpc_ltr.training.cross_validation import choose, cross_validate
from owpc_ltr.training.plan import model_plan
from tests.commands import Run as RunCommand
from tests.datasets import PARTS, part, write_parts

REGISTRY = load()


@pytest.fixture
def letor(tmp_path: Path) -> Path:
    return write_parts(tmp_path / "letor" / "MQ2008").parent


def written(folder: Path) -> bytes:
    return (folder / "results.json").read_bytes()


def stopping_at(job: str) -> Callable[[str, float | None], None]:
    def progress(message: str, _done: float | None) -> None:
        if job in message:
            raise Stopped(signal.SIGINT)

    return progress


@pytest.mark.parametrize(
    "protocol",
    [
        name if name == "lambdarank" else pytest.param(name, marks=pytest.mark.thorough)
        for name in PROTOCOLS
    ],
)
def test_a_protocol_runs_on_a_small_data_set_from_end_to_end(
    letor: Path, tmp_path: Path, protocol: str
) -> None:
    reproduction = ltr.reproduce(protocol, letor=letor, out=tmp_path / "out", quick=True)
    methods = [method.name for method in PROTOCOLS[protocol]().methods(True)]
    measured = [row for row in reproduction.rows if row.queries is not None]
    assert {row.method for row in measured} == set(methods)
    for row in measured:
        assert row.ours is not None
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.ours <= row.high
        assert (row.queries, row.folds) == (20, 5)
    assert (
        any("not in the folder" in note for note in reproduction.notes) or protocol == "lambdarank"
    )
    assert json.loads(written(tmp_path / "out")) == json.loads(json.dumps(reproduction.as_dict()))


def test_what_scores_all_documents_alike_is_told(tmp_path: Path) -> None:
    """Features that say nothing: weights of 0 are the best that there are."""
    for number in PARTS:
        data = part(number, queries=10)
        data.features[:, 1:] = 0
        # In each query as many relevant documents have the value as irrelevant ones.
        data.labels[:] = np.tile([1, 1, 0, 0, 1, 1, 0, 0], data.n_queries)
        data.features[:, 0] = np.tile([0, 1] * 4, data.n_queries)
        write_letor(data, tmp_path / f"S{number}.txt")
    reproduction = ltr.reproduce("inex2009", letor=tmp_path, quick=True)
    notes = {row.method: row.note for row in reproduction.rows if row.queries}
    assert "scores all documents alike" in notes["OWPC constant"]


@pytest.mark.parametrize(
    "protocol", ["owpc2009", pytest.param("exchangeable2014", marks=pytest.mark.thorough)]
)
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(
    letor: Path, tmp_path: Path, protocol: str
) -> None:
    ltr.reproduce(protocol, letor=letor, out=tmp_path / "whole", quick=True)
    jobs = parts_of(PROTOCOLS[protocol]().methods(True))
    for stop in ("Fold1: " + jobs[-1].name, "Fold4: " + jobs[1].name):
        with pytest.raises(Stopped):
            ltr.reproduce(
                protocol,
                letor=letor,
                out=tmp_path / "cut",
                quick=True,
                progress=stopping_at(stop),
            )
        assert not (tmp_path / "cut" / "results.json").exists()
    again = ltr.reproduce(protocol, letor=letor, out=tmp_path / "cut", quick=True)
    assert again.reused == 3 * len(jobs) + 1
    assert again.stale == 0
    assert written(tmp_path / "cut") == written(tmp_path / "whole")


@pytest.mark.thorough
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(letor: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["reproduce", "inex2009", "--letor", str(letor), "--quick", "--out", str(out)]
    command = [sys.executable, "-m", "owpc_ltr", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        journal = out / "journal.jsonl"
        while process.poll() is None and not (
            journal.exists() and "/fold2/" in journal.read_text()
        ):
            time.sleep(0.05)
        process.kill()
    again = ltr.reproduce("inex2009", letor=letor, out=out, quick=True)
    assert again.reused >= 6
    ltr.reproduce("inex2009", letor=letor, out=tmp_path / "whole", quick=True)
    assert written(out) == written(tmp_path / "whole")


@pytest.mark.thorough
def test_results_of_other_data_are_done_again_and_counted(letor: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = ltr.reproduce("inex2009", letor=letor, out=out, quick=True)
    data = read_letor(letor / "MQ2008" / "S1.txt")
    data.features[0, 0] += 1
    write_letor(data, letor / "MQ2008" / "S1.txt")
    with pytest.warns(OwpcLtrWarning, match="25 results in .* of other data, .*: done again"):
        second = ltr.reproduce("inex2009", letor=letor, out=out, quick=True)
    # Each part is in every fold, on one side or another.
    assert second.stale == 5 * 5
    assert second.reused == 0
    fresh = ltr.reproduce("inex2009", letor=letor, out=tmp_path / "fresh", quick=True)
    assert second.rows == fresh.rows
    assert first.rows != second.rows


@pytest.mark.thorough
def test_results_of_another_version_are_done_again(
    letor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ltr.reproduce("inex2009", letor=letor, out=tmp_path / "out", quick=True)
    monkeypatch.setattr("owpc_ltr_papers.jobs.VERSION", "another")
    with pytest.warns(OwpcLtrWarning, match="another version"):
        again = ltr.reproduce("inex2009", letor=letor, out=tmp_path / "out", quick=True)
    assert again.stale == 25


@pytest.mark.thorough
def test_another_seed_and_another_extent_are_kept_beside(letor: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ltr.reproduce("inex2009", letor=letor, out=out, quick=True)
    other = ltr.reproduce("inex2009", letor=letor, out=out, quick=True, seed=1)
    assert (other.reused, other.stale) == (0, 0)
    assert ltr.reproduce("inex2009", letor=letor, out=out, quick=True).reused == 25


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[: len(line) // 2],
        lambda line: line.replace('"validation": 0', '"validation": 1'),
        lambda line: line.replace("owpc", "else", 1),
        lambda _: "",
    ],
)
def test_a_damaged_result_is_done_again(
    letor: Path, tmp_path: Path, damage: Callable[[str], str]
) -> None:
    out = tmp_path / "out"
    whole = ltr.reproduce("inex2009", letor=letor, out=out, quick=True)
    path = out / "journal.jsonl"
    before = path.read_text().splitlines()
    (which,) = [at for at, line in enumerate(before) if "/fold3/owpc-constant" in line]
    after = [damage(line) if at == which else line for at, line in enumerate(before)]
    assert after != before
    path.write_text("\n".join(after) + "\n")
    again = ltr.reproduce("inex2009", letor=letor, out=out, quick=True)
    assert (again.stale, again.reused) == (0, 24)
    assert again.rows == whole.rows
    assert path.read_text().splitlines() == [*after, before[which]]


def test_figures_are_those_of_a_selection_over_the_same_folds(letor: Path) -> None:
    """The protocol and `owpc-ltr select` are two ways to the same figure."""
    reproduction = ltr.reproduce("owpc2009", letor=letor, quick=True)
    collection = find_collections(letor)[0][0]
    folds = [read() for read in collection.readers().values()]
    plan = model_plan(grid={"optimizer.C": "1e-1,10"}, normalise="none")
    rows = cross_validate(folds, [plan], [plan.metric, parse_metric("ndcg-letor@3")], Run())
    (choice,) = choose(rows, plan.metric, {"": lambda _: True})
    for metric in ("map", "ndcg-letor@3"):
        (row,) = [
            each
            for each in reproduction.rows
            if (each.metric, each.method) == (metric, "OWPC constant")
        ]
        assert row.ours == pytest.approx(choice.test[metric], abs=1e-12)


def test_letor_4_s_script_counts_short_queries_as_0(tmp_path: Path) -> None:
    folder = tmp_path / "MQ2008"
    folder.mkdir()
    for number in PARTS:
        write_letor(part(number, features=46, documents=2), folder / f"S{number}.txt")
    reproduction = ltr.reproduce("owpc2009", letor=tmp_path, quick=True)
    values = {row.metric: row.ours for row in reproduction.rows if row.method == "OWPC constant"}
    assert values["ndcg-letor@3,short=zero"] == 0
    assert values["ndcg-letor@1,short=zero"] is not None
    assert values["ndcg-letor@1,short=zero"] > 0


def test_g_all_takes_what_validation_chooses_and_not_what_tests_best() -> None:
    def result(validation: float, test: float) -> Result:
        return Result(validation, {"map": np.array([test])})

    jobs = tuple(Job(name, "owpc", "larank") for name in ("a", "b", "c"))
    results = {
        "a": {"Fold1": result(0.5, 0.9)},
        "b": {"Fold1": result(0.6, 0.1)},
        "c": {"Fold1": result(0.6, 0.8)},
    }
    assert chosen_of(Method("all", jobs), results)["Fold1"] is results["b"]["Fold1"]


def test_what_inex_had_stands_by_itself(letor: Path) -> None:
    reproduction = ltr.reproduce("inex2009", letor=letor, quick=True)
    rows = [row for row in reproduction.rows if row.data_set == "INEX'09"]
    assert [row.published for row in rows] == [0.3498, 0.3506, 0.3492, 0.3525, 0.3528]
    assert all(row.ours is None for row in rows)
    assert any(note == "not in the folder: INEX'09" for note in reproduction.notes)


def test_inex_chooses_c_on_the_training_queries() -> None:
    for method in PROTOCOLS["inex2009"]().methods(False):
        assert all((job.select, job.choose_on) == ("map", "training") for job in method.jobs)


def test_the_worked_example_is_the_paper_s() -> None:
    assert {row.difference for row in fact_rows(PROTOCOLS["lambdarank"]())} == {0.0}
    facts = {fact.metric: fact.value for fact in PROTOCOLS["lambdarank"]().facts()}
    assert facts == {
        "pairs that become right": 996,
        "winner-takes-all cost before": 0,
        "winner-takes-all cost after": 1,
    }


@pytest.mark.thorough
def test_a_part_of_a_data_set_is_never_compared_with_the_paper(tmp_path: Path) -> None:
    folder = tmp_path / "letor" / "NP2004"
    folder.mkdir(parents=True)
    write_letor(part(4, queries=15, features=64), folder / "S4.txt")
    reproduction = ltr.reproduce("inex2009", letor=tmp_path / "letor", quick=True)
    ours = {row.data_set for row in reproduction.rows if row.ours is not None}
    assert ours == {"LETOR 3.0 NP2004, within S4"}
    assert all(row.difference is None for row in reproduction.rows)
    assert any("S1, S2, S3 and S5 are not there" in note for note in reproduction.notes)
    beside = ltr.reproduce("owpc2009", letor=tmp_path / "letor", quick=True)
    published = [row for row in beside.rows if row.published is not None]
    assert published
    assert all(row.difference is None for row in published)


@pytest.mark.thorough
def test_whole_data_sets_are_compared_and_a_quick_run_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "letor" / "NP2004"
    folder.mkdir(parents=True)
    for number in PARTS:
        write_letor(part(number, features=64), folder / f"S{number}.txt")

    def differences(quick: bool) -> list[Row]:
        reproduction = ltr.reproduce("owpc2009", letor=folder.parent, quick=quick)
        return [row for row in reproduction.rows if row.difference is not None]

    assert differences(quick=True) == []
    compared = differences(quick=False)
    assert {row.method for row in compared} >= {"OWPC top 5 %", "OWPC inverse", "RankSVM"}
    for row in compared:
        assert row.ours is not None
        assert row.published is not None
        assert row.difference == pytest.approx(row.ours - row.published)


def test_a_data_set_that_cannot_be_cut_is_named_and_the_others_are_done(letor: Path) -> None:
    small = letor / "NP2003"
    small.mkdir()
    write_letor(part(1, queries=2), small / "S1.txt")
    reproduction = ltr.reproduce("inex2009", letor=letor, quick=True)
    assert {row.data_set for row in reproduction.rows if row.ours is not None} == {"MQ2008"}
    assert any("too few to cut" in note for note in reproduction.notes)
    with pytest.raises(Refused, match=r"NP2003 could not be done: .* too few to cut"):
        ltr.reproduce("inex2009", letor=small, quick=True)


def test_a_data_set_that_says_nothing_is_named_and_the_others_are_done(letor: Path) -> None:
    alike = letor / "NP2003"
    alike.mkdir()
    for number in PARTS:
        data = part(number)
        data.labels[:] = 0
        write_letor(data, alike / f"S{number}.txt")
    reproduction = ltr.reproduce("inex2009", letor=letor, quick=True)
    assert {row.data_set for row in reproduction.rows if row.ours is not None} == {"MQ2008"}
    assert any("NP2003 could not be done: no query has two" in note for note in reproduction.notes)


def test_results_of_another_protocol_are_not_written_over(letor: Path, tmp_path: Path) -> None:
    ltr.reproduce("inex2009", letor=letor, out=tmp_path / "out", quick=True)
    before = written(tmp_path / "out")
    with pytest.raises(UsageError, match="has the results of inex2009, which would be lost"):
        ltr.reproduce("owpc2009", letor=letor, out=tmp_path / "out", quick=True)
    assert written(tmp_path / "out") == before


def test_what_there_is_not_is_refused(letor: Path) -> None:
    with pytest.raises(UsageError, match="no protocol is called 'letor'"):
        ltr.reproduce("letor", letor=letor)
    with pytest.raises(UsageError, match="no data set 'TD2003' in the folder: it has MQ2008"):
        ltr.reproduce("owpc2009", letor=letor, data_sets=["TD2003"])
    with pytest.raises(BadInput, match="is not a folder"):
        ltr.reproduce("owpc2009", letor=letor / "none")


def test_two_jobs_of_one_name_would_be_seen() -> None:
    first, other = Job("a", "owpc", "larank"), Job("a", "pairwise", "larank")
    with pytest.raises(ValueError, match="two jobs are called 'a'"):
        parts_of([Method("one", (first,)), Method("other", (other,))])


@pytest.mark.parametrize("quick", [False, True])
def test_the_jobs_of_every_protocol_can_be_planned(quick: bool) -> None:
    for make in PROTOCOLS.values():
        protocol = make()
        jobs = parts_of(protocol.methods(quick))
        assert len({job.name for job in jobs}) == len(jobs)
        for job in jobs:
            plan_of(job, REGISTRY)
            assert job.base is None or jobs.index(job.base) < jobs.index(job)


def test_real_ohsumed_is_within_the_interval_of_letor_s_own_baseline(shared_data: Path) -> None:
    collections = find_collections(shared_data)
    (ohsumed,) = [
        collection for collection in collections[0] if collection.name == "LETOR 3.0 OHSUMED"
    ]
    assert ohsumed.whole
    job = Job("RankSVM", "pairwise", "larank", {"optimizer.C": "1"})
    tools = Tools(REGISTRY, Run(), (parse_metric("map"),))
    results = JobRunner(tools, Journal(None)).results(ohsumed, [job])
    values = [result.values["map"].mean() for result in results["RankSVM"].values()]
    assert len(values) == 5
    assert np.mean(values) == pytest.approx(0.4334, abs=0.02)


def test_the_command_prints_a_table_and_keeps_its_results(
    run: RunCommand, letor: Path, tmp_path: Path
) -> None:
    words = ("reproduce", "inex2009", "--letor", str(letor), "--quick", "--out", "kept")
    table = run.output(*words)
    assert "MQ2008, map" in table
    assert "OWPC constant" in table
    assert "results.json and finished work are in kept" in table
    assert json.loads(run.output(*words, "--json")) == json.loads(written(tmp_path / "kept"))


def test_the_command_says_how_to_go_on(
    run: RunCommand, letor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def stop(*_: object) -> None:
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr("owpc_ltr_papers.jobs.JobRunner.results", stop)
    words = ("reproduce", "inex2009", "--letor", str(letor), "--quick")
    assert "run the same command again to resume" in run(*words, "--out", "kept")[2]
    assert "nothing of it is kept: with --out FOLDER it would be" in run(*words)[2]
    said = run.refusal(3, "reproduce", "inex2009", "--letor", str(tmp_path / "none"))
    assert "is not a folder" in said
