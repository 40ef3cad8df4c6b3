"""A plan on a cluster in memory: what is logged, trained and compared is made up, all else real."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from owpc_ltr_keep.keep import KeepRun, run_once
from owpc_ltr_keep.plan import KeepExperiment, KeepNotify, KeepPlan, KeepShadow
from owpc_ltr_keep.workflow import Workflow

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import Alias, all_aliases
from owpc_ltr.engine.deployment.model_upload import UploadRequest, upload_model
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.files.output import digest_of
from owpc_ltr.inspection.result import Finding
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model, save_model
from tests.engine.small_cluster import FEATURESET, linear
from tests.engine.write_world import World, cluster_of


def model_of_night(night: int) -> LinearModel:
    return linear((1.0, 0.3, 1 / (night + 3)))


@dataclass
class Night:
    """What happens before a run: judgments change with the number; what a comparison says."""

    number: int = 1
    outcome: Outcome = Outcome.NO_DIFFERENCE
    findings: tuple[Finding, ...] = ()
    troubles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unjudged: str | None = None
    failure: Exception | None = None
    log: Path | None = None


def better(number: int = 1, **what: Any) -> Night:
    """A night whose candidate is better."""
    return Night(number, Outcome.BETTER, **what)


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
        if self.night.failure is not None:
            raise self.night.failure
        return "12 judged = 12 logged"

    def findings(self) -> tuple[Finding, ...]:
        return self.night.findings

    def train(self) -> str:
        save_model(model_of_night(self.night.number), self.candidate)
        return "a linear model"

    def compare(self, alias: Alias) -> tuple[Outcome, str, Any]:
        return self.night.outcome, f"{self.night.outcome} than {alias.current}", None

    def upload(self) -> str:
        model, name = load_scoring_model(self.candidate), self.plan.alias
        request = UploadRequest(model, FEATURESET, index="small", name=name, role="challenger")
        return upload_model(self.engine, PluginFreeStore(self.engine), request).model

    def promote(self, model: str, evidence: Any) -> None:
        self._cluster.models.promote(model, unproven="made up")

    def troubles(self, model: str) -> dict[str, str]:
        return dict(self.night.troubles.get(model, {}))

    def unjudged(self, model: str) -> str | None:
        return self.night.unjudged


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

    @property
    def state(self) -> dict[str, Any]:
        """The state, without times."""
        text = (Path(self.plan.folder) / "state.json").read_text()
        content = json.loads(text, object_hook=without_times)
        assert isinstance(content, dict)
        return content


def without_times(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in {"time", "began"}}


def plan_in(folder: Path, *, tried: bool = False, notify: tuple[str, ...] = ()) -> KeepPlan:
    """A plan for the alias `m`; `tried`: in the shadow and in an experiment."""
    return KeepPlan(
        alias="m",
        index="small",
        featureset="small",
        folder=str(folder),
        every=0,
        judgments=str(folder / "judgments.tsv"),
        shadow=KeepShadow(days=2) if tried else None,
        experiment=KeepExperiment(days=20) if tried else None,
        notify=KeepNotify(command=notify),
    )
