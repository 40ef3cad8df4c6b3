"""Which queries rankers are compared on: those that none of them was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.evaluate import SIDES

Sides = Mapping[str, NDArray[np.str_] | None]
"""By each ranker's name, on which side each query was when it was trained; None: nobody knows."""


class Chosen(NamedTuple):
    """The queries by number, what they are called, and why it is these."""

    queries: NDArray[np.int64]
    side: str
    notes: tuple[str, ...] = ()


def choose_queries(sides: Sides, n_queries: int, side: str = "auto") -> Chosen:
    """The queries on a side; `auto`: those that no ranker learned from, or was chosen on.

    Raises Refused where no query is left, or no ranker knows of the side.
    """
    if side not in SIDES:
        raise UsageError(f"no side is called '{side}': choose among {', '.join(SIDES)}")
    known = {name: on for name, on in sides.items() if on is not None}
    if side == "all" or (side == "auto" and not known):
        return Chosen(np.arange(n_queries), "all")
    if not known:
        raise Refused(
            f"none of the rankers knows the {side} queries of this data: they were trained on "
            "other data, or without a split; use --queries all"
        )
    wanted = "test" if side == "auto" else side
    left = np.flatnonzero(np.all([on == wanted for on in known.values()], axis=0))
    if not len(left):
        raise Refused(
            f"no query is a {wanted} query of all rankers: {_why(known, wanted)}; give "
            "other judged queries, or use --queries all, which flatters whoever was trained on them"
        )
    if len(left) == n_queries:
        return Chosen(left, wanted)
    words = "none of the rankers has seen" if wanted == "test" else f"are {wanted} queries of all"
    note = f"{len(left):,} of {n_queries:,} queries are left, which {words}"
    return Chosen(left, wanted, (f"{note}: {_why(known, wanted)}",))


def _why(known: Mapping[str, NDArray[np.str_]], wanted: str) -> str:
    if wanted != "test":
        told = [f"{name} has {int((on == wanted).sum()):,}" for name, on in known.items()]
        return ", ".join(told)
    seen = {name: int((on != "test").sum()) for name, on in known.items()}
    told = [f"{name} with {count:,} of them" for name, count in seen.items() if count]
    return f"trained or chosen were {', '.join(told)}"
