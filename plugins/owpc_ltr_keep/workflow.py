"""The jobs of a plan: those of the core and of other plugins, called as the plan says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine.attempts import ClusterAttempts
from owpc_ltr.engine.deployment.alias import Alias, Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, DeploymentRecords
from owpc_ltr.engine.experiments import Experiment, Experiments
from owpc_ltr.engine.live_queries import graded_lists, judged_queries
from owpc_ltr.engine.live_results.rankers import LiveRankers, answers_of
from owpc_ltr.engine.options import IN_FLIGHT
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.judged_data import read_lists
from owpc_ltr.evaluation.ranked_lists import TOP, mean_known
from owpc_ltr.evaluation.rules import SEGMENT_LOSES
from owpc_ltr.files.input import open_regular
from owpc_ltr.files.output import digest_of
from owpc_ltr.host.commands import run_plugin_job
from owpc_ltr.inspection.inspect import inspect
from owpc_ltr.signatures import Progress, silent
from owpc_ltr.training.train import train
from owpc_ltr_keep.plan import KeepExperiment, KeepPlan

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.client_scoring import Served
    from owpc_ltr.evaluation.significance import Outcome
    from owpc_ltr.inspection.result import Finding

_SEARCHED = 50
"""Queries that are searched live for a watch."""


class Workflow:
    """The work of one plan in one cluster; files are in the plan's folder."""

    def __init__(self, plan: KeepPlan, cluster: Cluster, progress: Progress = silent) -> None:
        self.plan, self._cluster, self._progress = plan, cluster, progress
        folder, judgments = Path(plan.folder), plan.judgments
        self.data, self.candidate = folder / "data.parquet", folder / "candidate.json"
        self._judgments = folder / "clicks.parquet" if judgments is None else Path(judgments)
        self._settings = plan.experiment or KeepExperiment()
        self.clicks: dict[str, Any] = {"from_ubi": True}
        """Where the clicks of an experiment are, as options of its commands."""

    def alias(self) -> Alias | None:
        """The alias, if a model was uploaded for it."""
        cluster = self._cluster.holding(self.plan.alias)
        return Aliases(cluster.engine, cluster.store).find(self.plan.alias)

    def inputs(self, drifted: str | None) -> str:
        """A digest of all that a candidate depends on; `drifted` is a model to be replaced."""
        if self.plan.ubi:
            run_plugin_job(
                "judge clicks",
                out=self._judgments,
                from_ubi=True,
                index=self.plan.index,
                cluster=self._cluster,
            )
        with open_regular(self._judgments) as file:
            judgments = hashlib.file_digest(file, "sha256").hexdigest()
        featureset = self._cluster.featuresets.get(self.plan.featureset)
        return digest_of([self.plan.digest, judgments, featureset.hash, drifted])

    def log(self) -> str:
        """Log the features of the judged documents; what was logged."""
        logged = self._cluster.log_features(
            judgments=self._judgments,
            out=self.data,
            index=self.plan.index,
            featureset=self.plan.featureset,
            columns=self._columns,
            progress=self._progress,
            max_absent=self.plan.max_absent,
        )
        return str(logged).splitlines()[1]

    def findings(self) -> tuple[Finding, ...]:
        """What makes the data harmful to train on."""
        return inspect(self.data).warnings

    def train(self) -> str:
        """Train the candidate; what it is."""
        model = train(self.data, out=self.candidate, progress=self._progress, **self.plan.train)
        return f"a {model.kind} model of {len(model.feature_names)} features"

    def compare(self, alias: Alias) -> tuple[Outcome, str, Any]:
        """Live results of the candidate against what users have: the outcome, a line, evidence."""
        plan, (template, window) = self.plan, self._search(alias)
        comparison = self._cluster.compare_live(
            [self.candidate, plan.alias],
            judgments=self._judgments,
            columns=self._columns,
            metrics=plan.metric,
            baseline=plan.alias,
            index=plan.index,
            query_template=template,
            window=window,
            featureset=plan.featureset,
            judged_by=plan.judged_by,
            smallest_gain=plan.gate.smallest_gain,
            segments=plan.gate.segments,
            accept_loss=plan.gate.accept_loss,
            progress=self._progress,
        )
        verdict, evidence = comparison.verdict(), comparison.evidence()
        figures = evidence.figures
        line = (
            f"{verdict}: {figures['metric']} {figures['mean_difference']:+.4f} over "
            f"{alias.current}, p = {figures['p_holm']:.2g}"
        )
        if any(warning.check == SEGMENT_LOSES for warning in verdict.warnings):
            line += " (to accept the loss: accept_loss of [keep.gate])"
        if earlier := comparison.earlier_comparisons:
            line += f" after {earlier} earlier comparison{'s' * (earlier > 1)} on these queries"
        return verdict.outcome, line, evidence

    def upload(self) -> str:
        """Upload the candidate as the challenger; its immutable name."""
        plan = self.plan
        return self._cluster.upload(
            self.candidate,
            name=plan.alias,
            index=plan.index,
            featureset=plan.featureset,
            role="challenger",
            data=self.data,
            query_template=plan.query_template,
            window=plan.window,
        ).model

    def promote(self, model: str, evidence: Any) -> None:
        """Switch the alias to a model. Raises Refused where users have another one by now."""
        self._cluster.models.promote(model, require=evidence)

    def roll_back(self) -> None:
        """Switch the alias back to the model before."""
        self._cluster.models.rollback(self.plan.alias)

    def troubles(self, model: str) -> dict[str, str]:
        """What is wrong with an uploaded model, by the name of the watch that says so."""
        watch, troubles = self.plan.watch, dict[str, str]()
        if watch.drift:
            try:
                drift = self._cluster.verify(model, index=self.plan.index).drift
            except Refused as error:
                troubles["documents"] = str(error)
            else:
                # Some documents go with time, and no model is the worse for it.
                drift = tuple(line for line in drift if not line.endswith("documents are gone"))
                troubles |= {"drift": "; ".join(drift)} if drift else {}
        if watch.max_ms is None:
            return troubles
        # What the model remembers: there may be no judgments yet.
        asked = [
            JudgedQuery(str(number), sample["params"], [], np.zeros(0, np.float32))
            for number, sample in enumerate(self._record(model).samples)
        ]
        took = float(np.median([answer.took for answer in self._searched(model, asked)]))
        if took > watch.max_ms:
            troubles["latency"] = (
                f"a search takes {took:g} ms (median), and {watch.max_ms:g} are allowed"
            )
        return troubles

    def unjudged(self, model: str) -> str | None:
        """Whether too little of what users get is judged."""
        least = self.plan.watch.min_judged
        if least is None:
            return None
        (judgments,) = read_lists(self._columns, self._judgments, asked=True)
        queries = judged_queries(judgments)
        order = np.random.default_rng(0).permutation(len(queries))[:_SEARCHED]
        sample = [queries[number] for number in np.sort(order).tolist()]
        ranked = [answer.doc_ids for answer in self._searched(model, sample)]
        share = mean_known(graded_lists(sample, ranked, TOP).judged_at(TOP))
        if share >= least:
            return None
        return (
            f"{share:.0%} of the first {TOP} results of {model} are judged, and {least:.0%} are "
            "needed: judge what users get (owpc-ltr judge pool)"
        )

    def experiment(self) -> Experiment | None:
        """The experiment of this plan, whatever its state."""
        return Experiments(self._cluster.engine).find(self.plan.experiment_name)

    def level(self, experiment: Experiment) -> float:
        """The level of an experiment, which is counted among those of the alias."""
        candidate = digest_of([experiment.name, experiment.b, experiment.started])
        attempts = ClusterAttempts(self._cluster.engine, self.plan.alias, candidate=candidate)
        return attempts.level_by_users()

    def start(self, model: str, *, shadow: bool) -> Experiment:
        """Compare a model with the alias by the clicks of users; in the shadow nobody sees it."""
        started: Experiment = self._experiment_job(
            "start", a=self.plan.alias, b=model, index=self.plan.index, shadow=shadow
        )
        return started

    def status(self) -> Any:
        """What the clicks say so far: what `experiment status` returns."""
        return self._experiment_job("status", **self.clicks, **self._of_clicks)

    def stop(self, *, promote: bool) -> bool:
        """Stop the experiment; whether its alias is set to the model that was tried."""
        stopped = self._experiment_job(
            "stop",
            **self.clicks,
            **self._of_clicks,
            promote_if="better" if promote else None,
        )
        return bool(stopped.promoted)

    @property
    def _of_clicks(self) -> dict[str, Any]:
        """What decides an experiment; its segments are by length and frequency."""
        kinds = ("length", "frequency")
        accepted = [name for name in self.plan.gate.accept_loss if name.lower().startswith(kinds)]
        return {"negligible": self._settings.negligible, "accept_loss": accepted}

    def _experiment_job(self, job: str, **arguments: Any) -> Any:
        name = self.plan.experiment_name
        return run_plugin_job(f"experiment {job}", cluster=self._cluster, name=name, **arguments)

    def _search(self, alias: Alias) -> tuple[Any, int | None]:
        """The query template and window of a candidate: where the plan has none, the champion's."""
        search = self._record(alias.current).search
        if search is None:
            raise BadInput(
                f"what users of '{alias.name}' have is not known, as {alias.current} was uploaded "
                "without its query template: upload it again with that (owpc-ltr upload)"
            )
        if self.plan.query_template is not None:
            return self.plan.query_template, self.plan.window
        return search["template"], self.plan.window or search["window"]

    @property
    def _columns(self) -> Mapping[str, str] | None:
        return self.plan.columns

    def _record(self, model: str) -> DeploymentRecord:
        cluster = self._cluster.holding(model)
        return DeploymentRecords(cluster.engine, cluster.store).get(model)

    def _searched(self, model: str, queries: Sequence[JudgedQuery]) -> Sequence[Served]:
        """The answers to queries as users of a model have them."""
        with ExitStack() as trials:
            rankers = LiveRankers(
                cluster=self._cluster,
                query_template=self.plan.query_template,
                window=self.plan.window,
                judged=queries,
                trials=trials,
            )
            shared = SearchRequest("unasked", {}, {}, TOP, rankers.depth)
            ranker = rankers.model(model, self.plan.index)
            (answers,) = answers_of([ranker], queries, shared, IN_FLIGHT)
        return answers
