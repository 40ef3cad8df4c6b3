"""`judge clicks`: grades by gain, weights by certainty, files, and what a ranker learns of them."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_clicks.grading import (
    cuts,
    grades,
    parse_grades,
    worth,
    worth_of_any,
)
from owpc_ltr_clicks.judge_clicks import judge_counts
from owpc_ltr_clicks.model_selection import choose_model

import owpc_ltr as ltr
from owpc_ltr import (
    OwpcLtrWarning,
    RankingDataset,
    judge_clicks,
    make_dataset,
    read_judgments,
    save_dataset,
)
from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.host.registry import installed
from owpc_ltr.models.linear import LinearModel
from tests.benchmark_scripts import benchmark_script
from tests.clicks.counts import counted, event, simulated
from tests.commands import Run
from tests.datasets import train_on_all
from tests.simulated_users import simulate

WORLD = simulate.example_world(40, 20)
EVENTS = simulate.clicks(WORLD, sessions=2000)


@pytest.fixture
def run(run: Run) -> Run:
    pq.write_table(EVENTS, "events.parquet")
    return run


@given(st.integers(1, 6), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_grade_is_that_whose_gain_is_nearest(top: int, worths: list[float]) -> None:
    gains = (2.0 ** np.arange(top + 1) - 1) / (2.0**top - 1)
    away = np.abs(np.array(worths)[:, None] - gains)
    grades_of_worths = grades(np.array(worths), top).astype(int)
    assert np.allclose(away[np.arange(len(worths)), grades_of_worths], away.min(axis=1))
    assert (np.diff(cuts(top)) > 0).all()


def test_a_document_that_nobody_saw_has_no_higher_grade_than_one_that_was_passed_over() -> None:
    rows = [
        event(f"s{n}", name, place, action)
        for n in range(60)
        for place, name in enumerate(["liked", "passed", *(["hardly"] if n == 0 else [])], 1)
        for action in ("view", *(("click",) if name == "liked" and n % 3 else ()))
    ]
    judgments = judge_counts(counted(rows), model="dctr")
    graded = dict(
        zip(
            judgments.table["doc_id"].to_pylist(), judgments.table["grade"].to_pylist(), strict=True
        )
    )
    assert graded["hardly"] == graded["passed"] == 0 < graded["liked"]
    counts, fit = judgments.behaviour.counts, judgments.chosen.fit
    assert worth_of_any(counts, fit, 1.0) == fit.prior[0] / sum(fit.prior)
    worths = np.array([0.02, 0.06, 0.3])
    assert grades(worths, 4).tolist() == [0, 1, 2]
    assert grades(worths, 4, of_any=0.06).tolist() == [0, 0, 2]


@pytest.mark.parametrize("text", ["1..4", "0..x", "0..0", "4", ""])
def test_grades_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the grades"):
        parse_grades(text)


def test_where_only_clicks_count_worth_is_attractiveness_and_else_it_grows_with_the_value() -> None:
    _, behaviour = simulated(2000, queries=20)
    fit = installed().find("click-model", "dctr")().fit(behaviour.counts)
    assert worth(behaviour.counts, fit, 1.0) == pytest.approx(fit.attractiveness)
    rows = [event(f"s{n}", d, 1, action) for n in range(40) for d in "ab"
            for action in ("view", "click", *(("buy",) if d == "b" else ()))]  # fmt: skip
    sold = counted(rows, actions={"click": 1.0, "buy": 4.0})
    fit = installed().find("click-model", "dctr")().fit(sold.counts)
    clicked, bought = worth(sold.counts, fit, 4.0)
    assert clicked < fit.attractiveness[0] / 2
    assert bought > 0.9 * fit.attractiveness[1]


def test_a_document_that_was_seen_often_weighs_more() -> None:
    judgments = judge_clicks(EVENTS, model="pbm", min_people=1)
    weight = np.asarray(judgments.table["weight"])
    assert ((weight > 0) & (weight < 1)).all()
    shown = judgments.behaviour.counts.by_pair(judgments.behaviour.counts.shown)
    often, seldom = np.quantile(shown, [0.9, 0.1])
    assert weight[shown >= often].mean() > weight[shown <= seldom].mean() + 0.1


def test_judgments_order_documents_as_the_truth_does() -> None:
    judgments = judge_clicks(EVENTS, grades="none")
    row = {name: number for number, name in enumerate(WORLD.documents)}
    truth = WORLD.attraction[[row[name] for name in judgments.table["doc_id"].to_pylist()]]
    given = np.asarray(judgments.table["grade"])
    sure = np.asarray(judgments.table["weight"]) > 0.8
    assert np.corrcoef(given[sure], truth[sure])[0, 1] > 0.8


def test_what_is_doubtful_is_warned_of() -> None:
    few = [event(f"s{n}", d, place, action) for n in range(9) for place, d in enumerate("abc")
           for action in ("view", *(("click",) if d == "a" else ()))]  # fmt: skip
    with pytest.warns(OwpcLtrWarning) as caught:
        judge_clicks(pa.Table.from_pylist(few), model="pbm")
    messages = " ".join(str(warning.message) for warning in caught)
    assert "9 clicks are few" in messages
    assert "positions are taken to begin with 0" in messages
    assert "clicks do not identify examination; the grades of pbm are no better than" in messages


def test_no_session_and_no_client_is_in_the_judgments() -> None:
    judgments = judge_clicks(EVENTS, query_weights="people")
    assert judgments.table.schema.names == [
        "query", "doc_id", "grade", "judged_by", "weight", "query_weight",
    ]  # fmt: skip
    people = np.asarray(judgments.table["query_weight"])
    assert (people >= 5).all()


def test_the_command_prints_what_became_of_every_event_and_writes_judgments(run: Run) -> None:
    code, out, err = run("judge", "clicks", "events.parquet", "--out", "j.parquet")
    assert (code, err) == (0, "")
    assert f"{len(EVENTS):,} events read, " in out
    assert "MODEL  LOG LIKELIHOOD OF A SESSION  PERPLEXITY" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "   1 " in out
    assert "█" * 30 in out
    table = pq.read_table("j.parquet")
    assert table.schema.names == ["query", "doc_id", "grade", "judged_by", "weight"]
    assert set(table["grade"].to_pylist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_the_command_tells_machines_the_same(run: Run) -> None:
    words = ("judge", "clicks", "events.parquet", "--out", "j.tsv", "--json")
    code, out, _ = run(
        *words, "--model", "pbm", "--set", "click-model.rounds=40", "--grades", "none"
    )
    result = json.loads(out)
    assert code == 0
    events = result["events"]
    assert events["read"] == events["used"] + sum(events["unusable"].values()) == len(EVENTS)
    assert [model["model"] for model in result["held_out"]] == ["pbm"]
    assert [rank["rank"] for rank in result["ranks"]] == list(range(1, 11))
    assert len(Path("j.tsv").read_text().splitlines()) == result["documents"] + 1


@pytest.mark.parametrize("model", ["auto", "pbm", "dctr"])
def test_a_ranking_that_never_changes_is_warned_of_everywhere(run: Run, model: str) -> None:
    static = simulate.clicks(WORLD, None, (0.6,), 2000)
    pq.write_table(static, "static.parquet")
    words = ("judge", "clicks", "static.parquet", "--out", "j.parquet", "--model", model)
    code, out, err = run(*words)
    assert code == 0
    said = "where the ranking never changes, clicks do not identify examination"
    assert said in " ".join(err.split())
    assert ("examination not identified" in out) == (model != "dctr")
    result = json.loads(run(*words, "--json")[1])
    assert any(said in warning for warning in result["warnings"])
    assert result["ranks_vary"] is False
    by_model = {each["model"]: each["identified"] for each in result["held_out"]}
    if model == "auto":
        assert by_model == {"coec": False, "dctr": True, "pbm": False, "sdbn": True}
        assert by_model[result["model"]]
        assert f"auto chose {result['model']}, as coec and pbm would compare ranks" in err


def test_it_ends_with_what_people_judge_next_and_the_commands_to_type(run: Run) -> None:
    words = ("judge", "clicks", "events.parquet", "--out", "j.parquet")
    out = " ".join(run(*words)[1].replace("\\\n", "").split())
    assert "Let people judge the first 10 results of both rankers for 40 queries" in out
    assert "add --index NAME to all but train, --featureset NAME to log-features" in out
    assert "at most 800 documents): people who know what searchers want" in out
    result = json.loads(run(*words, "--json")[1])
    assert result["to_judge"]["documents_at_most"] == 800
    assert all(f" {command} " in f" {out} " for command in result["next"])
    there = ("--document-field", "_id", "--index", "products", "--url", "http://127.0.0.1:9")
    _, train_, *asking = (
        json.loads(run(*words, *there, "--json")[1])["next"]
    )  # fmt: skip
    assert all("--index products --url http://127.0.0.1:9" in command for command in asking)
    assert train_ == "owpc-ltr train j-log.parquet --metric ndcg@10 --out j-model.json"


def test_the_commands_that_come_next_are_typed_as_they_stand(run: Run) -> None:
    words = ("judge", "clicks", "events.parquet", "--out", "my judgments.parquet", "--json")
    logging, training, pooling, comparing, uploading = json.loads(run(*words)[1])["next"]
    queries = read_judgments("my judgments.parquet").queries[:12]
    data = make_dataset(
        np.random.default_rng(0).normal(size=(sum(len(q.doc_ids) for q in queries), 2)),
        np.concatenate([query.grades for query in queries]),
        [query.query_id for query in queries for _ in query.doc_ids],
        doc_ids=[name for query in queries for name in query.doc_ids],
    )
    params = [json.dumps(query.params) for query in queries]
    save_dataset(replace(data, query_params=pa.array(params)), "my judgments-log.parquet")
    code, _, err = run(*shlex.split(training)[1:])
    assert (code, Path("my judgments-model.json").exists()) == (0, True), err
    for command in (logging, pooling, comparing, uploading):
        # Without a cluster only the words are read; an option that there is not has code 2.
        typed = shlex.split(command)[1:]
        assert run(*typed, "--help")[0] == 0, command
        assert run(*typed, "--none-such", "--help")[0] == 2


def test_the_same_log_gives_the_same_bytes(run: Run) -> None:
    for name in ("one", "other"):
        assert run("judge", "clicks", "events.parquet", "--out", f"{name}.parquet")[0] == 0
    assert Path("one.parquet").read_bytes() == Path("other.parquet").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--model", "none-such"), 2, "none-such"),
        (("--columns", "sku"), 2, "cannot read the column 'sku': write ROLE=COLUMN"),
        (("--columns", "query=q"), 3, "it has no column 'q'"),
        (("--actions", "click=0"), 2, "cannot read the action 'click=0'"),
        (("--set", "loss.p=1"), 2, "'loss.p' is not a setting of a click model"),
        (("--set", "click-model.rounds=1"), 2, "settings are of one click model: name it"),
        (("--weights", "much"), 2, "'much' is not one of 'certainty', 'impressions', 'none'"),
        (("--query-weights", "much"), 2, "'much' is not one of 'people', 'none'"),
        (("--min-people", "100000"), 3, "no event of "),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    run: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    exit_code, _, err = run("judge", "clicks", "events.parquet", "--out", "j.parquet", *words)
    assert exit_code == code
    assert message in err
    assert err.count("\n") == 1
    assert not Path("j.parquet").exists()


def test_a_log_without_a_click_is_refused(run: Run) -> None:
    views = EVENTS.filter(pc.equal(EVENTS["action"].cast(pa.string()), "impression"))
    pq.write_table(views, "views.parquet")
    for more in ((), ("--model", "pbm")):
        code, out, err = run("judge", "clicks", "views.parquet", "--out", "j.parquet", *more)
        assert (code, out) == (3, "")
        assert f"no click is left to learn from: of {len(views):,} impressions none" in err
        assert err.count("\n") == 1
        assert not Path("j.parquet").exists()
    code, _, err = run("judge", "clicks", "events.parquet", "--out", "j.parquet", "--actions",
                       "buy=1")  # fmt: skip
    assert code == 3
    assert f"the log has {len(EVENTS) - len(views):,} 'click'" in err


def test_a_log_whose_every_click_is_a_bot_s_is_refused(run: Run) -> None:
    people = [event(f"p{n}", d, place) for n in range(20) for place, d in enumerate("abc", 1)]
    bots = [
        event(f"bot{n}", f"d{place}", place, action)
        for n in range(20)
        for place in range(1, 60)
        for action in ("view", "click")
    ]
    pq.write_table(pa.Table.from_pylist([*people, *bots]), "bots.parquet")
    err = run.refusal(3, "judge", "clicks", "bots.parquet", "--out", "j.parquet")
    assert "2,360 events left out: a session of more than 50 clicks" in err
    assert not Path("j.parquet").exists()


def test_a_data_frame_of_any_library_is_a_log() -> None:
    wanted = judge_clicks(EVENTS, model="sdbn").table
    plain = EVENTS.set_column(3, "query", EVENTS["query"].cast(pa.string()))
    for frame in (EVENTS.to_pandas(), pl.from_arrow(EVENTS), plain.to_reader(), plain.to_pandas()):
        assert judge_clicks(frame, model="sdbn").table.equals(wanted)
    with pytest.raises(BadInput, match="a list is not a data frame"):
        judge_clicks([{"query": "x"}])


@pytest.mark.parametrize("model", ["dctr", "sdbn", "pbm", "coec"])
def test_clicks_that_a_person_repeats_count_once(model: str) -> None:
    rows = [
        {**event(f"p{n}", d, place, action), "session": f"p{n} {visit}"}
        for n in range(10)
        for visit in range(3)
        for place, d in enumerate("abc", 1)
        for action in ("view", *(("click", "click") if d == "a" else ()))
    ]
    assert judge_counts(counted(rows), model=model).behaviour.counts.clicked.sum() == 10


def test_a_model_of_ones_own_judges_from_a_file() -> None:
    example = Path(__file__).parents[2] / "docs/examples/owpc-ltr-known-looks/known_looks.py"
    judgments = judge_clicks(EVENTS, model="known-looks", plugins=[example])
    assert judgments.chosen.name == "known-looks"
    with pytest.raises(PluginError):
        judge_clicks(EVENTS, model="known-looks")


def test_auto_tries_every_model_that_is_installed() -> None:
    _, behaviour = simulated(2000, queries=20)
    models = {plugin.name: plugin.cls() for plugin in installed().all("click-model")}
    held_out = choose_model(behaviour, models).held_out
    assert {model.model for model in held_out} == set(models)


@pytest.mark.parametrize("name", ["j.parquet", "j.tsv"])
def test_judgments_are_read_back_with_their_weights(tmp_path: Path, name: str) -> None:
    judgments = judge_clicks(EVENTS, query_weights="people")
    judgments.write(tmp_path / name)
    read = read_judgments(tmp_path / name)
    assert read.notes == ()
    rows = judgments.table.to_pylist()
    rows_read: list[Any] = [
        (query.query_id, document, float(grade), float(weight), query.importance)
        for query in read.queries
        for document, grade, weight in zip(
            query.doc_ids, query.grades, query.weights if query.weights is not None else (),
            strict=True,
        )
    ]  # fmt: skip
    assert rows_read == [
        (row["query"], row["doc_id"], row["grade"], pytest.approx(row["weight"]),
         row["query_weight"])
        for row in rows
    ]  # fmt: skip


def test_a_ranker_learns_of_clicks_what_attracts_and_not_what_was_shown() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400 * 20, 2)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=len(features)) > 2.2).astype(np.float32)
    ids = np.repeat([f"q{number}" for number in range(400)], 20)
    names = [f"d{number}" for number in range(len(ids))]
    data = ltr.make_dataset(features, labels, ids, doc_ids=names)
    served = [features[:, 1] + 0.5 * rng.normal(size=len(features)) for _ in range(4)]
    events = simulate.clicks(data, None, served, 8000)
    by_position, raw = (judge_clicks(events, model=model) for model in ("pbm", "dctr"))
    assert 0 < what_served_weighs(data, by_position.table) < 1.5
    assert what_served_weighs(data, raw.table) > 2
    # By its probability alone, what was shown at the bottom is better than what was passed over.
    by_cuts = pa.array(grades(by_position.chosen.fit.attractiveness, 4))
    assert what_served_weighs(data, by_position.table.set_column(2, "grade", by_cuts)) < -0.5


def what_served_weighs(data: RankingDataset, judged: pa.Table) -> float:
    """The weight of what the lists were ordered by, beside that of what attracts."""
    settings = {"C": 1.0, "generator": "constant", "grades": "thresholds"}
    graded = benchmark_script("clicks_to_ranker").relabelled(data, judged)
    model = train_on_all(graded, settings=settings)
    assert isinstance(model, LinearModel)
    return float(model.weights[1] / model.weights[0])
