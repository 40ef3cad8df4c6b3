"""`experiment status`: the verdict of the clicks so far, which may be asked for at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.engine.deployment.alias import deployed
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.evidence import BY_USERS, QUERY_ALONE, Evidence, SearchConfiguration
from owpc_ltr.engine.experiments import QUERY, Experiment, Experiments
from owpc_ltr.engine.options import EvidenceFile
from owpc_ltr.engine.ubi import EVENTS_INDEX, QUERIES_INDEX, EventsIndex, QueriesIndex
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.options import AcceptLoss
from owpc_ltr.evaluation.rules import SEGMENT_LOSES
from owpc_ltr.evaluation.segments import is_accepted, segments_of
from owpc_ltr.evaluation.significance import LEVEL, Outcome, ResultWarning, Verdict
from owpc_ltr.metrics import uneven
from owpc_ltr.signatures import Argument, Help, Reads, job
from owpc_ltr_experiment.experiment_log import (
    CountedSearches,
    ExperimentLog,
    count_searches,
    read_files,
    read_indices,
)
from owpc_ltr_experiment.verdict import (
    CAP,
    ClientTotals,
    ExperimentResult,
    adjusted_credit,
    bounds_of_mean,
    coin_residuals,
    examination_exponent,
    experiment_result,
    spread_on_grid,
)

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

MAX_CLICKS_PER_HOUR = 100
"""A client with more clicks within an hour is dropped as a bot."""
Negligible = Annotated[
    float,
    Help(
        "A difference in clicks a client that would not matter: an interval within it, both ways, "
        "is no significant difference.",
        min=0,
    ),
]
Events = Annotated[
    Sequence[Path | str],
    Reads(
        "A log of searches and clicks, documents of User Behavior Insights (JSON lines), such "
        "as `serve(impressions=…)` appends.",
        cli=list[Path],
    ),
    Argument.LIST,
]
FromUbi = Annotated[bool, Help("Read User Behavior Insights out of the cluster.")]
MaxClicksPerHour = Annotated[
    int, Help("Drop clients with more clicks in an hour as bots; 0 = keep all.", min=0)
]
_Z = 4.0
"""Standard errors for a warning: it is looked at every day."""
_SLOWER, _SLOWER_BY = 1.5, 20.0
"""B is called slow where it takes so many times as long as A, and so many milliseconds more."""


@dataclass(frozen=True, repr=False)
class ExperimentStatus(BlockResult):
    """What the clicks of an experiment say so far; `result` is None where B is not shown.

    `by_leader` has the figures of the searches that A and B led, `tau` is the mean rank agreement
    of both lists, None where nothing logged it; milliseconds are medians and 99th percentiles.
    `unusable` counts what was left out.
    """

    experiment: Experiment
    result: ExperimentResult | None
    warnings: tuple[ResultWarning, ...]
    by_leader: dict[str, dict[str, float | None]]
    tau: float | None
    bots: int
    failed: int
    unusable: dict[str, int]
    sides: tuple[SearchConfiguration, ...] = ()

    def evidence(self) -> Evidence:
        """What users did, as evidence for B against A. Raises UsageError where B was not shown."""
        name = self.experiment.name
        if self.result is None:
            raise UsageError(
                f"B of '{name}' is not shown, and there is no evidence of what users do: start an "
                "experiment without `shadow`"
            )
        if not self.sides:
            raise Refused(
                f"what users of '{name}' got is not known any more: a model of the experiment, or "
                "its deployment record, is gone, or was uploaded again with another query"
            )
        old, new = self.sides
        verdict = self.result.verdict
        if verdict.outcome is Outcome.BETTER and self.warnings:
            verdict = Verdict(Outcome.CANNOT_TELL, self.warnings)
        more = [warning.advice for warning in verdict.warnings]
        if not more and verdict.outcome is not Outcome.BETTER:
            more = [f"look again later: owpc-ltr experiment status {self.experiment.name}"]
        figures = {"experiment": self.experiment.name, **self.result.as_dict()}
        return Evidence(new, old, BY_USERS, verdict.as_dict(), figures, more=more)

    def as_dict(self) -> dict[str, Any]:
        """The status as JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name != "sides"},
            "experiment": self.experiment.as_dict(),
            "result": None if self.result is None else self.result.as_dict(),
            "warnings": [warning.as_dict() for warning in self.warnings],
        }

    def _blocks(self) -> Iterator[Block]:
        first = str(self.result or "no verdict: B is computed, and not shown")
        sides = [*self.by_leader.values()]
        names = [name for name in sides[0] if any(side[name] is not None for side in sides)]
        rows = [[name, *(_cell(name, side[name]) for side in sides)] for name in names]
        leads = "" if self.result is None else " LEADS"
        headers = ["", *(f"{side.upper()}{leads}" for side in self.by_leader)]
        yield from first.splitlines()
        yield from ("", Table(headers, rows), "")
        yield from str(self.experiment).splitlines()
        yield from (f"warning: {warning.line}" for warning in self.warnings)
        if self.tau is not None:
            yield f"rank agreement of both lists (tau): {self.tau:.2f}"
        if self.bots:
            yield f"clients dropped as bots: {self.bots:,}"
        if self.failed:
            yield f"searches that showed A alone, and do not count: {self.failed:,}"
        yield from (f"left out: {number:,} × {why}" for why, number in self.unusable.items())


