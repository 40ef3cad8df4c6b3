"""What planted features are said to be worth: useless, good, leaking, constant, copied ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from owpc_ltr_feature_trials import trial
from owpc_ltr_feature_trials.new_columns import TrialLog
from owpc_ltr_feature_trials.trial import FeatureTrial, try_features

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.judgments import JUDGED_BY
from owpc_ltr.errors import BadInput
from owpc_ltr.protocols import Run
from owpc_ltr.training.kinds import LINEAR, Kind, kinds
from owpc_ltr.training.plan import model_plan

OLD = ("title", "body", "votes", "noise")
Columns = Mapping[str, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def only_linear(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind that takes least time, but where all are asked for."""
    if "all_kinds" not in request.fixturenames:

        def linear(*how: Any) -> list[Kind]:
            return [kind for kind in kinds(*how) if kind.name == LINEAR]

        monkeypatch.setattr(trial, "kinds", linear)


@pytest.fixture
def all_kinds() -> None:
    """Kinds are compared as `train` does."""


def world(
    queries: int = 60, documents: int = 10, seed: int = 0, ugly: bool = False
) -> tuple[RankingDataset, Columns]:
    """Grades by title, body, votes and something that no column has; new columns by name.

    In an `ugly` world tails are heavy, values are tied or missing, and few queries have a relevant
    document at all.
    """
    rng = np.random.default_rng(seed)
    rows = queries * documents
    draw: Any = partial(rng.standard_t, 2) if ugly else rng.normal
    columns: Any = draw(size=(rows, 4))
    hidden = rng.normal(size=rows)
    if ugly:
        columns[:, 1] = np.round(columns[:, 1])
        columns[rng.random((rows, 4)) < 0.2] = np.nan
    wish = np.nan_to_num(columns[:, :3]).clip(-5, 5) @ [1.0, 0.6, 0.6] + 1.2 * hidden
    grades = np.digitize(wish, np.quantile(wish, (0.97, 0.99) if ugly else (0.6, 0.85)))
    ids = np.repeat([f"q{number}" for number in range(queries)], documents)
    new = {
        "useless": draw(size=rows),
        "useless too": np.round(rng.exponential(size=rows)),
        "good": hidden + 0.5 * rng.normal(size=rows),
        "leak": grades + 0.01 * rng.normal(size=rows),
        "constant": np.ones(rows),
        "absent": np.full(rows, np.nan),
        "copy": 3 * columns[:, 0] + 1,
        "reversed": -columns[:, 0],
    }
    return make_dataset(columns, grades, ids, OLD), new


def tried(
    world: tuple[RankingDataset, Columns], *names: str, drop: bool = False, seed: int = 0
) -> FeatureTrial:
    """The trial of some new columns of a world."""
    data, columns = world
    added = [columns[name].astype(np.float32) for name in names]
    features = np.ascontiguousarray(np.column_stack([data.features, *added]))
    data = replace(data, features=features, feature_names=(*data.feature_names, *names))
    costs = dict.fromkeys(names, 0.25)
    log = TrialLog("movies", names, data.n_documents, 0, 1.0, "", costs)
    make = partial(model_plan, metric="ndcg@10")
    return try_features(data, log if names else None, make, Run(seed=seed), drop=drop)


def test_a_good_feature_is_better_and_a_useless_one_is_not() -> None:
    result = tried(world(), "good", "useless")
    together, good, useless = result.gains[:3]
    assert (together.features, good.features, useless.features) == (
        "all together", "good", "useless",
    )  # fmt: skip
    assert together.outcome == good.outcome == "better"
    assert good.comparison.low > 0
    assert useless.outcome == "no significant difference"
    assert not result.warnings


def test_p_is_corrected_for_all_new_features() -> None:
    alone = tried(world(seed=5), "useless").gains[0]
    several = tried(world(seed=5), "useless", "useless too").gains[1]
    assert several.comparison.mean_difference == alone.comparison.mean_difference
    assert several.p >= min(1.0, 2 * alone.p)


def test_a_leak_is_named_and_makes_no_model_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_ALIKE", 0.0)
    result = tried(world(), "leak", "good")
    together, leak, good = result.gains[:3]
    assert together.outcome == leak.outcome == "cannot tell"
    assert together.comparison.mean_difference > 0.1
    assert good.outcome == "better"
    in_place = [gain for gain in result.gains[3:] if gain.features.startswith("leak in place of")]
    assert [gain.outcome for gain in in_place] == ["cannot tell"]
    (warning,) = result.warnings
    assert warning.startswith("'leak' is")
    assert f"warning: {warning[:30]}" in " ".join(str(result).split())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("constant", "every document has the same value for constant (1)"),
        ("absent", "no document has a value for absent"),
    ],
)
def test_a_feature_that_says_nothing_is_named(name: str, message: str) -> None:
    result = tried(world(), name)
    (gain,), (warning,) = result.gains, result.warnings
    assert gain.outcome == "no significant difference"
    assert gain.comparison.mean_difference == pytest.approx(0, abs=0.003)
    assert warning.startswith(message)


@pytest.mark.parametrize("name", ["copy", "reversed"])
def test_a_copy_replaces_the_old_feature(name: str) -> None:
    gain, in_place = tried(world(), name).gains
    assert gain.outcome == "no significant difference"
    assert in_place.features == f"{name} in place of title"
    assert in_place.outcome == "replaces title"
    assert in_place.comparison.mean_difference == pytest.approx(0, abs=0.01)


