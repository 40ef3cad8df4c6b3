"""What users get from the whole index, on a real node: measured, and nothing is left behind."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr import Cluster, OwpcLtrWarning, RankingDataset, read_dataset
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.splits import HashSplit, digests_of, seen_queries
from owpc_ltr.engine.deployment.model_upload import Uploaded
from owpc_ltr.engine.deployment.trial import PREFIX, on_trial
from owpc_ltr.engine.live_results.comparison import LiveComparison
from owpc_ltr.engine.search.client_scoring import query_alone
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.evaluation.options import METRICS
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.models.combined import ReorderingModel, with_folds
from owpc_ltr.models.linear import LinearModel
from tests.datasets import seen_sides
from tests.engine.deployed import put
from tests.engine.small_cluster import FEATURESET, Small, judged_titles, linear, shared_cluster

BODY = {"match": {"body": "{{keywords}}"}}
BY_TITLE, BY_BODY, BY_SIZE = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0)
SPLIT = HashSplit(0.1, 0.5)


small = shared_cluster(documents=150)


@pytest.fixture(scope="module")
def cluster(small: Small) -> Cluster:
    return small.cluster


@pytest.fixture(scope="module")
def judgments(small: Small) -> Judgments:
    return judged_titles(small, 56, 5, both=True)


NDCG: dict[str, Any] = {"metrics": "ndcg@10"}


def measured(
    cluster: Cluster, small: Small, model: Any, judgments: Judgments, **how: Any
) -> LiveComparison:
    """A model compared with the query alone."""
    given = {"query_template": BODY, "index": small.index, **NDCG, **how}
    return cluster.compare_live([model], judgments=judgments, **given)


def trained(weights: tuple[float, ...]) -> LinearModel:
    return linear(weights, source=seen_sides((f"q{n}" for n in range(56)), SPLIT))


def test_a_model_that_orders_as_the_query_does_changes_nothing(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    evaluation = measured(cluster, small, trained(BY_BODY), judgments, metrics=METRICS)
    assert evaluation.split == "test"
    assert evaluation.n_queries == int(
        (SPLIT.sides_of([f"q{n}" for n in range(56)]) == "test").sum()
    )
    for pair in evaluation.pairs:
        assert pair.left_out is not None
        assert pair.comparison.mean_difference == pair.left_out.mean_difference == 0.0
    assert evaluation.as_dict()["worst"]["queries"] == []
    assert [ranker.unjudged for ranker in evaluation.rankers] == [dict.fromkeys(METRICS, 0.0)] * 2


def test_a_better_model_is_found_better_and_a_worse_one_worse(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    good = measured(cluster, small, trained(BY_TITLE), judgments)
    bad = measured(cluster, small, trained(BY_SIZE), judgments)
    assert good.pairs[0].comparison.low > 0 > bad.pairs[0].comparison.mean_difference
    assert all(query["a"] < query["b"] for query in bad.as_dict()["worst"]["queries"])
    # All is judged: what unjudged documents are taken for does not matter.
    plain = good.pairs[0].comparison
    assert good.pairs[0].left_out == good.pairs[0].as_judged == plain


def test_what_the_query_does_not_bring_within_the_window_is_told(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    narrow, wide = (
        measured(cluster, small, trained(BY_TITLE), judgments, window=window)
        for window in (10, 150)
    )
    assert any("(recall of the window)" in note for note in wide.notes)
    assert any("among the first 10 that the query brings" in line for line in narrow.warnings)
    assert not any("that the query brings" in line for line in wide.warnings)
    how: dict[str, Any] = {"index": small.index, "query_template": BODY}
    (warning,) = cluster.check_judgments(judgments, **how, window=10)
    assert "no ranker of the window can change that" in warning
    assert cluster.check_judgments(judgments, **how, window=150) == []


def test_engine_and_client_serve_the_same(small: Small) -> None:
    request = SearchRequest(small.index, BODY, {"keywords": "alpha beta"}, 50, 50)
    model = linear((1.0, 0.5, -0.2))
    reordering = ReorderingModel(model, "", None, dict(model.record))
    with on_trial(small.engine, small.store, model, FEATURESET) as serve:
        by_engine = serve(request).doc_ids
    with on_trial(small.engine, small.store, reordering, None) as serve:
        by_client = serve(request).doc_ids
    assert len(by_engine) > 20
    assert by_engine == by_client


def test_a_name_that_is_uploaded_and_its_file_are_worth_the_same(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    model = trained(BY_TITLE)
    put(small, model, name=f"{small.name}-same")
    # The index is the one that the name was proved on.
    named = measured(cluster, small, f"{small.name}-same", judgments, index=None)
    tried = measured(cluster, small, model, judgments)
    assert named.pairs[0].comparison == tried.pairs[0].comparison
    assert named.split == tried.split == "test"


def test_of_a_model_without_a_split_all_queries_count_and_it_is_said(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    evaluation = measured(cluster, small, linear(BY_TITLE, source={}), judgments)
    assert (evaluation.split, evaluation.n_queries) == ("unknown", 56)
    assert "it may have seen these" in evaluation.warnings[0]


def against(
    cluster: Cluster, small: Small, model: Any, old: str, judgments: Judgments, **how: Any
) -> LiveComparison:
    """A new model compared with the query alone, or with what an alias serves."""
    given = {"metrics": "ndcg@10", "index": small.index, **how}
    return cluster.compare_live({"new": model, old: old}, judgments=judgments, **given)


def upload(cluster: Cluster, small: Small, model: Any, name: str, **given: Any) -> Uploaded:
    return cluster.upload(model, name=name, index=small.index, featureset="small", **given)


SEARCHED = {"query_template": BODY}


def test_queries_that_a_model_was_trained_on_show_nothing_live(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    """Asked for by their split, they may be measured, and decide nothing."""
    few = Judgments(judgments.queries[:12])
    seen = {"train": digests_of(few.queries).as_dict()}
    model = linear(BY_TITLE, source={"fingerprint": "f", "queries": seen})
    verdict_pattern = r"cannot tell: the .*model was trained or chosen on 12 of these 12 queries"
    for split in ("all", "train"):
        evaluation = measured(cluster, small, model, few, split=split)
        assert re.match(verdict_pattern, str(evaluation.verdict()))


def test_judgments_of_one_rankers_list_cannot_tell(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    """The true grades of what the query alone brings: what else the model brings is unjudged."""
    own = []
    for query in judgments.queries:
        request = SearchRequest(small.index, BODY, query.params, 10, 100, query_id=query.query_id)
        first = query_alone(small.engine, small.store)(request).doc_ids[:10]
        grades = dict(zip(query.doc_ids, query.grades.tolist(), strict=True))
        shown = np.array([grades[document] for document in first], np.float32)
        judges = ["ann"] * len(first)
        own.append(replace(query, doc_ids=list(first), grades=shown, judged_by=judges))
    evaluation = measured(cluster, small, trained(BY_TITLE), Judgments(own))
    evidence = evaluation.evidence()
    assert re.match(r"cannot tell: (only )?\d\d% of the first ten", evidence.reason)
    assert evaluation.ranker("query").unjudged == {"ndcg@10": 0.0}
    assert any("judge_pool" in advice or "judge pool" in advice for advice in evidence.more)


def test_grades_that_contradict_the_query_cannot_tell(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    """By title alone the titles are the truth: inverted, they applaud what hides them."""
    turned = Judgments([replace(query, grades=1 - query.grades) for query in judgments.queries])
    template = {"match": {"title": "{{keywords}}"}}
    comparison = against(
        cluster, small, trained((-1.0, 0.0, 0.0)), "query", turned, query_template=template
    )
    verdict = str(comparison.verdict("new", "query"))
    assert re.match(r"cannot tell: .*(fewer than by chance|below random)", verdict)


def test_grades_that_are_a_features_values_cannot_tell(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    """They applaud whatever reads the feature; what one judge in ten errs in does not."""
    exact, titles = [], small.titles()
    for query in judgments.queries:
        words = set(query.params["keywords"].split())
        truth = np.array([not words.isdisjoint(titles[name]) for name in query.doc_ids])
        exact.append(replace(query, grades=truth.astype(np.float32)))
    for graded, outcome in ((exact, Outcome.CANNOT_TELL), (judgments.queries, Outcome.BETTER)):
        evaluation = measured(cluster, small, trained(BY_TITLE), Judgments(graded))
        assert evaluation.evidence().verdict["outcome"] == outcome


@pytest.fixture(scope="module")
def logged(
    cluster: Cluster, small: Small, judgments: Judgments, tmp_path_factory: pytest.TempPathFactory
) -> RankingDataset:
    """The judged documents with their features."""
    out = tmp_path_factory.mktemp("logged") / "data.parquet"
    cluster.log_features(judgments=judgments, out=out, featureset="small", index=small.index)
    return read_dataset(out)


def crossed(
    data: RankingDataset, whole: tuple[float, ...], without: tuple[float, ...]
) -> LinearModel:
    """A model that has seen all queries, and models that have each seen half of them."""
    halves = [data.select(np.arange(part, data.n_queries, 2)) for part in range(2)]
    models = [linear(without, source=seen_queries(half)) for half in halves]
    made = with_folds(linear(whole, source=seen_queries(data)), models)
    assert isinstance(made, LinearModel)
    return made


def test_models_of_folds_rank_live_what_their_model_has_seen(
    cluster: Cluster, small: Small, judgments: Judgments, logged: RankingDataset
) -> None:
    """The model itself ranks by size, and would be refused: its procedure is what is judged."""
    judgments, logged = Judgments(judgments.queries[:24]), logged.select(np.arange(24))
    model, name = crossed(logged, BY_SIZE, BY_TITLE), f"{small.name}-folds"
    known = measured(cluster, small, linear(BY_TITLE), judgments)
    evaluation = measured(cluster, small, model, judgments)
    assert (evaluation.split, evaluation.n_queries) == ("folds", len(judgments.queries))
    assert evaluation.pairs[0].comparison == known.pairs[0].comparison
    assert "24 queries (cross-validated)" in str(evaluation)
    asked: dict[str, Any] = {"judgments": judgments, "query_template": BODY, **NDCG}
    asked["index"] = small.index
    live = cluster.compare_live({"new": model, "title": linear(BY_TITLE)}, **asked)
    assert live.pairs[0].comparison.mean_difference == 0.0
    first = upload(cluster, small, model, name, **SEARCHED)
    # An uploaded model is measured by its models of folds, too.
    uploaded = measured(cluster, small, first.model, judgments)
    assert (uploaded.split, uploaded.n_queries) == ("folds", len(judgments.queries))
    assert uploaded.pairs[0].comparison == evaluation.pairs[0].comparison
    beside = cluster.compare_live([first.model, "query"], **asked)
    assert (beside.split, beside.n_queries) == ("folds", len(judgments.queries))
    # The champion's own models of folds rank what it has seen.
    again = against(cluster, small, crossed(logged, (0.9, 0.0, -0.1), BY_SIZE), name, judgments)
    assert again.verdict("new", name).outcome is Outcome.WORSE


def test_data_of_an_upload_is_checked_with_the_query_of_the_application(
    cluster: Cluster, small: Small, logged: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def check(_: Any, _data: Any, **how: Any) -> list[str]:
        asked.append(how)
        return []

    monkeypatch.setattr(Cluster, "check_judgments", check)
    upload(
        cluster, small, linear(BY_TITLE), f"{small.name}-plain", data=logged,
        window=7, **SEARCHED,
    )  # fmt: skip
    assert asked == [{"index": small.index, "query_template": BODY, "window": 7}]


def test_an_upload_points_to_what_training_warned_of_which_models_show_lists(
    cluster: Cluster, small: Small
) -> None:
    model = linear(BY_TITLE, warnings=["each query has one relevant document"])
    name = f"{small.name}-warned"
    pointer = rf"^training gave warnings: `models_show\('{name}'\)` lists them$"
    with pytest.warns(OwpcLtrWarning, match=pointer):
        cluster.upload(model, name=name, index=small.index, featureset="small")
    with pytest.warns(OwpcLtrWarning, match="^in training: each query has one relevant document$"):
        shown = cluster.models.show(name)
    assert shown.content["record"]["warnings"] == ["each query has one relevant document"]


def test_live_queries_count_by_their_importance(
    cluster: Cluster, small: Small, judgments: Judgments
) -> None:
    weights = np.linspace(1.0, 9.0, len(judgments.queries))
    asked = [
        replace(query, importance=float(weight))
        for query, weight in zip(judgments.queries, weights, strict=True)
    ]
    live = measured(cluster, small, trained(BY_TITLE), Judgments(asked))
    assert live.weighted
    assert live.evidence().figures["weighted"] is True
    (pair,) = live.pairs
    after, before = (ranker.measured[0].per_query for ranker in live.rankers)
    kept = SPLIT.sides_of([query.query_id for query in judgments.queries]) == "test"
    expected = np.average(after - before, weights=weights[kept])
    assert pair.comparison.mean_difference == pytest.approx(float(expected), abs=1e-12)
    assert pair.comparison.mean_difference != pytest.approx(float((after - before).mean()))


class Keeping:
    """A store that must be given models to run them, as the LTR plugin's, around another."""

    kind = "ltr-plugin"

    def __init__(self, store: Store, fails: str = "") -> None:
        self.store, self.fails, self.kept, self.seen = store, fails, set[str](), set[str]()

    def export(self, *given: Any) -> Any:
        return self.store.export(*given)

    def put_model(self, model: Any) -> None:
        self.kept.add(model.name)
        self.seen.add(model.name)

    def delete_model(self, name: str) -> None:
        if self.fails:
            raise EngineUnavailable(self.fails)
        self.kept.remove(name)

    def rescore(self, *given: Any) -> Any:
        return self.store.rescore(*given)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, Refused, None])
def test_a_model_on_trial_is_gone_whatever_ends_the_trial(small: Small, stop: Any) -> None:
    store = Keeping(small.store)
    request = SearchRequest(small.index, BODY, {"keywords": "alpha"})

    def try_it() -> None:
        with on_trial(small.engine, cast("Store", store), linear(), FEATURESET) as serve:
            assert serve(request).doc_ids
            assert len(store.kept) == 1
            if stop is not None:
                raise stop("stop")

    if stop is None:
        try_it()
    else:
        with pytest.raises(stop):
            try_it()
    assert store.kept == set()
    (name,) = store.seen
    assert name.startswith(PREFIX)


def test_a_model_that_cannot_be_taken_out_again_is_named(small: Small) -> None:
    store = Keeping(small.store, "no answer")
    with (
        pytest.raises(EngineUnavailable, match=rf"`models_delete\('{PREFIX}"),
        on_trial(small.engine, cast("Store", store), linear(), FEATURESET),
    ):
        pass
