"""The check of click models passes honest ones and catches each liar."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from owpc_ltr_clicks.models.coec import ClicksOverExpected
from owpc_ltr_clicks.models.dctr import DocumentClickThrough
from owpc_ltr_clicks.models.sdbn import SimplifiedDBN

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.errors import PluginError
from owpc_ltr.plugin_checks import check_click_model
from owpc_ltr.protocols import ClickFit


@dataclass(frozen=True)
class Honest:
    """Clicks by impressions, with a prior of five impressions."""

    name: ClassVar[str] = "honest"

    def fit(self, counts: ClickCounts) -> ClickFit:
        clicks, shown = counts.by_pair(counts.clicked), counts.by_pair(counts.shown)
        mean = (clicks.sum() + 0.5) / (shown.sum() + 1)
        prior = (float(5 * mean), float(5 * (1 - mean)))
        return ClickFit((clicks + 5 * mean) / (shown + 5), shown, np.ones(counts.n_ranks), prior)


class ChangesWhatItReads(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        counts.clicked[:] = 0
        return found


class Wavers(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, trials=found.trials * (1 + np.random.default_rng().random()))


class CountsRows(Honest):
    """Depends on the place of the rows, and not on that of events, which is not to be seen."""

    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        top = counts.clicked.copy()
        top[len(top) // 2 :] = 0
        return super().fit(replace(counts, clicked=top)) if counts.clicked.any() else found


class TooSure(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, attractiveness=np.sqrt(found.attractiveness))


class LikesTheUnseen(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        shown = found.trials > 0
        return replace(found, attractiveness=np.where(shown, found.attractiveness, 0.5),
                       trials=np.where(shown, found.trials, 9.0))  # fmt: skip


class NoClicksNoNumbers(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        nothing = np.full(counts.n_pairs, math.nan)
        return found if counts.clicked.any() else replace(found, attractiveness=nothing)


class MistrustsClicks(Honest):
    """Who was clicked more than once at one rank is taken for a fraud."""

    def fit(self, counts: ClickCounts) -> ClickFit:
        return super().fit(replace(counts, clicked=np.where(counts.clicked > 1, 0, counts.clicked)))


class Backwards(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        alpha, beta = found.prior
        missed = (found.trials + alpha + beta) * (1 - found.attractiveness)
        return replace(found, attractiveness=missed / (found.trials + alpha + beta),
                       prior=(beta, alpha))  # fmt: skip


class KnowsNothing(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        mean = found.prior[0] / sum(found.prior)
        return replace(found, attractiveness=np.full(counts.n_pairs, mean))


class NeverLearns(Honest):
    """In a long log every third document is as all are."""

    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        mean = found.prior[0] / sum(found.prior)
        as_all = (np.arange(counts.n_pairs) % 3 == 1) & bool(counts.shown.sum() > 50_000)
        return replace(found, attractiveness=np.where(as_all, mean, found.attractiveness))


class PredictsTwice(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, examination=found.examination / 2)


class PeeksFit(ClickFit):
    """Knows the click that it is asked for, and is almost sure of it."""

    def conditional_click_probability(self, lists: ClickLists) -> Vector:
        return np.where(lists.clicked, 0.9, 0.1)


class LooksAroundFit(ClickFit):
    """A click on any other result, above or below, makes one on this result likelier."""

    def conditional_click_probability(self, lists: ClickLists) -> Vector:
        others = np.bincount(lists.list, lists.clicked)[lists.list] - lists.clicked
        return np.where(others > 0, 0.5, 0.2)


class SurerThanSureFit(ClickFit):
    def conditional_click_probability(self, lists: ClickLists) -> Vector:
        return 2 + 0 * super().conditional_click_probability(lists)


class FailsOnListsFit(ClickFit):
    def conditional_click_probability(self, lists: ClickLists) -> Vector:
        raise IndexError("no such list")


@dataclass(frozen=True)
class OfLists(Honest):
    """Honest counts, and another likelihood of lists."""

    kind: type[ClickFit] = ClickFit

    def fit(self, counts: ClickCounts) -> ClickFit:
        return self.kind(**vars(super().fit(counts)))


class NoProbability(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, attractiveness=2 * found.attractiveness)


class OneTooFew(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, attractiveness=found.attractiveness[1:])


class NoPrior(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        return replace(super().fit(counts), prior=(0.0, 0.0))


class NoFit(Honest):
    def fit(self, counts: ClickCounts) -> Any:
        return SimpleNamespace(**vars(super().fit(counts)))


class Breaks(Honest):
    def fit(self, counts: ClickCounts) -> ClickFit:
        raise ZeroDivisionError("division by zero")


LIARS = [
    (ChangesWhatItReads(), "changed the clicked it read"),
    (Wavers(), "gave two answers"),
    (CountsRows(), "depends on the order of"),
    (TooSure(), "which the prior .* cannot give"),
    (LikesTheUnseen(), "to a pair that was never shown"),
    (NoClicksNoNumbers(), "no probability"),
    (MistrustsClicks(), "lowers a document"),
    (Backwards(), "lowers a document"),
    (KnowsNothing(), "unlike their true attractiveness"),
    (NeverLearns(), "learns nothing from more clicks"),
    (PredictsTwice(), "predicts"),
    (OfLists(PeeksFit), r"the 2 patterns of clicks on a list of 1 .* sum is 1\.8"),
    (OfLists(LooksAroundFit), "the 4 patterns of clicks on a list of 2"),
    (OfLists(SurerThanSureFit), "gave a conditional click probability that is no"),
    (OfLists(FailsOnListsFit), "failed: IndexError: no such list"),
    (NoProbability(), "no probability"),
    (OneTooFew(), "gave attractiveness of shape"),
    (NoPrior(), "whose two numbers must be above 0"),
    (NoFit(), "gave no ClickFit, but a SimpleNamespace"),
    (Breaks(), "failed: ZeroDivisionError: division by zero"),
]


@pytest.mark.parametrize(
    "model",
    [Honest(), OfLists(), DocumentClickThrough(), ClicksOverExpected(), SimplifiedDBN()],
    ids=str,
)
def test_an_honest_click_model_passes(model: Any) -> None:
    check_click_model(model)
    check_click_model(model, seed=1)


@pytest.mark.parametrize(
    ("liar", "words"), LIARS, ids=lambda one: getattr(one, "kind", type(one)).__name__
)
def test_each_liar_is_caught(liar: Any, words: str) -> None:
    with pytest.raises((AssertionError, PluginError), match=words) as caught:
        check_click_model(liar)
    assert "\n" not in str(caught.value)
