"""Judgments from clicks: a grade and a weight for every document that was shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.click_counts import ranks_vary
from owpc_ltr.data.judgments import CLICKS, JUDGED_BY
from owpc_ltr.files.input import shown
from owpc_ltr.files.output import open_output
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.encoding import ID
from owpc_ltr_clicks.events import EventCounts
from owpc_ltr_clicks.grading import GradingOptions, grades, parse_grades, worth, worth_of_any
from owpc_ltr_clicks.model_selection import ChosenModel

SAMPLED_QUERIES, JUDGED_DEPTH = 50, 10
"""How many queries people judge before evidence can decide, and how deep."""
JUDGES = (
    "people who know what searchers want, and did not make the rankers; the sheet does not tell "
    "which ranker brought a document"
)

_MANY = 0.1
"""The share of events, or clicks, above which a fault is warned of."""
_FEW_CLICKS = 1000
_RANKS_SHOWN = 20
_BAR = 30
_WIDTH = 76


@dataclass(frozen=True, repr=False, eq=False)
class ClickJudgments(BlockResult):
    """Judgments as a table, one row per document of a query, and what they were made from.

    `chosen` is the click model that judged. `settings` are the names and values of the options, for
    people to read. `path` is the file of the judgments, `live` the options with which the commands
    after them find the engine.
    """

    behaviour: Behaviour
    chosen: ChosenModel
    table: pa.Table
    settings: tuple[tuple[str, str], ...] = ()
    path: Path | None = None
    live: tuple[str, ...] = ()

    @property
    def n_queries(self) -> int:
        """The number of queries with judgments."""
        return len(self.behaviour.counts.queries)

    @property
    def next_steps(self) -> NextSteps | None:
        """What people judge next, and the commands, where the judgments are in a file."""
        if self.path is None:
            return None
        return NextSteps(self.path, min(SAMPLED_QUERIES, self.n_queries), self.live)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the judgments."""
        return tuple(_warnings(self.behaviour, self.chosen))

    def as_dict(self) -> dict[str, Any]:
        """What became of the events, the fit, and the judgments, as JSON."""
        content: dict[str, Any] = {} if self.path is None else {"judgments": str(self.path)}
        content |= {
            "documents": len(self.table),
            "events": self.behaviour.event_counts.as_dict(),
        }
        content |= _fit_as_dict(self.behaviour, self.chosen)
        content["grades"] = _histogram(np.asarray(self.table["grade"]))
        content["warnings"] = list(self.warnings)
        return content if self.next_steps is None else content | self.next_steps.as_dict()

    def _blocks(self) -> Iterator[Block]:
        """Events, the fit, the judgments, and what comes next."""
        yield from _event_lines(self.behaviour.event_counts)
        yield from _fit_blocks(self)
        yield f"{len(self.table):,} documents of {self.n_queries:,} queries, by {self.chosen.name}"
        if self.next_steps is not None:
            yield from ("", *self.next_steps.lines)

    def write(self, path: Path | str) -> None:
        """Write a judgment list: Parquet, or TSV by its name. It has no user and no session."""
        sink = pa.BufferOutputStream()
        is_tsv = str(path).endswith(".tsv")
        if is_tsv:
            import pyarrow.csv

            options = pyarrow.csv.WriteOptions(delimiter="\t", quoting_style="needed")
            pyarrow.csv.write_csv(self.table, sink, options)
        else:
            import pyarrow.parquet as pq

            pq.write_table(self.table, sink, compression="zstd", write_page_checksum=True)
        with open_output(path, binary=not is_tsv) as file:
            file.write(sink.getvalue())


