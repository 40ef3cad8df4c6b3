"""The demo of hybrid search: its vectors, and the whole of it, small, on a node with vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_demo.demo import demo
from owpc_ltr_demo.hybrid import LatentSemantics, learn_to_fuse
from owpc_ltr_demo.session import HYBRID_INDEX, HYBRID_STEPS, DemoOptions

from owpc_ltr.errors import UsageError
from tests.demo.test_demo import Listening

TEXTS = (
    "a ship sails the ocean",
    "a boat crosses the ocean",
    "a ship and a boat",
    "the tree grows in the wood",
    "wood of a tree",
    "trees grow slowly, each tree",
)


def test_vectors_are_those_of_the_leading_singular_vectors() -> None:
    """With all dimensions the angles are those of the weighted words themselves."""
    words = {word for text in TEXTS for word in text.split() if len(word) > 1}
    space = LatentSemantics.of(TEXTS, dimensions=4)
    assert space.words.keys() < words
    counts = np.array([[text.split().count(word) for word in space.words] for text in TEXTS])
    weighted = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * space.weights
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    _, _, axes = np.linalg.svd(weighted)
    expected = weighted @ axes[:4].T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = space.vectors(TEXTS)
    # Singular vectors have no sign; the angles between texts do.
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_text_is_near_one_whose_words_it_does_not_have() -> None:
    space = LatentSemantics.of(TEXTS, dimensions=2)
    ship, boat, wood = space.vectors(["ship", "boat", "wood"])
    assert ship @ boat > 0.9
    assert ship @ wood < 0.5


def test_a_text_of_unknown_words_has_no_vector_and_the_same_texts_have_the_same() -> None:
    space, again = (LatentSemantics.of(TEXTS, dimensions=3) for _ in range(2))
    assert not space.vectors(["quux", ""]).any()
    np.testing.assert_array_equal(space.vectors(TEXTS), again.vectors(TEXTS))


def test_two_demos_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="clicks= and hybrid= are two demos"):
        demo(folder=tmp_path, clicks=True, hybrid=True)


@pytest.mark.thorough
def test_the_demo_fuses_uploads_and_serves_what_it_learned(
    vectors_url: str, tmp_path: Path
) -> None:
    options = DemoOptions(folder=tmp_path, queries=400, index=HYBRID_INDEX)
    session = Listening(options, HYBRID_STEPS)
    session.figures["seconds"]["node"] = 0.0
    commands = learn_to_fuse(session, vectors_url)

    figures = session.figures
    assert session.announced == [(number, HYBRID_STEPS) for number in range(2, HYBRID_STEPS + 1)]
    assert {each["check"] for each in figures["lint"]["findings"]} == {
        "no-pagination-depth",
        "skipping-mean",
        "k-below-window",
    }
    assert all(each["example"] for each in figures["lint"]["findings"])
    assert figures["fuse"]["verdict"]["outcome"] == "better"
    means = {
        ranker["name"]: ranker["metrics"][0]["mean"]
        for ranker in figures["fuse"]["comparison"]["rankers"]
    }
    assert means["learned weights"] > means["lexical"] > means["RRF k=60"]
    assert figures["parity"] <= 1e-5
    assert figures["live"] > means["lexical"]
    legs = json.loads((tmp_path / "python-docs-vectors-legs.json").read_text())
    assert [each["name"] for each in legs["featureset"]["features"]] == ["lexical", "dense"]
    assert any(command.split()[1] == "fuse" for command in commands)
