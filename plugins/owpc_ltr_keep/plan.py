"""The plan of `keep`: a TOML file, in which every key is known and has its type."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from owpc_ltr_experiment.verdict import FEWEST

from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.files.input import read_text
from owpc_ltr.files.output import digest_of
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metrics
from owpc_ltr.signatures import all_parameters
from owpc_ltr.text import check_alias, check_index, check_name, did_you_mean
from owpc_ltr.training.train import train

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
    """Clients at which the interval is narrowest, and days after which it ends undecided.

    `name` is what searches and clicks call it; default: the alias. `negligible` is a difference in
    clicks a client that would not matter.
    """

    planned: int = 10_000
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
    if plan.experiment is not None and plan.experiment.planned < FEWEST:
        raise BadInput(f"[experiment] planned must be {FEWEST} clients or more")


def _placed(plan: KeepPlan, folder: Path) -> KeepPlan:
    """The plan with paths from the folder that it is in, wherever `keep` is started."""
    template, judgments = plan.query_template, plan.data.judgments
    return replace(
        plan,
        folder=str(folder / plan.folder),
        query_template=None if template is None else str(folder / template),
        data=replace(plan.data, judgments=None if judgments is None else str(folder / judgments)),
    )
