"""The plan of `keep`: the project file, whose table [keep] has what `keep` needs besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from owpc_ltr.data.judgments import machines_among
from owpc_ltr.data.options import checked_columns
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.engine.options import ALL_FIELDS
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.evaluation.judged_data import read_lists
from owpc_ltr.evaluation.options import METRIC
from owpc_ltr.files.input import is_confined, refuse_outside
from owpc_ltr.files.output import digest_of
from owpc_ltr.host.commands import plugin_job
from owpc_ltr.host.project import KEYS, read_project, read_table, refuse_unknown
from owpc_ltr.host.registry import load
from owpc_ltr.inspection.result import CHECKS
from owpc_ltr.metrics import parse_metrics
from owpc_ltr.names import check_alias, check_index, check_name
from owpc_ltr.signatures import Reads, described, help_of
from owpc_ltr.training.train import train

_NOT_OF_A_PLAN = frozenset({"data", "out", "source", "report", "progress", "plugins"})
"""Parameters of `train` that `keep` gives itself, or that no TOML value is."""
_FOR_AGENTS = (
    "alias index featureset query_template window title_field judgments columns metric data model "
    "keep folder every ubi max_absent gate smallest_gain segments shadow experiment days name "
    "negligible watch max_ms min_judged train loss optimizer settings grid runs_in normalise "
    "missing piecewise_linear knots max_features feature_cost validation validation_share "
    "test_share folds max_feature_number memory seed threads"
)
"""Tables and keys of an agent's plan; others run commands, name addresses, or pass over checks."""


@dataclass(frozen=True, kw_only=True)
class KeepGate:
    """What held-out queries must show live: a gain in the metric, the first one, above this.

    It must lose in no segment by length, frequency, or another kind of `segments`, but those of
    `accept_loss`, which are accepted in an experiment, too.
    """

    smallest_gain: float = 0.0
    segments: tuple[str, ...] = ()
    accept_loss: tuple[str, ...] = ()


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
    """The whole plan: keys of the project, then those of its table [keep].

    `folder` has what survives between runs; paths are those from the file. A round begins `every`
    so many days at most: each one is an attempt. Judgments are a file, or clicks (`ubi`: User
    Behavior Insights in the cluster). `max_absent` is the largest share of judged documents that
    may be missing in the index, `accept` names checks of `inspect` whose warnings do not stop a
    round: by default those that suggested feature sets give, and that harm no model.
    """

    alias: str
    index: str
    featureset: str
    url: str | None = None
    query_template: str | None = None
    window: int | None = None
    judgments: str | None = None
    columns: dict[str, str] | None = None
    judged_by: str | None = None
    metric: str = METRIC
    folder: str = "keep"
    every: float = 7.0
    ubi: bool = False
    max_absent: float = LogOptions.max_absent
    accept: tuple[str, ...] = ("constant-column",)
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
        left_out = ("alias", "url", "folder", "every", "shadow", "experiment", "watch", "notify")
        parts = asdict(self)
        return digest_of({name: parts[name] for name in parts if name not in left_out})


def read_plan(path: Path | str) -> KeepPlan:
    """The plan in a project file. Raises BadInput, with the key, for what no plan says."""
    place, project = str(path), read_project(path)
    own: dict[str, Any] = project.get("keep", {})
    for key in ("alias", "index", "featureset"):
        if key not in project:
            raise BadInput(f"{place} lacks the key '{key}'")
    names = {key.name for key in fields(KeepPlan)}
    refuse_unknown(own, names - set(KEYS), f"{place}, [keep]")
    shared = {key: value for key, value in project.items() if key in names}
    plan = read_table(KeepPlan, {**shared, **own}, place, "keep")
    of_train = described(train).parameters.keys() - _NOT_OF_A_PLAN
    refuse_unknown(plan.train, of_train, f"{place}, [keep.train]")
    if "metric" in shared:
        plan = replace(plan, train={"metric": plan.metric, **plan.train})
    plan = _placed(plan, Path(path).absolute().parent)
    if is_confined():
        _confine(plan, project, place)
    try:
        _check(plan)
    except OwpcLtrError as error:
        raise BadInput(f"{place}: {error}") from error
    return plan