@job
def experiment_status(
    cluster: Cluster,
    name: Annotated[str, Help("The name of the experiment.", metavar="NAME")],
    *,
    events: Events = (),
    from_ubi: FromUbi = False,
    ubi_queries: QueriesIndex = QUERIES_INDEX,
    ubi_events: EventsIndex = EVENTS_INDEX,
    max_clicks_per_hour: MaxClicksPerHour = MAX_CLICKS_PER_HOUR,
    negligible: Negligible = 0.0,
    accept_loss: AcceptLoss = (),
    out: EvidenceFile = None,
) -> ExperimentStatus:
    """Say what the clicks say so far: the verdict, and what it rests on.

    The verdict may be asked for every day: its interval holds at all times at once, so that
    looking often does not make it wrong. Each client counts as a whole, with all of its searches.
    B is not better that loses in a segment of the queries, by their length or frequency in the log.
    `out` writes it as evidence, for `cluster.upload(require=…)` and
    `cluster.models.promote(require=…)`.

    Raises BadInput where the log has no search of the experiment.
    """
    experiment = Experiments(cluster.engine).get(name)
    indices = (ubi_queries, ubi_events) if from_ubi else None
    behaviour = read_log(cluster, experiment, events, indices)
    status = status_of(experiment, behaviour, max_clicks_per_hour, negligible, accept_loss)
    # A model that is gone makes clicks no evidence, and the verdict stands.
    with suppress(BadInput):
        status = replace(status, sides=sides_of(cluster, experiment))
    if out is not None:
        status.evidence().write(out)
    return status


def read_log(
    cluster: Cluster,
    experiment: Experiment,
    files: Sequence[Path | str],
    indices: tuple[str, str] | None,
) -> ExperimentLog:
    """What users did, from files or from two indices, of queries and of events.

    Raises UsageError where not one of the two is given.
    """
    if bool(files) == (indices is not None):
        raise UsageError(
            "name the log with `events`, or read it out of the cluster with `from_ubi`: one of them"
        )
    if indices is None:
        return read_files(experiment, [Path(path) for path in files])
    return read_indices(cluster.engine, experiment, *indices)


