"""A year of `owpc-ltr keep`, night by night: what is promoted, rolled back and gained.

    python benchmarks/keep_year.py [YEARS]

The loop, the ledger, the watches and the verdicts are those of the product; the engine, the
training and the users are made up. In the first table a model's true quality falls with the
distance from the season that it was trained in, by .06 in half a year; most nights the trainer is a
little worse than it was. On day 120 the catalogue is replaced, which costs each earlier model .1;
on day 300 the champion alone breaks, which costs it .15. From day 60 to 75 the logger loses
searches that B leads, from day 90 to 100 there are bots. In the second table nothing can be gained:
each candidate is worse than the first model by .002.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
from owpc_ltr_experiment.status import ExperimentStatus
from owpc_ltr_experiment.verdict import ClientTotals, experiment_result
from owpc_ltr_keep.keep import run_once
from owpc_ltr_keep.plan import CANDIDATE, CHAMPION, KeepData, KeepExperiment, KeepPlan, Workflow
from owpc_ltr_keep.state import Attempt

from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.engine.experiments import RUNNING, STOPPED, Experiment
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Verdict, compare_paired
from owpc_ltr.files.output import digest_of
from owpc_ltr.inspection.result import Finding

DAYS, BEGAN = 365, datetime(2027, 1, 1, tzinfo=UTC)
QUERIES, SPREAD = 400, 0.2
"""Held-out queries, and the standard deviation of a query's difference."""
CLIENTS_A_DAY, CLICKS_SD = 500, 0.55
CATALOGUE_DAY, BROKEN_DAY = 120, 300
LOGGER, BOTS = range(60, 75), range(90, 100)


@dataclass(frozen=True)
class Climate:
    """What a year costs models, and how skilled candidates are beside the first model."""

    season: float = 0.0
    catalogue: float = 0.0
    broken: float = 0.0
    skill: float = -0.002
    skill_sd: float = 0.0


CLIMATES = {
    "a year of changes": Climate(0.06, 0.1, 0.15, skill=-0.005, skill_sd=0.008),
    "a year in which nothing can be gained": Climate(),
}


@dataclass(frozen=True)
class Compared:
    """One comparison on held-out queries, as the gate reads it."""

    compared: ComparedPair
    earlier_comparisons: int = 0

    def pair(self, _a: str, _b: str) -> ComparedPair:
        """The only pair."""
        return self.compared

    def verdict(self, _a: str, _b: str) -> Verdict:
        """Its verdict."""
        return self.compared.verdict


@dataclass
class Year:
    """The models of a year, their true quality, and what became of them."""

    climate: Climate
    rng: np.random.Generator
    day: int = 0
    skills: dict[str, float] = field(default_factory=lambda: {"m-0": 0.5})
    alias: Alias = field(default_factory=lambda: Alias("m", "m-0", history=50))
    broken: str | None = None
    running: Experiment | None = None
    gains: list[float] = field(default_factory=list)
    """The true gain of each promotion."""
    qualities: list[float] = field(default_factory=list)
    rid_of_it_after: int | None = None
    """Days until the champion that broke was replaced."""
    rollbacks: int = 0
    untrusted: int = 0
    """Experiments that ended because of their log."""

    def quality(self, model: str) -> float:
        """The true quality of a model today."""
        trained, climate = int(model.partition("-")[2]), self.climate
        lost = climate.season * (1 - math.cos(2 * math.pi * (self.day - trained) / DAYS)) / 2
        lost += climate.catalogue if trained < CATALOGUE_DAY <= self.day else 0.0
        lost += climate.broken if model == self.broken else 0.0
        return self.skills[model] - lost

    def gain(self, model: str, over: str) -> float:
        """The true gain of a model today."""
        return self.quality(model) - self.quality(over)

    def promoted(self, model: str) -> None:
        """Set the alias to a model."""
        if self.alias.current != model:
            self.gains.append(self.gain(model, self.alias.current))
            self.alias = self.alias.switched_to(model)


