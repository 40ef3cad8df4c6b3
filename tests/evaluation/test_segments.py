"""Segments of the queries: who loses in one is not better, unless the loss is accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.attempts import AttemptsFile
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.measurement import (
    ComparedQueries,
    ComparisonPlan,
    PerQueryResults,
    RankerResults,
    Resampling,
)
from owpc_ltr.evaluation.segments import FEWEST, by_frequency, by_length, segments_of
from owpc_ltr.evaluation.significance import Outcome, Verdict, holm
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.rankers import NAMES, linear
from tests.verdict_paths import METRIC, PATHS, World

QUERIES, DOCUMENTS = 240, 8
NEW, OLD = linear(1.0, 0.0), linear(0.0, 1.0)
TAIL = "frequency: tail"
Array = np.ndarray[Any, np.dtype[np.float64]]


def judged(loss: float = 0.45, seed: int = 3) -> RankingDataset:
    """The new model is better in the mean, and loses where queries are seldom asked."""
    rng = np.random.default_rng(seed)
    weights = np.round(100 / (1 + np.arange(QUERIES)) ** 0.5)
    tail = by_frequency(weights)["tail"]
    labels = rng.integers(0, 3, (QUERIES, DOCUMENTS))
    strength = np.stack([np.where(tail, 0.5 - loss, 1.4), np.full(QUERIES, 0.5)], axis=1)
    features = strength[:, None, :] * labels[:, :, None] + rng.normal(size=(*labels.shape, 2))
    texts = [" ".join(f"w{n}x{place}" for place in range(1 + n % 4)) for n in range(QUERIES)]
    params = [
        json.dumps({"keywords": text, "language": ["de", "en", "fr"][n % 3]})
        for n, text in enumerate(texts)
    ]
    return make_dataset(
        features.reshape(-1, 2),
        labels.ravel(),
        np.repeat([f"q{n}" for n in range(QUERIES)], DOCUMENTS),
        NAMES,
        doc_ids=[f"d{n}" for n in range(labels.size)],
        query_weights=weights,
        query_params=pa.array(params),
    )


DATA = judged()


def folds(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    """The same queries, as the test data of two folds."""
    halves = [world.data.select(np.arange(n, QUERIES, 2)) for n in range(2)]
    rankers = {"new": "feature:bm25", "old": "feature:likes"}
    comparison = ltr.compare(
        rankers, data=halves, metrics=METRIC, resamples=500, accept_loss=world.accept_loss
    )
    return comparison.verdict("new", "old")


def parts(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    """The same queries, as a folder of parts."""
    folder = world.folder / f"parts {len(world.accept_loss)}"
    ltr.partition(world.data, out=folder, buckets=3)
    data = ltr.open_dataset(folder)
    comparison = ltr.compare(
        {"new": world.new, "old": world.old},
        data=data,
        metrics=METRIC,
        split="all",
        resamples=500,
        accept_loss=world.accept_loss,
    )
    return comparison.verdict("new", "old")


def proxy_labels(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    """Human labels of half of the queries, which alone show no difference but that in the tail."""
    sample = np.sort(np.random.default_rng(7).permutation(QUERIES)[: QUERIES // 2])
    rng = np.random.default_rng(2)
    wrong = rng.random(world.data.n_documents) < 0.3
    others = rng.integers(0, 3, world.data.n_documents)
    labels = np.where(wrong, others, world.data.labels).astype(np.float32)
    comparison = ltr.compare(
        {"new": world.new, "old": world.old},
        data=world.data.select(sample),
        proxy_labels=replace(world.data, labels=labels),
        metrics=METRIC,
        split="all",
        resamples=500,
        accept_loss=world.accept_loss,
    )
    alone = replace(comparison.pair("new", "old").by_human_labels, warnings=())
    assert alone.verdict.outcome is Outcome.NO_DIFFERENCE
    return comparison.verdict("new", "old")


EVERY: Mapping[str, Callable[[World, pytest.MonkeyPatch], Verdict]] = {
    **PATHS,
    "folds": folds,
    "parts": parts,
    "proxy labels": proxy_labels,
}


@pytest.mark.parametrize("path", EVERY)
def test_a_ranker_that_loses_in_the_tail_is_not_better_on_any_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    world = World(NEW, OLD, DATA, tmp_path)
    verdict = EVERY[path](world, monkeypatch)
    assert verdict.outcome is Outcome.CANNOT_TELL
    assert {warning.check for warning in verdict.warnings} == {"segment-loses"}
    assert f"in the segment '{TAIL}'" in verdict.reason
    assert f"`accept_loss='{TAIL}'`" in verdict.warnings[0].advice
    world.accept_loss = (" Frequency:  TAIL ",)
    assert str(EVERY[path](world, monkeypatch)) == "better"


def compared(**how: Any) -> RankerComparison:
    options = {"metrics": "ndcg@5", "split": "all", "resamples": 500, **how}
    rankers = options.pop("rankers", {"new": NEW, "old": OLD})
    return ltr.compare(rankers, data=options.pop("data", DATA), **options)


@pytest.mark.parametrize("metrics", ["ndcg@5", "pairwise-error"])
def test_the_rule_is_the_same_whichever_ranker_is_named_first(metrics: str) -> None:
    """Also where lower is better: the difference is that of the ranker which wins in the mean."""
    reasons = set()
    for rankers in ({"new": NEW, "old": OLD}, {"old": OLD, "new": NEW}):
        comparison = compared(rankers=rankers, metrics=metrics)
        for names in (("new", "old"), ("old", "new")):
            verdict = comparison.verdict(*names)
            assert verdict.outcome is Outcome.CANNOT_TELL
            reasons.add(verdict.reason.split(" (")[0])
        (tail,) = (each for each in comparison.pair("new", "old").segments if each.name == TAIL)
        assert tail.comparison is not None
        assert (tail.comparison.mean_difference < 0) == (metrics == "ndcg@5")
    assert reasons == {
        f"new is better by {metrics}, and loses to old in the segment 'frequency: tail'"
    }


def test_a_line_says_that_no_segment_loses_and_a_table_has_the_one_that_does(run: Run) -> None:
    better = compared(data=judged(loss=0.0))
    assert str(better.verdict()) == "better"
    assert "\nno segment loses: length, frequency\n" in str(better)
    assert "SEGMENT" not in str(better)
    losing = compared()
    rows = [line for line in str(losing).splitlines() if line.startswith((TAIL, "SEGMENT"))]
    assert len(rows) == 2
    assert "over the segments of 20 independent queries or more (Holm): 6" in str(losing)
    (content,) = losing.as_dict()["pairs"]
    (tail,) = (each for each in content["segments"] if each["segment"] == TAIL)
    assert tail["high"] < 0
    assert tail["p_holm"] < 0.05
    assert not tail["accepted"]
    tested = [each.comparison for each in losing.pair("new", "old").segments]
    p = holm(np.array([each.p_permutation for each in tested if each is not None]))
    assert [each["p_holm"] for each in content["segments"]] == p.tolist()
    # Where a loss is accepted it is shown all the same.
    accepted = compared(accept_loss=TAIL)
    assert str(accepted.verdict()) == "better"
    assert f"{TAIL} (accepted)" in str(accepted)


def test_segments_by_a_parameter_of_the_queries_are_shown_where_they_are_named(run: Run) -> None:
    comparison = compared(segments="language,length")
    names = [each.name for each in comparison.pair("new", "old").segments]
    assert names == [
        *(f"length: {name}" for name in ("1 word", "2 words", "3-4 words")),
        *(f"frequency: {name}" for name in ("head", "middle", "tail")),
        *(f"language: {name}" for name in ("de", "en", "fr")),
    ]
    assert "SEGMENT" in str(comparison)
    # Naming others does not switch the guard off.
    assert comparison.verdict().outcome is Outcome.CANNOT_TELL


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"segments": "shop"}, "no segment by 'shop': there are length, frequency, keywords, lang"),
        ({"accept_loss": "tail"}, "no segment is called 'tail': there are length: 1 word, .*tail"),
        (
            {"segments": "frequency", "unweighted": True},
            "by 'frequency': there are length, keywords, language .by frequency where query weigh",
        ),
    ],
)
def test_what_there_is_not_is_an_error_and_no_comparison(how: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        compared(**how)
    assert not AttemptsFile().path.exists()
    with pytest.raises(UsageError, match="in segments: give `baseline`"):
        ltr.evaluate(NEW, DATA, segments="length")


def test_queries_are_parted_by_words_and_by_thirds_of_their_weight(
    rng: np.random.Generator,
) -> None:
    texts = ["", "a", "a b", "a b c", "a b c d", "a b c d e", " a  b\tc d e f"]
    assert {name: np.flatnonzero(inside).tolist() for name, inside in by_length(texts).items()} == {
        "1 word": [0, 1], "2 words": [2], "3-4 words": [3, 4], "5 or more words": [5, 6],
    }  # fmt: skip
    weights = rng.permutation(1000 / (1 + np.arange(400)) ** 0.8)
    head, middle, tail = (weights[inside] for inside in by_frequency(weights).values())
    for part in (head, middle, tail):
        assert part.sum() / weights.sum() == pytest.approx(1 / 3, abs=0.1)
    assert head.min() >= middle.max()
    assert middle.min() >= tail.max()
    # Queries of one weight are in one segment.
    parts = by_frequency(np.array([1.0] * 50 + [100.0]))
    assert [inside.sum() for inside in parts.values()] == [1, 0, 50]


def test_rare_values_are_others_and_queries_without_the_parameter_stand_apart() -> None:
    values = [f"v{n}" for n in range(12) for _ in range(20 - n)]
    params: list[dict[str, Any]] = [{"query": f"q{n}", "shop": v} for n, v in enumerate(values)]
    params += [{"query": "none"}] * 30
    segments = segments_of(params, None, ["shop"])
    assert [*segments] == [
        "shop: not given", *(f"shop: v{n}" for n in range(7)), "shop: other",
    ]  # fmt: skip
    assert sum(map(np.count_nonzero, segments.values())) == len(params)
    # A value may be called as the rest is; a segment of all queries is one where it is asked for.
    params = [{"shop": "other"}] * 2 + [{"shop": "x"}]
    assert {name: inside.sum() for name, inside in segments_of(params, None, ["shop"]).items()} == {
        "shop: x": 1, "shop: other": 2,
    }  # fmt: skip
    assert [*segments_of(params[:2], None, ["shop"])] == ["shop: other"]
    assert not segments_of([{"query": "a"}, {"query": "b"}], None)
    assert not segments_of([], None)
    # Segments that a plan names are known where no query of today is in one.
    assert not segments_of([], None, accepted=["length: 1 word", "frequency: tail"])


def results_of(a: Array, b: Array, params: list[dict[str, Any]], **how: Any) -> RankerComparison:
    metric = parse_metric("map")
    ids = pa.array([f"q{n}" for n in range(len(a))])
    plan = ComparisonPlan((metric,), attempts=None, **how)
    queries = ComparedQueries(ids, None, None, "test", params=params)
    rankers = {"a": RankerResults([a]), "b": RankerResults([b])}
    return compare_results(PerQueryResults(rankers, plan, queries))


def test_segments_of_few_queries_are_not_tested(rng: np.random.Generator) -> None:
    """Clusters count once: 30 spellings of one request are one query."""
    b = rng.random(200) * 0.5
    a = b + 0.2
    for n_few, tested in ((FEWEST, True), (FEWEST - 1, False)):
        a[:n_few] = b[:n_few] - 0.4
        params = [{"query": f"t{n}", "shop": "few" if n < n_few else "all"} for n in range(200)]
        comparison = results_of(np.clip(a, 0, 1), b, params, segments=("shop",))
        expected = Outcome.CANNOT_TELL if tested else Outcome.BETTER
        assert comparison.verdict("a", "b").outcome is expected
        a[:n_few] = b[:n_few] + 0.2
    text = " ".join(str(comparison).split())
    assert "over the segments of 20 independent queries or more (Holm): 1" in text
    assert re.search(r"shop: few +19 +– +– +– +–", text)
    figures = {each["segment"]: each for each in comparison.as_dict()["pairs"][0]["segments"]}
    assert figures["shop: few"]["p_holm"] is None
    # One segment alone is tested as it is.
    (whole,) = (each for each in comparison.pair("a", "b").segments if each.name == "shop: all")
    assert whole.comparison is not None
    assert figures["shop: all"]["p_holm"] == whole.p_holm == whole.comparison.p_permutation


def ugly_world(
    kind: str, rng: np.random.Generator, n: int = 240, *, even: bool = True
) -> tuple[Array, Array]:
    """Values of two rankers of which the first is truly better in every segment.

    Unless it is `even`, all of its gain is in a third of the queries, and none in the others.
    """
    b = rng.beta(0.7, 0.7, size=n)
    noise = {
        "even": 0.15 * rng.normal(size=n),
        "rare": np.where(rng.random(n) < 0.15, 0.4 * rng.choice([-1, 1], n), 0.0),
        "ties": np.round(0.2 * rng.normal(size=n), 1),
        "tails": 0.08 * rng.standard_t(2, size=n),
        "skewed": 0.05 * (1.0 - rng.exponential(size=n)),
    }[kind]
    gain = {"even": 0.035, "rare": 0.03, "ties": 0.045, "tails": 0.03, "skewed": 0.012}[kind]
    shift = np.where(rng.random(n) < gain / 0.3, 0.3, 0.0) if kind == "rare" else gain
    if not even:
        shift = np.where(np.arange(n) % 9 < 3, 3 * shift, 0.0)
    return b + shift + noise, b


def lost_to_the_guard(
    kind: str, worlds: int, rng: np.random.Generator, *, even: bool
) -> tuple[int, int]:
    """Of how many worlds the ranker is better without the guard, and how many it is not with it."""
    better = lost = 0
    for world in range(worlds):
        a, b = ugly_world(kind, rng, even=even)
        sizes = rng.choice([1, 1, 1, 2, 2, 3, 5], size=len(a))
        params = [
            {"query": " ".join(f"w{n}x{place}" for place in range(size)), "shop": f"s{n % 9}"}
            for n, size in enumerate(sizes.tolist())
        ]
        how = {"drawing": Resampling(world, 1000), "segments": ("length", "shop")}
        pair = results_of(a, b, params, **how).pair("a", "b")
        if replace(pair, warnings=()).verdict.outcome is Outcome.BETTER:
            better += 1
            lost += pair.verdict.outcome is not Outcome.BETTER
    return better, lost


KINDS = ("even", "rare", "ties", "tails", "skewed")


@pytest.mark.thorough
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_better_is_rarely_lost_to_the_guard_where_no_segment_loses(
    kind: str, rng: np.random.Generator, *, even: bool
) -> None:
    better, lost = lost_to_the_guard(kind, 300, rng, even=even)
    assert better >= 40
    assert lost <= max(1, 0.05 * better)


@pytest.mark.thorough
def test_a_segment_that_loses_is_found(rng: np.random.Generator) -> None:
    """A fifth of the queries loses .15, the others win .1: the mean gains .05."""
    found = 0
    for world in range(100):
        b = rng.beta(2, 2, size=300)
        inside = np.arange(300) % 5 == 0
        a = b + np.where(inside, -0.15, 0.1) + 0.15 * rng.normal(size=300)
        params = [{"query": f"t{n}", "shop": "x" if n % 5 == 0 else "y"} for n in range(300)]
        how = {"drawing": Resampling(world, 1000), "segments": ("shop",)}
        found += results_of(a, b, params, **how).verdict("a", "b").outcome is Outcome.CANNOT_TELL
    assert found >= 95


def test_models_of_one_ranker_are_compared_in_no_segment() -> None:
    model = LinearModel(NAMES, np.array([1.0, 0.0]))
    assert ltr.evaluate(model, DATA, split="all").pairs == ()