@dataclass(frozen=True)
class NextSteps:
    """What people judge before evidence can decide: as many queries of the judgments in `path`."""

    path: Path
    queries: int
    live: tuple[str, ...]

    @property
    def documents_at_most(self) -> int:
        """The most documents that are judged."""
        return 2 * self.queries * JUDGED_DEPTH

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands up to the upload, as typed."""
        log, model, sheet, better = (
            self.path.with_name(f"{self.path.stem}-{end}")
            for end in ("log.parquet", "model.json", "sheet.csv", "better.json")
        )
        pooled = ("--rankers", f"query,{model}", "--sample", self.queries, "--depth", JUDGED_DEPTH)
        commands: list[tuple[Any, ...]] = [
            ("log-features", "--judgments", self.path, "--out", log, *self.live),
            ("train", log, "--metric", f"ndcg@{JUDGED_DEPTH}", "--out", model),
            ("judge", "pool", "--queries", log, *pooled, "--out", sheet, *self.live),
            ("compare-live", model, "query", "--judgments", sheet, "--out", better, *self.live),
            ("upload", model, "--require", better, *self.live),
        ]
        return tuple(shlex.join(["owpc-ltr", *map(str, words)]) for words in commands)

    def as_dict(self) -> dict[str, Any]:
        """The steps as JSON."""
        to_judge = {
            "queries": self.queries,
            "depth": JUDGED_DEPTH,
            "documents_at_most": self.documents_at_most,
            "by": JUDGES,
        }
        return {"to_judge": to_judge, "next": list(self.commands)}

    @property
    def lines(self) -> Iterator[str]:
        """Why people judge next, and the commands."""
        yield (
            "next: clicks alone are no evidence, as they know only what was shown. Let "
            f"people judge the first {JUDGED_DEPTH} results of both rankers for {self.queries} "
            f"queries drawn by chance (at most {self.documents_at_most:,} documents): {JUDGES}."
        )
        for command in self.commands:
            *lines, last = _command_lines(command)
            yield from (*(f"{line} \\" for line in lines), last)
        lacking = "" if "--index" in self.live else "--index NAME to all but train, "
        yield f"where the cluster has several, add {lacking}--featureset NAME to log-features"
        yield (
            "add --query-template QUERY.json, your application's query, to the last three; name "
            "the live ranker in place of 'query' where there is one"
        )


def judge(behaviour: Behaviour, chosen: ChosenModel, options: GradingOptions) -> ClickJudgments:
    """The judgments of a fitted click model."""
    counts, top = behaviour.counts, parse_grades(options.grades)
    fitted = counts, chosen.fit, behaviour.options.greatest_value
    columns = {
        "query": counts.queries.take(pa.array(counts.pair_query)),
        "doc_id": counts.documents.take(pa.array(counts.pair_document)),
        "grade": pa.array(grades(worth(*fitted), top, worth_of_any(*fitted))),
        JUDGED_BY: pa.repeat(CLICKS, counts.n_pairs),
    }
    if options.weights != "none":
        certain = options.weights == "certainty"
        weights = chosen.fit.certainty if certain else chosen.fit.trials
        # None is 0, so that no document is dropped.
        columns["weight"] = pa.array(np.maximum(weights, 1e-6))
    if options.query_weights == "people":
        columns["query_weight"] = counts.people[counts.pair_query].astype(np.float64)
    settings = (
        ("grades", "probabilities" if top is None else f"0 to {top}"),
        ("weights of documents", options.weights),
        ("weights of queries", options.query_weights),
    )
    return ClickJudgments(behaviour, chosen, pa.table(columns), settings)


def _histogram(grades: Vector) -> dict[str, int]:
    """The number of documents of each grade; of probabilities, in tenths."""
    whole = bool((grades == np.floor(grades)).all())
    values, counts = np.unique(grades if whole else np.floor(grades * 10) / 10, return_counts=True)
    return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}


def _fit_as_dict(behaviour: Behaviour, chosen: ChosenModel) -> dict[str, Any]:
    """Queries, examination, and how well each model predicts."""
    counts, fit = behaviour.counts, chosen.fit
    shown, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    rates = np.divide(clicks, shown, out=np.zeros_like(shown), where=shown > 0)
    return {
        "queries": len(counts.queries),
        "impressions": int(shown.sum()),
        "clicks": int(clicks.sum()),
        "clicked_documents": int((counts.by_pair(counts.clicked) > 0).sum()),
        "model": chosen.name,
        "prior": list(fit.prior),
        "ranks": [
            {"rank": rank, "shown": int(n), "click_through": float(rate), "examination": float(e)}
            for rank, (n, rate, e) in enumerate(zip(shown, rates, fit.examination, strict=False), 1)
        ],
        "ranks_vary": ranks_vary(counts),
        "held_out": [score.as_dict() for score in chosen.held_out],
    }


def _event_lines(counts: EventCounts) -> Iterator[str]:
    content = counts.as_dict()
    yield f"{counts.read:,} events read, {counts.used:,} used"
    for reason, count in content["unusable"].items():
        yield f"    {count:,} not used: {reason}"
    others = ", ".join(f"{name or '(none)'} {n:,}" for name, n in content["other_actions"].items())
    if others:
        yield f"  other actions: {others}"
    if counts.early:
        yield (
            f"{counts.early:,} events are stamped before the query that they name: clocks differ, "
            "and they count by its id"
        )
    yield f"positions begin with {counts.first_position}"


def _fit_blocks(judgments: ClickJudgments) -> Iterator[Block]:
    content, chosen = judgments.as_dict(), judgments.chosen
    yield ""
    rows = [
        (
            score.model + (" *" if score.model == chosen.name else ""),
            f"{score.session_log_likelihood:.4f}",
            score.perplexity,
            "" if score.identified else "examination not identified",
        )
        for score in chosen.held_out
    ]
    yield Table(["MODEL", "LOG LIKELIHOOD OF A SESSION", "PERPLEXITY", ""], rows)
    yield f"over {chosen.held_out[0].lists:,} lists of people held out (one in five)"
    yield ""
    ranks = [
        (
            row["rank"],
            f"{row['shown']:,}",
            row["click_through"],
            row["examination"],
            "█" * round(_BAR * row["examination"]),
        )
        for row in content["ranks"][:_RANKS_SHOWN]
    ]
    yield Table(["RANK", "SHOWN", "CLICKED", "EXAMINED", ""], ranks)
    alpha, beta = chosen.fit.prior
    yield ""
    yield (
        f"prior: a document attracts {alpha / (alpha + beta):.3f} of those who examine it, which "
        f"weighs as {alpha + beta:.1f} examinations"
    )
    shares = ", ".join(f"{count:,} of {grade}" for grade, count in content["grades"].items())
    yield f"grades: {shares}"


def _command_lines(command: str) -> list[str]:
    """A command in lines that fit, cut between its options."""
    lines = [" "]
    for part in command.replace(" --", "\n--").splitlines():
        if len(lines[-1]) + len(part) > _WIDTH and lines[-1].strip():
            lines.append("     ")
        lines[-1] += f" {part}"
    return lines


def _warnings(behaviour: Behaviour, chosen: ChosenModel) -> Iterator[str]:
    """What to know before the judgments are used."""
    events, counts = behaviour.event_counts, behaviour.counts
    lost = events.unusable["no position"]
    if lost > _MANY * max(events.read, 1):
        yield (
            f"{lost:,} of {events.read:,} events have no position: log it, or the lists that "
            "were shown"
        )
    field = events.document_field
    if field not in {None, ID} and not events.looked_up:
        yield (
            f"documents are named by {shown(field or '')}, and log-features asks for them by _id: "
            f"find them with `index`"
        )
    clicks = int(counts.clicked.sum())
    if events.implied > _MANY * max(clicks, 1):
        yield (
            f"{events.implied:,} of {clicks:,} clicks are on results that nothing says were "
            "shown: what was passed over may be missing too"
        )
    if clicks < _FEW_CLICKS:
        yield f"{clicks:,} clicks are few: most of each grade is the prior"
    if events.first_position == 0:
        yield (
            "positions are taken to begin with 0, as the log has it: if they begin with 1, correct "
            "the events at position 0"
        )
    if not ranks_vary(counts):
        yield _unidentified(counts.moved, chosen)
    yield from chosen.fit.notes


def _unidentified(moved: float, chosen: ChosenModel) -> str:
    """That a ranking which never changes identifies no examination; which model judges instead."""
    begin = (
        f"only {moved:.1%} of the impressions show a document at another rank than usual: where "
        "the ranking never changes, clicks do not identify examination"
    )
    relying = [score.model for score in chosen.held_out if not score.identified]
    if not chosen.fit.identified:
        why = f"the grades of {chosen.name} are no better than a guess at it"
    elif relying:
        why = f"auto chose {chosen.name}, as {' and '.join(relying)} would compare ranks"
    else:
        why = f"{chosen.name} does not rely on it"
    if (chosen.fit.examination == chosen.fit.examination.max()).all():
        why += " (it corrects nothing: what stood high keeps a high grade)"
    return f"{begin}; {why}; let rankers take turns, and judge the top by people"
