"""`compare`: rankers of every kind on the same queries, with unjudged documents."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_rerankers.exchangeable import Exchangeable

import owpc_ltr as ltr
from owpc_ltr import save_model
from owpc_ltr.data.splits import HashSplit, seen_queries
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.compared_pair import disagreements, verdict_lines
from owpc_ltr.evaluation.ranked_lists import ranked_lists
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from owpc_ltr.training.rerankers import fit_reranker, reranking_plan
from tests.datasets import crowded, seen_sides, weights
from tests.rankers import DOCUMENTS, QUERIES, judged, linear, write_run

DATA = judged()
SHARP, DULL = linear(1.0, 0.0), linear(0.0, 1.0)
METRICS = ("ndcg@5", "map")
RERANKING = {"reranker.kernels": "rbf", "loss.inner": "logistic", "reranker.penalty": 1e-3}
QUICK: dict[str, Any] = {"resamples": 200, "metrics": METRICS}
UNKNOWN = {"unjudged": "one"}


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    """The same scores twice: of judged documents alone, and among unjudged ones."""
    for name, unjudged in (("plain", 0), ("holes", 6)):
        write_run(DATA, SHARP.score(DATA.features), tmp_path / f"{name}.run", unjudged)
    return {name: tmp_path / f"{name}.run" for name in ("plain", "holes")}


def test_two_rankers_are_what_evaluate_says_of_them() -> None:
    comparison = ltr.compare([SHARP, DULL], data=DATA, metrics=METRICS)
    evaluation = ltr.evaluate(SHARP, DATA, metrics=METRICS, baseline=DULL)
    assert [ranker.name for ranker in comparison.rankers] == [
        "the linear model",
        "the linear model 2",
    ]
    for ranker, other in zip(comparison.rankers, evaluation.rankers, strict=True):
        for mine, theirs in zip(ranker.measured, other.measured, strict=True):
            assert mine.per_query.tolist() == theirs.per_query.tolist()
            assert (mine.mean, mine.all_tied_baseline) == (theirs.mean, theirs.all_tied_baseline)
    for pair, row in zip(comparison.pairs, evaluation.as_dict()["pairs"], strict=True):
        for name, value in pair.comparison.as_dict().items():
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
        assert (row["p_holm"], row["verdict"]) == (pair.p_holm, pair.verdict.as_dict())
    assert evaluation.as_dict().keys() == comparison.as_dict().keys()
    alone = ltr.evaluate(SHARP, DATA, metrics=METRICS)
    assert comparison.as_dict().keys() - alone.as_dict().keys() == {"verdict", "worst"}
    assert alone.to_frame()["mean"].tolist() == [mine.mean for mine in evaluation.measured]
    assert comparison.pairs[0].better == "the linear model"
    assert evaluation.verdict() == comparison.verdict("the linear model", "the linear model 2")
    with pytest.raises(UsageError, match="one ranker was measured alone: give a baseline"):
        ltr.evaluate(SHARP, DATA, metrics="map").verdict()


def test_a_reranker_is_compared_with_its_base() -> None:
    data, base = crowded(seed=5), weights(1, 0, 0)
    plan = reranking_plan(Pairwise, Exchangeable, RERANKING)
    learned = fit_reranker(crowded(), base, plan, Run(), crowded(seed=4))
    comparison = ltr.compare({"reranked": learned, "base": base}, data=data, split="all", **QUICK)
    scores = learned.rerank_dataset(data)
    wanted = parse_metric("map").per_query(scores, data.labels, data.offsets)
    assert values(comparison, "reranked", 1).tolist() == wanted.tolist()
    assert comparison.pairs[1].comparison.wins > 0


def test_where_interval_and_corrected_test_disagree_it_is_said() -> None:
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=DATA, **QUICK)
    pair = comparison.pairs[0]
    assert disagreements(comparison.pairs) == []
    doubtful = replace(pair, p_holm=0.06)
    (disagreement,) = disagreements((doubtful, comparison.pairs[1]))
    assert disagreement.startswith(
        "interval and test disagree for a − b in ndcg@5, and a difference needs both: the interval "
    )
    assert verdict_lines([doubtful]) == ["a against b: by ndcg@5 no significant difference"]


def test_every_output_says_what_so_few_queries_cannot_show() -> None:
    # Average precision is 1 by the first feature, and .81 by the second, in each of 12 queries.
    order = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    second = np.array([6.0, 4.0, 3.0, 2.0, 1.0, 5.0])
    data = ltr.make_dataset(
        np.tile(np.column_stack([order, second]), (12, 1)),
        [1, 1, 1, 1, 1, 0] * 12,
        [f"q{query}" for query in range(12) for _ in range(6)],
    )
    evaluation = ltr.evaluate("feature:1", data, split="all", metrics="map", baseline="feature:2")
    reason = (
        "12 queries cannot show a difference below 0.2500 (3 / queries): at +0.1900 it takes 16 or "
        "more: judge more queries"
    )
    (pair,) = evaluation.pairs
    assert pair.verdict.outcome == "no significant difference"
    compared = ltr.compare(["feature:1", "feature:2"], data=data, metrics="map", split="all")
    for result in (evaluation, compared):
        assert reason in " ".join(str(result).split())
        assert reason in " ".join(repr(result).split())
        assert reason in result._repr_html_()
        assert "symmetric differences" not in str(result)
    (disagreement,) = disagreements([pair], "test")
    assert disagreement.endswith(
        f"{reason}, or count the training queries, too: `train(data, folds=5)`"
    )


def test_the_verdict_is_one_in_every_output() -> None:
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=DATA, **QUICK)
    assert comparison.verdict("a", "b").outcome == "better"
    assert comparison.verdict("b", "a").outcome == "worse"
    assert comparison.as_dict()["verdict"] == {
        "a": "a",
        "b": "b",
        "outcome": "better",
        "reasons": [],
    }
    assert repr(comparison).startswith(
        "better on judged documents: a against b by ndcg@5, each query counts once\n"
    )
    assert "better on judged documents: a against b by ndcg@5" in comparison._repr_html_()


def test_metrics_that_disagree_leave_no_verdict() -> None:
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=DATA, **QUICK)
    opposite = replace(comparison.pairs[1].reversed(), a="a", b="b")
    contradictory = replace(comparison, pairs=(comparison.pairs[0], opposite))
    assert [pair.verdict.outcome for pair in contradictory.pairs] == ["better", "worse"]
    assert contradictory.verdict("a", "b").outcome == "cannot tell"
    assert repr(contradictory).startswith(
        "cannot tell: metrics disagree: better by ndcg@5, worse by map; "
    )


def test_doubts_from_outside_are_of_all_pairs_of_a_ranker_or_of_one_pair() -> None:
    rankers = {"a": SHARP, "b": DULL, "c": "feature:likes"}
    comparison = ltr.compare(rankers, data=DATA, metrics="ndcg@5", resamples=200)
    warning = ResultWarning("judged-share", "38 % of the top 10 are judged", "judge more")

    def doubted(*names: str) -> set[str]:
        with_warning = comparison.with_warnings([warning], *names)
        return {p.a + p.b for p in with_warning.pairs if p.verdict.outcome == "cannot tell"}

    assert doubted() == {"ab", "ac", "bc"}
    assert doubted("a") == {"ab", "ac"}
    assert doubted("c", "a") == {"ac"}
    with_warning = comparison.with_warnings([warning])
    assert with_warning.as_dict()["verdict"]["reasons"] == [warning.as_dict()]
    assert repr(with_warning).startswith("cannot tell: 38 % of the top 10 are judged; judge more (")


def test_queries_that_a_ranker_was_trained_on_are_a_doubt() -> None:
    seen = linear(1.0, 0.5, source=seen_queries(DATA))
    comparison = ltr.compare(
        {"mine": seen, "b": "feature:likes"}, data=DATA, split="train", **QUICK
    )
    assert comparison.verdict("mine", "b").outcome == "cannot tell"
    assert "mine was trained or chosen on 40 of these 40 queries" in repr(comparison)
    again = ltr.evaluate(seen, DATA, metrics="ndcg@5", baseline=DULL)
    assert again.verdict().outcome == "cannot tell"


def test_judgments_that_cannot_tell_are_the_reason() -> None:
    """Irrelevant documents from elsewhere, as many for each query: one feature tells them all."""
    rng = np.random.default_rng(0)
    n = 80 * DOCUMENTS
    labels = np.tile(np.arange(DOCUMENTS) < 4, 80).astype(np.float32)
    features = np.column_stack([labels + 0.1 * rng.random(n), rng.random(n)])
    ids = np.repeat([f"q{number}" for number in range(80)], DOCUMENTS)
    data = ltr.make_dataset(features, labels, ids, ("leak", "noise"))
    comparison = ltr.compare(
        ["feature:leak", "feature:noise"], data=data, metrics="ndcg@5", resamples=200
    )
    assert comparison.pairs[0].comparison.low > 0
    assert comparison.verdict("feature:leak", "feature:noise").outcome == "cannot tell"
    assert comparison.pairs[0].better is None
    assert comparison.warnings == ()
    evaluation = ltr.evaluate("feature:leak", data, metrics="ndcg@5", baseline="feature:noise")
    assert repr(evaluation).startswith("cannot tell: ")
    reasons = {warning.check for warning in comparison.pairs[0].verdict.warnings}
    assert {"leak", "sampled-negatives"} <= reasons
    assert len(ltr.evaluate("feature:leak", data, metrics="ndcg@5").warnings) == len(reasons)


def test_all_kinds_of_rankers_are_named_as_they_are_given(
    tmp_path: Path, runs: dict[str, Path]
) -> None:
    save_model(SHARP, tmp_path / "sharp.json")
    files = [str(tmp_path / "sharp.json"), "feature:bm25", str(runs["plain"])]
    comparison = ltr.compare(files, data=DATA, **QUICK)
    assert [ranker.name for ranker in comparison.rankers] == files
    # One and the same ranking in three forms.
    for pair in comparison.pairs:
        assert (pair.comparison.ties, pair.p_holm, pair.better) == (QUERIES, 1.0, None)
    assert len(comparison.pairs) == 6
    named = ltr.compare({"mine": SHARP, "yours": ltr.read_run(runs["plain"])}, data=DATA, **QUICK)
    assert [ranker.name for ranker in named.rankers] == ["mine", "yours"]


def test_parts_have_the_figures_of_memory(tmp_path: Path, runs: dict[str, Path]) -> None:
    weighted = judged(np.arange(1.0, QUERIES + 1))
    parts = ltr.partition(weighted, out=tmp_path / "parts", buckets=4)
    places = {name: n for n, name in enumerate(weighted.query_ids.to_pylist())}
    order = np.array([places[name] for name in parts.query_ids.to_pylist()])
    for others in (["feature:likes"], ["feature:likes", runs["holes"]]):
        asked = ["feature:bm25", *others]
        wanted = ltr.compare(asked, data=weighted.select(order), **QUICK)
        comparison = ltr.compare(asked, data=parts, **QUICK)
        results = [
            replace(compared, query_texts=None).as_dict() for compared in (comparison, wanted)
        ]
        assert results[0] == results[1]
        assert comparison.weighted
        assert comparison.per_query.num_rows == QUERIES


def values(comparison: ltr.RankerComparison, name: str, metric: int = 0) -> Any:
    return comparison.ranker(name).measured[metric].per_query


def test_unjudged_documents_of_a_run_count_as_irrelevant_as_elsewhere(
    runs: dict[str, Path],
) -> None:
    """Against ir_measures, to whom what is not judged is irrelevant."""
    metrics = ("ndcg@5,gain=linear", "map")
    rankers = {"run": runs["holes"], "other": "feature:likes"}
    comparison = ltr.compare(rankers, data=DATA, metrics=metrics, resamples=200)
    ids, documents = DATA.query_ids.to_pylist(), DATA.doc_ids.to_pylist()  # type: ignore[union-attr]
    qrels = [
        ir_measures.Qrel(ids[row // DOCUMENTS], documents[row], int(DATA.labels[row]))
        for row in range(DATA.n_documents)
    ]
    run = list(ir_measures.read_trec_run(str(runs["holes"])))
    for number, measure in enumerate((ir_measures.nDCG @ 5, ir_measures.AP)):
        of_query = ir_measures.iter_calc([measure], qrels, run)
        theirs = {measurement.query_id: measurement.value for measurement in of_query}
        assert values(comparison, "run", number).tolist() == pytest.approx([theirs[q] for q in ids])


def test_condensed_lists_are_those_without_what_nobody_judged(runs: dict[str, Path]) -> None:
    rankers = {"holes": runs["holes"], "plain": runs["plain"]}
    condensed = ltr.compare(rankers, data=DATA, unjudged="condensed", **QUICK)
    for metric in range(2):
        mine, theirs = (values(condensed, name, metric).tolist() for name in rankers)
        assert mine == theirs
    zero = ltr.compare(rankers, data=DATA, **QUICK)
    assert (values(zero, "holes") <= values(zero, "plain") + 1e-12).all()
    # Whether the one or the other is better depends on what nobody judged.
    assert zero.pairs[0].comparison.high < 0
    assert "unjudged" in {warning.check for warning in zero.pairs[0].verdict.warnings}
    assert "condensed, Sakai 2007" in " ".join(str(condensed).split())
    assert "count as irrelevant" in str(zero)


def test_a_query_is_skipped_for_all_where_one_lacks_a_judgment(runs: dict[str, Path]) -> None:
    rankers = {"holes": runs["holes"], "model": SHARP}
    metrics = ("precision@1", "precision@2")
    comparison = ltr.compare(
        rankers,
        data=DATA,
        metrics=metrics,
        unjudged="skip",
        resamples=200,
    )
    firsts = [documents[:2] for documents in ltr.read_run(runs["holes"]).lists().values()]
    for k, pair in enumerate(comparison.pairs, 1):
        whole = [not any(name.startswith("x") for name in two[:k]) for two in firsts]
        assert pair.comparison.n_queries == sum(whole)
        assert pair.comparison.mean_a == pair.comparison.mean_b
    assert (
        2
        < comparison.pairs[1].comparison.n_queries
        < comparison.pairs[0].comparison.n_queries
        < QUERIES
    )
    assert any("precision@2 counts" in note for note in comparison.notes)
    with pytest.raises(Refused, match="0 of 40 queries count in map for every ranker"):
        ltr.compare(rankers, data=DATA, metrics="map", unjudged="skip")


def test_the_share_of_unjudged_documents_is_told_and_warned_of(runs: dict[str, Path]) -> None:
    comparison = ltr.compare({"run": runs["holes"], "model": SHARP}, data=DATA, **QUICK)
    run, model = comparison.rankers
    assert model.unjudged is None
    assert run.unjudged is not None
    lists = ltr.read_run(runs["holes"]).lists()
    of_five = np.mean([[name.startswith("x") for name in names[:5]] for names in lists.values()])
    assert run.unjudged == pytest.approx({"ndcg@5": of_five, "map": 6 / 14})
    warnings_in_lines = "\n".join(comparison.warnings)
    assert f"run: {of_five:.0%} of what ndcg@5 looks at is unjudged" in warnings_in_lines
    assert (
        "models rank judged documents alone here (model), and runs list others too"
        in warnings_in_lines
    )
    assert "favours" in warnings_in_lines
    clean = ltr.compare({"run": runs["plain"], "model": DULL}, data=DATA, **QUICK)
    assert not any("unjudged" in warning for warning in clean.warnings)


def test_a_run_measured_by_lists_and_by_scores_is_one(runs: dict[str, Path]) -> None:
    """What the whole index is measured by, and what judged documents are, agree on a run."""
    comparison = ltr.compare({"run": runs["holes"], "other": "feature:likes"}, data=DATA, **QUICK)
    listed = ltr.read_run(runs["holes"]).lists()
    cuts = DATA.offsets.tolist()
    names = DATA.doc_ids.to_pylist()  # type: ignore[union-attr]
    grades = [
        dict(zip(names[a:b], DATA.labels[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(cuts)
    ]
    lists = ranked_lists([listed[name] for name in DATA.query_ids.to_pylist()], grades, 14)
    wanted = lists.unjudged_irrelevant(parse_metric("ndcg@5"))
    assert values(comparison, "run").tolist() == pytest.approx(wanted.tolist())


def test_runs_need_judgments_alone(tmp_path: Path, runs: dict[str, Path]) -> None:
    lines = [
        f"q{row // DOCUMENTS} 0 d{row} {int(DATA.labels[row])}" for row in range(DATA.n_documents)
    ]
    (tmp_path / "qrels").write_text("\n".join(lines) + "\n")
    write_run(DATA, DULL.score(DATA.features), tmp_path / "dull.run", 2, seed=9)
    rankers = [str(runs["holes"]), str(tmp_path / "dull.run")]
    comparison = ltr.compare(rankers, data=tmp_path / "qrels", **QUICK)
    wanted = ltr.compare(rankers, data=DATA, **QUICK)
    assert comparison.pairs == wanted.pairs
    assert comparison.query_texts is None
    for model in (SHARP, "feature:bm25"):
        with pytest.raises(UsageError, match="judgments have no features, by which models rank"):
            ltr.compare([rankers[0], model], data=tmp_path / "qrels")
    # What is wrong with qrels is said, and not that they lack texts, which no run needs.
    (tmp_path / "twice").write_text("\n".join([*lines, lines[0]]) + "\n")
    with pytest.raises(BadInput, match=r"twice, line .* is judged as .*duplicates"):
        ltr.compare(rankers, data=tmp_path / "twice", **QUICK)


def test_a_run_of_other_queries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.run").write_text("z1 Q0 d1 1 0.5 t\n")
    with pytest.raises(BadInput, match="ranks none of the data's 320 documents"):
        ltr.compare([tmp_path / "other.run", SHARP], data=DATA)


def trained(salt: str, test: float = 0.5) -> Any:
    """A model that was trained on the data, with a split of its own."""
    split = HashSplit(0.1, test, salt)
    source = seen_sides(DATA.query_ids.to_pylist(), split)
    return linear(1.0, len(salt) / 10, source=source), split.sides(DATA) == "test"


def test_queries_are_those_that_no_ranker_was_trained_on() -> None:
    (first, mine), (other, yours) = trained("a"), trained("bb")
    comparison = ltr.compare(
        {"one": first, "other": other, "raw": "feature:likes"}, data=DATA, **QUICK
    )
    left = mine & yours
    assert 2 < left.sum() < mine.sum()
    assert comparison.query_ids.to_pylist() == [f"q{n}" for n in np.flatnonzero(left)]
    assert (comparison.split, comparison.n_queries) == ("test", left.sum())
    (note,) = comparison.notes
    assert note == (
        f"{left.sum()} of 40 queries are held out from all rankers: one was trained on 15 and "
        "chosen on 3 of them; other was trained on 16 and chosen on 5 of them"
    )
    everything = ltr.compare({"one": first, "other": other}, data=DATA, split="all", **QUICK)
    assert (everything.split, everything.n_queries, everything.notes) == ("all", QUERIES, ())


def test_where_no_query_is_left_nothing_is_compared() -> None:
    seen = linear(1.0, 0.5, source=seen_queries(DATA))
    with pytest.raises(Refused, match=r"no query is held out from mine: mine was trained on 40 of"):
        ltr.compare({"mine": seen, "raw": "feature:bm25"}, data=DATA)
    train = ltr.compare({"mine": seen, "raw": "feature:bm25"}, data=DATA, split="train", **QUICK)
    assert (train.split, train.n_queries) == ("train", QUERIES)


def test_weights_are_the_importance_of_queries() -> None:
    importance = np.tile([1.0, 3.0], QUERIES // 2)
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=judged(importance), **QUICK)
    plain = ltr.compare({"a": SHARP, "b": DULL}, data=DATA, **QUICK)
    assert (comparison.weighted, plain.weighted) == (True, False)
    mean = comparison.ranker("a").means["ndcg@5"].mean
    assert mean == pytest.approx(np.average(values(plain, "a"), weights=importance))
    assert comparison.ranker("a").measured[0].mean == mean
    unweighted = ltr.compare(
        {"a": SHARP, "b": DULL},
        data=judged(importance),
        unweighted=True,
        **QUICK,
    )
    assert unweighted.pairs == plain.pairs
    assert "weighted by the importance of queries" in " ".join(str(comparison).split())
    assert "weighted" not in str(unweighted)
    lopsided = np.where(np.arange(QUERIES) == 3, 1000.0, 1.0)
    notes = ltr.compare({"a": SHARP, "b": DULL}, data=judged(lopsided), **QUICK).notes
    assert notes == ("so weighted, 40 queries tell as much as 1 equal ones",)


def test_the_queries_that_lose_most_are_told_with_their_words() -> None:
    comparison = ltr.compare({"sharp": SHARP, "dull": DULL}, data=DATA, **QUICK)
    worst = comparison.worst("dull", "sharp", "map", n=3)
    losses = [query["b"] - query["a"] for query in worst]
    assert losses == sorted(losses, reverse=True)
    everywhere = values(comparison, "sharp", 1) - values(comparison, "dull", 1)
    assert losses == pytest.approx(np.sort(everywhere)[::-1][:3].tolist())
    assert worst[0]["query"] == f"words of {worst[0]['query_id']}"
    assert all(query["a"] < query["b"] for query in comparison.worst("sharp", "dull", n=QUERIES))
    with pytest.raises(UsageError, match="mrr was not measured: there are ndcg@5, map"):
        comparison.worst("dull", "sharp", "mrr")
    with pytest.raises(UsageError, match="no ranker is called 'x': there are sharp, dull"):
        comparison.worst("dull", "x")


def test_every_figure_is_in_the_dictionary_and_the_table() -> None:
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=judged(np.arange(1.0, 41)), **QUICK)
    result = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))
    assert result["corrected_over"] == len(result["pairs"]) == 2
    assert result["rankers"][0]["metrics"][0]["mean"] == comparison.ranker("a").means["ndcg@5"].mean
    assert result["pairs"][0]["p_holm"] == comparison.pairs[0].p_holm
    table = comparison.per_query
    assert table.column_names == [
        "query_id", "query", "importance", "ndcg@5 a", "map a", "ndcg@5 b", "map b"
    ]  # fmt: skip
    assert table["map b"].to_pylist() == values(comparison, "b", 1).tolist()
    assert comparison.to_frame()["p_holm"].tolist() == [pair.p_holm for pair in comparison.pairs]
    assert len(comparison.to_frame(per_query=True)) == QUERIES
    page = comparison._repr_html_()
    assert "A − B" in page
    assert (
        "<script"
        not in ltr.compare({"<script>": SHARP, "b": DULL}, data=DATA, **QUICK)._repr_html_()
    )


def test_what_a_metric_leaves_out_has_no_value_in_the_table() -> None:
    labels = DATA.labels.copy()
    labels[:DOCUMENTS] = 0
    data = ltr.make_dataset(
        DATA.features, labels, np.repeat(DATA.query_ids.to_pylist(), DOCUMENTS), DATA.feature_names
    )
    comparison = ltr.compare(
        {"a": SHARP, "b": DULL}, data=data, metrics="ndcg@5,empty=skip", resamples=200
    )
    assert comparison.per_query.column(1)[0] == pa.scalar(None, pa.float64())
    assert comparison.pairs[0].comparison.n_queries == QUERIES - 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"baseline": "bm25"}, "baseline 'bm25' is not one of the rankers"),
        (UNKNOWN, "choose among zero, skip, condensed"),
        ({"split": "left"}, "unknown split 'left'"),
        ({"resamples": 0}, "0 resamples"),
    ],
)
def test_what_cannot_be_compared_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ltr.compare([SHARP, DULL], data=DATA, **how)


def test_what_differs_by_rounding_alone_is_no_loss() -> None:
    comparison = ltr.compare({"a": SHARP, "b": DULL}, data=DATA, **QUICK)
    a, b = (values(comparison, name) for name in "ab")
    a[:] = b - 1e-15
    a[3] = b[3] - 0.1
    assert [query["query_id"] for query in comparison.worst("a", "b")] == ["q3"]


def test_a_name_that_is_no_file_may_be_meant_live() -> None:
    with pytest.raises(BadInput, match=r"none\.json: no such file or directory; check the name"):
        ltr.compare(["none.json", "feature:bm25"], data=DATA)
    with pytest.raises(BadInput, match="no such file or directory; an uploaded model is live:mod@"):
        ltr.compare(["mod", "feature:bm25"], data=DATA)


def test_a_query_under_many_ids_is_not_many_queries() -> None:
    """Noise on fifteen queries would be a difference on three hundred."""
    ten, rng = np.repeat(np.arange(15), 20), np.random.default_rng(0)
    rows = np.concatenate([np.arange(DATA.offsets[q], DATA.offsets[q + 1]) for q in ten])
    sizes = np.diff(DATA.offsets)[ten]
    ids = [f"copy{n}" for n, size in enumerate(sizes.tolist()) for _ in range(size)]
    noise = (DATA.labels[:, None] + 2 * rng.normal(size=(DATA.n_documents, 2)))[rows]
    copies = ltr.make_dataset(noise, DATA.labels[rows], ids, ("a", "b"))
    # Another spelling is no other query, another parameter is one.
    texts = [json.dumps({"keywords": f"{' ' * (n % 2)}Word {q}"}) for n, q in enumerate(ten)]
    copies = replace(copies, query_params=pa.array(texts))
    (pair,) = ltr.compare(["feature:a", "feature:b"], data=copies, metrics="ndcg@10").pairs
    assert pair.comparison.n_independent == 15
    assert str(pair.verdict) == "no significant difference"
    evaluated = ltr.evaluate("feature:a", copies, metrics="ndcg@10", baseline="feature:b")
    assert evaluated.verdict() == pair.verdict
    (alone,) = ltr.evaluate("feature:a", copies, metrics="ndcg@10").measured
    assert alone.interval == pytest.approx((evaluated.measured[0].low, evaluated.measured[0].high))
    texts = [json.dumps({"keywords": f"word {q}", "shop": n}) for n, q in enumerate(ten)]
    copies = replace(copies, query_params=pa.array(texts))
    (pair,) = ltr.compare(["feature:a", "feature:b"], data=copies, metrics="ndcg@10").pairs
    assert pair.comparison.n_independent is None
    assert pair.p_holm < 0.05
