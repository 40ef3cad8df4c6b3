"""The contract of an export target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import LEAF, Forest, TreeModel
from owpc_ltr.plugin_checks.samples import require
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model

_SINGLE = 1e-5
"""Of the largest score: sums in float32 come nearer, weights of few digits do not."""
_NAME = "checked"
_IMPOSSIBLE_NAMES = ("", "a/b", "../a", "a b", "a\nb", "a?b", '"a"', "{a}", "a,b", "*")
_HARD_FEATURES = ("a b", 'a"b', "a'b", "a\\b", "a\nb", "{{a}}", "{a}", "#a", "a}", "é", "1", "a:1")


def check_export(target: ExportTarget, seed: int = 0) -> None:
    """Check what an export target promises, for each of its `versions`, on linear models and trees.

    What is written, read back by `scores`, scores every document as the model does, up to a
    constant a query and to float32, whether or not the feature set is known; or the model is
    Refused, in one line. The same model gives the same text; the file alone decides the scores;
    features that are hard to name are written right or refused; so is a model of an unknown kind;
    names and versions that no engine has are refused. Raises AssertionError.
    """
    require(target.versions, f"target '{target.name}' knows no version")
    for version in target.versions:
        _check_scores(target, version, sample_models(seed))
        _check_unknown_kind(target, version)
        for feature in _HARD_FEATURES:
            _check_scores(target, version, [sample_linear((feature,))], may_refuse_all=True)
        for pair in (("a-b", "a_b"), ("a b", "a.b"), ("b", "a"), ("a", "A")):
            _check_scores(target, version, [sample_linear(pair)], may_refuse_all=True)
    _check_names(target)


def _check_scores(
    target: ExportTarget,
    version: str,
    samples: list[ModelSample],
    *,
    may_refuse_all: bool = False,
) -> None:
    written: list[tuple[ModelSample, ExportedFile]] = []
    for sample in samples:
        for featureset in (None, _featureset(sample.model.feature_names)):
            made = _export(target, sample, version, featureset)
            if made is not None:
                written.append((sample, made))
    require(
        written or may_refuse_all,
        f"target '{target.name}' {version} takes none of the sample models",
    )
    # All are written before the first is read back: no file is read from memory.
    for sample, made in written:
        _check_file(target, version, sample, made)


def _export(
    target: ExportTarget, sample: ModelSample, version: str, featureset: FeatureSet | None
) -> ExportedFile | None:
    """The file; None where the target refuses the model, or needs the feature set's queries."""
    where = f"target '{target.name}' {version} with {sample.what}"

    def export() -> ExportedFile:
        return target.export(sample.model, _NAME, version, featureset)

    made = _refusal(where, export, (Refused,) if featureset is not None else (Refused, UsageError))
    if made is not None:
        again = export()
        require(made == again, f"{where} wrote two files for one model: they differ")
        for what, text in (("type", made.type), ("request", made.request)):
            require(
                text and text.isprintable(), f"{where} gave the {what} {text!r}: write one line"
            )
    return made


def _check_file(
    target: ExportTarget, version: str, sample: ModelSample, made: ExportedFile
) -> None:
    where = f"target '{target.name}' {version} with {sample.what}"
    names = sample.model.feature_names
    wanted = sample.model.score(sample.documents)
    if made.log_odds:
        require(
            bool(((wanted > 0) & (wanted < 1)).all()),
            f"{where} says log-odds, and the model scores no probabilities",
        )
        wanted = np.log(wanted) - np.log1p(-wanted)
    scores = _scores(target, made, names, sample.documents)
    require(
        np.shape(scores) == wanted.shape,
        f"{where} gave scores of shape {np.shape(scores)} for {len(wanted)} documents",
    )
    require(np.isfinite(scores).all(), f"{where} gave scores that are not finite")
    differences = scores - wanted
    errors = np.abs(differences - np.median(differences))
    worst = int(errors.argmax())
    require(
        errors[worst] <= _SINGLE * np.abs(wanted).max(),
        f"{where} scores a document {scores[worst]}, the model {wanted[worst]}, and others are "
        f"apart by {np.median(differences)}; its features: {{}}",
        sample.documents[worst],
    )


def _scores(
    target: ExportTarget, made: ExportedFile, names: tuple[str, ...], documents: Matrix
) -> Vector:
    given = documents.copy()
    scores = target.scores(made, names, given)
    require(
        np.array_equal(given, documents, equal_nan=True),
        f"target '{target.name}' changed the features that it read",
    )
    return scores


def _check_unknown_kind(target: ExportTarget, version: str) -> None:
    where = f"target '{target.name}' {version} with a model of a kind that it cannot know"
    model = _Unheard(("title",))

    def export() -> ExportedFile:
        return target.export(model, _NAME, version, _featureset(model.feature_names))

    require(_refusal(where, export, (Refused,)) is None, f"{where} wrote a file: refuse it")


def _check_names(target: ExportTarget) -> None:
    version = target.versions[-1]
    sample = next(
        sample
        for sample in sample_models()
        if _export(target, sample, version, _featureset(sample.model.feature_names)) is not None
    )
    known = _featureset(sample.model.feature_names)
    for name in _IMPOSSIBLE_NAMES:
        where = f"target '{target.name}' with the name {name!r}"

        def export(name: str = name) -> ExportedFile:
            return target.export(sample.model, name, version, known)

        require(_refusal(where, export, (UsageError,)) is None, f"{where} wrote a file: refuse it")
    for other in ("", "new", "3,8", "-1", f"{version} or so"):
        where = f"target '{target.name}' with the version {other!r}"

        def export_for(other: str = other) -> ExportedFile:
            return target.export(sample.model, _NAME, other, known)

        require(
            _refusal(where, export_for, (UsageError,)) is None, f"{where} wrote a file: refuse it"
        )


