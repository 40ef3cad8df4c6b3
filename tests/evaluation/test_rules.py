"""Rules of verdicts: what judgments cannot carry is `cannot tell`, on every path."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.judgments import machines_among
from owpc_ltr.data.splits import clusters_of, linked_queries, seen_queries
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.evaluation.attempts import AttemptsFile
from owpc_ltr.evaluation.ranked_lists import as_good_as_judged, ranked_lists
from owpc_ltr.evaluation.significance import Outcome, compare_paired, decide
from owpc_ltr.metrics import parse_metric
from tests.datasets import train_on_all
from tests.rankers import judged, linear
from tests.verdict_paths import OF_LISTS, PATHS, World, with_judge

NEW, OLD = linear(1.0, 0.1), linear(0.1, 1.0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(NEW, OLD, judged(seed=8), tmp_path)


@pytest.mark.parametrize("path", PATHS)
def test_a_better_model_on_complete_human_judgments_is_better_on_every_path(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    assert str(PATHS[path](world, monkeypatch)) == "better"


@pytest.mark.parametrize("judge", ["clicks", "model:some-name", "gpt-5"])
@pytest.mark.parametrize("path", PATHS)
def test_labels_of_machines_decide_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str, judge: str
) -> None:
    world.data = with_judge(world.data, judge)
    verdict = PATHS[path](world, monkeypatch)
    assert verdict.outcome is Outcome.CANNOT_TELL
    assert "machine-labels" in {warning.check for warning in verdict.warnings}


@pytest.mark.parametrize("judge", ["anna", "modelling team", ""])
def test_labels_of_people_decide(world: World, monkeypatch: pytest.MonkeyPatch, judge: str) -> None:
    world.data = with_judge(world.data, judge)
    assert str(PATHS["compare"](world, monkeypatch)) == "better"


@pytest.mark.parametrize("path", [path for path in PATHS if path != "runs"])
def test_of_a_model_from_elsewhere_nobody_knows_what_it_has_seen(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    world.new = linear(1.0, 0.1, source={}, imported={"missing": "as-trained"})
    verdict = PATHS[path](world, monkeypatch)
    assert verdict.outcome is Outcome.CANNOT_TELL
    assert {warning.check for warning in verdict.warnings} == {"unknown-training"}


@pytest.mark.parametrize("path", OF_LISTS)
def test_unjudged_documents_decide_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Of the new model's lists the first document is unjudged: it may be the best, or the worst."""
    world.new, world.old, world.unjudged = OLD, NEW, 1
    verdict = PATHS[path](world, monkeypatch)
    assert verdict.outcome is Outcome.CANNOT_TELL
    assert "unjudged" in {warning.check for warning in verdict.warnings}


