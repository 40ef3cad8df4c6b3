"""`judge_clicks`: behaviour of users, from files or tables, as judgments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from owpc_ltr.data.frames import table_of
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.host.registry import load
from owpc_ltr.host.settings import configure
from owpc_ltr_clicks.cleaning import IMPRESSIONS, EventOptions, TimeWindow, parse_actions
from owpc_ltr_clicks.counting import Behaviour, count_events, refuse_without_clicks
from owpc_ltr_clicks.encoding import Lookup, normalised
from owpc_ltr_clicks.grading import EffectiveSample, parse_grades, srw_ratings
from owpc_ltr_clicks.judgments import (
    ClickJudgments,
    QueryWeights,
    Weights,
    judge,
    judged_pairs,
    weighted_judgments,
    write_columns,
)
from owpc_ltr_clicks.log_files import EventBatch, parse_columns, read_events, table_events
from owpc_ltr_clicks.model_selection import choose_model
from owpc_ltr_clicks.relabelling import Relabelled, relabelled

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.defaults import Progress
    from owpc_ltr.protocols import ClickModel

__all__ = [
    "IMPRESSIONS",
    "ClickJudgments",
    "EffectiveSample",
    "count_clicks",
    "count_ubi",
    "judge_clicks",
    "judge_counts",
    "parse_actions",
    "parse_columns",
    "relabel_log",
    "srw_judgments",
    "weighted_judgments",
    "write_columns",
]


def judge_clicks(
    events: Path | str | Any,
    *,
    columns: Mapping[str, str] | None = None,
    model: str = "auto",
    grades: str = "0..4",
    weights: Weights = "certainty",
    query_weights: QueryWeights = "none",
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[Path | str] = (),
    **how: Any,
) -> ClickJudgments:
    """Judgments from a log of behaviour: a grade and a weight for every document that was shown.

    `events` are a file, or a data frame of pandas, polars, Arrow or DuckDB. `columns` says which
    column is the query, the document, the position …, where its name does not; `how` is what else
    `EventOptions` takes: actions, first_position, min_people … `model` is that of an installed
    click model, or auto: the one that best predicts the sessions of people who were held out.
    `grades` are 0..4, or none for probabilities. Raises BadInput and UsageError.
    """
    behaviour = count_clicks(events, columns=columns, **how)
    return judge_counts(
        behaviour, model=model, grades=grades, weights=weights, query_weights=query_weights,
        settings=settings, plugins=plugins,
    )  # fmt: skip


def count_clicks(
    events: Path | str | Any,
    *,
    columns: Mapping[str, str] | None = None,
    cluster: Cluster | None = None,
    index: str | None = None,
    **how: Any,
) -> Behaviour:
    """What was shown and clicked, counted; see `judge_clicks`.

    Documents that are named by a field (`document_field`, or as the log says) have the `_id`s that
    they have in the `index` of the `cluster`.
    """
    options, lookup = EventOptions(**how), _lookup(cluster, index)
    return count_events(_batches(events, columns or {}), options, lookup=lookup)


def count_ubi(
    cluster: Cluster,
    folder: Path | str,
    *,
    queries: str = "ubi_queries",
    events: str = "ubi_events",
    since: str | None = None,
    until: str | None = None,
    slices: int | None = None,
    index: str | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Behaviour:
    """What was shown and clicked by User Behavior Insights, in the two indices of a cluster.

    What was read is kept in `folder` until all is counted: after a stop the same call goes on
    there, to the same counts. `since` and `until` (without it, now) are times; so many `slices`
    are read at once, without a number one a shard. Documents that are named by another field than
    `_id` are looked up in `index`. `how` is what else `EventOptions` takes.
    """
    from owpc_ltr.engine.defaults import silent
    from owpc_ltr_clicks.ubi.download import UbiOptions, read_ubi

    asked = UbiOptions(queries, events, since, until, slices)
    options = EventOptions(**how)
    # Times that cannot be are told before anything is asked of the cluster.
    TimeWindow(since, until)
    with read_ubi(cluster.engine, Path(folder), asked, progress or silent) as batches:
        return count_events(batches, options, lookup=_lookup(cluster, index))


def judge_counts(
    behaviour: Behaviour,
    *,
    model: str = "auto",
    grades: str = "0..4",
    weights: Weights = "certainty",
    query_weights: QueryWeights = "none",
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[Path | str] = (),
    warn: bool = True,
) -> ClickJudgments:
    """Judgments from what was counted. Raises BadInput where no click is left to learn from."""
    top = parse_grades(grades)
    refuse_without_clicks(behaviour)
    chosen = choose_model(behaviour, _models(model, settings or {}, plugins))
    found = judge(behaviour, chosen, top, weights, query_weights)
    if warn:
        give_warnings(found.warnings)
    return found


def relabel_log(data: RankingDataset, judged: pa.Table, keep_case: bool = False) -> Relabelled:
    """A feature log with judgments from clicks: its rows that `judged` knows, graded by it.

    `judged` is the table of a judgment list (`judge_clicks(…).table`). What was logged need not be
    logged again; what is judged and was not logged is counted.
    """
    from owpc_ltr.api.compared_data import texts_of

    texts = texts_of(data)
    texts = data.query_ids if texts is None else texts
    names = pa.array([normalised(text, keep_case) for text in texts.to_pylist()], pa.string())
    return relabelled(data, names, judged)


def srw_judgments(
    events: Path | str | Any,
    *,
    columns: Mapping[str, str] | None = None,
    max_rank: int = 20,
    **how: Any,
) -> tuple[pa.Table, Behaviour]:
    """The COEC ratings that Search Relevance Workbench gives to the same events."""
    raw = {"min_people": 1, "max_clicks_per_session": 0, "max_sessions_per_client": 0}
    options = EventOptions(**{**how, **raw})
    behaviour = count_events(_batches(events, columns or {}), options, every_event=True)
    refuse_without_clicks(behaviour)
    first = behaviour.event_counts.first_position
    ratings = srw_ratings(behaviour.counts, max_rank, first)
    return pa.table(judged_pairs(behaviour, ratings)), behaviour


def _lookup(cluster: Cluster | None, index: str | None) -> Lookup | None:
    if index is None:
        return None
    if cluster is None:
        raise UsageError(f"'{index}' is an index of a cluster: name the cluster too")
    from owpc_ltr_clicks.ubi.snapshot import FieldLookup

    return FieldLookup(cluster.engine, index)


def _batches(events: Path | str | Any, columns: Mapping[str, str]) -> Iterable[EventBatch]:
    if isinstance(events, str | PathLike):
        return read_events(Path(events), columns)
    return table_events(table_of(events), columns)


def _models(
    name: str, settings: Mapping[str, Any], plugins: Sequence[Path | str]
) -> dict[str, ClickModel]:
    registry = load(map(Path, plugins))
    if name == "auto":
        if settings:
            raise UsageError("settings are of one click model: name it")
        return {found.name: found.cls() for found in registry.all("click-model")}
    cls = registry.find("click-model", name)
    return {name: configure(cls, settings)}