def sides_of(
    cluster: Cluster, experiment: Experiment
) -> tuple[SearchConfiguration, SearchConfiguration]:
    """What users have by A, and by B: both rank the same query of the application.

    Raises BadInput where that is not what they had when the experiment started.
    """
    if experiment.b == QUERY:
        return (_query_alone(experiment), _query_alone(experiment))
    b = _deployed(cluster, experiment, experiment.b)
    if experiment.a == QUERY:
        return replace(b, name=QUERY_ALONE, model=None, window=None), b
    a = _deployed(cluster, experiment, experiment.a)
    return a, replace(b, query=a.query, window=a.window)


def _query_alone(experiment: Experiment) -> SearchConfiguration:
    return SearchConfiguration(QUERY_ALONE, experiment.index, None)


def _deployed(cluster: Cluster, experiment: Experiment, model: str) -> SearchConfiguration:
    store = cluster.uploaded(model)[0]
    side = deployed(DeploymentRecords(cluster.engine, store).get(model))
    started = (experiment.searches or {}).get(model)
    if started not in (None, [side.query, side.window]):
        raise BadInput(
            f"'{model}' was uploaded again with another query template or window since "
            f"'{experiment.name}' started, and its users had the former: start another experiment"
        )
    return replace(side, index=experiment.index)


def status_of(
    experiment: Experiment,
    behaviour: ExperimentLog,
    max_clicks_per_hour: int = MAX_CLICKS_PER_HOUR,
    negligible: float = 0.0,
    accept_loss: Sequence[str] | str = (),
) -> ExperimentStatus:
    """The status by what users did. Raises UsageError for a segment that there is not."""
    counts = count_searches(behaviour, max_clicks_per_hour)
    warnings = tuple(guard_rails(counts, shadow=experiment.shadow))
    result = None
    if not experiment.shadow:
        exponent = examination_exponent(counts.positions, experiment.page)
        warnings += tuple(segment_losses(counts, experiment.page, exponent, accept_loss))
        result = experiment_result(
            client_totals(counts, experiment.page, exponent),
            exponent=exponent,
            smallest=negligible,
            guard_rails=warnings,
        )
    return ExperimentStatus(
        experiment,
        result,
        warnings=warnings,
        by_leader=_by_leader(counts, shadow=experiment.shadow),
        tau=_mean(counts.tau[~np.isnan(counts.tau)]),
        bots=counts.bots,
        failed=counts.failed,
        unusable=dict(counts.unusable.most_common()),
    )


def client_totals(counts: CountedSearches, page: int, exponent: float) -> ClientTotals:
    """The credit, searches and clicks of each client; one without clicks has the credit 0."""
    most, positions = counts.n_clients, counts.positions

    def total(values: Vector, of: NDArray[np.int64] = counts.of_client) -> Vector:
        return np.bincount(of, values, most).astype(np.float64)

    credit = adjusted_credit(positions, exponent, page)
    rate = _mean(counts.on_first[~counts.empty & ~counts.never_clicked]) or 0.0
    # The first document is the leader's own; each leads half of the searches.
    for_b = np.where(counts.leads, 2 * rate, -2 * rate)
    never, seldom = for_b * counts.never_clicked, for_b * counts.seldom_clicked
    # Clicks on documents that users seldom want are logged: as many may be those that none wants.
    wanted = max(0.0, 1 - max(0.0, seldom.sum() / (never.sum() or 1.0)))
    return ClientTotals(
        credit=total(credit),
        late=total(credit * counts.late[counts.of_search]),
        residual=total(coin_residuals(positions, exponent, page)),
        searches=np.bincount(counts.client, minlength=most),
        clicks=np.bincount(counts.of_client, minlength=most),
        led_b=np.bincount(counts.client[counts.leads], minlength=most),
        unlogged=total(wanted * never, counts.client),
        never_clicked=counts.untouched,
    )