def _refusal(
    where: str, export: Callable[[], ExportedFile], kinds: tuple[type[OwpcLtrError], ...]
) -> ExportedFile | None:
    """The file, or None where it is refused as it should be: by these errors, in one line."""
    try:
        return export()
    except OwpcLtrError as error:
        expected = " or ".join(kind.__name__ for kind in kinds)
        require(
            isinstance(error, kinds),
            f"{where} raised {type(error).__name__}, not {expected}: {error}",
        )
        require(
            str(error) and str(error).isprintable(),
            f"{where} was refused in the words {str(error)!r}: write one line",
        )
        return None


def _featureset(names: tuple[str, ...]) -> FeatureSet:
    """A match query for each, so that any may be missing."""
    features = (Feature(name, ("keywords",), {"match": {name: "{{keywords}}"}}) for name in names)
    return FeatureSet("checked-features", tuple(features))


@dataclass(frozen=True)
class _Unheard:
    """A model of a kind that was never heard of."""

    kind: ClassVar[str] = "unheard-of"
    feature_names: tuple[str, ...]
    record: dict[str, Any] = field(default_factory=dict)

    def score(self, features: Matrix) -> Vector:
        return LinearModel(self.feature_names, np.ones(1)).score(features) ** 3

    def as_dict(self) -> dict[str, Any]:
        return {}

    def save(self, path: Path | str) -> None:
        raise NotImplementedError(f"a model of no kind is not written to {path}")


NAMES = ("year", "body", "title", "popularity")
"""In no order of the alphabet, so that sorting them is seen."""
DOCUMENTS = 80


@dataclass(frozen=True)
class ModelSample:
    """A model, what is special about it, and one query's documents."""

    what: str
    model: Model
    documents: Matrix


def sample_models(seed: int = 0) -> list[ModelSample]:
    """Linear models and trees: of several features and of one, with and without missing ones."""
    return [*_linear_samples(seed), *_tree_samples(seed)]


def sample_linear(names: tuple[str, ...], seed: int = 0) -> ModelSample:
    """A linear model of these features."""
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
    ):
        yield ModelSample(what, LinearModel(NAMES, weights, normalised), _documents(rng, 4))
    single = LinearModel(("title",), np.array([-0.123456]))
    yield ModelSample("a linear model of one feature", single, _documents(rng, 1))


def _tree_samples(seed: int) -> Iterator[ModelSample]:
    rng = np.random.default_rng(seed)
    for missing in ("either way", "as 0", "right"):
        documents = _documents(rng, 4)
        forest = _forest(rng, documents, missing)
        what = f"trees that send missing features {missing}"
        yield ModelSample(what, TreeModel(NAMES, forest), documents)
        based = TreeModel(NAMES, forest, base=-0.37)
        yield ModelSample(f"{what}, with a base score", based, documents)
        logistic = TreeModel(NAMES, forest, base=0.2, link="logistic")
        yield ModelSample(f"{what}, with a logistic output", logistic, documents)
        documents = _documents(rng, 1)
        single = TreeModel(("title",), _forest(rng, documents, missing))
        yield ModelSample(f"{what}, of one feature", single, documents)
    leaf = _joined([_tree(rng, np.zeros((1, 4), np.float32), 0, "right")])
    yield ModelSample("a tree of one leaf", TreeModel(NAMES, leaf), _documents(rng, 4))


def _documents(rng: np.random.Generator, width: int) -> Matrix:
    """Values on a coarse grid, so that thresholds taken from them are hit; a fifth is missing."""
    documents = np.round(rng.normal(size=(DOCUMENTS, width)), 1).astype(np.float32)
    documents[rng.random(documents.shape) < 0.2] = np.nan
    documents[0], documents[1] = np.nan, 0.0
    return documents


def _forest(rng: np.random.Generator, documents: Matrix, missing: str) -> Forest:
    """Trees of several depths, a leaf first and the deepest last."""
    return _joined([_tree(rng, documents, depth, missing) for depth in (0, 1, 2, 3, 4)])


def _tree(rng: np.random.Generator, documents: Matrix, depth: int, missing: str) -> Forest:
    """A full tree, level by level: the children of node i are 2 i + 1 and 2 i + 2."""
    size, splits = 2 ** (depth + 1) - 1, 2**depth - 1
    inner = np.arange(size) < splits
    feature = np.where(inner, rng.integers(0, documents.shape[1], size), LEAF)
    drawn = documents[rng.integers(0, len(documents), size), feature]
    threshold = np.where(inner, np.nan_to_num(drawn), 0).astype(np.float32)
    default_left = {
        "either way": rng.random(size) < 0.5,
        "as 0": threshold > 0,
        "right": np.zeros(size, dtype=bool),
    }[missing]
    return Forest(
        np.zeros(1, dtype=np.int32),
        feature.astype(np.int32),
        threshold,
        np.where(inner, 2 * np.arange(size) + 1, 0).astype(np.int32),
        inner & default_left,
        np.where(inner, 0.0, rng.normal(size=size)).astype(np.float32).astype(np.float64),
    )


def _joined(trees: list[Forest]) -> Forest:
    sizes = [len(tree.feature) for tree in trees]
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return Forest(
        starts.astype(np.int32),
        np.concatenate([tree.feature for tree in trees]),
        np.concatenate([tree.threshold for tree in trees]),
        np.concatenate(
            [np.where(t.is_leaf, 0, t.left + s) for t, s in zip(trees, starts, strict=True)]
        ).astype(np.int32),
        np.concatenate([tree.default_left for tree in trees]),
        np.concatenate([tree.value for tree in trees]),
    )
