"""`judge_clicks`: judgments from what users click on, out of files, tables or a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.ubi import EVENTS_INDEX, QUERIES_INDEX, EventsIndex, QueriesIndex
from owpc_ltr.errors import OwpcLtrError, UsageError, give_warnings
from owpc_ltr.host.commands import NO_STORE, Plugins, ReportPage, write_report
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Writes, job, silent
from owpc_ltr_clicks.cleaning import (
    ACTIONS,
    MAX_CLICKS_PER_SESSION,
    MAX_SESSIONS_PER_CLIENT,
    EventOptions,
    click_columns,
    parse_actions,
)
from owpc_ltr_clicks.grading import GRADES, MIN_PEOPLE, GradingOptions, QueryWeights, Weights
from owpc_ltr_clicks.ubi import MAX_SLICES, UbiOptions

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.protocols import ClickModel
    from owpc_ltr_clicks.counting import Behaviour
    from owpc_ltr_clicks.encoding import Lookup
    from owpc_ltr_clicks.judgments import ClickJudgments
    from owpc_ltr_clicks.log_files import EventBatch


def click_model_settings(texts: Sequence[str]) -> dict[str, str]:
    """The settings of a click model from `NAME=VALUE`, without their prefix. Raises UsageError."""
    from owpc_ltr.host.settings import named_settings

    settings = {
        name.removeprefix("click-model."): value for name, value in named_settings(texts).items()
    }
    for name in settings:
        if "." in name:
            raise UsageError(f"'{name}' is not a setting of a click model: write NAME=VALUE")
    return settings


@job
def judge_clicks(
    events: Annotated[
        Path | str | Any | None,
        Reads("A log: Parquet, Arrow, CSV, TSV or JSON lines, compressed or not.", cli=Path),
    ] = None,
    *,
    out: Annotated[
        Path | str | None, Writes("The judgments: Parquet, or FILE.tsv.", required=True)
    ] = None,
    columns: Annotated[
        Mapping[str, str] | None,
        Help(
            "The columns by their roles: query=q,doc_id=sku,position=rank,action=type,"
            "session=sid; also client, search, time, shown, field. Known names need none.",
            cli=str,
            parse=click_columns,
            panel="Data",
            metavar="ROLE=COLUMN,…",
        ),
    ] = None,
    actions: Annotated[
        Mapping[str, float] | None,
        Help(
            'Actions and their values: `actions={"click": 1, "add_to_cart": 2}`; default: 1 for '
            "'click'.",
            cli=str,
            parse=parse_actions,
            panel="Data",
            metavar="ACTION=VALUE,…",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Help("From this time on: 2026-10-01, 2026-10-01T12:00:00Z.", panel="Data", metavar="TIME"),
    ] = None,
    until: Annotated[str | None, Help("Before this time.", panel="Data", metavar="TIME")] = None,
    max_clicks_per_session: Annotated[
        int, Help("Drop sessions with more clicks as bots; 0 = keep all.", min=0, panel="Data")
    ] = MAX_CLICKS_PER_SESSION,
    max_sessions_per_client: Annotated[
        int, Help("Drop clients with more sessions as bots; 0 = keep all.", min=0, panel="Data")
    ] = MAX_SESSIONS_PER_CLIENT,
    min_people: Annotated[
        int, Help("Drop queries that fewer people asked.", min=1, panel="Data")
    ] = MIN_PEOPLE,
    document_field: Annotated[
        str | None,
        Help(
            "The field that names documents, as sku; default: as the log says.",
            panel="Data",
            metavar="FIELD",
        ),
    ] = None,
    index: Annotated[
        str | None,
        Help("Look up documents that the log names by a field in this index.", panel="Data"),
        Argument.NAME,
    ] = None,
    model: Annotated[
        str,
        Help("A click model; auto: the one that predicts held-out sessions best."),
        Argument.NAME,
    ] = "auto",
    grades: Annotated[
        str, Help("The range of the grades, as 0..4; none writes probabilities.", metavar="RANGE")
    ] = GRADES,
    weights: Annotated[Weights, Help("The weight of a document; certainty is 0 to 1.")] = (
        "certainty"
    ),
    query_weights: Annotated[
        QueryWeights, Help("The weight of a query: the people who asked it, or none.")
    ] = "none",
    settings: Annotated[
        Mapping[str, Any] | None,
        Help(
            "Settings of the click model by name.",
            flag="--set",
            cli=list[str],
            parse=click_model_settings,
            metavar="NAME=VALUE",
        ),
    ] = None,
    from_ubi: Annotated[
        bool, Help("Read User Behavior Insights out of the cluster.", panel="Engine")
    ] = False,
    ubi_queries: QueriesIndex = QUERIES_INDEX,
    ubi_events: EventsIndex = EVENTS_INDEX,
    slices: Annotated[
        int | None,
        Help(
            f"Slices read at once; default: one per shard, {MAX_SLICES} at most.",
            min=1,
            max=64,
            panel="Engine",
        ),
    ] = None,
    report: ReportPage = None,
    cluster: Annotated[Cluster | None, NO_STORE] = None,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> ClickJudgments:
    """Make judgments from clicks, with a click model.

    Users click on what they examine, and they examine what is at the top; a click model separates
    the two. Every event is used, or left out for a reason that is printed. The judgments contain no
    user or session. `log_features()` reads them, with their weights.

    Python: `events` may also be a data frame of pandas, polars, Arrow or DuckDB. `cluster` is by
    default that of `connect()`.
    Raises BadInput for a log that cannot be read or has no click, UsageError for invalid options.
    """
    grading = GradingOptions(grades, weights, query_weights)
    if (events is None) != from_ubi:
        raise UsageError("name a log, or read one out of the cluster with `from_ubi`: one of them")
    if from_ubi and columns:
        raise UsageError("`from_ubi` knows its columns, and goes without `columns`")
    if slices is not None and not from_ubi:
        raise UsageError("`slices` is for `from_ubi`: add it, or leave `slices` out")
    options = EventOptions(
        actions=ACTIONS if actions is None else actions,
        since=since,
        until=until,
        max_clicks_per_session=max_clicks_per_session,
        max_sessions_per_client=max_sessions_per_client,
        min_people=min_people,
        document_field=document_field,
    )
    if from_ubi:
        ubi = UbiOptions(ubi_queries=ubi_queries, ubi_events=ubi_events, slices=slices)
        behaviour = count_ubi(cluster, ubi, index=index, progress=progress, options=options)
        index = index or _searched_index(cluster, {ubi_queries, ubi_events})
    else:
        behaviour = count_clicks(
            events, columns=columns, cluster=cluster, index=index, options=options
        )
    judgments = judge_counts(behaviour, model, grading, settings=settings, plugins=plugins)
    log = ubi_events
    if events is not None:
        log = Path(events).name if isinstance(events, str | PathLike) else "a table"
    judgments = replace(
        judgments,
        settings=(("log", log), *judgments.settings),
        live=_live_options(index, cluster),
        path=None if out is None else Path(out),
    )
    give_warnings(judgments.warnings)
    if out is not None:
        judgments.write(out)
    write_report(judgments, report)
    return judgments


def count_clicks(
    events: Path | str | Any,
    *,
    columns: Mapping[str, str] | None = None,
    cluster: Cluster | None = None,
    index: str | None = None,
    options: EventOptions | None = None,
    **how: Any,
) -> Behaviour:
    """The counts of what was shown and clicked, for `judge_counts`; `how` are `EventOptions`.

    Documents that the log names by a field have their `_id`s in the `index` of the `cluster`.
    """
    from owpc_ltr_clicks.counting import count_events

    options = options or EventOptions(**how)
    return count_events(_batches(events, columns), options, lookup=_lookup(cluster, index))


def count_ubi(
    cluster: Cluster | None,
    ubi: UbiOptions | None = None,
    *,
    index: str | None = None,
    progress: Progress = silent,
    options: EventOptions | None = None,
    **how: Any,
) -> Behaviour:
    """The counts of User Behavior Insights in two indices of a cluster, for `judge_counts`.

    Documents named by another field than `_id` are looked up in `index`. `how` are `EventOptions`.
    """
    from owpc_ltr.data.log_times import TimeWindow
    from owpc_ltr_clicks.counting import count_events
    from owpc_ltr_clicks.ubi.snapshot import read_ubi

    options = options or EventOptions(**how)
    # Invalid times are refused before anything is asked of the cluster.
    TimeWindow(options.since, options.until)
    engine, untimed = _connected(cluster).engine, replace(options, since=None, until=None)
    # The window is applied while the indices are read.
    with read_ubi(
        engine, ubi or UbiOptions(), progress, since=options.since, until=options.until
    ) as batches:
        return count_events(batches, untimed, lookup=_lookup(cluster, index))


def judge_counts(
    behaviour: Behaviour,
    model: str = "auto",
    options: GradingOptions | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[Path | str] = (),
) -> ClickJudgments:
    """The judgments of what was counted, without a warning. Raises BadInput without a click."""
    from owpc_ltr_clicks.counting import refuse_without_clicks
    from owpc_ltr_clicks.judgments import judge
    from owpc_ltr_clicks.model_selection import choose_model

    refuse_without_clicks(behaviour)
    chosen = choose_model(behaviour, _models(model, settings or {}, plugins))
    return judge(behaviour, chosen, options or GradingOptions())


def _searched_index(cluster: Cluster | None, of_ubi: set[str]) -> str | None:
    """The only index of the cluster beside those of UBI, which users then searched."""
    from owpc_ltr.engine.staging_index import index_names

    with suppress(OwpcLtrError):  # the list may need a right that reading does not
        indices = set(index_names(_connected(cluster).engine)) - of_ubi
        return indices.pop() if len(indices) == 1 else None
    return None


def _live_options(index: str | None, cluster: Cluster | None) -> tuple[str, ...]:
    """The options with which the next commands find the same index and engine."""
    options = [] if index is None else ["--index", index]
    if cluster is not None:
        engine = cluster.engine.settings
        options += ["--url", engine.url]
        options += [] if engine.ca is None else ["--ca", str(engine.ca)]
        options += ["--insecure"] if engine.insecure else []
    return tuple(options)


def _connected(cluster: Cluster | None) -> Cluster:
    from owpc_ltr.engine.connect import connect

    return cluster or connect()


def _lookup(cluster: Cluster | None, index: str | None) -> Lookup | None:
    if index is None:
        return None
    from owpc_ltr_clicks.ubi.snapshot import FieldLookup

    return FieldLookup(_connected(cluster).engine, index)


def _batches(events: Any, columns: Mapping[str, str] | None) -> Iterable[EventBatch]:
    from owpc_ltr.data.construction import table_of
    from owpc_ltr_clicks.log_files import read_events, table_events

    if isinstance(events, str | PathLike):
        return read_events(Path(events), columns or {})
    return table_events(table_of(events), columns or {})


def _models(
    name: str, settings: Mapping[str, Any], plugins: Sequence[Path | str]
) -> dict[str, ClickModel]:
    from owpc_ltr.host.registry import load
    from owpc_ltr.host.settings import configure

    registry = load(map(Path, plugins))
    if name == "auto":
        if settings:
            raise UsageError("settings are of one click model: name it")
        return {plugin.name: plugin.cls() for plugin in registry.all("click-model")}
    cls = registry.find("click-model", name)
    return {name: configure(cls, settings)}