class YearWorkflow(Workflow):
    """The jobs of one night, made up."""

    def __init__(self, plan: KeepPlan, year: Year, every: int, *, watched: bool) -> None:
        super().__init__(plan, cast("Any", None))
        self.year, self.every, self.watched = year, every, watched

    @property
    def candidate(self) -> str:
        """The name of the candidate."""
        return self.files["train"].read_text()

    def inputs(self, drifted: str | None) -> str:
        """New judgments every so many days."""
        return digest_of([self.year.day // self.every, drifted])

    def log(self) -> str:
        """Nothing to log."""
        self.files["log"].write_text(f"day {self.year.day}")
        return "logged"

    def findings(self) -> tuple[Finding, ...]:
        """No faults."""
        return ()

    def train(self) -> str:
        """A candidate of today's skill."""
        name = f"m-{self.year.day}"
        self.year.skills[name] = 0.5 + self.year.rng.normal(
            self.year.climate.skill, self.year.climate.skill_sd
        )
        self.files["train"].write_text(name)
        return name

    def alias(self) -> Alias:
        """The alias."""
        return self.year.alias

    def held_out(self, champion: str) -> str:  # noqa: ARG002
        """The same queries all year."""
        return "the same queries"

    def compare(self, champion: str, resamples: int) -> Any:  # noqa: ARG002
        """Differences of queries around the true gain."""
        year = self.year
        differences = year.rng.normal(year.gain(self.candidate, champion), SPREAD, QUERIES)
        comparison = compare_paired(differences, np.zeros(QUERIES), seed=0, resamples=1000)
        # Differences are normal: the t-test's p is exact, whatever the level.
        return Compared(
            ComparedPair(CANDIDATE, CHAMPION, "ndcg@10", comparison, p_holm=comparison.p_t)
        )

    def upload(self, champion: str) -> str:  # noqa: ARG002
        """Nothing to upload."""
        return self.candidate

    def note(self, model: str, what: str, content: object) -> None:
        """Count the experiments that their log ended."""
        if what == "rolled_back" and model not in self.year.alias.models:
            self.year.untrusted += not str(cast("Any", content)["reason"]).startswith("worse")

    def promote(self, model: str) -> None:
        """Promote a candidate."""
        self.year.promoted(model)

    def roll_back(self) -> None:
        """Go back a step."""
        self.year.alias = self.year.alias.rolled_back()

    def troubles(self, model: str) -> dict[str, str]:
        """Features that moved."""
        trained = int(model.partition("-")[2])
        replaced = self.year.climate.catalogue > 0 and trained < CATALOGUE_DAY <= self.year.day
        moved = replaced or model == self.year.broken
        return {"drift": "moved"} if moved and self.watched else {}

    def experiment(self) -> Experiment | None:
        """The last experiment."""
        return self.year.running

    def start(self, model: str, *, shadow: bool) -> Experiment:
        """Show the candidate to users."""
        started = (BEGAN + timedelta(days=self.year.day)).isoformat()
        self.year.running = Experiment(
            "m", self.year.alias.current, model, index="docs", started=started, alias="m",
            shadow=shadow,
        )  # fmt: skip
        return self.year.running

    def status(self) -> ExperimentStatus:
        """What the users of all days so far did."""
        year, experiment = self.year, cast("Experiment", self.year.running)
        first = (datetime.fromisoformat(experiment.started) - BEGAN).days
        n = CLIENTS_A_DAY * (year.day - first + 1)
        # The same users every day, and those of today after them.
        rng = np.random.default_rng([first, 1])
        days = first + np.arange(n) // CLIENTS_A_DAY
        lossy = np.isin(days, LOGGER)
        leads = rng.random(n) < np.where(lossy, 0.4, 0.5)
        gain = year.gain(experiment.b, experiment.a) + np.where(lossy, 0.05, 0.0)
        once = np.ones(n, np.int64)
        credit = rng.normal(gain, CLICKS_SD)
        late = credit * (np.arange(n) >= n * 2 // 3)
        clients = ClientTotals(
            credit=credit, late=late, searches=once, clicks=once, led_b=leads.astype(np.int64),
            residual=rng.normal(0, 1, n), unlogged=np.zeros(n),
        )  # fmt: skip
        result = experiment_result(clients, exponent=1.0)
        bots = int(np.isin(days, BOTS).sum() * 0.8)
        return ExperimentStatus(
            experiment, result, warnings=(), by_leader={}, shadow=None, bots=bots, failed=0,
            unusable={}, team_draft={},
        )  # fmt: skip

    def stop(self, *, promote: bool) -> bool:
        """Stop the experiment."""
        experiment = cast("Experiment", self.year.running)
        done = promote and experiment.state == RUNNING
        self.year.running = replace(experiment, state=STOPPED)
        if done:
            self.year.promoted(experiment.b)
        return done


@dataclass(frozen=True)
class Arm:
    """A way to keep a ranker: how often it is trained anew, and what is left out of the loop."""

    every: int = 0
    honest: bool = True
    users: bool = False


ARMS = {
    "the first model for ever": Arm(),
    "5 % every night, no ledger, no watches": Arm(1, honest=False),
    "keep, nightly": Arm(1),
    "keep, weekly": Arm(7),
    "keep, weekly, with experiments": Arm(7, users=True),
}


@contextmanager
def without_ledger() -> Iterator[None]:
    """Each attempt has the whole level."""
    spent = Attempt.level
    Attempt.level = property(lambda _self: LEVEL)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Attempt.level = spent  # type: ignore[method-assign]


def year_of(climate: Climate, arm: Arm, seed: int, folder: Path) -> Year:
    """A year of nights; in the morning something may break."""
    year = Year(climate, np.random.default_rng(seed))
    users = KeepExperiment(days=21) if arm.users else None
    plan = KeepPlan(
        alias="m", index="docs", featureset="docs", folder=str(folder), every=0, experiment=users,
        data=KeepData(judgments="judgments.tsv"),
    )  # fmt: skip
    clock: Callable[[], datetime] = lambda: BEGAN + timedelta(days=year.day)  # noqa: E731
    for year.day in range(1, DAYS + 1):
        if year.day == BROKEN_DAY and year.alias.previous and climate.broken:
            year.broken = year.alias.current
        if arm.every:
            workflow = YearWorkflow(plan, year, arm.every, watched=arm.honest)
            run = run_once(workflow, clock)
            year.rollbacks += run.done == "rolled back" and run.steps[-1]["step"] == "watch"
        rid = year.broken is not None and year.alias.current != year.broken
        if rid and year.rid_of_it_after is None:
            year.rid_of_it_after = year.day - BROKEN_DAY
        year.qualities.append(year.quality(year.alias.current))
    return year


def years_of(climate: Climate, arm: Arm, years: int) -> list[Year]:
    """Years of one arm; each seed is the same year for all arms."""
    made = []
    for seed in range(years):
        with tempfile.TemporaryDirectory() as folder:
            if arm.honest:
                made.append(year_of(climate, arm, seed, Path(folder)))
            else:
                with without_ledger():
                    made.append(year_of(climate, arm, seed, Path(folder)))
    return made


def row(name: str, years: list[Year], nothing: float) -> str:
    """A line of the table."""
    gains = [gain for year in years for gain in year.gains]
    false = [sum(gain <= 0 for gain in year.gains) for year in years]
    after = [DAYS - BROKEN_DAY if year.rid_of_it_after is None else year.rid_of_it_after
             for year in years if year.broken]  # fmt: skip
    quality = float(np.mean([year.qualities for year in years]))
    rid = f"{np.median(after):.0f}" if after else "–"
    return (
        f"| {name} | {len(gains) / len(years):.1f} | {sum(false) / len(years):.2f} | "
        f"{np.mean([count > 0 for count in false]):.0%} | {rid} | "
        f"{sum(year.rollbacks for year in years) / len(years):.1f} | "
        f"{sum(year.untrusted for year in years) / len(years):.1f} | {quality - nothing:+.4f} |"
    )


def main() -> None:
    """Print the table."""
    years = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for title, climate in CLIMATES.items():
        print(f"\n{title}, {years} times\n")
        print(
            "| | promotions a year | of which no gain | years with one | days with the broken "
            "model (median) | rollbacks | experiments ended by checks | gain over the first model |"
        )
        print("|---|---|---|---|---|---|---|---|")
        nothing = 0.0
        for name, arm in ARMS.items():
            made = years_of(climate, arm, years)
            if not arm.every:
                nothing = float(np.mean([year.qualities for year in made]))
            print(row(name, made, nothing), flush=True)


if __name__ == "__main__":
    main()
