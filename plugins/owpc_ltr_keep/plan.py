"""The plan of `keep`: a TOML file, in which every key is known."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from owpc_ltr.data.judgments.grouping import machines_among
from owpc_ltr.data.options import checked_columns
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.evaluation.judged_data import read_lists
from owpc_ltr.files.folders import is_confined, refuse_outside
from owpc_ltr.files.input import read_text
from owpc_ltr.files.output import digest_of
from owpc_ltr.files.typed_table import read_table, refuse_unknown
from owpc_ltr.host.commands import plugin_job
from owpc_ltr.host.registry import load
from owpc_ltr.inspection.result import CHECKS
from owpc_ltr.metrics import parse_metrics
from owpc_ltr.signatures import Reads, all_parameters, help_of
from owpc_ltr.text import check_alias, check_index, check_name
from owpc_ltr.training.train import train

_NOT_OF_A_PLAN = frozenset({"data", "out", "source", "report", "progress", "plugins"})
"""Parameters of `train` that `keep` gives itself, or that no TOML value is."""
_FOR_AGENTS = (
    "alias index featureset folder every query_template window data judgments ubi columns "
    "max_absent gate metrics smallest_gain shadow experiment days name negligible watch max_ms "
    "min_judged train loss optimizer settings grid metric runs_in normalise missing "
    "piecewise_linear knots max_features feature_cost validation validation_share test_share folds "
    "max_feature_number memory seed threads"
)
"""Tables and keys of an agent's plan; others run commands, name addresses, or pass over checks."""


@dataclass(frozen=True, kw_only=True)
class KeepData:
    """Where judgments are from: a file, or clicks (User Behavior Insights in the cluster).

    `columns` are those of the file by role, `judged_by` gave its judgments that name no judge
    (people, a rater's name, clicks, or model:NAME). `max_absent` is the largest share of judged
    documents that may be missing in the index, `accept` names checks of `inspect` whose warnings do
    not stop a round: by default those that suggested feature sets give, and that harm no model.
    """

    judgments: str | None = None
    ubi: bool = False
    columns: dict[str, Any] = field(default_factory=dict)
    judged_by: str | None = None
    max_absent: float = LogOptions.max_absent
    accept: tuple[str, ...] = ("constant-column",)


@dataclass(frozen=True, kw_only=True)
class KeepGate:
    """What held-out queries must show live: a gain in the first metric, above the smallest one."""

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
    """What is wrong with a model in use; a limit that is left out is not watched.

    `drift`: what `verify` finds. `max_ms`: the engine's median milliseconds of a search with the
    model. `min_judged`: the least share of judged documents among the first 10 live results, below
    which a person is called. `max_bots`: the largest share of clients of an experiment that are
    bots.
    """

    drift: bool = True
    max_ms: float | None = None
    min_judged: float | None = None
    max_bots: float = 0.2


@dataclass(frozen=True, kw_only=True)
class KeepNotify:
    """Who is told how a run ended: a command, which reads JSON, or a webhook.

    `webhook` names the environment variable that has its address.
    """

    command: tuple[str, ...] = ()
    webhook: str | None = None


@dataclass(frozen=True, kw_only=True)
class KeepPlan:
    """The whole plan. `folder` has what survives between runs; paths are those from the plan.

    A round begins `every` so many days at most: each one is an attempt.
    """

    alias: str
    index: str
    featureset: str
    folder: str
    data: KeepData
    every: float = 7.0
    query_template: str | None = None
    window: int | None = None
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
        of_a_round = ("index", "featureset", "query_template", "window", "data", "train", "gate")
        return digest_of({name: parts[name] for name in of_a_round})


def read_plan(path: Path | str) -> KeepPlan:
    """The plan in a file. Raises BadInput, with the key, for what no plan says."""
    try:
        content = tomllib.loads(read_text(Path(path)))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    plan = read_table(KeepPlan, content, str(path))
    refuse_unknown(plan.train, all_parameters(train).keys() - _NOT_OF_A_PLAN, f"{path}, [train]")
    plan = _placed(plan, Path(path).resolve().parent)
    if is_confined():
        _confine(plan, content, str(path))
    try:
        _check(plan)
    except OwpcLtrError as error:
        raise BadInput(f"{path}: {error}") from error
    return plan


def _confine(plan: KeepPlan, content: Mapping[str, Any], place: str) -> None:
    """Raise Refused for a file outside of an agent's folder, and a key that is for people."""
    for table, value in content.items():
        for key in (table, *(value if isinstance(value, dict) else ())):
            if key not in _FOR_AGENTS.split():
                raise Refused(
                    f"{place}: '{key}' is for plans that people run: leave it out, or ask whoever "
                    "starts the server to run owpc-ltr keep"
                )
    options = all_parameters(train)
    files: dict[str, Any] = {
        key: value for key, value in plan.train.items() if isinstance(help_of(options[key]), Reads)
    }
    files |= {"folder": plan.folder, "query_template": plan.query_template}
    for key, file in (*files.items(), ("judgments", plan.data.judgments)):
        if isinstance(file, str):
            refuse_outside(file, f"{place}: {key}")


def _check(plan: KeepPlan) -> None:
    check_alias(plan.alias)
    check_index(plan.index)
    check_name("feature set", plan.featureset)
    check_name("search experiment", plan.experiment_name)
    parse_metrics(plan.gate.metrics, load())
    if not plan.gate.metrics:
        raise BadInput("[gate] metrics is empty: name at least one, as ndcg@10")
    if plan.window is not None and plan.window < 1:
        raise BadInput(f"window = {plan.window} must be 1 or more")
    _check_data(plan)
    if plan.shadow is not None and plan.experiment is None:
        raise BadInput("[shadow] comes before an experiment: add [experiment], or leave it out")
    if plan.experiment is not None:
        plugin_job("experiment start")


def _check_data(plan: KeepPlan) -> None:
    data, no_evidence = (
        plan.data,
        (
            "are no evidence for a switch: add [experiment], so that users decide, or give "
            "judgments of people: judgments = FILE"
        ),
    )
    if (data.judgments is None) != data.ubi:
        raise BadInput("[data] needs one of judgments = FILE and ubi = true")
    checked_columns(data.columns)
    LogOptions(max_absent=data.max_absent)
    for check in data.accept:
        if check not in CHECKS:
            raise BadInput(f"[data] accept: no check is called '{check}': use {', '.join(CHECKS)}")
    if not data.ubi:
        # One that cannot be read is told by the run.
        machines = dict[str, float]()
        with suppress(OwpcLtrError):
            if plan.experiment is None:
                (judged,) = read_lists(data.columns or None, data.judgments, asked=True)
                machines = machines_among(judged_queries(judged))
        if round(sum(machines.values()), 6) == 1:
            raise BadInput(f"[data] judgments of {' and '.join(machines)} alone {no_evidence}")
        return
    plugin_job("judge clicks")
    if plan.experiment is None:
        raise BadInput(f"[data] ubi = true: judgments of clicks {no_evidence}")
    if data.columns:
        raise BadInput("[data] columns are those of a judgment list: ubi = true has none")
    if plan.watch.min_judged is not None:
        raise BadInput("[watch] min_judged needs [data] judgments: clicks judge what users get")


def _placed(plan: KeepPlan, folder: Path) -> KeepPlan:
    """The plan with paths from the folder that it is in, wherever `keep` is started."""
    template, judgments = plan.query_template, plan.data.judgments
    return replace(
        plan,
        folder=str(folder / plan.folder),
        query_template=None if template is None else str(folder / template),
        data=replace(plan.data, judgments=None if judgments is None else str(folder / judgments)),
    )
