"""The contract of an export target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import LEAF, Forest, TreeModel
from owpc_ltr.plugin_checks.samples import Require, answer, requires
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model

_SINGLE = 1e-5
"""Of the largest score: sums in float32 come nearer, weights of few digits do not."""
_NAME = "checked"
_IMPOSSIBLE_NAMES = ("", "a/b", "../a", "a b", "a\nb", "a?b", '"a"', "{a}", "a,b", "*")
_IMPOSSIBLE_VERSIONS = ("", "new", "3,8", "-1", "1 or so")
_HARD_FEATURES = ("a b", 'a"b', "a'b", "a\\b", "a\nb", "{{a}}", "{a}", "#a", "a}", "é", "1", "a:1")
_HARD_PAIRS = (("a-b", "a_b"), ("a b", "a.b"), ("b", "a"), ("a", "A"))


def check_export(target: ExportTarget, seed: int = 0) -> None:
    """Check what an export target promises, for each of its `versions`, on linear models and trees.

    What is written, read back by `scores`, scores every document as the model does, up to a
    constant a query and to float32, whether or not the feature set is known; or the model is
    Refused, in one line. The same model gives the same text; the file alone decides the scores;
    features that are hard to name are written right or refused; so is a model of an unknown kind;
    names and versions that no engine has are refused. Raises AssertionError.
    """
    require = requires(f"target '{target.name}'")
    require(target.versions, "knows no version")
    hard = [_linear(names, seed) for names in (*((n,) for n in _HARD_FEATURES), *_HARD_PAIRS)]
    taken: list[Model] = []
    for version in target.versions:
        written = [
            (sample, made)
            for sample in (*sample_models(seed), *hard)
            for featureset in (None, _featureset(sample.model))
            if (made := _written(target, sample, version, featureset)) is not None
        ]
        taken = [sample.model for sample, _ in written if sample not in hard]
        require(taken, f"{version} takes none of the sample models")
        # All are written before the first is read back: no file is read from memory.
        for sample, made in written:
            _check_file(target, version, sample, made)
        unknown = _UnknownModel(("title",))
        _check_refused(target, f"{version} with a model of a kind that it cannot know", Refused,
                       unknown, _NAME, version, _featureset(unknown))  # fmt: skip
    last = target.versions[-1]
    for name in _IMPOSSIBLE_NAMES:
        _check_refused(target, f"with the name {name!r}", UsageError,
                       taken[0], name, last, _featureset(taken[0]))  # fmt: skip
    for version in _IMPOSSIBLE_VERSIONS:
        _check_refused(target, f"with the version {version!r}", UsageError,
                       taken[0], _NAME, version, _featureset(taken[0]))  # fmt: skip


def _written(
    target: ExportTarget, sample: ModelSample, version: str, featureset: FeatureSet | None
) -> ExportedFile | None:
    """The file; None where the target refuses the model, or needs the feature set's queries."""
    require = requires(f"target '{target.name}' {version} with {sample.what}")
    kinds = (Refused,) if featureset is not None else (Refused, UsageError)
    arguments = (sample.model, _NAME, version, featureset)
    made = _export(require, target, kinds, *arguments)
    if made is not None:
        require(made == target.export(*arguments), "wrote two files for one model: they differ")
        for what, text in (("type", made.type), ("request", made.request)):
            require(text and text.isprintable(), f"gave the {what} {text!r}: write one line")
    return made


def _export(
    require: Require, target: ExportTarget, kinds: tuple[type[OwpcLtrError], ...], *arguments: Any
) -> ExportedFile | None:
    """The file, or None where it is refused by an error of these kinds, in one line."""
    try:
        return target.export(*arguments)
    except OwpcLtrError as error:
        expected = " or ".join(kind.__name__ for kind in kinds)
        require(isinstance(error, kinds), f"raised {type(error).__name__}, not {expected}: {error}")
        text = str(error)
        require(text and text.isprintable(), f"was refused in the words {text!r}: write one line")
        return None


def _check_refused(
    target: ExportTarget, case: str, kind: type[OwpcLtrError], *arguments: Any
) -> None:
    require = requires(f"target '{target.name}' {case}")
    made = _export(require, target, (kind,), *arguments)
    require(made is None, "wrote a file: refuse it")


def _check_file(
    target: ExportTarget, version: str, sample: ModelSample, made: ExportedFile
) -> None:
    require = requires(f"target '{target.name}' {version} with {sample.what}")
    names, wanted = sample.model.feature_names, sample.model.score(sample.documents)
    if made.log_odds:
        require(
            ((wanted > 0) & (wanted < 1)).all(),
            "says log-odds, and the model scores no probabilities",
        )
        wanted = np.log(wanted) - np.log1p(-wanted)
    scores = answer(
        require, lambda features: target.scores(made, names, features), features=sample.documents
    )
    require(
        np.shape(scores) == wanted.shape,
        f"gave scores of shape {np.shape(scores)} for {len(wanted)} documents",
    )
    require(np.isfinite(scores).all(), "gave scores that are not finite")
    apart = np.median(scores - wanted)
    errors = np.abs(scores - wanted - apart)
    worst = int(errors.argmax())
    require(
        errors[worst] <= _SINGLE * np.abs(wanted).max(),
        f"scores a document {scores[worst]}, the model {wanted[worst]}, and others are "
        f"apart by {apart}; its features: {{}}",
        sample.documents[worst],
    )


