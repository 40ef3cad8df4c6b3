"""Lists explained: ranks, contributions, and what rerankers tell."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from owpc_ltr_rerankers.exchangeable import ExchangeableReordering, ReorderingShape

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.explanations.explanation import ServedList, explain_list
from owpc_ltr.models.combined import AverageModel, ReorderingModel
from owpc_ltr.protocols import ListTerm
from tests.explain.models import (
    FEW,
    KINDS,
    NAMES,
    SEEDS,
    averaged,
    documents,
    linear,
    trees,
)


def served(ranker: Any, rows: Matrix, fields: Fields | None = None) -> ServedList:
    """The documents in the order of the ranker's own scores."""
    if isinstance(ranker, ReorderingModel):
        scores = ranker.rerank(rows, None, fields)
    else:
        scores = ranker.score(rows)
    order = np.argsort(-scores, kind="stable")
    ids = [f"d{row}" for row in order.tolist()]
    before = [row + 1 for row in order.tolist()]
    return ServedList("words", "m", ids, ids, rows[order], scores[order], before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_hit_adds_up_and_has_the_rank_that_it_has(
    kind: Any, rng: np.random.Generator
) -> None:
    model = kind(rng)
    explanation = explain_list(model, served(model, documents(rng, 60)))
    assert explanation.warnings == ()
    assert explanation.documents == len(explanation.hits) == 60
    for rank, hit in enumerate(explanation.hits, 1):
        assert hit.rank == rank
        assert np.isclose(explanation.baseline + hit.contributions.sum(), hit.score, atol=1e-9)
        total = sum(term.contribution for term in hit.largest(2)) + hit.rest(2)
        assert np.isclose(total, hit.contributions.sum())
    means = np.mean([hit.contributions for hit in explanation.hits], axis=0)
    np.testing.assert_allclose(means, explanation.mean_contributions)


def test_scores_that_are_not_what_is_explained_are_told(rng: np.random.Generator) -> None:
    model = linear(rng)
    listed = served(model, documents(rng, 20))
    scores = listed.scores.copy()
    scores[3] *= 1 + 2e-6
    assert explain_list(model, replace(listed, scores=scores)).warnings == ()
    scores[3] += 0.01
    (warning,) = explain_list(model, replace(listed, scores=scores)).warnings
    assert listed.doc_ids[3] in warning
    assert "(1 documents differ)" in warning
    scores[3] = np.nan
    assert explain_list(model, replace(listed, scores=scores)).warnings


def reordering(weights: Any = ((0.8, -0.4),)) -> ExchangeableReordering:
    shape = ReorderingShape("cosine,rbf", kernel_sums="raw")
    return ExchangeableReordering(NAMES, shape, np.array(weights), np.ones(1))


@FEW
@given(SEEDS)
def test_a_reordered_list_adds_up_with_the_terms_of_its_reranker(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranker = ReorderingModel(averaged(rng), "exchangeable", reordering())
    explanation = explain_list(ranker, served(ranker, documents(rng, 25)))
    assert explanation.warnings == ()
    for hit in explanation.hits:
        assert [part.name for part in hit.parts] == ["the list by cosine", "the list by rbf"]
        total = (
            explanation.baseline + hit.contributions.sum() + sum(part.amount for part in hit.parts)
        )
        assert np.isclose(total, hit.score, atol=1e-8)
        assert all(part.documents for part in hit.parts if part.amount)
        assert hit.document_id not in {doc_id for part in hit.parts for doc_id, _ in part.documents}


@dataclass(frozen=True)
class Doubling:
    """A third-party reordering, which says nothing of its lists."""

    kind: ClassVar[str] = "doubling"
    field_names: ClassVar[tuple[str, ...]] = ()
    feature_names: tuple[str, ...] = NAMES

    def rerank(self, features: Any, base: Any, offsets: Any = None, fields: Any = None) -> Vector:
        return np.asarray(2 * base)

    def as_dict(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Lying(Doubling):
    """One that says too little, or gives no number a document."""

    by: float = 0.5

    def explain(self, features: Any, base: Any, fields: Any = None) -> list[ListTerm]:
        amount = self.by * base if self.by else np.zeros(1)
        return [ListTerm("half of it", amount)]


def test_a_reranker_that_does_not_explain_its_lists_is_one_term(rng: np.random.Generator) -> None:
    ranker = ReorderingModel(linear(rng), "doubling", Doubling())
    explanation = explain_list(ranker, served(ranker, documents(rng, 10)))
    assert explanation.warnings == ()
    for hit in explanation.hits:
        (part,) = hit.parts
        assert part.name == "the list"
        assert np.isclose(part.amount, hit.score / 2)


@pytest.mark.parametrize("by", [0.5, np.nan, 0.0])
def test_terms_that_do_not_add_up_are_one_term_and_a_warning(
    rng: np.random.Generator, by: float
) -> None:
    ranker = ReorderingModel(linear(rng), "doubling", Lying(by=by))
    explanation = explain_list(ranker, served(ranker, documents(rng, 10)))
    (warning,) = explanation.warnings
    assert "reranker 'doubling'" in warning
    assert {part.name for hit in explanation.hits for part in hit.parts} == {"the list"}
    honest = ReorderingModel(linear(rng), "doubling", Lying(by=1.0))
    assert explain_list(honest, served(honest, documents(rng, 10))).warnings == ()


def test_one_document_is_explained_fully_and_its_neighbours_are_not(
    rng: np.random.Generator,
) -> None:
    model = AverageModel(NAMES, (trees(rng), linear(rng)), np.ones(2))
    listed = served(model, documents(rng, 20))
    explanation = explain_list(model, listed, document=listed.doc_ids[4], size=3)
    (hit,) = explanation.hits
    assert (hit.rank, explanation.documents) == (5, 20)
    assert len(hit.how) == len(NAMES)
    assert len(hit.paths) == 3
    listed_hits = explain_list(model, listed, size=3)
    assert [hit.how for hit in listed_hits.hits] == [(), (), ()]


def test_a_document_that_is_not_there_is_said(rng: np.random.Generator) -> None:
    model = linear(rng)
    listed = served(model, documents(rng, 5))
    with pytest.raises(UsageError, match="'none' is not among the 5 documents of 'words'"):
        explain_list(model, listed, document="none")


def test_an_explanation_is_json_and_html_and_text(rng: np.random.Generator) -> None:
    ranker = ReorderingModel(trees(rng), "exchangeable", reordering())
    rows = documents(rng, 10)
    listed = served(ranker, rows)
    titles = ["<b>bold</b>", *listed.doc_ids[1:]]
    explanation = explain_list(ranker, replace(listed, titles=titles), document=listed.doc_ids[0])
    content = json.loads(json.dumps(explanation.as_dict(), allow_nan=False))
    (hit,) = content["hits"]
    values = [each["value"] for each in hit["features"]]
    own = listed.features[0]
    assert [value is None for value in values] == np.isnan(own).tolist()
    assert [part["name"] for part in hit["parts"]] == ["the list by cosine", "the list by rbf"]
    assert content["baseline"] + sum(each["contribution"] for each in hit["features"]) + sum(
        part["amount"] for part in hit["parts"]
    ) == pytest.approx(hit["score"])
    assert "<b>bold</b>" not in explanation._repr_html_()
    assert "&lt;b&gt;bold" in explanation._repr_html_()
    assert repr(explanation).splitlines()[1].startswith("1 (was ")


def test_nothing_found_is_an_explanation_of_nothing(rng: np.random.Generator) -> None:
    for model in (linear(rng), trees(rng), averaged(rng)):
        empty = ServedList("w", "m", [], [], np.zeros((0, 5), np.float32), np.zeros(0), [])
        explanation = explain_list(model, empty)
        assert (explanation.hits, explanation.warnings) == ((), ())
