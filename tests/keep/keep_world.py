"""A plan on a cluster in memory: what is logged, trained and compared is made up, all else real."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from owpc_ltr_keep.keep import KeepRun, run_once
from owpc_ltr_keep.plan import (
    CANDIDATE,
    CHAMPION,
    KeepData,
    KeepExperiment,
    KeepNotify,
    KeepPlan,
    KeepShadow,
    Workflow,
)

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Alias, all_aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, DeploymentRecords
from owpc_ltr.engine.deployment.model_upload import upload_model
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.evaluation.attempts import corrected_for
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.significance import Verdict, compare_paired
from owpc_ltr.files.output import digest_of
from owpc_ltr.inspection.result import Finding
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model, save_model
from tests.engine.small_cluster import FEATURESET, linear
from tests.engine.write_world import World, cluster_of


@dataclass(frozen=True)
class NoiseComparison:
    """Two rankers of one metric, whose values differ by a gain and noise."""

    compared: ComparedPair
    earlier_comparisons: int = 0

    def pair(self, _a: str, _b: str) -> ComparedPair:
        return self.compared

    def verdict(self, _a: str, _b: str) -> Verdict:
        return self.compared.verdict


@cache
def noise(
    seed: int, resamples: int, gain: float, looks: int = 0, queries: int = 200
) -> NoiseComparison:
    """The candidate of a night: as good as the champion, but for the gain.

    `looks` are earlier comparisons on the same queries, for which p is corrected.
    """
    rng = np.random.default_rng(seed)
    champion = rng.uniform(0.4, 0.6, queries)
    candidate = champion + gain + rng.normal(0, 0.25, queries)
    comparison = compare_paired(candidate, champion, seed=seed, resamples=resamples)
    p = min(1.0, comparison.p_permutation * corrected_for(looks))
    pair = ComparedPair(CANDIDATE, CHAMPION, "ndcg@10", comparison, p_holm=p)
    return NoiseComparison(pair, looks)


def model_of_night(night: int) -> LinearModel:
    return linear((1.0, 0.3, 1 / (night + 3)))


@dataclass
class Night:
    """What happens before a run: judgments change with the number, and the candidate has a gain."""

    number: int = 1
    gain: float = 0.0
    looks: int = 0
    findings: tuple[Finding, ...] = ()
    troubles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    log: Path | None = None


class MadeUpWorkflow(Workflow):
    """The workflow of a night, with a real cluster in memory for models and experiments."""

    def __init__(self, plan: KeepPlan, engine: Any, night: Night) -> None:
        super().__init__(plan, cluster_of(engine))
        self.engine, self.night = cast("Engine", engine), night
        if night.log is not None:
            self.clicks = {"events": [night.log]}

    def inputs(self, drifted: str | None) -> str:
        return digest_of([self.plan.digest, self.night.number, drifted])

    def log(self) -> str:
        self.files["log"].write_text(f"data of night {self.night.number}")
        return "12 judged = 12 logged"

    def findings(self) -> tuple[Finding, ...]:
        return self.night.findings

    def train(self) -> str:
        save_model(model_of_night(self.night.number), self.files["train"])
        return "a linear model"

    def held_out(self, champion: str) -> str:
        return "the same queries"

    def compare(self, champion: str, resamples: int) -> Any:
        return noise(self.night.number, resamples, self.night.gain, self.night.looks)

    def upload(self, champion: str) -> str:
        model = load_scoring_model(self.files["train"])
        return upload_model(
            self.engine, PluginFreeStore(self.engine), model, FEATURESET, index="small",
            name=self.plan.alias, role="challenger",
        ).model  # fmt: skip

    def troubles(self, model: str) -> dict[str, str]:
        return dict(self.night.troubles.get(model, {}))


@dataclass
class KeepWorld:
    """A world, a plan for its alias `m`, and a clock that tests move."""

    world: World
    plan: KeepPlan
    days: float = 0.0

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def clock(self) -> datetime:
        return datetime.now(UTC) + timedelta(days=self.days)

    def run(self, night: Night, engine: Any = None) -> KeepRun:
        workflow = MadeUpWorkflow(self.plan, engine or self.engine, night)
        return run_once(workflow, self.clock)

    @property
    def alias(self) -> Alias:
        (alias,) = (alias for alias in all_aliases(self.engine) if alias.name == "m")
        return alias

    def record(self, model: str) -> DeploymentRecord:
        return DeploymentRecords(self.engine, PluginFreeStore(self.engine)).get(model)

    @property
    def state(self) -> dict[str, Any]:
        """The state, without times."""
        text = (Path(self.plan.folder) / "state.json").read_text()
        content = json.loads(text, object_hook=without_times)
        assert isinstance(content, dict)
        return content


def without_times(content: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in content.items() if name not in {"time", "started", "began"}
    }


def plan_in(folder: Path, *, tried: bool = False, notify: tuple[str, ...] = ()) -> KeepPlan:
    """A plan for the alias `m`; `tried`: in the shadow and in an experiment."""
    return KeepPlan(
        alias="m",
        index="small",
        featureset="small",
        folder=str(folder),
        every=0,
        data=KeepData(judgments=str(folder / "judgments.tsv")),
        shadow=KeepShadow(days=2) if tried else None,
        experiment=KeepExperiment(days=20) if tried else None,
        notify=KeepNotify(command=notify),
    )