def _featureset(model: Model) -> FeatureSet:
    """A match query for each feature, so that any may be missing."""
    features = (
        Feature(name, ("keywords",), {"match": {name: "{{keywords}}"}})
        for name in model.feature_names
    )
    return FeatureSet("checked-features", tuple(features))


@dataclass(frozen=True)
class _UnknownModel:
    kind: ClassVar[str] = "unheard-of"
    feature_names: tuple[str, ...]
    record: dict[str, Any] = field(default_factory=dict)

    def score(self, features: Matrix) -> Vector:
        return LinearModel(self.feature_names, np.ones(1)).score(features) ** 3

    def as_dict(self) -> dict[str, Any]:
        return {}

    def save(self, path: Path | str) -> None:
        raise NotImplementedError(f"a model of no kind is not written to {path}")


@dataclass(frozen=True, eq=False)
class ModelSample:
    """A model, what is special about it, and one query's documents."""

    what: str
    model: Model
    documents: Matrix


_NAMES = ("year", "body", "title", "popularity")
"""In no order of the alphabet, so that sorting them is seen."""


def sample_models(seed: int = 0) -> list[ModelSample]:
    """Linear models and trees: of several features and of one, with and without missing ones."""
    return [*_linear_samples(seed), *_tree_samples(seed)]


def _linear(names: tuple[str, ...], seed: int) -> ModelSample:
    rng = np.random.default_rng(seed)
    weights = rng.permutation(np.linspace(-1.7, 2.1, len(names) + 2)[: len(names)])
    return ModelSample("a linear model", LinearModel(names, weights), _documents(rng, len(names)))


def _linear_samples(seed: int) -> Iterator[ModelSample]:
    rng = np.random.default_rng(seed)
    normalisers = {
        "title": Normaliser("standard", 1.5, 2.0),
        "year": Normaliser("min_max", -1.0, 4.0),
        "body": Normaliser("min_max", 0.5, 0.7),
    }
    for what, weights, normalised in (
        ("a linear model", rng.normal(size=4), {}),
        ("a linear model with a weight of 0", np.array([0.0, 1.1, -0.3, 0.0]), {}),
        ("a linear model of negative weights", -rng.random(4), {}),
        ("a linear model of small weights", 1e-3 * rng.normal(size=4), {}),
        ("a linear model of large weights", 1e3 * rng.normal(size=4), {}),
        ("a linear model with normalisers", rng.normal(size=4), normalisers),
        ("a linear model of one feature", np.array([-0.123456]), {}),
    ):
        names = _NAMES if len(weights) == 4 else ("title",)
        model = LinearModel(names, weights, normalised)
        yield ModelSample(what, model, _documents(rng, len(names)))


def _tree_samples(seed: int) -> Iterator[ModelSample]:
    rng = np.random.default_rng(seed)
    for missing in ("either way", "as 0", "right"):
        what = f"trees that send missing features {missing}"
        for more, names, given in (
            ("", _NAMES, {}),
            (", with a base score", _NAMES, {"base": -0.37}),
            (", with a logistic output", _NAMES, {"base": 0.2, "link": "logistic"}),
            (", of one feature", ("title",), {}),
        ):
            documents = _documents(rng, len(names))
            model = TreeModel(names, _forest(rng, documents, missing, range(5)), **given)
            yield ModelSample(what + more, model, documents)
    documents = _documents(rng, 4)
    leaf = TreeModel(_NAMES, _forest(rng, documents, "right", range(1)))
    yield ModelSample("a tree of one leaf", leaf, documents)


def _documents(rng: np.random.Generator, width: int) -> Matrix:
    """Values on a coarse grid, so that thresholds taken from them are hit; a fifth is missing."""
    documents = np.round(rng.normal(size=(80, width)), 1).astype(np.float32)
    documents[rng.random(documents.shape) < 0.2] = np.nan
    documents[0], documents[1] = np.nan, 0.0
    return documents


def _forest(rng: np.random.Generator, documents: Matrix, missing: str, depths: range) -> Forest:
    """Full trees, level by level: the children of a tree's node i are 2 i + 1 and 2 i + 2."""
    sizes = [2 ** (depth + 1) - 1 for depth in depths]
    node = np.concatenate([np.arange(size) for size in sizes])
    size = np.repeat(sizes, sizes)
    root = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    inner = node < size // 2
    feature = np.where(inner, rng.integers(0, documents.shape[1], len(node)), LEAF)
    drawn = documents[rng.integers(0, len(documents), len(node)), feature]
    threshold = np.where(inner, np.nan_to_num(drawn), 0).astype(np.float32)
    left = {
        "either way": rng.random(len(node)) < 0.5,
        "as 0": threshold > 0,
        "right": np.zeros(len(node), bool),
    }
    return Forest(
        np.unique(root).astype(np.int32),
        feature.astype(np.int32),
        threshold,
        np.where(inner, root + 2 * node + 1, 0).astype(np.int32),
        inner & left[missing],
        np.where(inner, 0.0, rng.normal(size=len(node))).astype(np.float32).astype(np.float64),
    )
