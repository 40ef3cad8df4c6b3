"""The contract checks of export targets and click models: honest ones pass, each liar is caught."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
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
from owpc_ltr.names import check_name
from owpc_ltr.plugin_checks import check_click_model, check_export
from owpc_ltr.plugin_checks.exports import sample_models
from owpc_ltr.protocols import ClickFit, ExportedFile, ExportTarget, Model
from owpc_ltr.version import parse_version
from tests.liars import lying, lying_class, named


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


def of_trees(name: str, change: Callable[[TreeModel], Model]) -> ExportTarget:
    """A liar that writes another forest."""

    def changed(_: Model, model: Model) -> Model:
        return change(model) if isinstance(model, TreeModel) else model

    return lying(Honest, name, changed=changed)  # type: ignore[no-any-return]


def of_weights(name: str, change: Callable[[LinearModel], Model]) -> ExportTarget:
    """A liar that writes another linear model."""

    def changed(_: Model, model: Model) -> Model:
        return change(model) if isinstance(model, LinearModel) else model

    return lying(Honest, name, changed=changed)  # type: ignore[no-any-return]


def without_the_last_tree(model: TreeModel) -> Model:
    forest = model.forest
    if len(forest.roots) == 1:
        return model
    last = int(forest.roots[-1])
    parts = {key: part[:last] for key, part in vars(forest).items() if key[0] not in "r_"}
    return replace(model, forest=replace(forest, roots=forest.roots[:-1], **parts))


def missing_flipped(model: TreeModel) -> Model:
    flipped = ~model.forest.default_left & ~model.forest.is_leaf
    return replace(model, forest=replace(model.forest, default_left=flipped))


def equals_left(model: TreeModel) -> Model:
    higher = np.nextafter(model.forest.threshold, np.float32(np.inf))
    return replace(model, forest=replace(model.forest, threshold=higher))


def rounded(model: LinearModel) -> Model:
    return replace(model, weights=np.array([float(f"{w:.3g}") for w in model.weights]))


@dataclass(frozen=True)
class Twisting(Honest):
    """A liar that is asked for another model, name or version, or that refuses."""

    twist: Callable[[Model, str, str], tuple[Model, str, str]] = lambda *asked: asked

    def export(self, model: Model, name: str, version: str, *rest: Any) -> ExportedFile:
        return super().export(*self.twist(model, name, version), *rest)


def any_kind(model: Model, name: str, version: str) -> tuple[Model, str, str]:
    known = isinstance(model, LinearModel | TreeModel)
    other = LinearModel(model.feature_names, np.ones(len(model.feature_names)))
    return (model if known else other), name, version


def last_version_wrong(model: Model, name: str, version: str) -> tuple[Model, str, str]:
    wrong = version == "2.5" and isinstance(model, LinearModel)
    return (replace(model, weights=-model.weights) if wrong else model), name, version  # type: ignore[type-var, attr-defined]


def refusing(error: Exception, kind: type[Any] = TreeModel) -> Twisting:
    def twist(model: Model, name: str, version: str) -> tuple[Model, str, str]:
        if isinstance(model, kind):
            raise error
        return model, name, version

    return Twisting(twist)


def no_braces(model: Model, name: str, version: str) -> tuple[Model, str, str]:
    if "{" in name:
        raise Refused(f"{name!r} is not a name")
    return model, name, version


def writing(name: str, **changed: Any) -> ExportTarget:
    """A liar whose file says another thing of itself."""
    return lying(Honest, name, export=lambda made, *_, **__: replace(made, **changed))  # type: ignore[no-any-return]


def restless(made: ExportedFile, *_: Any, **__: Any) -> ExportedFile:
    return replace(made, text=made.text + " " * int(np.random.default_rng().integers(1, 99)))


def fills(scores: Vector, _exported: ExportedFile, _names: Any, features: Matrix) -> Vector:
    features[np.isnan(features)] = 0
    return scores


@dataclass(frozen=True)
class ScoresFromMemory(Honest):
    last: ClassVar[list[Model]] = []

    def export(self, model: Model, *rest: Any, **more: Any) -> ExportedFile:
        self.last.append(model)
        return replace(super().export(model, *rest, **more), text="as we said")

    def scores(self, exported: ExportedFile, names: Sequence[str], features: Matrix) -> Vector:
        known = [model for model in self.last if model.feature_names == tuple(names)]
        return known[-1].score(features)


def test_an_honest_target_passes() -> None:
    check_export(Honest())


def test_a_constant_a_query_is_free() -> None:
    check_export(lying(Honest, "Shifted", scores=lambda scores, *_: scores + 1.0))


TARGETS = [
    (of_trees("DropsTheLastTree", without_the_last_tree), "trees .* scores a document"),
    (of_trees("FlipsMissing", missing_flipped),
     "trees that send missing features .* scores a document"),
    (of_trees("SendsEqualsLeft", equals_left), "trees .* scores a document"),
    (of_trees("LeavesOutTheLink", lambda model: replace(model, link="identity")),
     "logistic output scores a document"),
    (of_weights("RoundsWeights", rounded), "linear model .*scores a document"),
    (of_weights("IgnoresNormalisers", lambda model: replace(model, normalisers={})),
     "with normalisers scores a document"),
    (lying(Honest, "SortsFeatures", changed=lambda model, _: replace(
        model, feature_names=tuple(sorted(model.feature_names)))), "scores a document"),
    (Twisting(last_version_wrong), r"'honest' 2\.5 with a linear model scores"),
    (Twisting(any_kind), "wrote a model of an unknown kind"),
    (Twisting(lambda model, name, version: (model, re.sub("[^a-z]", "", f"m{name}"), version)),
     "took the name '': call check_name"),
    (Twisting(lambda model, name, _: (model, name, "2.5")),
     "took the version '', which no engine has"),
    (Twisting(no_braces), "named '{a}' raised Refused, not UsageError"),
    (refusing(Refused("not today"), object), "none of the sample models"),
    (refusing(Refused("trees are\nnot taken")), "write one line"),
    (refusing(BadInput("trees are wrong")), "raised BadInput, not Refused"),
    (lying(Honest, "Restless", export=restless), "two files for one model"),
    (lying(Honest, "FillsTheFeatures", scores=fills), "changed the features"),
    (lying(Honest, "WrongShape", scores=lambda scores, *_: scores[:, None]), "shape"),
    (lying(Honest, "ScoresNothing", scores=lambda scores, *_: np.nan * scores),
     "gave scores that are not finite"),
    (writing("NoRequest", request=""), "gave the request ''"),
    (writing("SaysLogOdds", log_odds=True),
     "says log-odds, and the model scores no probabilities"),
    (lying(Honest, "NoVersions", versions=()), "knows no version"),
    (ScoresFromMemory(), "scores a document"),
]  # fmt: skip


@pytest.mark.parametrize(("liar", "sentence"), TARGETS, ids=named)
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


def changes_what_it_reads(fit: ClickFit, counts: ClickCounts) -> ClickFit:
    counts.clicked[:] = 0
    return fit


def likes_the_unseen(fit: ClickFit, _counts: ClickCounts) -> ClickFit:
    shown = fit.trials > 0
    return replace(fit, attractiveness=np.where(shown, fit.attractiveness, 0.5),
                   trials=np.where(shown, fit.trials, 9.0))  # fmt: skip


def counts_rows(fit: ClickFit, counts: ClickCounts) -> ClickFit:
    """Depends on the place of the rows, and not on that of events, which is not to be seen."""
    top = counts.clicked.copy()
    top[len(top) // 2 :] = 0
    honest = HonestClickModel()
    return honest.fit(replace(counts, clicked=top)) if counts.clicked.any() else fit


def mistrusts_clicks(_found: ClickFit, counts: ClickCounts) -> ClickFit:
    """Who was clicked more than once at one rank is taken for a fraud."""
    few = np.where(counts.clicked > 1, 0, counts.clicked)
    return HonestClickModel().fit(replace(counts, clicked=few))


def backwards(fit: ClickFit, _counts: ClickCounts) -> ClickFit:
    return replace(fit, attractiveness=1 - fit.attractiveness, prior=fit.prior[::-1])


def of_all(fit: ClickFit) -> float:
    return fit.prior[0] / sum(fit.prior)


def never_learns(fit: ClickFit, counts: ClickCounts) -> ClickFit:
    """In a long log every third document is as all are."""
    as_all = (np.arange(counts.n_pairs) % 3 == 1) & bool(counts.shown.sum() > 50_000)
    return replace(fit, attractiveness=np.where(as_all, of_all(fit), fit.attractiveness))


def fails(_: ClickFit, __: ClickCounts) -> ClickFit:
    raise ZeroDivisionError("division by zero")


def fitting(name: str, fit: Callable[[ClickFit, ClickCounts], Any]) -> Any:
    """A liar that makes another fit of the honest one."""
    return lying(HonestClickModel, name, fit=fit)


def attracted(name: str, change: Callable[[ClickFit, ClickCounts], Any]) -> Any:
    """A liar that makes another attractiveness of the honest one."""
    return fitting(name, lambda fit, counts: replace(fit, attractiveness=change(fit, counts)))


def of_lists(name: str, conditional: Callable[[Vector, ClickLists], Vector] | None = None) -> Any:
    """Honest counts, and another likelihood of lists."""
    members = {"conditional_click_probability": conditional} if conditional else {}
    kind = lying_class(ClickFit, name, **members)
    return fitting(name, lambda fit, _: kind(**vars(fit)))


def looks_around(_told: Vector, lists: ClickLists) -> Vector:
    """A click on any other result, above or below, makes one on this result likelier."""
    others = np.bincount(lists.list, lists.clicked)[lists.list] - lists.clicked
    return np.where(others > 0, 0.5, 0.2)


def fails_on_lists(_: Vector, __: ClickLists) -> Vector:
    raise IndexError("no such list")


LIARS = [
    (fitting("ChangesWhatItReads", changes_what_it_reads), "changed the clicked it read"),
    (fitting("Wavers", lambda fit, _: replace(
        fit, trials=fit.trials * (1 + np.random.default_rng().random()))), "gave two answers"),
    (fitting("CountsRows", counts_rows), "depends on the order of"),
    (attracted("TooSure", lambda fit, _: np.sqrt(fit.attractiveness)),
     "which the prior .* cannot give"),
    (fitting("LikesTheUnseen", likes_the_unseen), "to a pair that was never shown"),
    (attracted("NoClicksNoNumbers", lambda fit, counts: np.where(
        counts.clicked.any(), fit.attractiveness, math.nan)), "not a probability"),
    (fitting("MistrustsClicks", mistrusts_clicks), "lowers a document"),
    (fitting("Backwards", backwards), "lowers a document"),
    (attracted("KnowsNothing", lambda fit, counts: np.full(counts.n_pairs, of_all(fit))),
     "unlike their true attractiveness"),
    (fitting("NeverLearns", never_learns), "learns nothing from more clicks"),
    (fitting("PredictsTwice", lambda fit, _: replace(fit, examination=fit.examination / 2)),
     "predicts"),
    # It knows the click that it is asked for, and is almost sure of it.
    (of_lists("Peeks", lambda _, lists: np.where(lists.clicked, 0.9, 0.1)),
     r"the 2 patterns of clicks on a list of 1 .* sum is 1\.8"),
    (of_lists("LooksAround", looks_around), "the 4 patterns of clicks on a list of 2"),
    (of_lists("SurerThanSure", lambda likelihoods, _: 2 + 0 * likelihoods),
     "gave a conditional click probability that is no"),
    (of_lists("FailsOnLists", fails_on_lists), "failed: IndexError: no such list"),
    (attracted("NoProbability", lambda fit, _: 2 * fit.attractiveness), "not a probability"),
    (attracted("OneTooFew", lambda fit, _: fit.attractiveness[1:]),
     "gave attractiveness of shape"),
    (fitting("NoPrior", lambda fit, _: replace(fit, prior=(0.0, 0.0))),
     "whose two numbers must be above 0"),
    (fitting("NoFit", lambda fit, _: SimpleNamespace(**vars(fit))),
     "gave no ClickFit, but a SimpleNamespace"),
    (fitting("Breaks", fails), "failed: ZeroDivisionError: division by zero"),
]  # fmt: skip


@pytest.mark.parametrize(
    "model",
    [HonestClickModel(), of_lists("OfLists")],
    ids=str,
)
def test_an_honest_click_model_passes(model: Any) -> None:
    check_click_model(model)
    check_click_model(model, seed=1)


@pytest.mark.parametrize(("liar", "words"), LIARS, ids=named)
def test_each_liar_is_caught(liar: Any, words: str) -> None:
    with pytest.raises((AssertionError, PluginError), match=words) as caught:
        check_click_model(liar)
    assert "\n" not in str(caught.value)
