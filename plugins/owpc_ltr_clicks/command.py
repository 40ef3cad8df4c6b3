"""`owpc-ltr judge clicks`: judgments from what users do."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import ClusterOptions
from owpc_ltr.cli.files import Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles, Report, Settings
from owpc_ltr.cli.output import print_json, print_table, print_wrapped, progress, warn
from owpc_ltr.errors import UsageError
from owpc_ltr.host.report import write_report

if TYPE_CHECKING:
    from owpc_ltr_clicks.judge_clicks import ClickJudgments

_BAR = 30
_SAMPLE, _DEPTH = 50, 10
_WIDTH = 76
_JUDGES = (
    "people who know what searchers want, and did not make the rankers; the sheet does not tell "
    "which ranker brought a document"
)
_KIND = "click-model."


@dataclass(frozen=True)
class Cleaning:
    """What of a log counts."""

    actions: Annotated[
        str, typer.Option(help="Actions and what they are worth, as click=1,add_to_cart=2.")
    ] = "click=1"
    impressions: Annotated[
        str | None,
        typer.Option(
            help="Actions that say that a result was shown; default: impression, view, shown."
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option(help="From this time on: 2026-10-01, 2026-10-01T12:00:00Z.")
    ] = None
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None
    first_position: Annotated[
        int | None, typer.Option(min=0, max=1, help="How positions begin; default: as they show.")
    ] = None
    depth: Annotated[int, typer.Option(min=1, help="The lowest rank that counts.")] = 100
    max_clicks_per_session: Annotated[
        int,
        typer.Option(min=0, help="Drop sessions with more clicks as bots; 0 = keep all."),
    ] = 50
    max_sessions_per_client: Annotated[
        int,
        typer.Option(min=0, help="Drop clients with more sessions as bots; 0 = keep all."),
    ] = 500
    min_people: Annotated[
        int, typer.Option(min=1, help="Queries that fewer people asked are left out.")
    ] = 5
    keep_case: Annotated[
        bool, typer.Option("--keep-case", help="Queries that differ in case are two.")
    ] = False
    document_field: Annotated[
        str | None,
        typer.Option(help="What the log names documents by, as sku; default: what it says itself."),
    ] = None

    def asked(self) -> dict[str, Any]:
        """The options as calls take them."""
        from owpc_ltr_clicks.judge_clicks import IMPRESSIONS, parse_actions

        named = self.impressions
        return {
            "actions": parse_actions(self.actions),
            "impressions": IMPRESSIONS if named is None else tuple(named.split(",")),
            "since": self.since, "until": self.until, "first_position": self.first_position,
            "depth": self.depth, "max_clicks_per_session": self.max_clicks_per_session,
            "max_sessions_per_client": self.max_sessions_per_client, "min_people": self.min_people,
            "keep_case": self.keep_case, "document_field": self.document_field,
        }  # fmt: skip


@grouped
def clicks(
    events: Annotated[
        Path | None,
        Reads(),
        typer.Argument(help="A log: Parquet, Arrow, CSV, TSV or JSON lines, packed or not."),
    ] = None,
    *,
    out: Annotated[Path, Writes(), typer.Option(help="The judgments: Parquet, or FILE.tsv.")],
    columns: Annotated[
        str,
        typer.Option(
            help="Which column says what: query=q,document=sku,position=rank,action=type,"
            "session=sid; also client, search, time, shown, field; known names need none."
        ),
    ] = "",
    model: Annotated[
        str, typer.Option(help="A click model, or auto: what best predicts held-out sessions.")
    ] = "auto",
    grades: Annotated[
        str, typer.Option(help="0..4, or none for probabilities as they are.")
    ] = "0..4",
    weights: Annotated[
        str,
        typer.Option(help="What a document counts: certainty (0 to 1), impressions, none."),
    ] = "certainty",
    query_weights: Annotated[
        str, typer.Option(help="What a query counts: people (who asked it), none.")
    ] = "none",
    cleaning: Cleaning,
    ips: Annotated[
        bool,
        typer.Option("--ips", help="Clicks themselves, weighted by how few look at their rank."),
    ] = False,
    clip: Annotated[
        float | None,
        typer.Option(help="The greatest weight of a click, with --ips; default: 10."),
    ] = None,
    from_ubi: Annotated[
        bool, typer.Option("--from-ubi", help="Read User Behavior Insights out of the cluster.")
    ] = False,
    ubi_queries: Annotated[str, typer.Option(help="Its index of queries.")] = "ubi_queries",
    ubi_events: Annotated[str, typer.Option(help="Its index of events.")] = "ubi_events",
    slices: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Slices of it read at once; default: one a shard, 8 at most."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(help="The index of the documents: named by a field, they are found there."),
    ] = None,
    cluster: ClusterOptions,
    as_srw: Annotated[
        bool, typer.Option("--as-srw", help="The ratings of Search Relevance Workbench's COEC.")
    ] = False,
    srw_max_rank: Annotated[
        int | None, typer.Option(min=1, help="Its maxRank, with --as-srw; default: 20.")
    ] = None,
    report: Report = None,
    settings: Settings = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Make judgments of clicks, by a click model.

    What users click on depends on where it stands; a click model tells how they look from what
    attracts them. Every event is used or left out for a reason, which is printed. No user or
    session is in the judgments. log-features reads them, with their weights.
    """
    from owpc_ltr_clicks import judge_clicks as api

    named = api.parse_columns(columns)
    if (events is None) != from_ubi:
        raise UsageError("name a log, or read one out of the cluster with --from-ubi: one of them")
    if from_ubi and (as_srw or named):
        raise UsageError("--from-ubi knows its columns, and goes without --columns and --as-srw")
    if slices and not from_ubi:
        raise UsageError("--slices are those of --from-ubi: add it, or leave them out")
    if clip is not None and not ips:
        raise UsageError("--clip is for the weights of --ips: add it, or leave --clip out")
    if srw_max_rank is not None and not as_srw:
        raise UsageError("--srw-max-rank is of --as-srw: add it, or leave the rank out")
    if (ips or as_srw) and (grades, weights, query_weights) != ("0..4", "certainty", "none"):
        raise UsageError(
            f"{'--ips' if ips else '--as-srw'} has grades and weights of its own: leave --grades, "
            "--weights and --query-weights out"
        )
    if as_srw:
        if ips or model != "auto" or index is not None:
            raise UsageError("--as-srw has a model of its own: leave --ips, --model, --index out")
        if report is not None:
            raise UsageError("--as-srw fits no click model that a page could show: leave out one")
        _judge_as_srw(_file(events), out, named, srw_max_rank or 20, cleaning, as_json=as_json)
        return
    if from_ubi:
        with progress() as show:
            counted = api.count_ubi(
                cluster.connect(), out.with_name(f"{out.name}.ubi"), queries=ubi_queries,
                events=ubi_events, slices=slices, index=index, progress=show, **cleaning.asked(),
            )  # fmt: skip
    else:
        counted = api.count_clicks(
            _file(events), columns=named, index=index,
            cluster=None if index is None else cluster.connect(), **cleaning.asked(),
        )  # fmt: skip
    found = api.judge_counts(
        counted, model=model, grades=grades, weights=weights,  # type: ignore[arg-type]
        query_weights=query_weights,  # type: ignore[arg-type]
        settings=_settings(settings or ()), plugins=plugin or (), warn=False,
    )  # fmt: skip
    for warning in found.warnings:
        warn(warning)
    found = replace(
        found, settings=(("log", ubi_events if events is None else events.name), *found.settings)
    )
    where = {"--index": index, "--url": cluster.url, "--ca": cluster.ca}
    next_ = _next(out, found.n_queries, where, insecure=cluster.insecure)
    if ips:
        _write_weighted(found, 10.0 if clip is None else clip, out, report, next_, as_json=as_json)
        return
    found.write(out)
    write_report(found, report)
    if as_json:
        print_json({"judgments": str(out), **found.as_dict(), **next_})
    else:
        _print(found, out)
        _print_next(next_)


