"""A year of `owpc-ltr keep`, week by week: what is promoted, rolled back and gained.

    python benchmarks/keep_year.py [YEARS]

The loop, the watches, the comparisons and the count of attempts are those of the product; the
engine and the training are made up. Each week has a judgment file of its own name, with a few new
queries, and the folder of the plan is new each time, as in a fresh container: only the cluster
remembers. In the first table a model's true quality falls with the distance from the season that it
was trained in, by .06 in half a year; most candidates are a little worse than the first model was.
In week 18 the catalogue is replaced, which costs each earlier model .1; in week 43 the champion
alone breaks, which costs it .15. In the second table nothing can be gained: each candidate differs
from the champion by noise alone.
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from owpc_ltr_keep.keep import run_once
from owpc_ltr_keep.plan import KeepPlan
from owpc_ltr_keep.workflow import Workflow
from scipy.stats import ttest_1samp

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.evaluation.attempts import Pairs, Sketch, corrected_for, same_queries, sketch_of
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.measurement import (
    ComparedQueries,
    ComparisonPlan,
    PerQueryResults,
    RankerResults,
)
from owpc_ltr.evaluation.significance import LEVEL, Outcome
from owpc_ltr.inspection.result import Finding
from owpc_ltr.metrics import parse_metric

WEEKS, BEGAN = 52, datetime(2027, 1, 1, tzinfo=UTC)
CATALOGUE_WEEK, BROKEN_WEEK = 18, 43
QUERIES, NEW_QUERIES = 200, 2
"""Held-out queries in the first week, and how many each later week adds."""
SPREAD, SHARE = 0.3, 0.4
"""The standard deviation of a query's difference, of the share of queries that differ at all."""
_HOPELESS = 0.3
"""Above this p of a t-test, corrected, no permutation test finds *better*: it only counts."""
_METRIC = parse_metric("ndcg@10")


@dataclass(frozen=True)
class Climate:
    """What a year costs models, and how skilled candidates are beside the first model."""

    season: float = 0.0
    catalogue: float = 0.0
    broken: float = 0.0
    skill: float = 0.0
    skill_sd: float = 0.0


@dataclass(frozen=True)
class Arm:
    """What is left out of the loop: the count of attempts, and the watches."""

    counted: bool = True
    watched: bool = True


CLIMATES = {
    "a year of changes": Climate(0.06, 0.1, 0.15, skill=-0.005, skill_sd=0.008),
    "a year in which nothing can be gained": Climate(),
}


class Attempts:
    """The attempts of an alias, counted as its cluster counts them."""

    place = "here"

    def __init__(self) -> None:
        self.made: list[Sketch] = []

    def count(self, queries: Sketch, _metric: str, _pairs: Pairs, /) -> int:
        """How many came before on these queries; this one is written down."""
        earlier = sum(same_queries(queries, one) for one in self.made)
        self.made.append(queries)
        return earlier


