"""A model gets in only where held-out queries show it to be better; otherwise nothing changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.splits import HashSplit, digests_of, seen_queries
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords, provenance
from owpc_ltr.engine.deployment.gate import Gate
from owpc_ltr.engine.deployment.model_upload import upload_model
from owpc_ltr.engine.deployment.upload_result import NotBetter, Uploaded, gain_line
from owpc_ltr.engine.search.live_evaluation import losers
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.features.feature_set import Feature
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from tests.datasets import seen_sides
from tests.engine.deployed import BAD, DATA, GOOD, unknowing, with_proxy_labels
from tests.engine.deployed import put as first
from tests.engine.small_cluster import FEATURESET, OTHERS, Small, linear

SPLIT = HashSplit(0.2, 0.3)


def trained(weights: tuple[float, ...], split: HashSplit | None = SPLIT) -> LinearModel:
    source = seen_sides(DATA.query_ids.to_pylist(), split) if split else seen_queries(DATA)
    return linear(weights, source=source)


def never(_data: RankingDataset) -> Any:
    raise UsageError("no index has these documents")


def put(small: Small, model: LinearModel, **gate: Any) -> Uploaded:
    """A model that must be better on data that knows no documents, which is accepted."""
    options = {"metric": parse_metric("ndcg@10"), "data": DATA, "ask": never, "accepted": "a test"}
    return first(small, model, gate=Gate(**{**options, **gate}))


def test_a_first_model_without_lists_to_compare_is_refused_and_it_is_said_how(small: Small) -> None:
    with pytest.raises(Refused, match=r"has no model to compare with yet.*judgments="):
        put(small, trained(GOOD))
    assert small.store.list_models() == []


def test_data_that_knows_no_documents_cannot_tell_unless_that_is_accepted(small: Small) -> None:
    old = first(small, trained(BAD))
    with pytest.raises(NotBetter, match=r"^cannot tell: .*does not know its queries and doc") as no:
        put(small, trained(GOOD), accepted=None)
    assert no.value.result.comparison.verdict().outcome == Outcome.CANNOT_TELL
    assert not no.value.result.passed
    assert small.store.list_models() == [old.model]
    done = put(small, trained(GOOD), accepted="the documents are those of the index")
    kept = DeploymentRecords(small.engine, small.store).get(done.model).gate
    assert kept is not None
    assert kept["accepted_unproven"] == "the documents are those of the index"
    assert kept["verdict"]["outcome"] == "cannot tell"
    assert kept["verdict"]["reasons"][0]["check"] == "not-searched"
    told = provenance(DeploymentRecords(small.engine, small.store).get(done.model))
    assert told["gate.accepted_unproven"] == "the documents are those of the index"
    assert told["gate.verdict"] == "cannot tell"


def test_an_interval_above_0_is_no_gain_where_the_test_does_not_find_one(small: Small) -> None:
    """Three queries that win and none that loses: p = .25, and nothing is claimed."""
    rng = np.random.default_rng(3)
    rare = replace(DATA, features=DATA.features.copy())
    rare.features[:, 1] = rare.features[:, 0]
    for query in range(3):
        rows = slice(8 * query, 8 * query + 8)
        rare.features[rows, 1] = rng.permutation(rare.features[rows, 0])[::-1]
    first(small, unknowing(BAD))
    with pytest.raises(NotBetter, match=r"^no significant difference: gain in") as no:
        put(small, unknowing(GOOD), data=rare)
    found = no.value.result.comparison.pairs[0].comparison
    assert (found.wins, found.losses) == (3, 0)
    assert found.p_permutation == pytest.approx(0.25, abs=0.02)


def test_a_champion_that_came_meanwhile_is_not_replaced_by_a_gain_over_another(
    small: Small,
) -> None:
    first(small, trained(BAD))
    meanwhile: list[str] = []
    documents = pa.array([f"d{number}" for number in range(DATA.n_documents)])
    params = pa.array([f'{{"keywords": "word {number}"}}' for number in range(DATA.n_queries)])
    asked = replace(DATA, doc_ids=documents, query_params=params)

    def ask(_data: RankingDataset) -> Any:
        meanwhile.append(first(small, trained((2.0, *GOOD[1:]))).model)
        raise UsageError("no index has these documents")

    with pytest.raises(Refused, match=r"was switched to 'm-.*' meanwhile, and the gain is over"):
        put(small, trained(GOOD), ask=ask, data=asked)
    alias = Aliases(small.engine, small.store).find(small.name)
    assert alias is not None
    assert [alias.current] == meanwhile
    assert set(small.store.list_models()) == alias.models


def test_a_better_model_gets_in_with_the_comparison_and_its_losers(small: Small) -> None:
    old = first(small, trained(BAD))
    done = put(small, trained(GOOD))
    assert done.alias.previous == (old.model,)
    assert done.gate is not None
    assert done.gate.over == old.model
    found = done.gate.comparison.pairs[0].comparison
    assert 0 < found.low < found.mean_difference < found.high
    assert found.n_queries == SPLIT.part(DATA, "test").n_queries
    assert found.detectable > 0
    assert all(one["new"] < one["old"] for one in losers(done.gate.comparison))
    assert all(one["keywords"].startswith("words of") for one in losers(done.gate.comparison))


def test_a_worse_or_equal_model_is_refused_and_nothing_is_stored(small: Small) -> None:
    old = first(small, trained(GOOD))
    for weights in (BAD, (2.0, 0.0, 0.0)):
        with pytest.raises(NotBetter, match="nothing was uploaded") as raised:
            put(small, trained(weights))
        assert len(losers(raised.value.result.comparison)) == (10 if weights == BAD else 0)
    assert small.store.list_models() == [old.model]
    assert Aliases(small.engine, small.store).find(small.name) == old.alias


def test_a_metric_that_should_fall_must_fall(small: Small) -> None:
    first(small, trained(GOOD))
    metric = parse_metric("pairwise-error")
    with pytest.raises(NotBetter):
        put(small, trained(BAD), metric=metric)
    other = replace(small, name=f"{small.name}-b")
    first(other, trained(BAD))
    assert put(other, trained(GOOD), metric=metric).gate is not None


def test_only_queries_held_out_from_both_models_count(small: Small) -> None:
    other = HashSplit(0.2, 0.3, salt="another")
    first(small, trained(BAD, other))
    both = (SPLIT.sides(DATA) == "test") & (other.sides(DATA) == "test")
    assert both.sum() < 6
    with pytest.raises(NotBetter) as no:
        put(small, trained(GOOD))
    assert no.value.result.comparison.pairs[0].comparison.n_queries == int(both.sum())


def test_a_comparison_on_training_queries_is_refused(small: Small) -> None:
    first(small, trained(BAD))
    with pytest.raises(
        Refused, match=r"held out from all.*the new model was trained on 80 of them"
    ):
        put(small, trained(GOOD, None))


def test_a_comparison_on_the_queries_that_chose_the_settings_is_refused(small: Small) -> None:
    first(small, trained(BAD))
    source = {"queries": {"train": {"ids": ""}, "validation": digests_of(DATA).as_dict()}}
    with pytest.raises(Refused, match=r"held out from all.*the new model was chosen on 80 of them"):
        put(small, linear(GOOD, source=source))


def test_of_a_model_that_tells_nothing_of_its_data_it_is_said_that_nothing_is_known(
    small: Small,
) -> None:
    before = first(small, linear(BAD, source={}))
    with pytest.raises(NotBetter, match=r"^cannot tell: nothing tells which queries") as refused:
        put(small, linear(GOOD, source={}), accepted=None)
    result = refused.value.result
    told = [one for one in result.comparison.verdict().warnings if one.check == "unknown-training"]
    for warning, whose in zip(told, ("the new model", before.model), strict=True):
        assert f"nothing tells which queries {whose} was trained on" in warning.message
    assert "held-out" not in gain_line(result)


def test_features_that_mean_something_else_are_not_compared(small: Small) -> None:
    first(small, trained(BAD))
    changed = replace(
        FEATURESET,
        name="other",
        features=(Feature("title", (), {"match_all": {}}), *FEATURESET.features[1:]),
    )
    small.store.put_featureset(changed)
    model = linear(GOOD, featureset_hash=changed.hash)
    with pytest.raises(Refused, match="reads the feature 'title'"):
        upload_model(
            small.engine, small.store, model, changed, index=small.index, name=small.name,
            gate=Gate(parse_metric("ndcg@10"), replace(DATA, featureset_hash=changed.hash), never),
        )  # fmt: skip
    fewer = replace(DATA, features=DATA.features[:, :2].copy(), feature_names=("title", "body"))
    with pytest.raises(BadInput, match="other features"):
        put(small, trained(GOOD), data=fewer)


def two_minds() -> RankingDataset:
    """Half of the queries follow the first feature, the others the second."""
    rng = np.random.default_rng(8)
    features = rng.uniform(0, 5, (80 * 8, 3)).astype(np.float32)
    followed = np.repeat(np.arange(80) % 2, 8)
    labels = np.clip(np.round(features[np.arange(len(features)), followed] - 1), 0, 3)
    ids = [f"q{number}" for number in range(80) for _ in range(8)]
    return make_dataset(features, labels, ids, feature_names=FEATURESET.feature_names)


def test_importance_decides_whether_a_model_gets_in(small: Small) -> None:
    first(small, linear(BAD, source=OTHERS))
    good = linear(GOOD, source=OTHERS)
    data = two_minds()
    likes_good = np.where(np.arange(80) % 2, 1.0, 20.0)
    for weights, words in (
        (None, "80 held-out queries, p"),
        (21.0 - likes_good, "by their import"),
    ):
        with pytest.raises(NotBetter, match=words) as raised:
            put(small, good, data=replace(data, query_weights=weights))
        assert raised.value.result.comparison.weighted == (weights is not None)
    done = put(small, good, data=replace(data, query_weights=likes_good)).gate
    assert done is not None
    assert done.as_dict()["weighted"] is True
    gains = done.comparison.pairs[0].comparison
    mine, theirs = (data.features[:, column] for column in (0, 1))
    values = [
        parse_metric("ndcg@10").per_query(s, data.labels, data.offsets) for s in (mine, theirs)
    ]
    expected = np.average(values[0] - values[1], weights=likes_good)
    assert gains.mean_difference == pytest.approx(float(expected), abs=1e-12)


def test_people_and_a_proxy_judge_together_let_a_better_model_in(small: Small) -> None:
    proxy, people = with_proxy_labels(0.5)
    first(small, unknowing(BAD))
    done = put(small, unknowing(GOOD), data=proxy, human=people).gate
    assert done is not None
    powered = done.gains.prediction_powered
    assert powered is not None
    assert (powered.n_queries, powered.n_human) == (80, 40)
    assert powered.by_both.low > 0
    assert done.passed
    assert done.comparison.pairs[0].comparison.n_queries == 40
    assert powered.by_human.mean == pytest.approx(
        done.comparison.pairs[0].comparison.mean_difference
    )
    assert done.as_dict()["powered"]["decided"] is True


def test_a_proxy_judge_whom_people_contradict_lets_nobody_in(small: Small) -> None:
    """The proxy judge likes the new model on every query; people like the old one."""
    first(small, unknowing(GOOD))
    proxy, people = with_proxy_labels(0.5)
    bad = proxy.features[:, 1]
    flattering = replace(proxy, labels=np.clip(np.round(bad - 1), 0, 3).astype(np.float32))
    with pytest.raises(NotBetter, match="proxy labels alone, which are biased, \\+0") as no:
        put(small, unknowing(BAD), data=flattering, human=people)
    found = no.value.result.gains.prediction_powered
    assert found is not None
    assert found.by_proxy.low > 0
    assert found.by_both.high < 0


def test_an_error_must_fall_by_both_judges_too(small: Small) -> None:
    proxy, people = with_proxy_labels(0.5)
    metric = parse_metric("pairwise-error")
    first(small, unknowing(BAD))
    done = put(small, unknowing(GOOD), data=proxy, human=people, metric=metric).gate
    assert done is not None
    powered = done.gains.prediction_powered
    assert powered is not None
    assert powered.by_both.low > 0


def test_people_may_judge_a_dataset_of_their_own_and_held_out_queries_count_alone(
    small: Small,
) -> None:
    proxy, _ = with_proxy_labels(1.0, 0.02)
    split = HashSplit(0.1, 0.6)
    source = seen_sides(proxy.query_ids.to_pylist(), split)
    first(small, linear(BAD, source=source))
    own = replace(DATA, doc_ids=proxy.doc_ids).select(np.arange(0, 80, 2))
    done = put(small, linear(GOOD, source=source), data=proxy, human=own).gate
    assert done is not None
    powered = done.gains.prediction_powered
    assert powered is not None
    test = split.sides(proxy) == "test"
    assert (powered.n_queries, powered.n_human) == (test.sum(), test[::2].sum())


def test_queries_that_are_all_as_important_change_no_figure(small: Small) -> None:
    alike = replace(DATA, query_weights=np.full(DATA.n_queries, 3.0))
    told = []
    for name, data in (("one", DATA), ("other", alike)):
        at = replace(small, name=f"{small.name}-{name}")
        first(at, linear(BAD, source=OTHERS))
        gate = put(at, linear(GOOD, source=OTHERS), data=data).gate
        assert gate is not None
        told.append(gate.as_dict() | {"over": "", "cautions": []})
    assert told[0] == told[1]
    assert told[0]["weighted"] is False
