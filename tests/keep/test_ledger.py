"""The level is spent over attempts: nights of noise promote nothing, and without a ledger some."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_keep.state import MOST_RESAMPLES, Attempt, EvidenceStream, Ledger

from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Outcome
from tests.keep.keep_world import noise

STREAM = EvidenceStream("m", "judgments.tsv", "ids")
NIGHTS = 50


def promoted(seed: int, ledger: Ledger | None) -> int:
    """How many of fifty nights of noise are promoted; None is the liar, a test at 5 % a night."""
    count = 0
    for night in range(NIGHTS):
        attempt = Attempt(1)
        if ledger is not None:
            attempt = ledger.attempt(STREAM, f"{seed} {night}")
        pair = noise(NIGHTS * seed + night, attempt.resamples, gain=0.0, queries=40).compared
        level = LEVEL if ledger is None else attempt.level
        count += pair.verdict.outcome is Outcome.BETTER and pair.p_holm <= level
    return count


def test_fifty_nights_of_noise_promote_nothing_and_the_liar_promotes_some(tmp_path: Path) -> None:
    assert promoted(1, Ledger(tmp_path / "ledger.jsonl")) == 0
    assert promoted(1, None) > 0


def test_the_levels_of_all_attempts_add_up_to_5_percent_and_p_can_be_as_small() -> None:
    levels = [Attempt(number).level for number in range(1, 100_000)]
    assert math.isclose(sum(levels), LEVEL, rel_tol=1e-4)
    for number in (1, 2, 10, 100):
        attempt = Attempt(number)
        # One permutation as extreme as the result may come by chance.
        assert 2 / (attempt.resamples + 1) <= attempt.level


def test_a_gain_that_is_there_is_still_seen_after_many_attempts() -> None:
    attempt = Attempt(60)
    pair = noise(3, attempt.resamples, gain=0.12).compared
    assert pair.p_holm <= attempt.level


def test_a_killed_run_has_its_attempt_again_and_another_candidate_the_next(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert Ledger(path).attempt(STREAM, "one").number == 1
    assert Ledger(path).attempt(STREAM, "one").number == 1
    assert Ledger(path).attempt(STREAM, "two").number == 2
    assert Ledger(path).attempt(STREAM, "one").number == 1
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (EvidenceStream("m", "judgments.tsv", "more ids"), 2),
        (EvidenceStream("m", "copy.tsv", "ids"), 2),
        (EvidenceStream("m", "others.tsv", "other ids"), 1),
        (EvidenceStream("n", "judgments.tsv", "ids"), 1),
        (EvidenceStream("m", "experiment m"), 1),
    ],
    ids=str,
)
def test_the_same_file_or_the_same_queries_are_the_same_evidence(
    tmp_path: Path, stream: EvidenceStream, number: int
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.attempt(STREAM, "one")
    assert ledger.attempt(stream, "two").number == number


def test_where_no_level_is_left_a_person_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    most = next(n for n in range(1000) if Attempt(n + 1).resamples > MOST_RESAMPLES)
    assert 200 < most < 300
    for number in range(most):
        ledger.attempt(STREAM, str(number))
    with pytest.raises(BadInput, match=f"^{most} candidates were tried on 'judgments.tsv', and no"):
        ledger.attempt(STREAM, "another")
    assert Ledger(tmp_path / "ledger.jsonl").attempt(STREAM, "0").number == 1


def test_a_line_that_was_cut_is_not_an_attempt(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    for candidate in ("one", "two"):
        ledger.attempt(STREAM, candidate)
    path.write_bytes(path.read_bytes()[:-9])
    assert Ledger(path).attempt(STREAM, "three").number == 2


@pytest.mark.thorough
def test_of_many_series_of_noise_few_promote_anything(tmp_path: Path) -> None:
    """30 plans of 12 nights: 5 % or less have a false promotion; with a test a night, many have."""
    rng = np.random.default_rng(5)
    seeds = rng.integers(10**6, size=(30, 12))
    with_ledger = without = 0
    for series in seeds:
        pairs = [noise(int(seed), 10_000, 0.0).compared for seed in series]
        better = [pair.verdict.outcome is Outcome.BETTER for pair in pairs]
        p = [pair.p_holm for pair in pairs]
        without += any(better)
        with_ledger += any(
            gain and p <= Attempt(k).level
            for k, (gain, p) in enumerate(zip(better, p, strict=True), 1)
        )
    assert with_ledger <= 3 < without