def test_what_resembles_a_better_old_feature_does_not_replace_it() -> None:
    data, columns = world()
    rng = np.random.default_rng(1)
    rough = np.sign(data.features[:, 0]) + rng.normal(size=data.n_documents)
    result = tried((data, {**columns, "rough": rough}), "rough")
    assert result.gains[-1].features == "rough in place of title"
    assert result.gains[-1].outcome == "needs title"
    assert result.gains[-1].comparison.high < 0


def test_the_correlation_is_that_of_ranks_within_queries() -> None:
    data, _ = world(queries=40, ugly=True)
    # Another level in each query: it tells nothing within one.
    levels = np.repeat(np.random.default_rng(2).normal(size=40) * 1e3, 10)
    shifted = data.features[:, 0] ** 3 + levels
    gains = tried((data, {"shifted": shifted}), "shifted").gains
    assert gains[-1].features == "shifted in place of title"


def test_judgments_that_decide_nothing_make_every_verdict_cannot_tell() -> None:
    data, columns = world()
    clicked = replace(data, manifest={"judgments": {JUDGED_BY: {"clicks": data.n_documents}}})
    result = tried((clicked, columns), "good")
    assert result.gains[0].outcome == "cannot tell"
    assert "clicks" in result.warnings[0]


def test_queries_that_are_too_few_are_refused_or_decide_nothing() -> None:
    with pytest.raises(BadInput, match="cannot cut 2 independent queries into 3 folds"):
        tried(world(queries=2), "good")
    result = tried(world(queries=4, documents=30), "good")
    assert result.gains[0].outcome == "cannot tell"
    assert "4 queries are too few" in str(result)


def test_each_feature_is_worth_what_is_lost_without_it() -> None:
    data, columns = world(queries=100)
    result = tried((data, columns), drop=True)
    names = [each.features for each in result.worth]
    assert names[0] == "title"
    assert names[-1] == "noise"
    assert [each.outcome for each in result.worth] == ["", "", "", "may be left out"]
    losses = [each.comparison.mean_difference for each in result.worth]
    assert losses == sorted(losses, reverse=True)
    assert all(each.p < 0.05 for each in result.worth[:3])
    assert not result.gains
    with_new = tried((data, columns), "good", drop=True)
    assert {each.features for each in with_new.worth} == {*OLD, "good"}


def test_of_two_copies_each_may_be_left_out() -> None:
    result = tried(world(queries=100), "copy", drop=True)
    needless = {each.features for each in result.worth if each.outcome}
    assert needless == {"title", "copy", "noise"}


def test_the_result_is_json_and_fits_a_terminal() -> None:
    result = tried(world(), "copy", "constant", drop=True)
    content = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert content["log"]["features"] == ["copy", "constant"]
    gain = content["gains"][0]["comparison"]
    assert gain["low"] <= gain["mean_difference"] <= gain["high"]
    text = str(result)
    assert max(map(len, text.splitlines())) <= 80
    assert "copy, constant: 600 documents logged, 0 absent or rejected, 1.0 s" in text


def test_the_sum_is_fitted_with_its_parts(all_kinds: None, monkeypatch: Any) -> None:
    """The kind that takes most is fitted again by its parts, with other features."""
    from owpc_ltr.training import kinds as kinds_of_models

    settings = {"optimizer.trees": 8, "optimizer.eta": 0.3}

    def quick(*how: Any) -> list[Kind]:
        return [
            kind if kind.plan is None or "trees" not in kind.name
            else replace(kind, plan=replace(kind.plan, settings={**kind.plan.settings, **settings}))
            for kind in kinds(*how)
        ]  # fmt: skip

    monkeypatch.setattr(trial, "kinds", quick)
    monkeypatch.setattr(
        kinds_of_models.FittedKinds, "choice",
        lambda self, candidates, *_: kinds_of_models.KindChoice(candidates[3], (), "for a test"),
    )  # fmt: skip
    result = tried(world(queries=40), "good", drop=True)
    assert result.kind == "sum"
    assert result.gains[0].outcome == "better"
    assert result.worth[0].features in {"title", "good"}


@pytest.mark.thorough
@pytest.mark.parametrize("ugly", [False, True])
def test_useless_features_are_hardly_ever_better(ugly: bool) -> None:
    worlds = 40
    outcomes = [
        tried(world(seed=seed, ugly=ugly), "useless", "useless too", seed=seed).gains[:3]
        for seed in range(worlds)
    ]
    better = sum(any(gain.outcome == "better" for gain in gains) for gains in outcomes)
    # With a chance of one in twenty more than six are better in one of 250 times.
    assert better <= 6


@pytest.mark.thorough
def test_intervals_of_useless_features_hold_nothing_in_nearly_all_worlds() -> None:
    held = [
        gain.comparison.includes_zero
        for seed in range(40)
        for gain in tried(world(seed=seed, ugly=seed % 2 == 0), "useless", seed=seed).gains
    ]
    assert sum(held) >= 34


@pytest.mark.thorough
def test_a_good_feature_is_found_in_nearly_all_worlds() -> None:
    found = [
        tried(world(queries=100, seed=seed), "good", seed=seed).gains[0].outcome == "better"
        for seed in range(20)
    ]
    assert sum(found) >= 19
