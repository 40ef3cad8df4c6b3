"""The contract checks of export targets and click models: honest ones pass, each liar is caught."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.errors import BadInput, PluginError, Refused
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import content_of, model_of
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.plugin_checks import check_click_model, check_export
from owpc_ltr.plugin_checks.exports import sample_models
from owpc_ltr.protocols import ClickFit, ExportedFile, ExportTarget, Model
from owpc_ltr.text import check_name, parse_version


@dataclass(frozen=True)
class Honest:
    """An engine that takes model files as they are."""

    name: ClassVar[str] = "honest"
    versions: ClassVar[tuple[str, ...]] = ("1", "2.5")

    def export(
        self, model: Model, name: str, version: str, featureset: FeatureSet | None = None
    ) -> ExportedFile:
        check_name("model", name)
        parse_version(version)
        if not isinstance(model, LinearModel | TreeModel):
            raise Refused(f"no {model.kind} model can be written here")
        text = json.dumps({"name": name, **content_of(self.changed(model))})
        return ExportedFile(text, "model", "PUT /model", version)

    def changed(self, model: LinearModel | TreeModel) -> Model:
        return model

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        model = model_of(json.loads(exported.text), Path("model"))
        return model.score(features[:, [feature_names.index(n) for n in model.feature_names]])


class DropsTheLastTree(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        if isinstance(model, LinearModel) or len(model.forest.roots) == 1:
            return model
        forest = model.forest
        last = int(forest.roots[-1])
        parts = {key: part[:last] for key, part in vars(forest).items() if key != "roots"}
        kept = replace(forest, roots=forest.roots[:-1],
                       **{k: v for k, v in parts.items() if not k.startswith("_")})  # fmt: skip
        return replace(model, forest=kept)


class FlipsMissing(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        if isinstance(model, LinearModel):
            return model
        forest = model.forest
        flipped = ~forest.default_left & ~forest.is_leaf
        return replace(model, forest=replace(forest, default_left=flipped))


class RoundsWeights(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        if isinstance(model, TreeModel):
            return model
        return replace(model, weights=np.array([float(f"{w:.3g}") for w in model.weights]))


class IgnoresNormalisers(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        return model if isinstance(model, TreeModel) else replace(model, normalisers={})


class SortsFeatures(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        return replace(model, feature_names=tuple(sorted(model.feature_names)))


class LeavesOutTheLink(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        return model if isinstance(model, LinearModel) else replace(model, link="identity")


class SendsEqualsLeft(Honest):
    def changed(self, model: LinearModel | TreeModel) -> Model:
        if isinstance(model, LinearModel):
            return model
        forest = model.forest
        higher = np.nextafter(forest.threshold, np.float32(np.inf))
        return replace(model, forest=replace(forest, threshold=higher))


class TakesAllKinds(Honest):
    def export(self, model: Model, *rest: Any, **more: Any) -> ExportedFile:
        known = model if isinstance(model, LinearModel | TreeModel) else _any_linear(model)
        return super().export(known, *rest, **more)


def _any_linear(model: Model) -> LinearModel:
    return LinearModel(model.feature_names, np.ones(len(model.feature_names)))


class Restless(Honest):
    def export(self, *words: Any, **more: Any) -> ExportedFile:
        made = super().export(*words, **more)
        return replace(made, text=made.text + " " * int(np.random.default_rng().integers(1, 99)))


class TakesAllNames(Honest):
    def export(self, model: Model, name: str, *rest: Any, **more: Any) -> ExportedFile:
        return super().export(model, re.sub("[^a-z]", "", f"m{name}"), *rest, **more)


class TakesAllVersions(Honest):
    def export(self, model: Model, name: str, version: str, *rest: Any) -> ExportedFile:
        return super().export(model, name, "2.5", *rest)


class RefusesAll(Honest):
    def export(self, *words: Any, **more: Any) -> ExportedFile:
        raise Refused("not today")


class RefusesAtLength(Honest):
    def export(self, model: Model, *rest: Any, **more: Any) -> ExportedFile:
        if isinstance(model, TreeModel):
            raise Refused("trees are\nnot taken")
        return super().export(model, *rest, **more)


class BlamesTheUser(Honest):
    def export(self, model: Model, *rest: Any, **more: Any) -> ExportedFile:
        if isinstance(model, TreeModel):
            raise BadInput("trees are wrong")
        return super().export(model, *rest, **more)


class BlamesTheName(Honest):
    def export(self, model: Model, name: str, *rest: Any, **more: Any) -> ExportedFile:
        if "{" in name:
            raise Refused(f"{name!r} is no name")
        return super().export(model, name, *rest, **more)


class FillsTheFeatures(Honest):
    def scores(self, exported: ExportedFile, names: Sequence[str], features: Matrix) -> Vector:
        scores = super().scores(exported, names, features)
        features[np.isnan(features)] = 0
        return scores


class WrongShape(Honest):
    def scores(self, *words: Any) -> Vector:
        return super().scores(*words)[:, None]


class NoRequest(Honest):
    def export(self, *words: Any, **more: Any) -> ExportedFile:
        return replace(super().export(*words, **more), request="")


class SaysLogOdds(Honest):
    def export(self, *words: Any, **more: Any) -> ExportedFile:
        return replace(super().export(*words, **more), log_odds=True)


class ScoresNothing(Honest):
    def scores(self, *words: Any) -> Vector:
        return np.nan * super().scores(*words)


class NoVersions(Honest):
    versions: ClassVar[tuple[str, ...]] = ()


class OnlyTheFirstVersion(Honest):
    """Writes the last version's files wrong."""

    def export(self, model: Model, name: str, version: str, *rest: Any) -> ExportedFile:
        wrong = version == "2.5" and isinstance(model, LinearModel)
        known = replace(model, weights=-model.weights) if wrong else model  # type: ignore[type-var, attr-defined]
        return super().export(known, name, version, *rest)