def _confine(plan: KeepPlan, project: Mapping[str, Any], place: str) -> None:
    """Raise Refused for a file outside of an agent's folder, and a key that is for people."""
    own: Mapping[str, Any] = project.get("keep", {})
    inner = (table for table in own.values() if isinstance(table, dict))
    for key in (key for table in (project, own, *inner) for key in table):
        if key not in _FOR_AGENTS.split():
            raise Refused(
                f"{place}: '{key}' is for plans that people run: leave it out, or ask whoever "
                "starts the server to run owpc-ltr keep"
            )
    files = dict(_files_of(plan.train))
    files |= {name: getattr(plan, name) for name in ("folder", "query_template", "judgments")}
    for key, file in files.items():
        if isinstance(file, str):
            refuse_outside(file, f"{place}: {key}")


def _check(plan: KeepPlan) -> None:
    check_alias(plan.alias)
    check_index(plan.index)
    check_name("feature set", plan.featureset)
    check_name("search experiment", plan.experiment_name)
    parse_metrics(plan.metric, load())
    if plan.window is not None and plan.window < 1:
        raise BadInput(f"window = {plan.window} must be 1 or more")
    _check_judgments(plan)
    if plan.shadow is not None and plan.experiment is None:
        raise BadInput(
            "[keep.shadow] comes before an experiment: add [keep.experiment], or leave it out"
        )
    if plan.experiment is not None:
        plugin_job("experiment start")


def _check_judgments(plan: KeepPlan) -> None:
    no_evidence = (
        "are no evidence for a switch: add [keep.experiment], so that users decide, or give "
        "judgments of people: judgments = FILE"
    )
    if (plan.judgments is None) != plan.ubi:
        raise BadInput("give one of judgments = FILE and, in [keep], ubi = true")
    checked_columns(plan.columns or {})
    LogOptions(max_absent=plan.max_absent)
    for check in plan.accept:
        if check not in CHECKS:
            raise BadInput(f"[keep] accept: no check is called '{check}': use {', '.join(CHECKS)}")
    if not plan.ubi:
        # One that cannot be read is told by the run.
        machines = dict[str, float]()
        with suppress(OwpcLtrError):
            if plan.experiment is None:
                (judged,) = read_lists(plan.columns, plan.judgments, asked=True)
                machines = machines_among(judged_queries(judged))
        if round(sum(machines.values()), 6) == 1:
            raise BadInput(f"judgments of {' and '.join(machines)} alone {no_evidence}")
        return
    plugin_job("judge clicks")
    if plan.experiment is None:
        raise BadInput(f"[keep] ubi = true: judgments of clicks {no_evidence}")
    if plan.columns:
        raise BadInput("columns are those of a judgment list: ubi = true has none")
    if plan.watch.min_judged is not None:
        raise BadInput("[keep.watch] min_judged needs judgments: clicks judge what users get")


def _placed(plan: KeepPlan, folder: Path) -> KeepPlan:
    """The plan with paths from the folder that it is in, wherever `keep` is started."""

    def placed(path: Any) -> Any:
        return str(folder / path) if isinstance(path, str) and path != ALL_FIELDS else path

    return replace(
        plan,
        folder=placed(plan.folder),
        query_template=placed(plan.query_template),
        judgments=placed(plan.judgments),
        train={**plan.train, **{key: placed(path) for key, path in _files_of(plan.train)}},
    )


def _files_of(of_train: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The parameters of `train` that name files."""
    options = described(train).parameters
    yield from (it for it in of_train.items() if isinstance(help_of(options[it[0]]), Reads))
