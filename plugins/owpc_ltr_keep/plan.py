"""The plan of `keep`: a TOML file, in which every key is known, and the jobs that it runs."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.engine.deployment.alias import Alias, Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.gate import held_out
from owpc_ltr.engine.deployment.options import Evidence, ServingOptions
from owpc_ltr.engine.experiments import Experiment, Experiments
from owpc_ltr.engine.live_queries import LiveQueries, judged_queries
from owpc_ltr.engine.live_results.rankers import LiveRankers
from owpc_ltr.engine.search.live_evaluation import graded_lists
from owpc_ltr.engine.search.serving import serve_all
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.evaluation.compare import compare
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.options import ComparisonOptions
from owpc_ltr.evaluation.ranked_lists import TOP, mean_known
from owpc_ltr.files.input import open_regular, read_text
from owpc_ltr.files.output import digest_of
from owpc_ltr.host.commands import plugin_job, run_plugin_job
from owpc_ltr.host.registry import load
from owpc_ltr.inspection.inspect import inspect
from owpc_ltr.inspection.result import Finding
from owpc_ltr.metrics import parse_metrics
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.signatures import Progress, all_parameters, silent
from owpc_ltr.text import check_alias, check_index, check_name, did_you_mean
from owpc_ltr.training.train import train

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster


_NOT_OF_A_PLAN = frozenset({"data", "out", "source", "report", "progress", "plugins"})

"""Parameters of `train` that `keep` gives itself, or that no TOML value is."""

_TYPES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True, kw_only=True)
class KeepData:
    """Where judgments are from: a file, or clicks (User Behavior Insights in the cluster).

    `accept` names checks of `inspect` whose warnings do not stop a round.
    """

    judgments: str | None = None
    ubi: bool = False
    accept: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KeepGate:
    """What held-out queries must show: a gain in the first metric, above the smallest one."""

    metrics: tuple[str, ...] = ("ndcg@10",)
    smallest_gain: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KeepShadow:
    """For how many days the candidate is computed beside what users get."""

    days: float = 3.0


@dataclass(frozen=True, kw_only=True)
class KeepExperiment:
    """Days after which an experiment ends undecided.

    `name` is what searches and clicks call it; default: the alias. `negligible` is a difference in
    clicks a client that would not matter.
    """

    days: float = 28.0
    name: str | None = None
    negligible: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KeepWatch:
    """What ends the use of a model at once; a limit that is left out is not watched.

    `drift`: what `verify` finds. `min_judged`: the least share of judged documents among the first
    10 live results. `max_ms`: the engine's median milliseconds of a search with the model.
    `max_bots`: the largest share of clients of an experiment that are bots.
    """

    drift: bool = True
    min_judged: float | None = None
    max_ms: float | None = None
    max_bots: float = 0.2


@dataclass(frozen=True, kw_only=True)
class KeepNotify:
    """Who is told of changes: a command, which reads JSON, or a webhook.

    `webhook` names the environment variable that has its address.
    """

    command: tuple[str, ...] = ()
    webhook: str | None = None


@dataclass(frozen=True, kw_only=True)
class KeepPlan:
    """The whole plan. `folder` has what survives between runs; paths are those from the plan.

    A round begins `every` so many days at most: each one spends some of the level that is left.
    """

    alias: str
    index: str
    featureset: str
    folder: str
    data: KeepData
    every: float = 7.0
    query_template: str | None = None
    train: dict[str, Any] = field(default_factory=dict)
    gate: KeepGate = KeepGate()
    shadow: KeepShadow | None = None
    experiment: KeepExperiment | None = None
    watch: KeepWatch = KeepWatch()
    notify: KeepNotify = KeepNotify()

    @property
    def experiment_name(self) -> str:
        """What searches and clicks call the experiment, and the one that is not shown."""
        return (self.experiment and self.experiment.name) or self.alias

    @property
    def digest(self) -> str:
        """A digest of what a candidate and the evidence for it depend on."""
        parts = asdict(self)
        of_a_round = ("index", "featureset", "query_template", "data", "train", "gate")
        return digest_of({name: parts[name] for name in of_a_round})


def read_plan(path: Path | str) -> KeepPlan:
    """The plan in a file. Raises BadInput, with the key, for what no plan says."""
    try:
        content = tomllib.loads(read_text(Path(path)))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    plan: KeepPlan = _table(KeepPlan, content, str(path))
    try:
        _check(plan)
    except OwpcLtrError as error:
        raise BadInput(f"{path}: {error}") from error
    return _placed(plan, Path(path).resolve().parent)


def _table(kind: Any, content: Mapping[str, Any], place: str) -> Any:
    """A table of the plan as an object."""
    types = get_type_hints(kind)
    _refuse_unknown(content, types, place)
    for key in fields(kind):
        required = key.default is MISSING and key.default_factory is MISSING
        if required and key.name not in content:
            raise BadInput(f"{place} lacks the key '{key.name}'")
    values = {key: _value(types[key], value, place, key) for key, value in content.items()}
    return kind(**values)


def _value(annotation: Any, value: Any, place: str, key: str) -> Any:
    """A value of the annotated type, which may be optional."""
    options = [kind for kind in get_args(annotation) if kind is not type(None)]
    kind = options[0] if options and get_origin(annotation) not in {tuple, dict} else annotation
    is_table = is_dataclass(kind) or get_origin(kind) is dict
    if is_table and not isinstance(value, dict):
        raise BadInput(f"{place}: '{key}' is a table: write [{key}]")
    if is_dataclass(kind):
        return _table(kind, value, f"{place}, [{key}]")
    if get_origin(kind) is tuple:
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise BadInput(f'{place}: {key} = {value!r} must be a list of texts, as ["a", "b"]')
        return tuple(value)
    if is_table:
        allowed = all_parameters(train).keys() - _NOT_OF_A_PLAN
        _refuse_unknown(value, allowed, f"{place}, [{key}]")
        return value
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"{place}: {key} = {value!r} must be {_TYPES[kind]}")
    return value


def _refuse_unknown(content: Mapping[str, Any], names: Collection[str], place: str) -> None:
    for key in content:
        if key not in names:
            advice = did_you_mean(key, names, f"use {', '.join(sorted(names))}")
            raise BadInput(f"{place}: there is no key '{key}': {advice}")


def _check(plan: KeepPlan) -> None:
    check_alias(plan.alias)
    check_index(plan.index)
    check_name("feature set", plan.featureset)
    check_name("search experiment", plan.experiment_name)
    parse_metrics(plan.gate.metrics, load())
    if (plan.data.judgments is None) != plan.data.ubi:
        raise BadInput("[data] needs one of judgments = FILE and ubi = true")
    if not plan.gate.metrics:
        raise BadInput("[gate] metrics is empty: name at least one, as ndcg@10")
    if plan.watch.min_judged is not None and plan.data.judgments is None:
        raise BadInput("[watch] min_judged needs [data] judgments: clicks judge what users get")
    if plan.shadow is not None and plan.experiment is None:
        raise BadInput("[shadow] comes before an experiment: add [experiment], or leave it out")
    if plan.data.ubi:
        plugin_job("judge clicks")
    if plan.experiment is not None:
        plugin_job("experiment start")


def _placed(plan: KeepPlan, folder: Path) -> KeepPlan:
    """The plan with paths from the folder that it is in, wherever `keep` is started."""
    template, judgments = plan.query_template, plan.data.judgments
    return replace(
        plan,
        folder=str(folder / plan.folder),
        query_template=None if template is None else str(folder / template),
        data=replace(plan.data, judgments=None if judgments is None else str(folder / judgments)),
    )


CANDIDATE, CHAMPION = "the candidate", "the champion"

_SEARCHED = 50

"""Judged queries that are searched live for a watch."""


class Workflow:
    """The work of one plan in one cluster; files are in the plan's folder."""

    def __init__(self, plan: KeepPlan, cluster: Cluster, progress: Progress = silent) -> None:
        self.plan, self._cluster, self._progress = plan, cluster, progress
        self._folder = Path(plan.folder)
        self.clicks: dict[str, Any] = {"from_ubi": True}
        """Where the clicks of an experiment are, as options of its commands."""

    @property
    def files(self) -> dict[str, Path]:
        """The file that each of these steps makes."""
        return {"log": self._folder / "data.parquet", "train": self._folder / "candidate.json"}

    @property
    def _judgments(self) -> Path:
        clicks = self._folder / "clicks.parquet"
        return clicks if self.plan.data.judgments is None else Path(self.plan.data.judgments)

    @property
    def source(self) -> str:
        """The name of the judgments."""
        return "clicks" if self.plan.data.ubi else self._judgments.name

    def inputs(self, drifted: str | None) -> str:
        """A digest of all that a candidate depends on; `drifted` is a model to be replaced."""
        if self.plan.data.ubi:
            run_plugin_job(
                "judge clicks", out=self._judgments, from_ubi=True, index=self.plan.index,
                cluster=self._cluster,
            )  # fmt: skip
        featureset = self._cluster.featuresets.get(self.plan.featureset)
        return digest_of([self.plan.digest, file_digest(self._judgments), featureset.hash, drifted])

    def log(self) -> str:
        """Log the features of the judged documents; what was logged."""
        logged = self._cluster.log_features(
            judgments=self._judgments, out=self.files["log"], index=self.plan.index,
            featureset=self.plan.featureset, progress=self._progress,
        )  # fmt: skip
        return str(logged).splitlines()[1]

    def findings(self) -> tuple[Finding, ...]:
        """What makes the data harmful to train on."""
        return inspect(self.files["log"], training=False).warnings

    def train(self) -> str:
        """Train the candidate; what it is."""
        model = train(
            self.files["log"], out=self.files["train"], progress=self._progress, **self.plan.train
        )
        return f"a {model.kind} model of {len(model.feature_names)} features"

    def alias(self) -> Alias | None:
        """The alias, if a model was uploaded for it."""
        cluster = self._cluster.holding(self.plan.alias)
        return Aliases(cluster.engine, cluster.store).find(self.plan.alias)

    def held_out(self, champion: str) -> str:
        """A digest of the ids of the queries that neither model has seen."""
        data, model = read_dataset(self.files["log"]), load_scoring_model(self.files["train"])
        queries, _ = held_out(data, model, self._records(champion).get(champion))
        return digest_of(sorted(queries.query_ids.to_pylist()))

    def compare(self, champion: str, resamples: int) -> RankerComparison:
        """The candidate against the champion on these queries."""
        gate = self.plan.gate
        rankers = {
            CANDIDATE: load_scoring_model(self.files["train"]),
            CHAMPION: self._records(champion).get(champion).ranker(),
        }
        return compare(
            rankers, self.files["log"], metrics=gate.metrics, baseline=CHAMPION,
            options=ComparisonOptions(smallest_gain=gate.smallest_gain), resamples=resamples,
            progress=self._progress,
        )  # fmt: skip

    def upload(self, champion: str) -> str:
        """Upload the candidate as the challenger; its immutable name.

        Raises NotBetter where live results contradict the gain, or judgments cannot tell.
        """
        gate = self.plan.gate
        evidence = Evidence(
            require_gain=gate.metrics[0], smallest_gain=gate.smallest_gain, baseline=champion
        )
        return self._cluster.upload(
            self.files["train"], name=self.plan.alias, index=self.plan.index,
            featureset=self.plan.featureset, role="challenger", data=self.files["log"],
            evidence=evidence, serving=ServingOptions(query_template=self.plan.query_template),
            progress=self._progress,
        ).model  # fmt: skip

    def note(self, model: str, what: str, content: Mapping[str, Any]) -> None:
        """Add to a model's deployment record, in the results of its gate."""
        records = self._records(model)
        record = records.get(model)
        records.put(replace(record, gate={**(record.gate or {}), what: dict(content)}))

    def promote(self, model: str) -> None:
        """Switch the alias to a model."""
        self._cluster.models.promote(model)

    def roll_back(self) -> None:
        """Switch the alias back to the model before."""
        self._cluster.models.rollback(self.plan.alias)

    def troubles(self, model: str) -> dict[str, str]:
        """What is wrong with an uploaded model, by the name of the watch that says so."""
        watch, troubles = self.plan.watch, dict[str, str]()
        if watch.drift:
            try:
                drift = "; ".join(self._cluster.verify(model, index=self.plan.index).drift)
            except Refused as error:  # too few of its documents are in the index
                drift = str(error)
            troubles |= {"drift": drift} if drift else {}
        if watch.min_judged is None and watch.max_ms is None:
            return troubles
        judged, milliseconds = self._live(model)
        if watch.min_judged is not None and not judged >= watch.min_judged:
            troubles["judged"] = (
                f"{judged:.0%} of its first {TOP} results are judged, and {watch.min_judged:.0%} "
                "are needed: judge what users get (owpc-ltr judge pool)"
            )
        if watch.max_ms is not None and milliseconds > watch.max_ms:
            troubles["latency"] = (
                f"a search takes {milliseconds:g} ms (median), and {watch.max_ms:g} are allowed"
            )
        return troubles

    def _live(self, model: str) -> tuple[float, float]:
        """The judged share of the first results, and the median milliseconds, of a sample."""
        judged, template = judged_queries(self._judgments), self.plan.query_template
        order = np.random.default_rng(0).permutation(len(judged))[:_SEARCHED]
        sample = [judged[number] for number in np.sort(order).tolist()]
        with ExitStack() as stack:
            ranker = LiveRankers(
                cluster=self._cluster, query_template=template, judged=sample, trials=stack
            ).model(model, self.plan.index)
            query = self._cluster.template(ranker.index, template)[0]
            live = LiveQueries(Judgments(sample), template, self._cluster.window(template, None))
            question = live.question(ranker.index, query, (), ranker.featureset)
            (answers,) = serve_all((ranker.serve,), question.requests(), question.in_flight)
        ranked = [answer.doc_ids for answer in answers]
        lists = graded_lists(question.queries, ranked, question.window)
        took = float(np.median([answer.took for answer in answers]))
        return mean_known(lists.judged_at(TOP)), took

    def experiment(self) -> Experiment | None:
        """The experiment of this plan, whatever its state."""
        return Experiments(self._cluster.engine).find(self.plan.experiment_name)

    def start(self, model: str, *, shadow: bool) -> Experiment:
        """Compare a model with the alias by the clicks of users; in the shadow nobody sees it."""
        started: Experiment = self._experiment_job(
            "start", a=self.plan.alias, b=model, index=self.plan.index, shadow=shadow
        )
        return started

    def status(self) -> Any:
        """What the clicks say so far: what `experiment status` returns."""
        return self._experiment_job("status", **self.clicks, negligible=self._negligible)

    def stop(self, *, promote: bool) -> bool:
        """Stop the experiment; whether its alias is set to the model that was tried."""
        stopped = self._experiment_job(
            "stop", **self.clicks, negligible=self._negligible,
            promote_if="better" if promote else None,
        )  # fmt: skip
        return bool(stopped.promoted)

    def _experiment_job(self, job: str, **arguments: Any) -> Any:
        name = self.plan.experiment_name
        return run_plugin_job(f"experiment {job}", cluster=self._cluster, name=name, **arguments)

    @property
    def _negligible(self) -> float:
        return 0.0 if self.plan.experiment is None else self.plan.experiment.negligible

    def _records(self, model: str) -> DeploymentRecords:
        cluster = self._cluster.holding(model)
        return DeploymentRecords(cluster.engine, cluster.store)


def file_digest(path: Path) -> str:
    """Hex SHA-256 of a file. Raises BadInput where it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
