"""Judgments that would teach harm are told, and good ones are left in peace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.parquet import read_dataset
from owpc_ltr.evaluation.judgment_checks import judgment_findings, live_findings
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.loading import load_featureset
from owpc_ltr.features.text_scores import text_scores

NAMES = ("title", "body", "size")
ROOT = Path(__file__).parents[1]


def honest(queries: int = 120, seed: int = 0) -> RankingDataset:
    """What a query brings, judged: text scores help, and no pattern gives the relevant away."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 16, queries)
    rows = int(sizes.sum())
    labels = (rng.random(rows) < 0.3).astype(np.float32)
    title = rng.gamma(2.0, 2.0, rows) + labels
    body = rng.gamma(2.0, 1.0, rows) + 0.5 * labels
    title[rng.random(rows) < 0.3] = np.nan
    features = np.column_stack([title, body, rng.random(rows)]).astype(np.float32)
    return make_dataset(
        features, labels, np.repeat([f"q{q}" for q in range(queries)], sizes), feature_names=NAMES
    )


def known_items(queries: int = 120, negatives: int = 10, seed: int = 1) -> RankingDataset:
    """One answer a query, whatever its words, beside documents drawn at random."""
    rng = np.random.default_rng(seed)
    labels = np.tile([1.0] + [0.0] * negatives, queries).astype(np.float32)
    rows = len(labels)
    text = np.where(labels > 0, rng.gamma(5.0, 2.0, rows) + 6.0, rng.random(rows))
    text[(labels == 0) & (rng.random(rows) < 0.9)] = np.nan
    features = np.column_stack([text, text / 2, rng.random(rows)]).astype(np.float32)
    ids = np.repeat([f"q{q}" for q in range(queries)], negatives + 1)
    return make_dataset(features, labels, ids, feature_names=NAMES)


def with_values(data: RankingDataset, **columns: np.ndarray) -> RankingDataset:
    features = data.features.copy()
    for name, values in columns.items():
        features[:, data.feature_names.index(name)] = values
    return replace(data, features=features)


def test_what_a_query_brings_gives_no_warning() -> None:
    for seed in range(5):
        assert judgment_findings(honest(seed=seed)) == []
        assert judgment_findings(honest(seed=seed), ("title", "body")) == []


def test_known_items_among_random_documents_are_told() -> None:
    found = "\n".join(judgment_findings(known_items(), ("title", "body")))
    assert "alone tells relevant from irrelevant documents in" in found
    assert "each of 120 queries has 1 relevant and 10 irrelevant documents" in found
    assert "judge pool" in found


def test_relevant_documents_that_no_query_brings_are_told() -> None:
    data = honest()
    gone = np.where(data.labels > 0, np.nan, data.features[:, 0])
    body = np.where(data.labels > 0, 0.0, data.features[:, 1])
    found = judgment_findings(with_values(data, title=gone, body=body), ("title", "body"))
    assert any(
        "100% of the relevant documents have no match in any text feature" in f for f in found
    )
    one_left = with_values(data, title=gone)
    assert not any("no match" in f for f in judgment_findings(one_left, ("title", "body")))


def test_text_scores_that_are_worse_than_a_coin_are_told() -> None:
    data = honest()
    turned = with_values(data, title=-data.features[:, 0], body=-data.features[:, 1])
    (found,) = judgment_findings(turned, ("title", "body"))
    assert found.startswith("every single text feature ranks these judgments at or below random")
    # The size is no text score, and half of the time right by chance; a good one ends the doubt.
    better = with_values(turned, body=data.features[:, 1])
    assert judgment_findings(better, ("title", "body")) == []


def test_a_pattern_of_missing_values_that_gives_the_relevant_away_is_told() -> None:
    data = honest()
    rng = np.random.default_rng(5)
    size = np.where(data.labels > 0, rng.random(data.n_documents), np.nan)
    found = judgment_findings(with_values(data, size=size), ("title", "body"))
    assert len(found) == 1
    assert "'size'" in found[0]


def test_a_feature_of_the_document_hides_nothing_where_its_set_is_not_known() -> None:
    """Popularity is always there; it is known for what it is by documents that come back."""
    data = honest()
    rng = np.random.default_rng(2)
    documents = rng.integers(0, 40, data.n_documents)
    gone = np.where(data.labels > 0, np.nan, data.features[:, 0])
    body = np.where(data.labels > 0, np.nan, data.features[:, 1])
    lost = with_values(data, title=gone, body=body, size=1.0 + documents)
    lost = replace(lost, document_ids=pa.array([f"d{d}" for d in documents]))
    assert any("in any feature of the query" in found for found in judgment_findings(lost))


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_documents_and_of_queries_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for data in (known_items(40), honest(40)):
        turned = data.select(rng.permutation(data.n_queries))
        lengths = np.diff(turned.offsets)
        rows = np.lexsort((rng.random(turned.n_documents), np.repeat(range(len(lengths)), lengths)))
        turned = replace(turned, features=turned.features[rows], labels=turned.labels[rows])
        assert judgment_findings(turned) == judgment_findings(data)


def test_real_judgments_of_what_was_brought_give_no_warning(shared_data: Path) -> None:
    assert judgment_findings(read_dataset(shared_data / "letor2-ohsumed" / "S1.txt.xz")) == []


def test_few_queries_give_no_verdict() -> None:
    assert judgment_findings(known_items(19)) == []


def test_of_a_large_dataset_whole_queries_are_looked_at() -> None:
    found = judgment_findings(known_items(3000))
    assert any("1 relevant and 10 irrelevant" in one for one in found)


def test_live_figures_that_tell_nothing_are_told() -> None:
    assert live_findings(0.9, (0.8, 0.7), 100, 50) == []
    assert live_findings(float("nan"), (float("nan"),), 100, 50) == []
    (lost,) = live_findings(0.2, (0.9,), 100, 50)
    assert "only 20% of the relevant documents are among the first 100" in lost
    (unjudged,) = live_findings(0.9, (0.9, 0.11), 100, 50)
    assert "only 11% of the first ten documents are judged" in unjudged


def test_features_that_score_a_match_are_told_from_the_rest() -> None:
    match = {"match": {"title": "{{keywords}}"}}
    replaced = {"function_score": {"query": match, "boost_mode": "replace", "random_score": {}}}
    featureset = FeatureSet(
        "some",
        (
            Feature("plain", ("keywords",), match),
            Feature("within", ("keywords",), {"bool": {"should": [match]}}),
            Feature("text", ("keywords",), '{"match": {"title": "{{keywords}}"}}'),
            Feature("constant", ("keywords",), {"constant_score": {"filter": match}}),
            Feature("filtered", ("keywords",), {"bool": {"filter": [match]}}),
            Feature("replaced", ("keywords",), replaced),
            Feature("field", (), {"match_all": {}}),
            Feature("derived", (), "plain * 2", "derived_expression"),
        ),
    )
    assert text_scores(featureset) == ("plain", "within", "text")


@pytest.mark.parametrize("name", ["python-docs", "movies"])
def test_shipped_sets_have_text_scores_and_others(name: str) -> None:
    path = ROOT / "featuresets" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"no {path.name}")
    featureset = load_featureset(path)
    assert 0 < len(text_scores(featureset)) < len(featureset.features)
