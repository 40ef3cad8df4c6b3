"""Explanations as commands print them: bars for a list, a table for one document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from owpc_ltr.cli.output import print_table, print_wrapped, warn

if TYPE_CHECKING:
    from owpc_ltr.api.results import ExplainedHit, Explanation

_LISTED = 5
"""Terms of a hit in a list; the others are summed."""
_NAME, _NUMBER, _BARS = 28, 10, 24
_CHANGES = 5


def print_explanation(found: Explanation) -> None:
    """All of it: one document fully where one was asked for, else the hits of the list."""
    if not found.hits:
        typer.echo(f"nothing matches: {found.query}")
    elif found.hits[0].how:
        _print_fully(found)
    else:
        print_hits(found)
        typer.echo()
        print_wrapped(f"baseline {found.baseline:.4g}; {found.method}")
    for message in found.warnings:
        warn(message)


def print_hits(found: Explanation) -> None:
    """Each hit and, below it, bars of what adds most to its score; all of one scale."""
    shown = [(hit, hit.largest(_LISTED), hit.rest(_LISTED)) for hit in found.hits]
    amounts = [term.contribution for _, terms, _ in shown for term in terms]
    amounts += [rest for _, _, rest in shown]
    for hit, terms, rest in shown:
        typer.echo(_heading(hit))
        for term in terms:
            _print_bar(term.name, term.value, term.contribution, amounts)
        others = len(hit.terms()) - len(terms)
        if others:
            _print_bar(f"{others} other{'s'[: others != 1]}", None, rest, amounts)


def _heading(hit: ExplainedHit) -> str:
    title = _called(hit.title, hit.document_id)
    start, end = f"{hit.rank:>2} {_move(hit)} ", f"  {hit.score:.4f}"
    room = 80 - len(start) - len(end)
    return f"{start}{_short(title, room)}{end}"


def _move(hit: ExplainedHit) -> str:
    """How far it has come by the model: ▲3, ▼1, or =; nothing where that is not known."""
    if hit.rank_before is None:
        return ""
    steps = hit.rank_before - hit.rank
    return "=" if steps == 0 else f"▲{steps}" if steps > 0 else f"▼{-steps}"


def _print_bar(name: str, value: float | None, amount: float, amounts: list[float]) -> None:
    line = (
        f"   {_short(name, _NAME).ljust(_NAME)} {_value(value).rjust(_NUMBER)} "
        f"{f'{amount:+.4g}'.rjust(_NUMBER)} {bar(amount, amounts)}"
    )
    typer.echo(line.rstrip())


def bar(amount: float, amounts: list[float], width: int = _BARS) -> str:
    """A bar to the right of an axis, or to its left; the axis lets the largest of all fit.

    >>> bar(2.0, [2.0, -1.0], 6), bar(-1.0, [2.0, -1.0], 6)
    ('  ████', '██')
    """
    low, high = -min(0.0, *amounts), max(0.0, *amounts)
    if not math.isfinite(low + high) or low + high == 0:
        return ""
    left = round(width * low / (low + high))
    length = round(width * abs(amount) / (low + high))
    drawn = "█" * length
    return " " * (left - length) + drawn if amount < 0 else " " * left + drawn


def _print_fully(found: Explanation) -> None:
    (hit,) = found.hits
    typer.echo(f"{_heading(hit)}\nrank {hit.rank} of {found.documents}, by {found.model}\n")
    _print_features(found, hit)
    for part in hit.parts:
        told = "" if part.logarithm is None else f" ({part.logarithm:+.4g} in logs)"
        who = ", ".join(f"{one} {amount:+.4g}" for one, amount in part.documents)
        most = f": most of it {who}" if who else ""
        print_wrapped(f"{part.name} adds {part.amount:+.4g}{told}{most}")
    features, parts = float(hit.contributions.sum()), sum(part.amount for part in hit.parts)
    sums = f"baseline {found.baseline:.4g}, features {features:+.4g}"
    typer.echo(f"\n{sums}{f', the list {parts:+.4g}' if hit.parts else ''} = {hit.score:.4f}")
    print_wrapped(found.method)
    for path in hit.paths:
        splits = ", ".join(map(str, path.splits))
        gives = f"gives {path.output:+.4g} (mean {path.mean_output:+.4g})"
        typer.echo()
        print_wrapped(f"tree {path.tree} {gives}: {splits}")
    _print_changes(found)


def _print_features(found: Explanation, hit: ExplainedHit) -> None:
    """Every feature, the largest first: its value, what it adds, and its place at the mean."""
    amounts: list[float] = hit.contributions.tolist()
    order = sorted(range(len(amounts)), key=lambda column: -abs(amounts[column]))
    # Sums of what cancels leave rounding, which is nothing.
    least = 1e-9 * max(map(abs, amounts), default=0.0)
    print_table(
        ["FEATURE", "VALUE", "BY", "ADDS", "MEAN", "AT MEAN", ""],
        [
            (
                hit.feature_names[column],
                _value(float(hit.values[column])),
                hit.how[column],
                _signed(amounts[column], least),
                _signed(float(found.mean_contributions[column]), least),
                f"rank {int(hit.ranks_at_mean[column])}",
                bar(amounts[column], amounts, 10),
            )
            for column in order
        ],
    )


def _print_changes(found: Explanation) -> None:
    passing = found.to_pass
    if passing is None:
        typer.echo("\nnothing is above it")
        return
    other = _called(_short(passing.title, 30), passing.document_id)
    typer.echo()
    print_wrapped(f"to be above {other}, rank {passing.rank}, score {passing.score:.4f}:")
    if not passing.changes:
        typer.echo(f"none of its features could alone, within what was seen {passing.seen}")
        return
    print_table(
        ["FEATURE", "IS", "ENOUGH", "OF ITS RANGE", "SCORE THEN"],
        [
            (
                change.feature, _value(change.value), f"{change.needed:.7g}", f"{change.share:.1%}",
                change.score,
            )
            for change in passing.changes[:_CHANGES]
        ],
    )  # fmt: skip
    more = len(passing.changes) - _CHANGES
    typer.echo(
        f"each alone{f', and {more} more' if more > 0 else ''}; within what was seen {passing.seen}"
    )


def _called(title: str, document: str) -> str:
    return title if title == document else f"{title} [{document}]"


def _signed(amount: float, least: float) -> str:
    return f"{amount:+.4g}" if abs(amount) > least else "0"


def _value(value: float | None) -> str:
    if value is None:
        return ""
    return "missing" if math.isnan(value) else f"{value:.4g}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