@dataclass
class Year:
    """The models of a year, their true quality, and what became of them."""

    climate: Climate
    rng: np.random.Generator
    arm: Arm = Arm()
    week: int = 0
    skills: dict[str, float] = field(default_factory=lambda: {"m-0": 0.5})
    alias: Alias = field(default_factory=lambda: Alias("m", "m-0", history=50))
    broken: str | None = None
    gains: list[float] = field(default_factory=list)
    """The true gain of each promotion."""
    qualities: list[float] = field(default_factory=list)
    rid_of_it_after: int | None = None
    """Weeks until the champion that broke was replaced."""
    rollbacks: int = 0
    attempts: Attempts = field(default_factory=Attempts)
    p_values: list[float] = field(default_factory=list)
    """Of the t-test of each candidate; 1 where it is not above the champion."""

    def quality(self, model: str) -> float:
        """The true quality of a model this week."""
        trained, climate = int(model.partition("-")[2]), self.climate
        lost = climate.season * (1 - math.cos(2 * math.pi * (self.week - trained) / WEEKS)) / 2
        lost += climate.catalogue if trained < CATALOGUE_WEEK <= self.week else 0.0
        lost += climate.broken if model == self.broken else 0.0
        return self.skills[model] - lost

    def gain(self, model: str, over: str) -> float:
        """The true gain of a model this week."""
        return self.quality(model) - self.quality(over)

    def outcome(self, candidate: str) -> Outcome:
        """What a comparison with the champion says, after all that were made before."""
        n = QUERIES + NEW_QUERIES * self.week
        noise = self.rng.normal(0, SPREAD, n) * (self.rng.random(n) < SHARE)
        new = 0.5 + self.gain(candidate, self.alias.current) + noise
        p = float(ttest_1samp(new, 0.5).pvalue)
        self.p_values.append(p if new.mean() > 0.5 else 1.0)
        ids = pa.array([f"query {number}" for number in range(n)])
        sketch, attempts = sketch_of(ids, ids), self.attempts if self.arm.counted else None
        factor = corrected_for(len(self.attempts.made)) if self.arm.counted else 1.0
        if p * factor > _HOPELESS:
            self.attempts.count(sketch, str(_METRIC), {})
            return Outcome.NO_DIFFERENCE
        plan = ComparisonPlan((_METRIC,), baseline="champion", attempts=attempts)
        values: dict[str, Vector] = {"candidate": new, "champion": np.full(n, 0.5)}
        rankers = {name: RankerResults([of]) for name, of in values.items()}
        queries = ComparedQueries(ids, ids, None, "test")
        comparison = compare_results(PerQueryResults(rankers, plan, queries))
        return comparison.verdict("candidate", "champion").outcome


class YearWorkflow(Workflow):
    """The jobs of one week, made up."""

    def __init__(self, plan: KeepPlan, year: Year) -> None:
        super().__init__(plan, cast("Any", None))
        self.year = year

    def alias(self) -> Alias:
        """The alias."""
        return self.year.alias

    def troubles(self, model: str) -> dict[str, str]:
        """Features that moved."""
        trained = int(model.partition("-")[2])
        replaced = self.year.climate.catalogue > 0 and trained < CATALOGUE_WEEK <= self.year.week
        moved = replaced or model == self.year.broken
        return {"drift": "moved"} if moved and self.year.arm.watched else {}

    def inputs(self, drifted: str | None) -> str:
        """New judgments every week."""
        return f"{self.plan.judgments} {drifted}"

    def log(self) -> str:
        """Nothing to log."""
        return "logged"

    def findings(self) -> tuple[Finding, ...]:
        """No faults."""
        return ()

    def train(self) -> str:
        """A candidate of this week's skill."""
        year, climate = self.year, self.year.climate
        name = f"m-{year.week}"
        year.skills[name] = 0.5 + year.rng.normal(climate.skill, climate.skill_sd)
        return name

    def compare(self, alias: Alias) -> tuple[Outcome, str, Any]:  # noqa: ARG002
        """Differences of queries around the true gain."""
        outcome = self.year.outcome(f"m-{self.year.week}")
        return outcome, str(outcome), None

    def upload(self) -> str:
        """Nothing to upload."""
        return f"m-{self.year.week}"

    def promote(self, model: str, evidence: Any) -> None:  # noqa: ARG002
        """Set the alias to a model."""
        self.year.gains.append(self.year.gain(model, self.year.alias.current))
        self.year.alias = self.year.alias.switched_to(model)

    def experiment(self) -> None:
        """No users."""

    def roll_back(self) -> None:
        """Go back a step."""
        self.year.alias = self.year.alias.rolled_back()
        self.year.rollbacks += 1


ARMS: dict[str, Arm | None] = {
    "the first model for ever": None,
    "5 % every week: nothing is counted or watched": Arm(counted=False, watched=False),
    "keep, weekly": Arm(),
}


