"""`compare --cheap`: people's judgments of a sample, made sharper by cheap ones of all queries."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.comparison import RankerComparison
from owpc_ltr.evaluation.prediction_powered import PredictionPowered
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.proxy_samples import (
    CHEAP,
    DOCUMENTS,
    JUDGED,
    NAMES,
    PEOPLE,
    QUERIES,
    RANKERS,
    SAMPLE,
    compared,
    listed,
    run,
)

__all__ = ["run"]


def figures(found: RankerComparison, pair: int = 0) -> PredictionPowered:
    """The figures of a pair by human and proxy labels."""
    told = found.pairs[pair].prediction_powered
    assert told is not None
    return told


def test_a_list_and_a_dataset_of_the_same_judgments_say_the_same() -> None:
    one = compared(listed(PEOPLE, SAMPLE))
    other = compared(PEOPLE.select(SAMPLE))
    assert figures(one).by_both.low == pytest.approx(figures(other).by_both.low)
    alone = ltr.compare(RANKERS, data=PEOPLE.select(SAMPLE), metrics="ndcg@5", resamples=200)
    assert one.pairs[0].comparison.mean_difference == pytest.approx(
        alone.pairs[0].comparison.mean_difference
    )
    assert figures(one).by_human.mean == pytest.approx(alone.pairs[0].comparison.mean_difference)


def test_cheap_judgments_narrow_the_interval_and_do_not_move_it_to_themselves() -> None:
    found = figures(compared(listed(PEOPLE, SAMPLE)))
    assert (found.n_queries, found.n_human) == (QUERIES, JUDGED)
    width = found.by_both.high - found.by_both.low
    assert width < 0.95 * (found.by_human.high - found.by_human.low)
    assert found.n_worth > JUDGED
    truth = ltr.compare(RANKERS, data=PEOPLE, metrics="ndcg@5", resamples=200).pairs[0].comparison
    assert found.by_both.low < truth.mean_difference < found.by_both.high


def test_a_perfect_judge_says_what_all_queries_would() -> None:
    found = figures(compared(listed(PEOPLE, SAMPLE), PEOPLE))
    assert found.strength == pytest.approx(1.0)
    truth = ltr.compare(RANKERS, data=PEOPLE, metrics="ndcg@5", resamples=200).pairs[0].comparison
    assert found.by_both.mean == pytest.approx(truth.mean_difference, abs=1e-7)


def test_what_is_left_out_is_told() -> None:
    judgments = listed(PEOPLE, SAMPLE)
    first = judgments.queries[0]
    first = replace(
        first,
        document_ids=[*first.document_ids, "elsewhere"],
        grades=np.append(first.grades, 1).astype(np.float32),
    )
    strange = JudgedQuery("other", {"query": "other"}, ["d1"], np.ones(1, np.float32))
    found = compared(Judgments([first, *judgments.queries[1:], strange]))
    assert any("1 human-labelled queries are not among" in note for note in found.notes)
    assert any("1 human-labelled documents are not in" in note for note in found.notes)
    assert found.n_queries == JUDGED


def test_a_sample_that_was_chosen_is_a_doubt_and_a_random_one_is_not() -> None:
    values = ltr.compare(RANKERS, data=CHEAP, metrics="ndcg@5", resamples=100).per_query
    gains = np.array(values["ndcg@5 a"]) - np.array(values["ndcg@5 b"])
    best = np.argsort(-gains)[:JUDGED]
    told = compared(listed(PEOPLE, best))
    for pair in (*told.pairs, *told.prediction_powered):
        assert [doubt.check for doubt in pair.verdict.doubts] == ["not-random"]
    assert "cannot tell: the human-labelled queries are not a random sample" in str(told)
    assert compared(listed(PEOPLE, SAMPLE)).verdict("a", "b").outcome != "cannot tell"


def test_queries_that_a_ranker_was_trained_on_are_left_out_of_both() -> None:
    split = HashSplit(0.2, 0.5)
    source = {"fingerprint": CHEAP.fingerprint, "split": split.as_dict()}
    model = LinearModel(NAMES, np.array([1.0, 0.5]), record={"source": source})
    found = compared(listed(PEOPLE, SAMPLE), rankers={"model": model, "b": "feature:likes"})
    test = split.sides(CHEAP) == "test"
    assert figures(found).n_queries == int(test.sum())
    assert figures(found).n_human == int(test[SAMPLE].sum())


def test_importance_of_the_cheap_queries_weighs_everything() -> None:
    weights = np.random.default_rng(2).uniform(0.5, 3, QUERIES)
    found = compared(listed(PEOPLE, SAMPLE), replace(CHEAP, query_weights=weights))
    plain = compared(listed(PEOPLE, SAMPLE))
    assert found.weighted
    one = figures(found)
    assert one.by_human.mean == pytest.approx(found.pairs[0].comparison.mean_difference)
    assert one.by_both.mean != figures(plain).by_both.mean
    again = compared(listed(PEOPLE, SAMPLE), replace(CHEAP, query_weights=weights), unweighted=True)
    assert figures(again) == figures(plain)


def test_several_pairs_are_corrected_together() -> None:
    rankers = {**RANKERS, "c": LinearModel(NAMES, np.array([1.0, 1.0]))}
    found = compared(listed(PEOPLE, SAMPLE), rankers=rankers, metrics=["ndcg@5", "map"])
    assert len(found.prediction_powered) == 6
    for number in range(6):
        assert figures(found, number).p_holm >= figures(found, number).by_both.p
    assert json.loads(json.dumps(found.as_dict()))["prediction_powered"][0]["p_holm"] is not None


def test_what_cannot_be_is_refused() -> None:
    people = listed(PEOPLE, SAMPLE)
    with pytest.raises(UsageError, match="give proxy_labels="):
        ltr.compare(RANKERS, data=PEOPLE, metrics="map", strata={})
    with pytest.raises(UsageError, match="compare-live"):
        compared(people, rankers=["live:x@y", "live:z@y"])
    labels = CHEAP.labels.copy()
    labels[:DOCUMENTS] = 0
    with pytest.raises(UsageError, match="leaves out queries"):
        compared(people, replace(CHEAP, labels=labels), metrics="ndcg@5,empty=skip")
    others = [replace(query, query_id=f"x{query.query_id}") for query in people.queries]
    with pytest.raises(BadInput, match="none of the queries with human labels"):
        compared(Judgments(others))
    strange = [replace(q, document_ids=["z"], grades=q.grades[:1]) for q in people.queries]
    with pytest.raises(BadInput, match="none of the documents with human labels"):
        compared(Judgments(strange))
    with pytest.raises(BadInput, match="do not know their documents"):
        compared(people, replace(CHEAP, document_ids=None))
    with pytest.raises(BadInput, match="is in no stratum"):
        compared(people, strata={"q0": "1"})
    with pytest.raises(Refused, match="1 of the 240 queries"):
        compared(listed(PEOPLE, SAMPLE[:1]))


def test_the_command_says_what_either_judge_says_and_fits_80_columns(run: Run) -> None:
    asked = ["compare", "linear.json", "feature:likes", "--data", "sample.tsv"]
    asked += ["--proxy-labels", "clicks.parquet", "--metric", "ndcg@5", "--resamples", "200"]
    code, out, _ = run(*asked)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for words in (
        "proxy, biased",
        "human",
        "λ = 0.",
        "human-labelled queries",
        "by human and proxy labels",
        "the target is the metric over the human-labelled documents",
    ):
        assert words in " ".join(out.split())
    told = json.loads(run(*asked, "--json")[1])
    found = ltr.compare(
        ["linear.json", "feature:likes"], data="sample.tsv", metrics="ndcg@5",
        proxy_labels="clicks.parquet",
        resamples=200,
    )  # fmt: skip
    assert told["prediction_powered"] == json.loads(
        json.dumps(found.as_dict()["prediction_powered"])
    )
    assert told["ideal_of"] == "human-labelled documents"
    assert "by 60 human-labelled and 240 proxy-labelled queries" in " ".join(str(found).split())
    assert "human-labelled" in found._repr_html_()


def test_few_human_labels_show_nothing_whatever_they_say() -> None:
    """As in 32 of 60 worlds without a difference: two labelled queries that differ alike."""
    for few in (2, 4, 29):
        found = compared(listed(PEOPLE, SAMPLE[:few]))
        for pair in (*found.pairs, *found.prediction_powered):
            assert pair.verdict.outcome == "cannot tell"
            assert pair.better is None
        one = figures(found)
        assert one.by_both.high - one.by_both.low >= 6 / few
        assert one.n_more is None or one.n_more >= 30 - few
    assert (
        compared(listed(PEOPLE, SAMPLE[:30])).prediction_powered[0].verdict.outcome != "cannot tell"
    )