LAST: list[Model] = []


class ScoresFromMemory(Honest):
    def export(self, model: Model, *rest: Any, **more: Any) -> ExportedFile:
        LAST.append(model)
        return replace(super().export(model, *rest, **more), text="as we said")

    def scores(self, exported: ExportedFile, names: Sequence[str], features: Matrix) -> Vector:
        known = [model for model in LAST if model.feature_names == tuple(names)]
        return known[-1].score(features)


def test_an_honest_target_passes() -> None:
    check_export(Honest())


def test_a_constant_a_query_is_free() -> None:
    @dataclass(frozen=True)
    class Shifted(Honest):
        def scores(self, *words: Any) -> Vector:
            return super().scores(*words) + 1.0

    check_export(Shifted())


@pytest.mark.parametrize(
    ("liar", "sentence"),
    [
        (DropsTheLastTree(), "trees .* scores a document"),
        (FlipsMissing(), "trees that send missing features .* scores a document"),
        (RoundsWeights(), "linear model .*scores a document"),
        (IgnoresNormalisers(), "with normalisers scores a document"),
        (SortsFeatures(), "scores a document"),
        (LeavesOutTheLink(), "logistic output scores a document"),
        (SendsEqualsLeft(), "trees .* scores a document"),
        (OnlyTheFirstVersion(), r"'honest' 2\.5 with a linear model scores"),
        (TakesAllKinds(), "wrote a model of an unknown kind"),
        (Restless(), "two files for one model"),
        (TakesAllNames(), "took the name '': call check_name"),
        (TakesAllVersions(), "took the version '', which no engine has"),
        (RefusesAll(), "none of the sample models"),
        (RefusesAtLength(), "write one line"),
        (BlamesTheUser(), "raised BadInput, not Refused"),
        (BlamesTheName(), "named '{a}' raised Refused, not UsageError"),
        (FillsTheFeatures(), "changed the features"),
        (WrongShape(), "shape"),
        (NoRequest(), "gave the request ''"),
        (SaysLogOdds(), "says log-odds, and the model scores no probabilities"),
        (ScoresNothing(), "gave scores that are not finite"),
        (NoVersions(), "knows no version"),
        (ScoresFromMemory(), "scores a document"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Honest) else None,
)
def test_each_liar_of_an_export_target_is_caught(liar: ExportTarget, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_export(liar)


def test_the_sample_models_hit_thresholds_miss_features_and_score_apart() -> None:
    for sample in sample_models():
        model, documents = sample.model, sample.documents
        assert np.isnan(documents).any(), sample.what
        scores = model.score(documents)
        if isinstance(model, TreeModel) and len(model.splits):
            forest = model.forest
            hit = forest.threshold[model.splits] == documents[:, forest.feature[model.splits]]
            assert hit.any(axis=0).all(), sample.what
        if sample.what != "a tree of one leaf":
            assert len(np.unique(scores)) > 5, sample.what


@dataclass(frozen=True)
class HonestClickModel:
    """Clicks by impressions, with a prior of five impressions."""

    name: ClassVar[str] = "honest"

    def fit(self, counts: ClickCounts) -> ClickFit:
        clicks, shown = counts.by_pair(counts.clicked), counts.by_pair(counts.shown)
        mean = (clicks.sum() + 0.5) / (shown.sum() + 1)
        prior = (float(5 * mean), float(5 * (1 - mean)))
        return ClickFit((clicks + 5 * mean) / (shown + 5), shown, np.ones(counts.n_ranks), prior)


class ChangesWhatItReads(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        counts.clicked[:] = 0
        return found


class Wavers(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, trials=found.trials * (1 + np.random.default_rng().random()))


class CountsRows(HonestClickModel):
    """Depends on the place of the rows, and not on that of events, which is not to be seen."""

    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        top = counts.clicked.copy()
        top[len(top) // 2 :] = 0
        return super().fit(replace(counts, clicked=top)) if counts.clicked.any() else found


class TooSure(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, attractiveness=np.sqrt(found.attractiveness))


class LikesTheUnseen(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        shown = found.trials > 0
        return replace(found, attractiveness=np.where(shown, found.attractiveness, 0.5),
                       trials=np.where(shown, found.trials, 9.0))  # fmt: skip


class NoClicksNoNumbers(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        nothing = np.full(counts.n_pairs, math.nan)
        return found if counts.clicked.any() else replace(found, attractiveness=nothing)


class MistrustsClicks(HonestClickModel):
    """Who was clicked more than once at one rank is taken for a fraud."""

    def fit(self, counts: ClickCounts) -> ClickFit:
        return super().fit(replace(counts, clicked=np.where(counts.clicked > 1, 0, counts.clicked)))


class Backwards(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        alpha, beta = found.prior
        missed = (found.trials + alpha + beta) * (1 - found.attractiveness)
        return replace(found, attractiveness=missed / (found.trials + alpha + beta),
                       prior=(beta, alpha))  # fmt: skip


class KnowsNothing(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        mean = found.prior[0] / sum(found.prior)
        return replace(found, attractiveness=np.full(counts.n_pairs, mean))


class NeverLearns(HonestClickModel):
    """In a long log every third document is as all are."""

    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        mean = found.prior[0] / sum(found.prior)
        as_all = (np.arange(counts.n_pairs) % 3 == 1) & bool(counts.shown.sum() > 50_000)
        return replace(found, attractiveness=np.where(as_all, mean, found.attractiveness))


class PredictsTwice(HonestClickModel):
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
class OfLists(HonestClickModel):
    """Honest counts, and another likelihood of lists."""

    kind: type[ClickFit] = ClickFit

    def fit(self, counts: ClickCounts) -> ClickFit:
        return self.kind(**vars(super().fit(counts)))


class NoProbability(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, attractiveness=2 * found.attractiveness)


class OneTooFew(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        found = super().fit(counts)
        return replace(found, attractiveness=found.attractiveness[1:])


class NoPrior(HonestClickModel):
    def fit(self, counts: ClickCounts) -> ClickFit:
        return replace(super().fit(counts), prior=(0.0, 0.0))


class NoFit(HonestClickModel):
    def fit(self, counts: ClickCounts) -> Any:
        return SimpleNamespace(**vars(super().fit(counts)))


class Breaks(HonestClickModel):
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
    [HonestClickModel(), OfLists()],
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
