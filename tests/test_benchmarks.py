"""The benchmarks' own figures: what they count, and what they report of known inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_clicks.judge_clicks import count_clicks

import owpc_ltr as ltr
from owpc_ltr import RankingDataset
from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.compared_pair import prediction_powered
from owpc_ltr.evaluation.significance import bca_interval, compare_paired
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model
from tests.benchmark_scripts import benchmark_script
from tests.faults.selection import Selection
from tests.proxy_labels import PEOPLE
from tests.simulated_users import simulate

benchmark = benchmark_script("interval_coverage")
clicks = benchmark_script("clicks")
worlds = benchmark_script("experiment_worlds")
few_clients = benchmark_script("experiment_clients")


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("family", benchmark.FAMILIES)
def test_coverage_is_93_percent_and_false_claims_are_rare(family: str) -> None:
    for method in benchmark.METHODS:
        cells = [
            benchmark.counted(benchmark.FAMILIES[family], method, n, 50) for n in benchmark.SIZES
        ]
        # Of 200 worlds: what is expected, and two standard errors of chance.
        assert np.mean([cell.covered for cell in cells]) >= 0.93
        assert np.mean([cell.better for cell in cells]) <= 0.025 + 0.022
        assert np.mean([cell.worse for cell in cells]) <= 0.025 + 0.022


def test_the_bootstrap_alone_is_caught() -> None:
    """Where few queries differ, resamples know nothing of the others."""
    family = benchmark.FAMILIES["2 % differ"]
    rng = np.random.default_rng(0)
    held = []
    for _ in range(100):
        low, high = bca_interval(family.draw(rng, 50, True), None, 0.05, 300, rng)
        held.append(low <= family.gain <= high)
    assert np.mean(held) < 0.8


@pytest.mark.thorough
def test_power_is_kept_where_differences_are_normal() -> None:
    for n in (30, 50, 100):
        assert benchmark.counted(benchmark.FAMILIES["normal"], "plain", n, 60).cannot_tell <= 0.1
    rng = np.random.default_rng(1)
    for n, spread, detected in ((100, 0.2, 0.06), (400, 0.25, 0.036), (2600, 0.15, 0.0085)):
        outcomes = [
            compare_paired(rng.normal(detected, spread, n), np.zeros(n), seed=0, resamples=500)
            .verdict()
            .outcome
            for _ in range(20)
        ]
        # At an effect of 2.9 standard errors a t-test finds 82 %.
        assert np.mean([outcome == "better" for outcome in outcomes]) >= 0.6


def test_three_wins_and_no_loss_in_500_queries_are_no_difference_and_a_narrow_interval() -> None:
    values = np.where(np.arange(500) < 3, 1.0, 0.0)
    comparison = compare_paired(values, np.zeros(500), seed=0)
    assert comparison.p_permutation == 0.25
    assert comparison.verdict().outcome == "no significant difference"
    assert -0.01 < comparison.low <= 0.0 < comparison.high < 0.03
    clear = compare_paired(np.where(np.arange(500) < 20, 1.0, 0.0), np.zeros(500), seed=0)
    assert clear.verdict().outcome == "better"


def test_fewer_than_six_queries_cannot_tell() -> None:
    five = compare_paired(np.ones(5), np.zeros(5), seed=0)
    assert five.verdict().outcome == "cannot tell"
    assert compare_paired(np.ones(6), np.zeros(6), seed=0).verdict().outcome != "cannot tell"


def test_five_human_labels_that_differ_are_no_better_than_their_signs() -> None:
    """Of 5 differences two of 32 sign flips are as far: p is not below .0625."""
    human = np.where(np.arange(300) < 30, np.where(np.arange(300) < 5, 1.0, 0.0), np.nan)
    estimate = prediction_powered(np.zeros(300), human, [f"q{number}" for number in range(300)])
    assert estimate.by_both.p >= 0.0625
    assert estimate.verdict().outcome == "no significant difference"


benchmark_ranker = benchmark_script("clicks_to_ranker")


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500 * 12, 3)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=len(features)) > 1.6).astype(np.float32)
    features[:, 1] += 0.5 * features[:, 0]
    ids = np.repeat([f"q{number}" for number in range(500)], 12)
    names = [f"d{number}" for number in range(len(ids))]
    return ltr.make_dataset(features, labels, ids, ["a", "b", "c"], doc_ids=names)


def test_what_a_feature_does_not_match_is_not_shown_and_the_rest_in_its_order(
    data: RankingDataset,
) -> None:
    scores = benchmark_ranker.served_scores(data, "b", np.random.default_rng(0))
    values = data.features[:, 1]
    assert (np.isfinite(scores) == (values > 0)).all()
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        shown = slice(start, stop), values[start:stop] > 0
        ranked = np.argsort(-scores[shown[0]][shown[1]])
        assert (np.diff(values[shown[0]][shown[1]][ranked]) <= 0).all()


def test_there_are_about_as_many_events_as_were_asked_for_and_the_seed_is_all_that_draws(
    data: RankingDataset,
) -> None:
    events, again, other = (
        benchmark_ranker.events_of(data, simulate.Users(), ["a", "b"], 30_000, seed)
        for seed in (0, 0, 1)
    )
    assert len(events) == pytest.approx(30_000, rel=0.03)
    assert events.equals(again)
    assert not events.equals(other)


def test_every_way_of_judging_teaches_and_none_is_better_than_the_truth_by_far(
    data: RankingDataset,
) -> None:
    sides = data.split()
    events = benchmark_ranker.events_of(data, simulate.Users(), ["b", "c"], 60_000, 0)
    judged = benchmark_ranker.judgments_of(count_clicks(events))
    assert list(judged)[1:] == ["pbm", "sdbn", "coec", "dctr"]
    test, metric = sides.test, parse_metric("ndcg@10")

    def worth(table: object) -> float:
        scores = benchmark_ranker.trained(sides, table).score(test.features)
        return float(metric.mean(scores, test.labels, test.offsets))

    served = metric.mean(test.features[:, 1].astype(float), test.labels, test.offsets)
    truth = worth(None)
    assert served + 0.05 < worth(judged["pbm"]) < truth + 0.02


def test_differences_are_those_to_the_ranker_of_the_true_grades(
    data: RankingDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = data.split()
    true = benchmark_ranker.trained(sides, None)
    models = {benchmark_ranker.TRUE: true, "worse": by_one_feature(true, "b")}
    comparison = ltr.compare(
        models, data=data, metrics=benchmark_ranker.METRIC, baseline=benchmark_ranker.TRUE
    )
    benchmark_ranker.print_table(comparison, comparison)
    output = capsys.readouterr().out
    by_name = {
        ranker.name: ranker.means[benchmark_ranker.METRIC].mean for ranker in comparison.rankers
    }
    less = by_name["worse"] - by_name[benchmark_ranker.TRUE]
    assert less < 0
    assert output.count(f"{less:+.4f} [") == 2
    assert benchmark_ranker.difference(comparison, benchmark_ranker.TRUE) == ""


def by_one_feature(model: Model, feature: str) -> Model:
    """A linear model that looks at one feature alone."""
    assert isinstance(model, LinearModel)
    weights = np.array([float(name == feature) for name in model.feature_names])
    return replace(model, weights=weights)


benchmark_proxy = benchmark_script("cheap_judgments")


def test_a_judge_errs_as_often_as_was_said() -> None:
    rng = np.random.default_rng(0)
    drawn = np.array([benchmark_proxy.judge(PEOPLE, 0.05, 0.25, rng) for _ in range(100)])
    relevant = PEOPLE.labels > 0
    assert (drawn[:, relevant] == 0).mean() == pytest.approx(0.25, abs=0.01)
    assert (drawn[:, ~relevant] > 0).mean() == pytest.approx(0.05, abs=0.01)


def test_honest_intervals_hold_the_truth_and_others_do_not_or_are_wide() -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(0.05, 0.3, 2000)
    cheap = human + 0.1 + rng.normal(0, 0.15, (5, 2000))
    figures = benchmark_proxy.resampled(human, cheap, 300, 60, 400, rng).split()
    strength, both, people, by_cheap, _, width, unpaired, share = (
        float(word.rstrip("%")) for word in figures
    )
    assert strength == pytest.approx(0.8, abs=0.05)
    # Of 400 intervals that hold in 95 %, fewer hold by chance once in a hundred.
    assert min(both, people) >= 95 - 230 * np.sqrt(0.95 * 0.05 / 400)
    assert by_cheap < 10
    assert width < 0.75
    assert unpaired > 1
    assert share < 0.5


def test_what_a_regression_tells_is_measured_on_queries_that_it_has_not_seen() -> None:
    rng = np.random.default_rng(0)
    cheap, noise = rng.normal(size=(2, 4000))
    human = 0.6 * cheap + 0.8 * noise
    assert benchmark_proxy.explained(human, [cheap]) == pytest.approx(0.36, abs=0.03)
    assert benchmark_proxy.explained(noise, [cheap]) <= 0.01
    # Many controls of noise would tell much of the few queries that they were fitted to.
    assert benchmark_proxy.explained(human[:60], list(rng.normal(size=(20, 60)))) < 0


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("setting", clicks.SETTINGS)
def test_every_model_orders_documents_better_than_one_without_a_prior(setting: str) -> None:
    users, rankers = clicks.SETTINGS[setting]
    for seed in range(2):
        quality = clicks.judged(users, rankers, 20_000, seed)
        plain = quality.ndcg[clicks.NO_PRIOR]
        for model in ("coec", "pbm", "sdbn"):
            assert quality.ndcg[model] > plain + 0.005
        best = max(quality.ndcg[model] for model in ("coec", "dctr", "pbm", "sdbn"))
        assert quality.ndcg[clicks.AUTO] > best - 0.01
        assert quality.ndcg["coec"] > quality.ndcg["COEC, no prior"] + 0.01
        if users.kind == "position":
            assert quality.examination < 0.05


def test_worlds_without_a_difference_have_none() -> None:
    for name, null in worlds.NULLS.items():
        world = null.world(np.random.default_rng(1))
        assert world.difference(1.0) == pytest.approx(0.0, abs=1e-12), name
        assert (world.a != world.b).any()
    assert abs(worlds.drawn_world(np.random.default_rng(1)).difference(1.0)) > 1e-3


def test_simulated_users_click_as_often_as_their_model_says() -> None:
    rng = np.random.default_rng(0)
    attraction = np.full((40_000, 4), 0.5)
    clicks = worlds.position_users(1.0)(rng, attraction).mean(0)
    assert clicks == pytest.approx(0.5 / np.arange(1, 5), abs=0.01)
    # After a click 3 of 10 go on, and 9 of 10 of these at each place.
    clicks = worlds.cascade_users(rng, attraction).mean(0)
    assert clicks == pytest.approx(0.5 * (0.65 * 0.9) ** np.arange(4), abs=0.01)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("name", ["position users", "heavy clients", "equal, cascade users"])
def test_looking_after_every_client_claims_no_difference_and_a_z_test_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "CLIENTS", 2000)
    courses = [worlds.null_course(name, seed) for seed in range(12)]
    # Of 12 worlds, 3 claims at 5 % have a chance of 2 %.
    assert sum(course.verdict.any() for course in courses) <= 2
    assert sum(course.z_test.any() for course in courses) >= 3


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("world", few_clients.SKEWED)
def test_clients_of_skewed_credit_claim_no_difference(world: str) -> None:
    thorough = Selection.asked().thorough
    claims = [few_clients.claim(world, 0.0, seed) for seed in range(100 if thorough else 40)]
    assert np.mean([claim.sign != 0 for claim in claims]) <= 0.05
    assert np.mean([claim.z_sign != 0 for claim in claims]) > 0.2
    claims = [few_clients.claim(world, 0.1, seed) for seed in range(20)]
    assert {claim.sign for claim in claims} == {1}
    assert np.median([claim.clients for claim in claims]) <= 600


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("world", few_clients.RETURNING)
def test_clients_that_come_back_claim_no_difference(world: str) -> None:
    worlds = 30 if Selection.asked().thorough else 10
    assert np.mean([few_clients.returning(world, seed) for seed in range(worlds)]) <= 0.1


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("users", "check"),
    [
        ("no difference, clients return", None),
        ("1 % search 25 times", None),
        ("1 % search one query 35 times", "few-decide"),
        ("the same, spread over the time", "few-decide"),
        ("novelty wears off", "novelty"),
        ("a quarter untracked, B demotes it", "never-clicked"),
    ],
)
def test_whole_logs_of_users_who_could_mislead_do_not(
    users: str, check: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = 20 if Selection.asked().thorough else 2
    monkeypatch.setattr(few_clients, "LOOKS", 1)
    ends = [few_clients.course(users, seed)[-1] for seed in range(logs)]
    # Of what is not logged, only most is seen.
    assert sum(outcome == "better" for outcome, _ in ends) <= 0.4 * logs
    if Selection.asked().thorough and check is not None:
        assert any(check in checks for _, checks in ends)


def test_a_log_that_loses_clicks_of_one_leader_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "BROKEN_CLIENTS", 8000)
    for fault, check in (
        ("30 % of B's clicks lost", "lost-clicks"),
        ("20 % of B's searches lost", "sample-ratio"),
        ("a cache shows A's to 20 %", "sample-ratio"),
    ):
        course = worlds.broken_course(fault, True, 2)
        assert check in course.at_end
    assert worlds.broken_course("nothing", True, 2).at_end == "better"


first_model = benchmark_script("first_model")


def measured(values: list[float]) -> Any:
    return first_model.Measured(np.array(values), np.array(values), 1.0)


def test_a_ranker_whose_values_are_in_the_file_is_not_run_again(tmp_path: Path) -> None:
    data, path = first_model.sparse(0, queries=40), tmp_path / "values.json"
    runs: list[set[str]] = []

    def by_a_feature(rest: RankingDataset, test: RankingDataset) -> Vector:
        runs.append(set(rest.query_ids.to_pylist()) & set(test.query_ids.to_pylist()))
        return test.features[:, 0].astype(np.float64)

    for again in ((), (), ("one",)):
        results = first_model.Results.of_file(path, 2)
        first_model.measure("sparse", [data, data], {"one": by_a_feature}, results, again)
        assert len(results.of("sparse")["one"].ndcg) == 80
    # Two folds of two draws, in the first turn and in the last; no model saw what it ranks.
    assert runs == [set()] * 8
    read = first_model.Results.of_file(path, 2).of("sparse")["one"]
    np.testing.assert_array_equal(read.ndcg, results.of("sparse")["one"].ndcg)
    with pytest.raises(SystemExit, match="results of 2 folds, not 5"):
        first_model.Results.of_file(path, 5)
    with pytest.raises(SystemExit, match="80 queries of 'sparse' for 'one', and these are 40"):
        first_model.measure("sparse", [data], {}, results)


def test_single_peers_are_counted_by_their_means_and_others_by_tests() -> None:
    rankers = {
        first_model.ONE_LINER: measured([0.5] * 60),
        "linear": measured([0.4] * 60),
        "boosted trees": measured([0.5] * 59 + [0.9]),
        "SVM, single": measured([0.5] * 59 + [0.4]),
        "trees, single": measured([0.6] * 60),
        "trees, averaged": measured([0.6] * 60),
    }
    standing = first_model.Standing.of(rankers)
    assert (standing.ahead, standing.single_peers) == (1, 2)
    assert standing.below == ("trees, averaged",)
    assert standing.others == 3
    total = standing + standing
    assert (total.ahead, total.single_peers, len(total.below), total.others) == (2, 4, 2, 6)


def test_pairs_are_of_one_query_and_of_different_labels() -> None:
    data = ltr.make_dataset(np.zeros((5, 1)), [0, 2, 1, 1, 0], ["a", "a", "a", "b", "b"])
    above, below = first_model.pairs_of(data)
    pairs = sorted(zip(above.tolist(), below.tolist(), strict=True))
    assert pairs == [(1, 0), (1, 2), (2, 0), (3, 4)]
