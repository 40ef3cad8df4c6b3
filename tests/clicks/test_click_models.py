"""Click models find what was simulated, and the workbench's ratings digit by digit."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_clicks import counting
from owpc_ltr_clicks.grading import beta_prior, posterior_mean
from owpc_ltr_clicks.model_selection import choose_model, held_out
from owpc_ltr_clicks.models import pbm
from owpc_ltr_clicks.models.coec import ClicksOverExpected
from owpc_ltr_clicks.models.dctr import DocumentClickThrough
from owpc_ltr_clicks.models.pbm import PositionBased
from owpc_ltr_clicks.models.sdbn import CascadeFit, SimplifiedDBN

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists, ranks_vary
from owpc_ltr.errors import PluginError, UsageError
from owpc_ltr.host.click_fits import list_log_likelihoods
from owpc_ltr.plugin_checks.readers import click_patterns
from owpc_ltr.protocols import ClickFit
from tests.clicks.counts import counted, event, simulated
from tests.simulated_users import simulate

MODELS: list[Any] = [DocumentClickThrough(), ClicksOverExpected(), PositionBased(), SimplifiedDBN()]
BY_NAME = {model.name: model for model in MODELS}


def log_likelihood(counts: ClickCounts, fit: ClickFit) -> float:
    chance = np.clip(fit.click_probability(counts), 1e-9, 1 - 1e-9)
    missed = counts.shown - counts.clicked
    return float((counts.clicked * np.log(chance) + missed * np.log1p(-chance)).sum())


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("rankers", [(0.7, 0.6, 0.5, 0.4), (0.3, 0.2, 0.1, 0.0)])
@pytest.mark.parametrize("steepness", [0.5, 1.0])
def test_pbm_recovers_how_users_look(rankers: tuple[float, ...], steepness: float) -> None:
    users = simulate.Users(steepness=steepness)
    _, behaviour = simulated(15_000, users, rankers)
    fit = PositionBased().fit(behaviour.counts)
    assert np.abs(fit.examination - users.examination(10)).max() < 0.05
    assert fit.notes == ()


def test_sdbn_recovers_what_attracts_users_who_read_from_the_top() -> None:
    users = simulate.Users("cascade", satisfied=1.0, patience=1.0)
    world, behaviour = simulated(10_000, users, (0.0,) * 8, queries=20)
    fit, counts = SimplifiedDBN().fit(behaviour.counts), behaviour.counts
    row = {name: number for number, name in enumerate(world.documents)}
    rows = np.array([row[name] for name in counts.documents.to_pylist()])[counts.pair_document]
    away = np.abs(fit.attractiveness - world.attraction[rows]) / fit.deviation
    assert np.mean(away < 2) > 0.9


def test_uncertainty_covers_the_truth_as_often_as_it_says() -> None:
    world, behaviour = simulated(10_000, None, (0.0,) * 6, queries=20)
    fit, counts = PositionBased().fit(behaviour.counts), behaviour.counts
    row = {name: number for number, name in enumerate(world.documents)}
    rows = np.array([row[name] for name in counts.documents.to_pylist()])[counts.pair_document]
    away = np.abs(fit.attractiveness - world.attraction[rows]) / fit.deviation
    assert 0.9 < np.mean(away < 1.96) < 0.99


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("rankers", [(0.7, 0.6, 0.5, 0.4), (0.3, 0.2, 0.1, 0.0)])
def test_pbm_recovers_how_users_look_where_each_query_is_asked_a_few_times(
    rankers: tuple[float, ...],
) -> None:
    users = simulate.Users()
    _, behaviour = simulated(15_000, users, rankers, queries=2_500)
    truth = users.examination(10)
    assert np.abs(PositionBased().fit(behaviour.counts).examination - truth).max() < 0.04
    # Whoever takes each document's clicks for what it is worth finds that they look much further.
    assert likeliest_examination(behaviour.counts)[1] > truth[1] + 0.1


def likeliest_examination(counts: ClickCounts, rounds: int = 100) -> Vector:
    """Examination and the attractiveness of every document, by EM for both at once."""
    clicks, shown = counts.by_pair(counts.clicked), counts.by_rank(counts.shown)
    looked: Vector = 1.0 / np.sqrt(np.arange(1.0, counts.n_ranks + 1))
    draws = posterior_mean(clicks, counts.by_pair(counts.shown), (0.01, 0.01))
    for _ in range(rounds):
        e, a = looked[counts.rank - 1], draws[counts.pair]
        looks = counts.clicked + (counts.shown - counts.clicked) * e * (1 - a) / (1 - e * a)
        draws = posterior_mean(clicks, counts.by_pair(looks), (0.01, 0.01))
        share: Vector = counts.by_rank(looks) / shown
        looked, draws = share / share.max(), np.minimum(draws * share.max(), 0.999)
    return looked


def first_looks(counts: ClickCounts) -> Vector:
    """Where the search for examination begins."""
    looks: Vector = 1.0 / np.sqrt(np.arange(1.0, counts.n_ranks + 1))
    return looks


def test_every_round_makes_it_likelier_at_which_rank_a_document_was_clicked() -> None:
    counts = simulated(5_000, queries=50)[1].counts
    clicks, examination, likelihoods = counts.by_pair(counts.clicked), first_looks(counts), []
    for _ in range(30):
        pbm._search_examination(counts, clicks, examination, 1)
        chance = counts.shown * examination[counts.rank - 1]
        share = chance / counts.by_pair(chance)[counts.pair]
        likelihoods.append(float((counts.clicked * np.log(np.maximum(share, 1e-300))).sum()))
    assert likelihoods == sorted(likelihoods)
    assert likelihoods[-1] > likelihoods[0] + 1


def test_every_round_of_em_makes_clicks_likelier() -> None:
    counts = simulated(5_000, queries=50)[1].counts
    clicks, prior = counts.by_pair(counts.clicked), (1e-9, 1e-9)
    examination, likelihoods = first_looks(counts), []
    pbm._search_examination(counts, clicks, examination, 100)
    for rounds in range(30):
        looks = pbm._search_looks(counts, clicks, prior, examination, rounds)
        attractiveness = posterior_mean(clicks, looks, prior)
        likelihoods.append(
            log_likelihood(counts, ClickFit(attractiveness, looks, examination, prior))
        )
    assert likelihoods == sorted(likelihoods)
    assert likelihoods[-1] > likelihoods[0] + 1


def test_where_every_rank_is_looked_at_pbm_is_the_click_through_rate() -> None:
    users = simulate.Users(steepness=0.0)
    _, behaviour = simulated(20_000, users, (0.0,) * 4, queries=40)
    by_rank, other = (
        model.fit(behaviour.counts) for model in (PositionBased(), DocumentClickThrough())
    )
    assert np.abs(by_rank.examination / by_rank.examination.mean() - 1).max() < 0.06
    assert np.abs(by_rank.attractiveness - other.attractiveness).mean() < 0.02


def test_pbm_says_where_its_search_has_not_ended() -> None:
    assert len(PositionBased(rounds=20, tolerance=1e-9).fit(simulated(500)[1].counts).notes) == 1


def test_where_the_ranking_never_changes_what_compares_ranks_is_not_chosen() -> None:
    _, behaviour = simulated(20_000, None, (0.5,))
    assert behaviour.counts.moved == 0.0
    chosen = choose_model(behaviour, BY_NAME)
    by_model = {likelihood.model: likelihood for likelihood in chosen.held_out}
    assert {name for name, likelihood in by_model.items() if not likelihood.identified} == {
        "coec",
        "pbm",
    }
    # Its likelihood alone would be the best.
    assert max(by_model, key=lambda name: by_model[name].session_log_likelihood) == "pbm"
    assert chosen.name in {"dctr", "sdbn"}
    assert not choose_model(behaviour, {"pbm": PositionBased()}).fit.identified


def test_how_often_documents_change_their_ranks_is_counted_by_impressions() -> None:
    rows = [event(f"s{n}", d, place) for n in range(40) for place, d in enumerate("abc", 1)]
    assert counted(rows).counts.moved == 0.0
    swapped = [event("t", d, place) for place, d in enumerate("bac", 1)]
    counts = counted([*rows, *swapped]).counts
    assert counts.moved == pytest.approx(2 / 123)
    assert ranks_vary(counts)
    assert not ranks_vary(counted(rows).counts)
    assert ranks_vary(counted([row for row in rows if row["document"] == "a"]).counts)


def test_coec_is_clicks_over_expected_clicks() -> None:
    counts = simulated(2_000)[1].counts
    rates = counts.by_rank(counts.clicked) / counts.by_rank(counts.shown)
    fit = ClicksOverExpected().fit(counts)
    clicks = counts.by_pair(counts.clicked)
    expected = counts.by_pair(counts.shown * rates[counts.rank - 1]) / rates.max()
    alpha, beta = fit.prior
    assert fit.trials == pytest.approx(np.maximum(expected, clicks))
    wanted = (clicks + alpha) / (np.maximum(expected, clicks) + alpha + beta)
    assert fit.attractiveness == pytest.approx(wanted)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_order_of_events_changes_no_bit_of_a_fit(model: Any) -> None:
    world = simulate.example_world(20, 12)
    events = simulate.clicks(world, sessions=2000)
    shuffled = events.take(pa.array(np.random.default_rng(0).permutation(len(events))))
    fit, other = (model.fit(counted(table).counts) for table in (events, shuffled))
    assert np.array_equal(fit.attractiveness, other.attractiveness)
    assert np.array_equal(fit.examination, other.examination)


@given(st.floats(0.3, 8), st.floats(0.5, 30), st.integers(0, 5))
def test_a_prior_is_recovered_from_many_pairs(alpha: float, beta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 60, 10_000).astype(float)
    rates = rng.beta(alpha, beta, len(trials))
    prior = beta_prior(rng.binomial(trials.astype(int), rates).astype(float), trials)
    assert prior[0] / sum(prior) == pytest.approx(alpha / (alpha + beta), rel=0.1, abs=0.01)
    assert sum(prior) == pytest.approx(alpha + beta, rel=0.35)


def test_a_prior_of_few_looks_is_that_of_many() -> None:
    rng = np.random.default_rng(0)
    shown = rng.integers(5, 100, 20_000)
    chance = rng.choice([0.1, 0.3, 1.0], len(shown))
    clicks = rng.binomial(shown, chance * rng.beta(1.0, 4.0, len(shown))).astype(float)
    prior = beta_prior(clicks, shown * chance, chance)
    assert prior == pytest.approx((1.0, 4.0), rel=0.1)


def test_a_prior_is_that_of_rates_also_where_what_is_good_is_looked_at_more_often() -> None:
    rng = np.random.default_rng(0)
    rates = np.where(rng.random(50_000) < 0.2, 0.8, 0.05)
    chance = np.where(rng.random(len(rates)) < rates, 1.0, 0.1)
    shown = rng.integers(1, 8, len(rates)).astype(float)
    clicks = rng.binomial(shown.astype(int), chance * rates).astype(float)
    alpha, beta = beta_prior(clicks, shown * chance, chance)
    # As many as 1 trial: the rates are either high or low.
    assert alpha + beta < 1.3
    # The variance of clicks by looks, less what chance gives to the mean rate, knows of none.
    looks = shown * chance
    mean = clicks.sum() / looks.sum()
    by_chance = (looks * (clicks / looks - mean) ** 2).sum() / (mean * (1 - mean * chance)).sum()
    assert by_chance < 1.1


def test_a_prior_needs_no_clicks_and_no_trials() -> None:
    nothing = np.zeros(3)
    for trials in (nothing, np.array([1.0, 0.0, 2.0])):
        prior = beta_prior(nothing, trials)
        assert min(prior) > 0
        assert posterior_mean(nothing, nothing, prior) == pytest.approx(prior[0] / sum(prior))


@pytest.mark.parametrize(
    ("users", "best"),
    [
        (simulate.Users(), "pbm"),
        (simulate.Users(steepness=0.0), "dctr"),
        (simulate.Users("cascade", satisfied=1.0, patience=1.0), "sdbn"),
    ],
)
def test_the_model_is_chosen_that_users_follow(users: simulate.Users, best: str) -> None:
    _, behaviour = simulated(6_000, users)
    chosen = choose_model(behaviour, BY_NAME)
    assert [likelihood.model for likelihood in chosen.held_out] == ["coec", "dctr", "pbm", "sdbn"]
    likelihoods = {
        likelihood.model: likelihood.session_log_likelihood for likelihood in chosen.held_out
    }
    assert chosen.name == max(likelihoods, key=likelihoods.__getitem__)
    assert likelihoods[best] > max(likelihoods.values()) - 0.01
    assert all(1 < likelihood.perplexity < 2 for likelihood in chosen.held_out)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]
)
@pytest.mark.parametrize("kind", ["cascade", "dbn"])
def test_lists_tell_users_who_read_from_the_top_where_clicks_by_rank_do_not(
    kind: str, seed: int
) -> None:
    satisfied, patience = (1.0, 1.0) if kind == "cascade" else (0.6, 0.9)
    users = simulate.Users("cascade", satisfied=satisfied, patience=patience)
    chosen = choose_model(simulated(20_000, users, seed=seed)[1], BY_NAME)
    by_rank = max(chosen.held_out, key=lambda likelihood: likelihood.log_likelihood)
    assert (chosen.name, by_rank.model) == ("sdbn", "pbm")


def test_the_likelihood_of_a_list_is_that_of_the_users_of_the_model() -> None:
    attractive, satisfied = np.array([0.5, 0.4]), np.array([0.7, 0.2])
    fit = CascadeFit(attractive, np.ones(2), np.ones(2), (1.0, 1.0), satisfaction=satisfied)
    patterns = click_patterns(2)
    likelihoods = np.exp(list_log_likelihoods(SimplifiedDBN(), fit, patterns))
    # Nothing, the first, the second, both.
    a, s = attractive, satisfied[0]
    wanted = [(1 - a[0]) * (1 - a[1]), a[0] * (s + (1 - s) * (1 - a[1])), (1 - a[0]) * a[1],
              a[0] * (1 - s) * a[1]]  # fmt: skip
    assert likelihoods == pytest.approx(wanted)
    assert likelihoods.sum() == pytest.approx(1)


def test_lists_of_people_held_out_are_whole_and_in_order() -> None:
    rows = [
        event(f"person {n}", d, place, action)
        for n in range(40)
        for place, d in enumerate("abc", 1)
        for action in ("view", *(("click",) if d == "b" else ()))
    ]
    again = [{**row, "session": f"{row['session']} later"} for row in rows]
    behaviour = counted([*rows, *again])
    lists = behaviour.lists
    n_people = int(behaviour.held_out.shown.sum() + lists.n_lists // 2) // 6
    assert lists.n_lists == 2 * n_people > 0
    assert lists.rank.tolist() == [1, 2, 3] * lists.n_lists
    assert lists.pair.tolist() == [0, 1, 2] * lists.n_lists
    # The click that a person makes again counts once, and is in both lists.
    assert lists.clicked.tolist() == [False, True, False] * lists.n_lists
    assert behaviour.held_out.clicked.sum() == n_people


def test_the_order_of_events_changes_no_bit_of_a_likelihood() -> None:
    events = simulate.clicks(simulate.example_world(20, 12), sessions=2000)
    shuffled = events.take(pa.array(np.random.default_rng(0).permutation(len(events))))
    likelihoods, other = (
        choose_model(counted(table), BY_NAME).held_out for table in (events, shuffled)
    )
    for model, again in zip(likelihoods, other, strict=True):
        assert model.as_dict() == again.as_dict()


def test_of_many_lists_a_sample_of_the_people_is_kept_whatever_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = simulate.clicks(simulate.example_world(20, 12), sessions=2000)
    whole = counted(events).lists
    monkeypatch.setattr(counting, "_LISTED", 1500)
    shuffled = events.take(pa.array(np.random.default_rng(0).permutation(len(events))))
    lists, other = counted(events).lists, counted(shuffled).lists
    assert 0 < lists.n_lists < whole.n_lists
    assert _as_set(lists) == _as_set(other) <= _as_set(whole)


def _as_set(lists: ClickLists) -> set[Any]:
    rows = zip(lists.pair.tolist(), lists.rank.tolist(), lists.clicked.tolist(), strict=True)
    rows_of_lists: dict[int, list[Any]] = {}
    for number, row in zip(lists.list.tolist(), rows, strict=True):
        rows_of_lists.setdefault(number, []).append(row)
    return {tuple(its) for its in rows_of_lists.values()}


def test_who_is_held_out_is_not_learned_from() -> None:
    _, behaviour = simulated(3_000)

    class Sees:
        name: ClassVar[str] = "sees"

        def fit(self, counts: ClickCounts) -> ClickFit:
            assert counts.shown.sum() in {
                behaviour.fitted.shown.sum(),
                behaviour.counts.shown.sum(),
            }
            return DocumentClickThrough().fit(counts)

    likelihood = held_out("sees", Sees(), behaviour)
    assert likelihood.impressions == behaviour.held_out.shown.sum()
    assert choose_model(behaviour, {"sees": Sees()}).name == "sees"


def test_a_model_that_breaks_is_named_in_one_line() -> None:
    class Broken:
        name: ClassVar[str] = "broken"

        def fit(self, counts: ClickCounts) -> ClickFit:
            raise KeyError("shown")

    _, behaviour = simulated(300)
    with pytest.raises(PluginError, match="click model 'broken' failed: KeyError"):
        choose_model(behaviour, {"broken": Broken()})
    with pytest.raises(UsageError, match="there is no click model"):
        choose_model(behaviour, {})
