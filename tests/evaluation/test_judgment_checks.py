"""Judgments that would teach harm are told, and good ones are left in peace."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset, read_dataset
from owpc_ltr.evaluation.judged_data import judgment_warnings
from owpc_ltr.evaluation.ranked_lists import RankedLists, ranked_lists
from owpc_ltr.evaluation.rules import ranked_list_warnings, recall_warnings
from owpc_ltr.features.feature_set import Feature, FeatureSet, load_featureset
from owpc_ltr.features.query_analysis import text_scores
from tests.datasets import train_on_all

NAMES = ("title", "body", "size")
ROOT = Path(__file__).parents[2]


def findings(data: RankingDataset, text_features: Collection[str] | None = None) -> list[str]:
    """What looks harmful in the judgments, one line each."""
    return [warning.line for warning in judgment_warnings(data, text_features)]


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
        assert findings(honest(seed=seed)) == []
        assert findings(honest(seed=seed), ("title", "body")) == []


def test_known_items_among_random_documents_are_told() -> None:
    text = "\n".join(findings(known_items(), ("title", "body")))
    assert "alone tells relevant from irrelevant documents in" in text
    assert "each of 120 queries has 1 relevant and 10 irrelevant documents" in text
    assert "judge pool" in text


def test_relevant_documents_that_no_query_brings_are_told() -> None:
    data = honest()
    gone = np.where(data.labels > 0, np.nan, data.features[:, 0])
    body = np.where(data.labels > 0, 0.0, data.features[:, 1])
    lines = findings(with_values(data, title=gone, body=body), ("title", "body"))
    assert any(
        "100% of the relevant documents have no match in any text feature" in f for f in lines
    )
    one_left = with_values(data, title=gone)
    assert not any("no match" in f for f in findings(one_left, ("title", "body")))


def test_text_scores_that_are_worse_than_a_coin_are_told() -> None:
    data = honest()
    turned = with_values(data, title=-data.features[:, 0], body=-data.features[:, 1])
    (line,) = findings(turned, ("title", "body"))
    assert line.startswith("every single text feature ranks these judgments at or below random")
    # The size is no text score, and half of the time right by chance; a good one ends the doubt.
    better = with_values(turned, body=data.features[:, 1])
    assert findings(better, ("title", "body")) == []


def test_a_pattern_of_missing_values_that_gives_the_relevant_away_is_told() -> None:
    data = honest()
    rng = np.random.default_rng(5)
    size = np.where(data.labels > 0, rng.random(data.n_documents), np.nan)
    lines = findings(with_values(data, size=size), ("title", "body"))
    assert len(lines) == 1
    assert "'size'" in lines[0]


def test_a_feature_of_the_document_hides_nothing_where_its_set_is_not_known() -> None:
    """Popularity is always there; it is known for what it is by documents that come back."""
    data = honest()
    rng = np.random.default_rng(2)
    documents = rng.integers(0, 40, data.n_documents)
    gone = np.where(data.labels > 0, np.nan, data.features[:, 0])
    body = np.where(data.labels > 0, np.nan, data.features[:, 1])
    lost = with_values(data, title=gone, body=body, size=1.0 + documents)
    lost = replace(lost, doc_ids=pa.array([f"d{d}" for d in documents]))
    assert any("in any feature of the query" in line for line in findings(lost))


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_documents_and_of_queries_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for data in (known_items(40), honest(40)):
        turned = data.select(rng.permutation(data.n_queries))
        lengths = np.diff(turned.offsets)
        rows = np.lexsort((rng.random(turned.n_documents), np.repeat(range(len(lengths)), lengths)))
        turned = replace(turned, features=turned.features[rows], labels=turned.labels[rows])
        assert findings(turned) == findings(data)


def test_real_judgments_of_what_was_brought_give_no_warning(shared_data: Path) -> None:
    assert findings(read_dataset(shared_data / "letor2-ohsumed" / "S1.txt.xz")) == []


def test_what_training_warned_of_is_kept_in_the_record_of_the_model_and_of_its_averages(
    tmp_path: Path,
) -> None:
    data = known_items(60)
    data = replace(data, features=np.column_stack([data.features[:, :2], np.ones(len(data.labels))])
                   .astype(np.float32))  # fmt: skip
    with pytest.warns(ltr.OwpcLtrWarning) as given:
        model = train_on_all(data, settings={"C": 1.0})
    messages = [str(warning.message) for warning in given]
    assert any("1 relevant and 10 irrelevant" in message for message in messages)
    assert any("size" in message for message in messages), messages
    assert model.record["warnings"] == list(dict.fromkeys(messages))
    ltr.save_model(model, tmp_path / "model.json")
    assert ltr.load_model(tmp_path / "model.json").record["warnings"] == model.record["warnings"]
    assert ltr.average([model, model]).record["warnings"] == model.record["warnings"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ltr.OwpcLtrWarning)
        assert train_on_all(honest(60), settings={"C": 1.0}).record["warnings"] == []


def test_few_queries_give_no_verdict() -> None:
    assert findings(known_items(19)) == []


def test_of_a_large_dataset_whole_queries_are_looked_at() -> None:
    lines = findings(known_items(3000))
    assert any("1 relevant and 10 irrelevant" in line for line in lines)


def test_relevant_documents_beyond_the_window_are_told() -> None:
    assert not [*recall_warnings(0.5, 100, 50), *recall_warnings(float("nan"), 100, 50)]
    (lost,) = recall_warnings(0.2, 100, 50)
    assert "only 20% of the relevant documents are among the first 100" in lost.line


QUERIES, WINDOW = 60, 30


@dataclass(frozen=True)
class World:
    """Queries with a true grade of every document, and the lists of two rankers that know some."""

    truth: list[dict[str, float]]
    old: list[list[str]]
    new: list[list[str]]

    def lists(self, judged: list[dict[str, float]]) -> dict[str, RankedLists]:
        """The lists by these judgments."""
        return {
            "the old one": ranked_lists(self.old, judged, WINDOW),
            "the new one": ranked_lists(self.new, judged, WINDOW),
        }

    def checks(self, judged: list[dict[str, float]]) -> set[str]:
        """Which checks doubt these judgments."""
        lists = self.lists(judged)
        return {warning.check for warning in ranked_list_warnings(lists, lists["the old one"])}

    def graded(self, *of: list[list[str]], depth: int = 10) -> list[dict[str, float]]:
        """The true grades of the first documents of these lists."""
        return [
            {name: self.truth[query][name] for ranking in of for name in ranking[query][:depth]}
            for query in range(QUERIES)
        ]


def world(seed: int = 0) -> World:
    rng = np.random.default_rng(seed)
    names = [f"d{n}" for n in range(WINDOW)]
    truth: list[dict[str, float]] = []
    old: list[list[str]] = []
    new: list[list[str]] = []
    for _ in range(QUERIES):
        good = rng.normal(size=WINDOW)
        grades = np.digitize(good, [0.3, 1.0, 1.6]).astype(float)
        truth.append(dict(zip(names, grades.tolist(), strict=True)))
        for lists, noise in ((old, 2.0), (new, 1.5)):
            order = np.argsort(-(good + noise * rng.normal(size=WINDOW)))
            lists.append([names[place] for place in order])
    return World(truth, old, new)


def test_a_pool_of_both_rankers_is_believed() -> None:
    for seed in range(20):
        simulated = world(seed)
        assert simulated.checks(simulated.graded(simulated.old, simulated.new)) == set()


def test_a_pool_with_the_usual_holes_is_believed() -> None:
    """Two thirds to three quarters of either list, as judgment lists of old have."""
    rng = np.random.default_rng(1)
    simulated = world()
    judged = [
        {name: grade for name, grade in known.items() if rng.random() < 0.73}
        for known in simulated.graded(simulated.old, simulated.new)
    ]
    assert simulated.checks(judged) == set()


def positives(*names: str, of: list[str]) -> dict[str, float]:
    return {name: float(name in names) for name in of}


def scheme(name: str, simulated: World) -> list[dict[str, float]]:
    """A list of judgments as somebody makes it who has no people to judge."""
    rng = np.random.default_rng(7)
    strangers = [f"x{n}" for n in range(50)]
    best = [max((grade, name) for name, grade in known.items())[1] for known in simulated.truth]
    numbers = range(QUERIES)
    every = simulated.graded(simulated.old, simulated.new)
    made = {
        "known items, random negatives": [
            positives(best[q], of=[best[q], *rng.choice(strangers, 10, replace=False).tolist()])
            for q in numbers
        ],
        "known items, unclicked negatives": [
            positives(best[q], of=list({best[q], *simulated.old[q][:10]})) for q in numbers
        ],
        "known items, next-page negatives": [
            positives(best[q], of=list({best[q], *simulated.old[q][10:20]})) for q in numbers
        ],
        "top 1 of the old one": [
            positives(simulated.old[q][0], of=simulated.old[q][:10]) for q in numbers
        ],
        "top 1 of the old one in a pool": [
            positives(simulated.old[q][0], of=list(every[q])) for q in numbers
        ],
        "top 10 of the old one": [
            positives(*simulated.old[q][:10], of=[*simulated.old[q][:10], *strangers[:10]])
            for q in numbers
        ],
        "clicked documents": [
            dict.fromkeys((d for d in simulated.old[q][:10] if rng.random() < 0.3), 1.0)
            for q in numbers
        ],
        "the old one's list": simulated.graded(simulated.old),
        "the new one's list": simulated.graded(simulated.new),
        "random documents": [
            {
                d: simulated.truth[q][d]
                for d in rng.permutation(sorted(simulated.truth[q]))[:6].tolist()
            }
            for q in numbers
        ],
        "what the new one scores": [
            positives(*simulated.new[q][:4], of=list(every[q])) for q in numbers
        ],
        "inverted grades": [{d: 3.0 - grade for d, grade in known.items()} for known in every],
        "a pool to depth 1": simulated.graded(simulated.old, simulated.new, depth=1),
    }
    return made[name]


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("known items, random negatives", {"unjudged", "known-items"}),
        ("known items, unclicked negatives", {"unjudged", "known-items"}),
        ("known items, next-page negatives", {"unjudged", "known-items"}),
        ("top 1 of the old one", {"unjudged", "known-items", "made-from-a-list"}),
        ("top 1 of the old one in a pool", {"known-items", "made-from-a-list"}),
        ("top 10 of the old one", {"unjudged", "one-grade"}),
        ("clicked documents", {"unjudged", "one-grade"}),
        ("the old one's list", {"unjudged"}),
        ("the new one's list", {"unjudged"}),
        ("random documents", {"unjudged"}),
        ("what the new one scores", {"made-from-a-list"}),
        ("inverted grades", {"inverted"}),
        ("a pool to depth 1", {"unjudged"}),
    ],
)
def test_judgments_that_cannot_tell_are_doubted_whoever_made_them(
    name: str, checks: set[str]
) -> None:
    for seed in range(3):
        simulated = world(seed)
        doubts = simulated.checks(scheme(name, simulated))
        assert doubts & checks, (name, doubts)
        assert checks <= doubts or name.startswith("top 10"), (name, doubts)


def test_a_doubt_names_rankers_shares_and_what_to_do() -> None:
    simulated = world()
    (warning,) = ranked_list_warnings(simulated.lists(simulated.graded(simulated.old)))
    assert re.fullmatch(
        r"(only )?\d\d% of the first ten documents of the new one are judged, and 100% of those of "
        r"the old one \(mean of 60 queries\)",
        warning.message,
    )
    assert "judge_pool" in warning.advice


def test_a_few_queries_give_no_doubt_but_of_what_is_judged() -> None:
    lists = {"one": ranked_lists([["a", "b"]] * 5, [{"a": 1.0, "b": 0.0}] * 5, 10)}
    assert ranked_list_warnings(lists, lists["one"]) == []
    nothing = {"one": ranked_lists([[]] * 30, [{"a": 1.0}] * 30, 10)}
    assert {warning.check for warning in ranked_list_warnings(nothing)} == {"known-items"}


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