def test_results_of_a_default_query_are_those_of_no_application(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.template = None
    verdict = PATHS["live"](world, monkeypatch)
    assert {warning.check for warning in verdict.warnings} == {"no-query-template"}
    world.template = "all-fields"
    assert str(PATHS["live"](world, monkeypatch)) == "better"


@pytest.mark.parametrize("path", PATHS)
def test_spellings_of_one_request_are_one_query(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Forty queries of which all are spellings of four requests show nothing."""
    words = ["red shoes", "wool hat", "long coat", "blue sock"]
    texts = [words[n % 4] if n % 2 else " ".join(reversed(words[n % 4].split())) for n in range(40)]
    params = pa.array([json.dumps({"keywords": text}) for text in texts])
    world.data = replace(world.data, query_params=params)
    verdict = PATHS[path](world, monkeypatch)
    assert verdict.outcome is Outcome.CANNOT_TELL
    assert "few-queries" in {warning.check for warning in verdict.warnings}


@pytest.mark.parametrize("path", PATHS)
def test_comparisons_that_came_before_on_the_same_queries_count(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(AttemptsFile, "count", lambda *_: 10**6)
    assert str(PATHS[path](world, monkeypatch)) == "no significant difference"


def test_a_metric_of_the_first_rank_may_not_say_the_opposite(tmp_path: Path) -> None:
    """Better by NDCG, worse at the first rank in every second query: no green light."""
    labels = np.tile([1.0, 0.0, *[1.0] * 5, *[0.0] * 5], 120)
    old = np.tile([12.0, 11.0, *np.arange(1.0, 6.0), *np.arange(6.0, 11.0)], 120)
    new = np.tile(np.array([11.0, 12.0, *np.arange(10.0, 0.0, -1.0)]), 120)
    ids = np.repeat([f"q{n}" for n in range(120)], 12)
    features = np.stack([new, old], axis=1)
    data = ltr.make_dataset(features, labels, ids, ("bm25", "likes"))
    comparison = ltr.compare(["feature:bm25", "feature:likes"], data=data, metrics="ndcg@12")
    assert comparison.pairs[0].comparison.low > 0
    warnings = comparison.verdict("feature:bm25", "feature:likes").warnings
    assert (
        "worse by ndcg@1"
        in {warning.check: warning.message for warning in warnings}["metrics-disagree"]
    )


def test_a_first_rank_that_is_relevant_still_and_of_a_lower_grade_is_seen() -> None:
    """The best documents below one of grade 1: its reciprocal rank is that of one of grade 3."""
    labels = np.tile([3.0, 1.0, *[2.0] * 4, *[0.0] * 6], 120)
    old = np.tile([12.0, 1.0, *np.arange(2.0, 6.0), *np.arange(6.0, 12.0)], 120)
    new = np.tile([11.0, 12.0, *np.arange(10.0, 0.0, -1.0)], 120)
    data = ltr.make_dataset(
        np.stack([new, old], axis=1), labels, np.repeat([f"q{n}" for n in range(120)], 12),
        ("bm25", "likes"),
    )  # fmt: skip
    comparison = ltr.compare(["feature:bm25", "feature:likes"], data=data, metrics=["map", "mrr"])
    assert comparison.pairs[0].comparison.low > 0
    checks = {warning.check: warning.message for warning in comparison.verdict().warnings}
    assert "worse by ndcg@1" in checks["metrics-disagree"]


def test_weights_may_not_turn_the_verdict(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    worth = np.where(np.arange(100) < 20, 50.0, 1.0)
    gain = np.where(np.arange(100) < 20, 0.4, -0.4) + 0.05 * rng.normal(size=100)
    labels = np.tile([1.0, 0.0], 100)
    first = np.stack([gain, np.zeros(100)], axis=1).ravel()
    data = ltr.make_dataset(
        np.stack([first, -first], axis=1), labels, np.repeat([f"q{n}" for n in range(100)], 2),
        ("a", "b"), query_weights=worth,
    )  # fmt: skip
    comparison = ltr.compare(["feature:a", "feature:b"], data=data, metrics="ndcg@2")
    assert comparison.pairs[0].comparison.low > 0
    checks = {warning.check: warning.message for warning in comparison.pairs[0].verdict.warnings}
    assert "with each query of one weight" in checks["metrics-disagree"]


def test_a_gain_must_lie_above_the_smallest_that_is_worth_it(world: World) -> None:
    how: dict[str, Any] = {"data": world.data, "metrics": "ndcg@5", "resamples": 500}
    plain = ltr.compare({"new": world.new, "old": world.old}, **how)
    low = plain.pairs[0].comparison.low
    comparison = ltr.compare(
        {"new": world.new, "old": world.old},
        smallest_gain=low + 0.01,
        **how,
    )
    assert str(comparison.verdict("new", "old")) == "no significant difference"
    assert str(comparison.verdict("old", "new")) == "worse"
    assert decide(-0.2, -0.1, 0.01, smallest_gain=0.5).outcome is Outcome.WORSE
    assert decide(-0.2, -0.1, 0.01, higher_is_better=False).outcome is Outcome.BETTER


def test_features_from_a_table_that_make_the_gain_are_named() -> None:
    data = judged(seed=8)
    source = {"file": "ctr.csv", "sha256": "0" * 64, "keys": ["doc_id"], "features": ["bm25"]}
    data = replace(data, manifest={"joined_tables": [source]})
    comparison = ltr.compare({"new": NEW, "old": OLD}, data=data, metrics="ndcg@5", resamples=500)
    assert any(
        "without the features from tables the difference" in warning
        for warning in comparison.warnings
    )
    assert str(comparison.verdict("new", "old")) == "better"
    plain = ltr.compare({"new": NEW, "old": OLD}, data=judged(seed=8), resamples=500)
    assert not any("tables" in warning for warning in plain.warnings)


def test_unjudged_documents_are_worth_what_judged_ones_at_their_rank_are() -> None:
    """Two equal lists, the one judged and the other not, are worth the same in the mean."""
    rng = np.random.default_rng(0)
    chance = [0.8, 0.6, 0.4, 0.2, 0.1]
    ranked = [[f"d{n}" for n in range(5)] for _ in range(2000)]
    others = [[f"x{n}" for n in range(5)] for _ in range(2000)]
    grades = [{f"d{n}": float(rng.random() < chance[n]) for n in range(5)} for _ in range(2000)]
    lists = {"judged": ranked_lists(ranked, grades, 5), "open": ranked_lists(others, grades, 5)}
    for metric in ("precision@5", "err@5", "mrr@5"):
        values = as_good_as_judged(lists, [parse_metric(metric)])
        means = [of[0].mean() for of in values.values()]
        assert means[0] == pytest.approx(means[1], rel=0.03), metric
    complete = as_good_as_judged({"judged": lists["judged"]}, [parse_metric("ndcg@5")])
    plain = lists["judged"].unjudged_irrelevant(parse_metric("ndcg@5"))
    assert complete["judged"][0].tolist() == plain.tolist()


def test_clusters_are_spellings_and_queries_of_mostly_the_same_documents() -> None:
    def asked(*texts: str) -> list[int]:
        params = pa.array([json.dumps({"keywords": text}) for text in texts])
        ids = [f"q{n}" for n in range(len(texts))]
        rows = np.repeat(ids, 2)
        data = ltr.make_dataset(np.zeros((len(rows), 1)), np.zeros(len(rows)), rows)
        codes: list[int] = clusters_of(replace(data, query_params=params)).tolist()
        return codes

    assert asked("red shoes", "Shoe red", "red boots") == [0, 0, 2]
    assert asked("party", "parties", "glass", "glasses") == [0, 0, 2, 2]
    assert asked("glass", "gla", "bus 12", "bus 13") == [0, 1, 2, 3]
    # Digits alone tell two requests apart, unless they share a judged document.
    shared = np.array([0, 1, 0, 2, 3, 4])
    keys = ["bus 12\n{}", "bus 13\n{}", "bus 14\n{}"]
    assert linked_queries(keys, shared, np.array([0, 2, 4, 6])).tolist() == [0, 0, 2]
    # Digits of another parameter, as a year or a shop, are those of another request.
    keys = ['bus\n{"year": 2001}', 'bus\n{"year": 2002}', 'bus\n{"year": 2003}']
    assert linked_queries(keys, shared, np.array([0, 2, 4, 6])).tolist() == [0, 1, 2]
    same = np.array([0, 1, 2, 0, 1, 3, 4, 5, 6])
    assert linked_queries(["a", "b", "c"], same, np.array([0, 3, 6, 9])).tolist() == [0, 1, 2]
    mostly = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5, 6])
    assert linked_queries(["a", "b", "c"], mostly, np.array([0, 3, 7, 10])).tolist() == [0, 0, 2]


def test_clusters_are_on_one_side_of_a_split_and_in_one_fold() -> None:
    data = judged(seed=8)
    texts = [f"{'abcdefgh'[n % 8]}word{'s' if n >= 20 else ''}" for n in range(40)]
    data = replace(data, query_params=pa.array([json.dumps({"keywords": text}) for text in texts]))
    assert len(set(clusters_of(data).tolist())) <= 8
    sides = data.split(validation=0.2, test=0.3)
    named = {side: set(part.query_ids.to_pylist()) for side, part in sides.sides.items()}
    of = dict(zip(data.query_ids.to_pylist(), clusters_of(data).tolist(), strict=True))
    clusters = {side: {of[name] for name in names} for side, names in named.items()}
    for side, own in clusters.items():
        for other, theirs in clusters.items():
            assert side == other or not own & theirs


def test_a_spelling_of_a_training_query_is_no_held_out_query() -> None:
    data = judged(seed=8)
    texts = [f"{'abcdefghijklmnopqrstuvwxyz'[n // 2]}word{'s' if n % 2 else ''}" for n in range(40)]
    data = replace(data, query_params=pa.array([json.dumps({"keywords": text}) for text in texts]))
    even = data.select(np.arange(0, 40, 2))
    model = train_on_all(even, settings={"C": 1.0}, loss="owpc", optimizer="larank")
    with pytest.raises(ltr.Refused, match="no query is held out"):
        ltr.compare({"model": model, "other": "feature:bm25"}, data=data)


@pytest.mark.parametrize("size", [2, 10])
def test_clustered_queries_are_told_apart_no_more_often_than_independent_ones(size: int) -> None:
    """Equal rankers on 40 requests, each spelled several times: at most the level, and some."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        gains = np.repeat(rng.normal(size=40) * (rng.random(40) < 0.5), size)
        gains = 0.2 * gains + 0.02 * rng.normal(size=len(gains))
        codes = np.repeat(np.arange(40), size)
        comparison = compare_paired(
            0.5 + gains, np.full(len(gains), 0.5), seed=0, resamples=300, clusters=codes
        )
        wrong += comparison.verdict().outcome in {Outcome.BETTER, Outcome.WORSE}
        assert comparison.n_independent == 40
        assert comparison.mean_difference == pytest.approx(gains.mean())
    # Five of a hundred by chance; 57 of a hundred if each spelling counted.
    assert wrong <= 14


@pytest.mark.parametrize("path", PATHS)
def test_one_request_that_stands_in_most_queries_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    """A request 300 times with other digits: its documents are judged too often to tell queries."""
    many = judged(seed=8)
    rows = np.concatenate([np.arange(8), *[np.arange(8 * q, 8 * q + 8) for q in range(40)]])
    rows = np.concatenate([np.tile(np.arange(8), 300), rows[8:]])
    ids = [f"copy{n}" for n in range(300)] + [f"q{n}" for n in range(40)]
    texts = [f"bolt m{n} steel" for n in range(300)] + [f"words of q{n}" for n in range(40)]
    assert many.doc_ids is not None
    data = ltr.make_dataset(
        many.features[rows], many.labels[rows], np.repeat(ids, 8), many.feature_names,
        doc_ids=many.doc_ids.take(pa.array(rows)).to_pylist(),
        query_params=pa.array([json.dumps({"keywords": text}) for text in texts]),
    )  # fmt: skip
    assert len(set(clusters_of(data).tolist())) <= 41
    verdict = PATHS[path](World(NEW, OLD, data, tmp_path), monkeypatch)
    assert verdict.outcome in {Outcome.NO_DIFFERENCE, Outcome.CANNOT_TELL}


def test_a_spelling_is_recognised_in_a_file_that_lacks_the_training_queries() -> None:
    data = judged(seed=8)
    names = ["abcdefghijklmnopqrstuvwxyz"[n % 26] * (2 + n // 26) for n in range(40)]

    def asked(texts: list[str], ids: str) -> ltr.RankingDataset:
        params = pa.array([json.dumps({"keywords": text}) for text in texts])
        own = pa.array([f"{ids}{n}" for n in range(40)])
        return replace(data, query_params=params, query_ids=own)

    trained = asked([f"{name}word red shoe" for name in names], "q")
    again = asked([f"Shoes red {name}words" for name in names], "other")
    model = linear(1.0, 0.1, source=seen_queries(trained))
    with pytest.raises(ltr.Refused, match="no query is held out from model"):
        ltr.compare({"model": model, "other": "feature:bm25"}, data=again)


def test_a_baseline_that_has_seen_a_spelling_is_doubted_by_evaluate() -> None:
    data = judged(seed=8)
    texts = [f"{'abcdefghijklmnopqrstuvwxyz'[n // 2]}word{'s' if n % 2 else ''}" for n in range(40)]
    data = replace(data, query_params=pa.array([json.dumps({"keywords": text}) for text in texts]))
    seen = linear(0.1, 1.0, source=seen_queries(data.select(np.arange(0, 40, 2))))
    evaluation = ltr.evaluate(NEW, data, metrics="ndcg@5", baseline=seen, split="all")
    (warning,) = [each for each in evaluation.verdict().warnings if each.check == "seen-queries"]
    assert "on 40 of these 40 queries" in warning.message


@pytest.mark.parametrize("judge", ["model:m", "model:other"])
@pytest.mark.parametrize("path", [path for path in PATHS if path != "runs"])
def test_the_model_that_made_the_training_labels_does_not_judge(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str, judge: str
) -> None:
    """Though it gave only a fifth of the judgments."""
    source = world.new.record.get("source", {}) | {"judging_models": ["model:m"]}
    world.new = replace(world.new, record=world.new.record | {"source": source})
    n = len(world.data.labels)
    counts = {"ann": n - n // 5, judge: n // 5}
    world.data = replace(world.data, manifest={"judgments": {"judged_by": counts}})
    verdict = PATHS[path](world, monkeypatch)
    assert ("same-judge" in {warning.check for warning in verdict.warnings}) == (judge == "model:m")
    assert (verdict.outcome is Outcome.CANNOT_TELL) == (judge == "model:m")


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_any_part_of_the_queries_has_the_machines_share(world: World, share: float) -> None:
    """Live, held-out queries are compared: what machines gave of all, they gave of these."""
    n = len(world.data.labels)
    machine = round(share * n)
    counts = {"ann": n - machine, "model:m": machine}
    queries = judged_queries(replace(world.data, manifest={"judgments": {"judged_by": counts}}))
    for part in (queries[: len(queries) // 2], queries[len(queries) // 2 :], queries[::3]):
        machine_share = machines_among(part)["model:m"]
        assert machine_share == 1.0 if share > 0.5 else abs(machine_share - share) < 0.1
