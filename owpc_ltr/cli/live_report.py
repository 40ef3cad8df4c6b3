"""What a live evaluation found, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from owpc_ltr.cli.output import print_json, print_table, print_wrapped, warn

if TYPE_CHECKING:
    from owpc_ltr.api.results import LiveEvaluation, LiveMeasured


def print_live(model: str, found: LiveEvaluation, *, as_json: bool) -> None:
    """Every figure, with what unjudged documents are taken for."""
    if as_json:
        print_json({"model": model, **found.as_dict()})
        return
    from owpc_ltr.evaluation.options import split_in_words

    question = found.question
    typer.echo(
        f"{model} on {found.n_queries} queries ({split_in_words(found.side)}), the whole of "
        f"'{question.index}', the best {question.window} of each rescored"
    )
    if found.weighted:
        typer.echo(
            "means are weighted by the importance of queries (--unweighted: all count the same)"
        )
    _print_measured(found.measured)
    _print_verdicts(found)
    _print_bounds(found.measured)
    before, after = (_share(share) for share in found.judged)
    typer.echo(f"judged among the first 10: {before} before, {after} after")
    typer.echo(
        f"recall of the window: {_share(found.recall)} of the relevant documents are among the "
        f"first {question.window} of the query; the rest no ranker can mend"
    )
    for name, times in found.milliseconds.items():
        words = "median {median:g} ms, 95 % within {p95:g} ms"
        typer.echo(f"{name}: {words.format(**times)}, by the engine's clock")
    losers = found.losers()
    if losers:
        print_table(
            ["LOSES MOST", "KEYWORDS", "OLD", "NEW"],
            [(one["query_id"], one["keywords"], one["old"], one["new"]) for one in losers],
        )
    for line in found.warnings:
        warn(line)


def _print_measured(measured: Sequence[LiveMeasured]) -> None:
    rows = [
        (str(one.metric), unjudged, found.mean_b, found.mean_a, found.mean_difference,
         f"[{found.low:+.4f}, {found.high:+.4f}]", found.p_permutation)
        for one in measured
        for unjudged, found in (("irrelevant", one.comparison), ("left out", one.condensed))
    ]  # fmt: skip
    headers = ["METRIC", "UNJUDGED ARE", "BEFORE", "AFTER", "DIFFERENCE", "95 % INTERVAL", "P"]
    print_table(headers, rows)


def _print_verdicts(found: LiveEvaluation) -> None:
    """Whether users get better results: once where no metric can tell, else by each."""
    if found.doubts:
        print_wrapped(str(found.verdict()))
        return
    for number, one in enumerate(found.measured):
        print_wrapped(f"{one.metric}: {found.verdict(number)}")


def _print_bounds(measured: Sequence[LiveMeasured]) -> None:
    """Each metric with all unjudged documents irrelevant, and all relevant within its cutoff."""
    for one in measured:
        if one.bounds is not None:
            before, after = (f"{low:.4f} to {high:.4f}" for low, high in one.bounds)
            typer.echo(
                f"{one.metric} with all unjudged irrelevant to all relevant: {before} before, "
                f"{after} after"
            )


def _share(share: float) -> str:
    return "nothing found" if share != share else f"{share:.0%}"  # noqa: PLR0124 - NaN