def _judge_as_srw(
    events: Path,
    out: Path,
    columns: dict[str, str],
    max_rank: int,
    cleaning: Cleaning,
    *,
    as_json: bool,
) -> None:
    from owpc_ltr_clicks import judge_clicks as api

    table, behaviour = api.srw_judgments(
        events, columns=columns, max_rank=max_rank, **cleaning.asked()
    )
    api.write_columns(table, out)
    _print_other(out, len(table), behaviour.event_counts.as_dict(), {}, {}, as_json=as_json)


def _write_weighted(
    found: ClickJudgments,
    clip: float,
    out: Path,
    page: Path | None,
    next_: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Clicks by themselves, and how many equal ones they are worth."""
    from owpc_ltr_clicks import judge_clicks as api

    table, effective = api.weighted_judgments(found.behaviour, found.chosen.fit, clip)
    for warning in effective.warnings:
        warn(warning)
    api.write_columns(table, out)
    if page is not None:
        asked = (("grades", "1 for a click"), ("weights", f"1/looks, {clip:g} at most"))
        weighted = replace(found, table=table, settings=(found.settings[0], *asked))
        write_report([weighted, effective], page)
    told = {
        "clicks": effective.clicks,
        "effective": effective.effective,
        "clipped": effective.clipped,
        "queries": effective.queries,
        "queries_without_clicks": effective.silent,
        "model": found.chosen.name,
    }
    account = found.behaviour.event_counts.as_dict()
    _print_other(out, len(table), account, told, next_, as_json=as_json)


def _next(out: Path, n_queries: int, where: dict[str, Any], *, insecure: bool) -> dict[str, Any]:
    """Which documents people judge, and the commands up to a gate that can decide, as typed."""
    log, model, sheet = (
        out.with_name(f"{out.stem}-{end}") for end in ("log.parquet", "model.json", "sheet.csv")
    )
    queries = min(_SAMPLE, n_queries)
    live = [word for name, value in where.items() if value is not None for word in (name, value)]
    live += ["--insecure"] if insecure else []
    commands = [
        ("log-features", "--judgments", out, "--out", log, *live),
        ("train", log, "--out", model),
        ("judge", "pool", "--queries", log, "--rankers", f"query,{model}", "--sample", queries,
         "--depth", _DEPTH, "--out", sheet, *live),
        ("upload", model, "--require-gain", f"ndcg@{_DEPTH}", "--live", "--judgments", sheet,
         *live),
    ]  # fmt: skip
    return {
        "to_judge": {
            "queries": queries, "depth": _DEPTH, "documents_at_most": 2 * queries * _DEPTH,
            "by": _JUDGES,
        },
        "next": [shlex.join(["owpc-ltr", *map(str, words)]) for words in commands],
    }  # fmt: skip


def _print_next(next_: dict[str, Any]) -> None:
    told = next_["to_judge"]
    typer.echo()
    print_wrapped(
        "next: clicks alone are no evidence for a gate, as they know only what was shown. Let "
        f"people judge the first {told['depth']} results of both rankers for {told['queries']} "
        f"queries drawn by chance (at most {told['documents_at_most']:,} documents): {told['by']}."
    )
    for command in next_["next"]:
        typer.echo(" \\\n".join(_wrapped_command(command)))
    print_wrapped(
        "add --query QUERY.json, your application's query, to the last two; name the live ranker "
        "in place of `query` where there is one"
    )


def _wrapped_command(command: str) -> list[str]:
    """A command in lines that fit, cut between its options."""
    lines = [" "]
    for part in command.replace(" --", "\n--").splitlines():
        if len(lines[-1]) + len(part) > _WIDTH and lines[-1].strip():
            lines.append("     ")
        lines[-1] += f" {part}"
    return lines


def _file(events: Path | None) -> Path:
    assert events is not None  # noqa: S101 - `clicks` has looked
    return events


def _settings(texts: Any) -> dict[str, str]:
    from owpc_ltr.api.plugins import named_settings

    named = named_settings(texts)
    for name in named:
        if not name.startswith(_KIND):
            raise UsageError(
                f"'{name}' is no setting of a click model: write click-model.FIELD=VALUE"
            )
    return {name.removeprefix(_KIND): value for name, value in named.items()}


def _print_other(
    out: Path,
    rows: int,
    account: dict[str, Any],
    told: dict[str, Any],
    next_: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"judgments": str(out), "documents": rows, "events": account, **told, **next_})
        return
    _print_account(account)
    if told:
        typer.echo(
            f"{told['clicks']:,} clicks, weighted by {told['model']}, are worth "
            f"{told['effective']:,.0f} equal ones; {told['clipped']:,} were clipped"
        )
        if told["queries_without_clicks"]:
            typer.echo(f"{told['queries_without_clicks']:,} queries have no click")
    typer.echo(f"wrote {out}: {rows:,} documents")
    if next_:
        _print_next(next_)


def _print_account(account: dict[str, Any]) -> None:
    typer.echo(f"{account['read']:,} events read, {account['used']:,} used")
    for reason, count in account["unusable"].items():
        print_wrapped(f"  {count:,} not used: {reason}")
    others = ", ".join(f"{name or '(none)'} {n:,}" for name, n in account["other_actions"].items())
    if others:
        print_wrapped(f"  other actions: {others}")
    if account["before_their_query"]:
        print_wrapped(
            f"{account['before_their_query']:,} events are stamped before the query that they "
            "name: clocks differ, and they count by its id"
        )
    how = "given" if account["first_position_given"] else "found"
    typer.echo(f"positions begin with {account['first_position']} ({how})")


def _print(found: ClickJudgments, out: Path) -> None:
    told = found.as_dict()
    _print_account(told["events"])
    typer.echo()
    rows = [
        (
            one["model"] + (" *" if one["model"] == told["model"] else ""),
            f"{one['session_log_likelihood']:.4f}",
            one["perplexity"],
            "" if one["identified"] else "examination not identified",
        )
        for one in told["held_out"]
    ]
    print_table(["MODEL", "LOG LIKELIHOOD OF A SESSION", "PERPLEXITY", ""], rows)
    typer.echo(f"over {told['held_out'][0]['lists']:,} lists of people held out (one in five)")
    typer.echo()
    ranks = [
        (
            one["rank"],
            f"{one['shown']:,}",
            one["click_through"],
            one["examination"],
            "█" * round(_BAR * one["examination"]),
        )
        for one in told["ranks"][:20]
    ]
    print_table(["RANK", "SHOWN", "CLICKED", "EXAMINED", ""], ranks)
    alpha, beta = told["prior"]
    typer.echo()
    print_wrapped(
        f"prior: a document draws {alpha / (alpha + beta):.3f} of those who look at it, which "
        f"weighs as {alpha + beta:.1f} looks"
    )
    shares = ", ".join(f"{count:,} of {grade}" for grade, count in told["grades"].items())
    print_wrapped(f"grades: {shares}")
    typer.echo(
        f"wrote {out}: {told['documents']:,} documents of {told['queries']:,} queries, by "
        f"{told['model']}"
    )
