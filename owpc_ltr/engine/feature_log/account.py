"""The account of a log: each judged document is logged, absent or rejected, and all are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from owpc_ltr.errors import Refused


@dataclass(frozen=True)
class Account:
    """judged = logged + absent + rejected, or there is no account: Refused."""

    judged: int = 0
    logged: int = 0
    absent: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    """Number of documents by reason."""

    def __post_init__(self) -> None:
        parts = (self.logged, self.absent, *self.rejected.values())
        if self.judged != sum(parts) or min(parts) < 0:
            raise Refused(
                f"the account does not add up: {self.judged} judged, but {self.logged} logged + "
                f"{self.absent} absent + {self.n_rejected} rejected; please report this"
            )

    @property
    def n_rejected(self) -> int:
        """Rejected documents, for whatever reason."""
        return sum(self.rejected.values())

    def __add__(self, other: Account) -> Account:
        rejected = Counter(self.rejected) + Counter(other.rejected)
        return Account(
            self.judged + other.judged,
            self.logged + other.logged,
            self.absent + other.absent,
            dict(sorted(rejected.items())),
        )

    def as_json(self) -> dict[str, Any]:
        """The four figures, rejected ones by reason."""
        return {
            "judged": self.judged,
            "logged": self.logged,
            "absent": self.absent,
            "rejected": dict(sorted(self.rejected.items())),
        }


def check_shares(
    account: Account, judged: int, index: str, max_absent: float, *, allow_rejected: bool
) -> None:
    """Refuse an account, also a running one, that says too much is missing of `judged` documents.

    A running account that is already over the line cannot come back under it.
    """
    if account.absent > max_absent * judged:
        raise Refused(
            f"{account.absent} of {judged} judged documents ({account.absent / judged:.1%}) are "
            f"not in '{index}', and at most {max_absent:.1%} may be: is it the right index and id "
            f"field? Otherwise allow it: --max-absent {_rounded_up(account.absent / judged)}"
        )
    if account.rejected and not allow_rejected:
        reasons = ", ".join(f"{n} ({reason})" for reason, n in sorted(account.rejected.items()))
        raise Refused(
            f"documents were rejected: {reasons}; mend the feature set, or leave them out: "
            "--allow-rejected"
        )


def _rounded_up(share: float) -> float:
    return min(1.0, (int(share * 100) + 1) / 100)