def guard_rails(searches: CountedSearches, *, shadow: bool) -> list[ResultWarning]:
    """Warnings of what gets worse beside the credit: empty lists, searches left, slow answers."""
    warnings = []
    if not shadow:
        for check, what, happens in (
            ("empty", "have no results", searches.empty),
            ("abandoned", "end without a click", searches.clicks == 0),
        ):
            a, b = (happens[searches.leads == side] for side in (False, True))
            if _is_higher(a, b):
                seen = f"{b.mean():.1%} of the searches that B leads {what}, {a.mean():.1%} of A's"
                advice = "look at these searches before B replaces A"
                warnings.append(ResultWarning(check, seen, advice))
    a_ms, b_ms = _quantile(searches.ms_a, 0.5), _quantile(searches.ms_b, 0.5)
    if a_ms is not None and b_ms is not None and b_ms > max(_SLOWER * a_ms, a_ms + _SLOWER_BY):
        seen = f"B takes {b_ms:.0f} ms, A {a_ms:.0f} ms (medians)"
        advice = "see what of it users would wait for: owpc-ltr profile"
        warnings.append(ResultWarning("slow", seen, advice, decides=False))
    return warnings


def segment_losses(
    searches: CountedSearches, page: int, exponent: float, accept_loss: Sequence[str] | str = ()
) -> Iterator[ResultWarning]:
    """Warnings of segments of the queries in which B loses, by the bound of all looks together.

    A client counts with its searches in the segment; the level is shared by all segments
    (Bonferroni). Raises UsageError for a segment that there is not.
    """
    counts = np.bincount(searches.query[searches.query >= 0], minlength=len(searches.texts))
    params = [{"keywords": text} for text in searches.texts]
    accepted = [accept_loss] if isinstance(accept_loss, str) else accept_loss
    segments = segments_of(params, uneven(counts.astype(np.float64)), accepted=accepted)
    credit = adjusted_credit(searches.positions, exponent, page)
    for name, of_query in segments.items():
        inside = np.append(of_query, False)[searches.query]
        of_click = credit * inside[searches.of_search]
        totals = np.bincount(searches.of_client, of_click, searches.n_clients)
        totals = totals[np.unique(searches.client[inside])]
        low, high = bounds_of_mean(spread_on_grid(totals, CAP), CAP, LEVEL / len(segments))
        if high < 0 and not is_accepted(name, accepted):
            yield ResultWarning(
                SEGMENT_LOSES,
                f"B loses in the segment '{name}': {np.clip(totals, -CAP, CAP).mean():+.4f} "
                f"[{low:+.4f}, {high:+.4f}] clicks a client, of {len(totals):,} clients and "
                f"{inside.sum():,} searches (corrected over {len(segments)} segments)",
                "look at these searches before B replaces A, or accept the loss: "
                f"`accept_loss={name!r}`",
            )


def _is_higher(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether b happens more often than a, by more than chance at many looks."""
    if not len(a) or not len(b):
        return False
    share = np.concatenate([a, b]).mean()
    error = np.sqrt(share * (1 - share) * (1 / len(a) + 1 / len(b)))
    return bool(b.mean() - a.mean() > _Z * error > 0)


def _by_leader(searches: CountedSearches, *, shadow: bool) -> dict[str, dict[str, float | None]]:
    sides: dict[str, dict[str, float | None]] = {}
    for side, ms in (("a", searches.ms_a), ("b", searches.ms_b)):
        figures: dict[str, float | None] = {}
        if not shadow:
            led = searches.leads == (side == "b")
            figures["searches"] = int(led.sum())
            figures["without a click"] = _mean(searches.clicks[led] == 0)
            figures["without results"] = _mean(searches.empty[led])
            figures["first never clicked"] = _mean(searches.never_clicked[led])
        figures["median ms of the list"] = _quantile(ms, 0.5)
        figures["99 % ms of the list"] = _quantile(ms, 0.99)
        sides[side] = figures
    return sides


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: Vector, share: float) -> float | None:
    measured = values[~np.isnan(values)]
    return float(np.quantile(measured, share)) if len(measured) else None


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1f}" if "ms" in name else f"{value:.1%}"