def year_of(climate: Climate, arm: Arm | None, seed: int) -> Year:
    """A year of runs; before one, something may break."""
    year = Year(climate, np.random.default_rng(seed), arm or Arm())
    for year.week in range(1, WEEKS + 1):
        if year.week == BROKEN_WEEK and year.alias.previous and climate.broken:
            year.broken = year.alias.current
        if arm is not None:
            now = BEGAN + timedelta(weeks=year.week)
            with tempfile.TemporaryDirectory() as folder:
                plan = KeepPlan(
                    alias="m", index="docs", featureset="docs", folder=folder,
                    judgments=f"judgments-{now:%Y-%m-%d}.tsv",
                )  # fmt: skip
                run_once(YearWorkflow(plan, year), lambda now=now: now)  # type: ignore[misc]
        if year.broken is not None and year.alias.current != year.broken:
            year.rid_of_it_after = year.rid_of_it_after or year.week - BROKEN_WEEK + 1
        year.qualities.append(year.quality(year.alias.current))
    return year


def years_of(climate: Climate, arm: Arm | None, years: int) -> list[Year]:
    """Years of one arm; each seed is the same year for all arms."""
    return [year_of(climate, arm, seed) for seed in range(years)]


def is_promoted(p_values: Vector, *, counted: bool) -> NDArray[np.bool_]:
    """Whether a series of candidates has one that is promoted, by p of each, week by week."""
    weeks = np.arange(p_values.shape[-1])
    factors = np.array([corrected_for(int(week)) if counted else 1.0 for week in weeks])
    promoted: NDArray[np.bool_] = np.any(p_values * factors < LEVEL, axis=-1)
    return promoted


def null_p_values(worlds: int, seed: int = 0) -> Vector:
    """The p-values of years in which nothing can be gained, a year a row."""
    rng, columns = np.random.default_rng(seed), []
    for week in range(1, WEEKS + 1):
        n = QUERIES + NEW_QUERIES * week
        noise = rng.normal(0, SPREAD, (worlds, n)) * (rng.random((worlds, n)) < SHARE)
        p = ttest_1samp(noise, 0.0, axis=1).pvalue
        columns.append(np.where(noise.mean(axis=1) > 0, p, 1.0))
    return np.stack(columns, axis=1)


def row(name: str, years: list[Year], nothing: float) -> str:
    """A line of the table."""
    gains = [gain for year in years for gain in year.gains]
    false = [sum(gain <= 0 for gain in year.gains) for year in years]
    after = [year.rid_of_it_after or WEEKS - BROKEN_WEEK for year in years if year.broken]
    quality = float(np.mean([year.qualities for year in years]))
    return (
        f"| {name} | {len(gains) / len(years):.1f} | {sum(false) / len(years):.2f} | "
        f"{np.mean([count > 0 for count in false]):.1%} | "
        f"{f'{np.median(after):.0f}' if after else '–'} | "
        f"{sum(year.rollbacks for year in years) / len(years):.1f} | {quality - nothing:+.4f} |"
    )


def main() -> None:
    """Print the tables."""
    years = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for title, climate in CLIMATES.items():
        print(f"\n{title}, {years} times\n")
        print(
            "| | promotions a year | of which no gain | years with one | weeks with the broken "
            "model (median) | rollbacks | gain over the first model |"
        )
        print("|---|---|---|---|---|---|---|")
        nothing = 0.0
        for name, arm in ARMS.items():
            made = years_of(climate, arm, years)
            if arm is None:
                nothing = float(np.mean([year.qualities for year in made]))
            print(row(name, made, nothing), flush=True)
    p_values = null_p_values(20_000)
    for counted in (True, False):
        how = "are counted" if counted else "are not counted"
        share = is_promoted(p_values, counted=counted).mean()
        print(f"\nwhere attempts {how}, {share:.1%} of 20,000 years promote noise")


if __name__ == "__main__":
    main()
