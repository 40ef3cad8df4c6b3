"""What judging by clicks found, as JSON; and what to doubt of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from owpc_ltr.data.click_counts import ranks_vary
from owpc_ltr.files.text import shown
from owpc_ltr_clicks.counting import Behaviour
from owpc_ltr_clicks.documents import ID
from owpc_ltr_clicks.models import Chosen

_MANY = 0.1
_FEW_CLICKS = 1000


def report_of(behaviour: Behaviour, chosen: Chosen) -> dict[str, Any]:
    """Events, queries, examination, how well each model predicts."""
    counts, fit = behaviour.counts, chosen.fit
    shown, clicks = counts.by_rank(counts.shown), counts.by_rank(counts.clicked)
    rates = np.divide(clicks, shown, out=np.zeros_like(shown), where=shown > 0)
    return {
        "events": behaviour.account.as_dict(),
        "queries": len(counts.queries),
        "documents": counts.n_pairs,
        "impressions": int(shown.sum()),
        "clicks": int(clicks.sum()),
        "clicked_documents": int((counts.by_pair(counts.clicked) > 0).sum()),
        "model": chosen.name,
        "prior": list(fit.prior),
        "ranks": [
            {"rank": rank, "shown": int(n), "click_through": float(rate), "examination": float(e)}
            for rank, n, rate, e in zip(
                range(1, len(shown) + 1), shown, rates, fit.examination, strict=False
            )
        ],
        "ranks_vary": ranks_vary(counts),
        "held_out": [one.as_dict() for one in chosen.held_out],
    }


def warnings_of(behaviour: Behaviour, chosen: Chosen) -> Iterator[str]:
    """What should be known before the judgments are used."""
    account, counts = behaviour.account, behaviour.counts
    lost = account.unusable["no position"]
    if lost > _MANY * max(account.read, 1):
        yield (
            f"{lost:,} of {account.read:,} events have no position: log it, or the lists that "
            "were shown"
        )
    field = account.document_field
    if field not in {None, ID} and not account.looked_up:
        yield (
            f"documents are named by {shown(field or '')}, and log-features asks for them by _id: "
            "find them with --index"
        )
    clicks = int(counts.clicked.sum())
    if account.implied > _MANY * max(clicks, 1):
        yield (
            f"{account.implied:,} of {clicks:,} clicks are on results that nothing says were "
            "shown: what was passed over may be missing too"
        )
    if clicks < _FEW_CLICKS:
        yield f"{clicks:,} clicks are few: most of each grade is the prior"
    if not account.positions_said and account.first_position == 0:
        yield "positions are taken to begin with 0: say --first-position 1 if they do not"
    if not ranks_vary(counts):
        yield _unidentified(counts.moved, chosen)
    yield from chosen.fit.notes


def _unidentified(moved: float, chosen: Chosen) -> str:
    """What a ranking that never changes does not tell, and which model judges therefore."""
    begin = (
        f"only {moved:.1%} of the impressions show a document at another rank than usual: where "
        "the ranking never changes, clicks do not identify examination"
    )
    relying = [one.model for one in chosen.held_out if not one.identified]
    if not chosen.fit.identified:
        why = f"the grades of {chosen.name} are no better than a guess at it"
    elif relying:
        why = f"auto chose {chosen.name}, as {' and '.join(relying)} would compare ranks"
    else:
        why = f"{chosen.name} does not rely on it"
    if (chosen.fit.examination == chosen.fit.examination.max()).all():
        why += " (it corrects nothing: what stood high keeps a high grade)"
    return f"{begin}; {why}; let rankers take turns, and judge the top by people"
