"""Alias: a name of a store, the models that it points to, and how it moves among them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from owpc_ltr.errors import Refused, UsageError

CHAMPION, CHALLENGER = "champion", "challenger"
ROLES = (CHAMPION, CHALLENGER)
KEPT = 5
"""How many earlier models a name can go back to, unless an upload says otherwise."""


@dataclass(frozen=True)
class Alias:
    """What a name points to now (`current`, the champion), and pointed to before (latest last).

    `challenger` is the model that is tried against it, if there is one; `keep` is how many earlier
    models are remembered. `store` and `store_kind` say where its models lie: None for the default
    store, and for a name that was made before names belonged to stores.
    """

    name: str
    current: str
    previous: tuple[str, ...] = ()
    challenger: str | None = None
    keep: int = KEPT
    # Where it lies is no part of what it says: an old document tells nothing of it.
    store: str | None = field(default=None, compare=False)
    store_kind: str | None = field(default=None, compare=False)

    @property
    def models(self) -> set[str]:
        """Every model that the alias points to, can go back to, or may come to point to."""
        return {self.current, *self.previous, *filter(None, [self.challenger])}

    def moved_to(self, model: str, keep: int | None = None) -> Alias:
        """The alias to another model, with today's as the latest of the previous ones."""
        kept = self.keep if keep is None else keep
        challenger = None if model == self.challenger else self.challenger
        previous = self.previous if model == self.current else (*self.previous, self.current)
        recent = previous[len(previous) - kept :] if kept < len(previous) else previous
        return replace(self, current=model, previous=recent, challenger=challenger, keep=kept)

    def moved_back(self) -> Alias:
        """The alias one step back."""
        if not self.previous:
            raise Refused(f"'{self.name}' has no earlier model to go back to")
        return replace(self, current=self.previous[-1], previous=self.previous[:-1])

    def challenged_by(self, model: str, keep: int | None = None) -> Alias:
        """The alias with this model tried against today's."""
        if model == self.current:
            raise Refused(
                f"'{self.name}' points to '{model}' already: a model cannot challenge itself"
            )
        return replace(self, challenger=model, keep=self.keep if keep is None else keep)

    def promoted(self) -> Alias:
        """The alias to its challenger."""
        if self.challenger is None:
            raise Refused(
                f"'{self.name}' has no challenger to promote: upload one with --as challenger, or "
                "name one of its models: owpc-ltr models promote NAME-HASH"
            )
        return self.moved_to(self.challenger)

    def without(self, model: str) -> Alias:
        """The alias that cannot go back to this model. Raises Refused where it points to it."""
        for role, used in ((CHAMPION, self.current), (CHALLENGER, self.challenger)):
            if used == model:
                raise Refused(
                    f"'{self.name}' points to '{model}', its {role}: nothing that a name points to "
                    "is removed; promote another model first"
                )
        return replace(self, previous=tuple(each for each in self.previous if each != model))

    def model_of(self, role: str) -> str:
        """The model in a role. Raises UsageError or Refused where there is none."""
        if role not in ROLES:
            raise UsageError(f"no role is called '{role}': use {' or '.join(ROLES)}")
        model = self.current if role == CHAMPION else self.challenger
        if model is None:
            raise Refused(f"'{self.name}' has no challenger: upload one with --as challenger")
        return model
