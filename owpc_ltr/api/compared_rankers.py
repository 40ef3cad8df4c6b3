"""Rankers as they are named for a comparison: each has one name, and none has two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.evaluation.comparing.side_by_side import Conventions

LIVE = "live:"
UNJUDGED = ("zero", "skip", "condensed")


@dataclass(frozen=True)
class Asked:
    """What is asked: which rankers, by which conventions, on which side of the data."""

    rankers: Mapping[str, Any]
    how: Conventions
    queries: str
    weighted: bool
    plugins: tuple[Path, ...]


def named_rankers(rankers: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The rankers by name: as given, or as files and texts are spelled; others by their kind.

    Raises UsageError for fewer than two, and for one that is named twice.
    """
    if isinstance(rankers, Mapping):
        found = {str(name): ranker for name, ranker in rankers.items()}
    else:
        found = {}
        for ranker in [rankers] if isinstance(rankers, str | Path) else rankers:
            found[_new_name(ranker, found)] = ranker
    if len(found) < 2:
        raise UsageError(
            f"a comparison needs 2 rankers, and there is {len(found)}: name another model, run, "
            "feature:NAME or live:NAME"
        )
    return found


def split_metrics(texts: Sequence[str] | None) -> list[str]:
    """Metrics of texts between commas; an option (`NAME=VALUE`) belongs to the one before it.

    >>> split_metrics(["ndcg@10,gain=linear,map", "mrr"])
    ['ndcg@10,gain=linear', 'map', 'mrr']
    """
    found: list[str] = []
    for text in texts or ():
        for number, piece in enumerate(text.split(",")):
            if number and "=" in piece:
                found[-1] += f",{piece}"
            else:
                found.append(piece)
    return found


def is_live(ranker: Any) -> bool:
    """Whether a ranker is one that the engine serves: `live:…`."""
    return isinstance(ranker, str) and ranker.startswith(LIVE)


def check_baseline(baseline: str | None, names: Mapping[str, Any]) -> None:
    """Refuse a baseline that is none of the rankers."""
    if baseline is not None and baseline not in names:
        raise UsageError(
            f"the baseline '{baseline}' is none of the rankers: choose among {', '.join(names)}"
        )


def check_unjudged(unjudged: str) -> None:
    """Refuse what unjudged documents cannot be taken for."""
    if unjudged not in UNJUDGED:
        raise UsageError(
            f"unjudged documents cannot be taken for '{unjudged}': choose among "
            f"{', '.join(UNJUDGED)}"
        )


def _new_name(ranker: Any, taken: Mapping[str, Any]) -> str:
    if isinstance(ranker, str | Path):
        name = str(ranker)
        if name in taken:
            raise UsageError(f"'{name}' is named twice: a ranker does not differ from itself")
        return name
    kind = f"the {ranker.kind} model" if hasattr(ranker, "kind") else "the run"
    name, number = kind, 2
    while name in taken:
        name, number = f"{kind} {number}", number + 1
    return name
