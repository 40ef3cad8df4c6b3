"""What a comparison of rankers found, for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from owpc_ltr.cli.output import print_json, print_table, print_wrapped, warn

if TYPE_CHECKING:
    from owpc_ltr.api.results import RankerComparison


def print_comparison(found: RankerComparison, data: str, worst: int, *, as_json: bool) -> None:
    """Means, pairs, verdicts, and the queries that lose most."""
    from owpc_ltr.api.comparison_files import closing, opening, title

    a, b = found.headline
    losers = found.worst(a, b, n=worst)
    if as_json:
        listed = {"a": a, "b": b, "metric": str(found.metrics[0]), "queries": losers}
        print_json({"data": data, **found.as_dict(), "worst": listed})
        return
    print_wrapped(opening(found))
    print_wrapped(f"{title(found)}, {data}")
    for note in found.notes:
        print_wrapped(note)
    _print_means(found)
    for metric in found.metrics:
        print_wrapped(metric.convention)
    typer.echo()
    _print_pairs(found)
    for line in closing(found):
        print_wrapped(line)
    _print_powered(found)
    if losers:
        typer.echo()
        print_wrapped(f"where {a} loses most to {b}, {found.metrics[0]}:")
        texts = found.query_texts is not None
        letters = dict(zip((one.name for one in found.rankers), _letters(found), strict=True))
        print_table(
            ["QUERY", *(["TEXT"] if texts else []), letters[a], letters[b]],
            [
                (one["query_id"], *([one["query"]] if texts else []), one["a"], one["b"])
                for one in losers
            ],
        )
    for message in found.warnings:
        warn(message)


def _print_means(found: RankerComparison) -> None:
    listed = any(one.unjudged is not None for one in found.rankers)
    rows = []
    for metric in map(str, found.metrics):
        for letter, ranker in zip(_letters(found), found.rankers, strict=True):
            mean = ranker.means[metric]
            row = [letter, ranker.name, metric, mean.mean, mean.low, mean.high]
            if listed:
                row.append("–" if ranker.unjudged is None else f"{ranker.unjudged[metric]:.0%}")
            rows.append(row)
    headers = ["", "RANKER", "METRIC", "MEAN", "LOW", "HIGH", *(["UNJUDGED"] if listed else [])]
    print_table(headers, rows)


def _print_pairs(found: RankerComparison) -> None:
    from owpc_ltr.api.comparison_files import wins_ties_losses

    letters = dict(zip((one.name for one in found.rankers), _letters(found), strict=True))
    rows = []
    for pair in found.pairs:
        one = pair.comparison
        rows.append(
            (
                pair.metric,
                f"{letters[pair.a]} − {letters[pair.b]}",
                *map(_signed, (one.mean_difference, one.low, one.high)),
                *map(_p, (one.p_permutation, one.p_t, pair.p_holm)),
                wins_ties_losses(pair),
            )
        )
    headers = ["METRIC", "PAIR", "DIFF", "LOW", "HIGH", "P", "P (T)", "P HOLM", "W/T/L"]
    print_table(headers, rows)


def _print_powered(found: RankerComparison) -> None:
    """The pairs with human and proxy labels, beside either alone."""
    if not found.powered:
        return
    from owpc_ltr.api.comparison_files import powered_words

    letters = dict(zip((one.name for one in found.rankers), _letters(found), strict=True))
    rows = []
    for pair in found.powered:
        for judges, one in (
            ("both", pair.found.powered), ("human", pair.found.by_human),
            ("proxy, biased", pair.found.by_cheap),
        ):  # fmt: skip
            figures = map(_signed, (one.mean, one.low, one.high))
            named = f"{letters[pair.a]} − {letters[pair.b]}"
            rows.append((pair.metric, named, judges, *figures, _p(one.p)))
    typer.echo()
    print_table(["METRIC", "PAIR", "LABELS", "DIFF", "LOW", "HIGH", "P"], rows)
    for line in powered_words(found):
        print_wrapped(line)


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _p(value: float) -> str:
    """A p-value; one that would round to 0 is never 0."""
    return f"{value:.4f}" if value >= 0.00005 else "<.0001"


def _letters(found: RankerComparison) -> list[str]:
    """A short name for each ranker: A to Z, then A2 and so on."""
    numbers = range(len(found.rankers))
    return [chr(65 + n % 26) + (str(n // 26 + 1) if n >= 26 else "") for n in numbers]
