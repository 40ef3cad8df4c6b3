"""The examples: queries whose documents moved, and why they are where they are."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr_report.blocks import Block, Cell, Heading, Section, Table, Text
from owpc_ltr_report.examples import Example, Moved
from owpc_ltr_report.figures import amount, signed


def examples_section(examples: Sequence[Example], before: str, after: str) -> Section | None:
    """Each query with its documents before and after; None without any."""
    if not examples:
        return None
    blocks: list[Block] = []
    for example in examples:
        blocks.append(Heading(example.query))
        if example.before is not None and example.after is not None:
            change = f"{amount(example.before)} → {amount(example.after)}"
            blocks.append(Text(f"{example.metric} {change}"))
        blocks.append(_documents(example))
    reasons = any(one.why for example in examples for one in example.moved)
    lead = (
        f"The queries with the largest losses and the largest gains: their first documents by "
        f"{after}, and what it took from the top of {before}."
        if any(example.metric for example in examples)
        else "The first documents of a list."
    )
    why = (
        " Below each document stand the features that set it apart from the mean of its list, "
        "with what they add to its score or take from it."
    )
    title = "What moves, and why?"
    return Section("examples", "Examples", title, lead + (why if reasons else ""), tuple(blocks))


def _documents(example: Example) -> Table:
    moved = example.moved
    graded = any(one.grade is not None for one in moved)
    rows: list[tuple[Cell, ...]] = []
    for one in moved:
        grade: tuple[Cell, ...] = (one.grade,) if graded else ()
        rows.append((one.rank, one.before, _moved(one), *grade, _named(one)))
    headers = ("rank", "was", "moved", *(("grade",) if graded else ()), "document")
    caption = f"Documents of “{example.query}” ({example.documents} in all)"
    return Table(caption, headers, tuple(rows))


def _moved(one: Moved) -> str:
    if one.rank is None or one.before is None or one.before == one.rank:
        return "–"
    steps = one.before - one.rank
    return f"▲ {steps}" if steps > 0 else f"▼ {-steps}"


def _named(one: Moved) -> Cell:
    """The document, and under it what sets it apart."""
    name = f"{one.title} ({one.document})" if one.title else one.document
    why = ", ".join(f"{name} {signed(value, 2)}" for name, value in one.why)
    return (name, why) if why else name
