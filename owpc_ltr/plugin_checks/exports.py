"""The contract of an export target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.trees import LEAF, Forest, TreeModel
from owpc_ltr.plugin_checks.promises import Require
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model

_SINGLE = 1e-5
"""Of the largest score: sums in float32 come nearer, weights of few digits do not."""
_IMPOSSIBLE_NAMES = ("", "a/b", "../a", "a b", "a\nb", "a?b", '"a"', "{a}", "a,b", "*")
_IMPOSSIBLE_VERSIONS = ("", "new", "3,8", "-1", "1 or so")
_HARD_FEATURES = ("a b", 'a"b', "a'b", "a\\b", "a\nb", "{{a}}", "{a}", "#a", "a}", "é", "1", "a:1")
_HARD_PAIRS = (("a-b", "a_b"), ("a b", "a.b"), ("b", "a"), ("a", "A"))
_OF_NO_KIND = cast(
    "Model", SimpleNamespace(kind="unheard-of", feature_names=("title",), record={}, as_dict=dict)
)


def check_export(target: ExportTarget, seed: int = 0) -> None:
    """Check what an export target promises, for each of its `versions`, on linear models and trees.

    What is written, read back by `scores`, scores every document as the model does, up to a
    constant a query and to float32, whether or not the feature set is known; or the model is
    Refused, in one line. The same model gives the same text; the file alone decides the scores;
    features that are hard to name are written right or refused; so is a model of an unknown kind;
    names and versions that no engine has are refused. Raises AssertionError.
    """
    require = Require("export-target", target)
    require(target.versions, "knows no version")
    samples = sample_models(seed)
    hard = [_linear(names, seed) for names in (*((n,) for n in _HARD_FEATURES), *_HARD_PAIRS)]
    unknown = ModelSample("a model of an unknown kind", _OF_NO_KIND, np.zeros((0, 1), np.float32))
    for version in target.versions:
        written = [
            (sample, exported)
            for sample in (*samples, *hard)
            for known in (False, True)
            if (exported := _written(target, sample, version, known)) is not None
        ]
        taken = [sample for sample, _ in written if sample in samples]
        require(taken, f"{version} takes none of the sample models")
        # All are written before the first is read back: no file is read from memory.
        for sample, exported in written:
            _check_file(target, version, sample, exported)
        require(_written(target, unknown, version) is None, f"{version} wrote {unknown.what}")
    for name in _IMPOSSIBLE_NAMES:
        exported = _written(target, taken[0], target.versions[-1], name=name, kinds=(UsageError,))
        require(exported is None, f"took the name {name!r}: call check_name")
    for version in _IMPOSSIBLE_VERSIONS:
        exported = _written(target, taken[0], version, kinds=(UsageError,))
        require(exported is None, f"took the version {version!r}, which no engine has")


def _written(
    target: ExportTarget,
    sample: ModelSample,
    version: str,
    known: bool = True,
    name: str = "checked",
    kinds: tuple[type[OwpcLtrError], ...] = (Refused,),
) -> ExportedFile | None:
    """The file, or None where the model is refused by an error of these kinds, in one line.

    The feature set is not `known`: its queries may be needed, which is an error of usage.
    """
    require = Require("export-target", target, f"{version} with {sample.what} named {name!r}")
    arguments = (sample.model, name, version, _featureset(sample.model) if known else None)
    kinds = kinds if known else (*kinds, UsageError)
    try:
        result = target.export(*arguments)
    except OwpcLtrError as error:
        expected = " or ".join(kind.__name__ for kind in kinds)
        require(isinstance(error, kinds), f"raised {type(error).__name__}, not {expected}: {error}")
        exported, lines = None, {"refusal": str(error)}
    else:
        kind = type(result).__name__
        require(isinstance(result, ExportedFile), f"returned a {kind}: return an ExportedFile")
        require(result == target.export(*arguments), "wrote two files for one model: they differ")
        exported, lines = result, {"type": result.type, "request": result.request}
    for what, text in lines.items():
        require(text and text.isprintable(), f"gave the {what} {text!r}: write one line")
    return exported


def _check_file(
    target: ExportTarget, version: str, sample: ModelSample, exported: ExportedFile
) -> None:
    require = Require("export-target", target, f"{version} with {sample.what}")
    names, model_scores = sample.model.feature_names, sample.model.score(sample.documents)
    if exported.log_odds:
        probable = ((model_scores > 0) & (model_scores < 1)).all()
        require(probable, "says log-odds, and the model scores no probabilities")
        model_scores = np.log(model_scores) - np.log1p(-model_scores)
    read_back = partial(target.scores, exported, names)
    scores = require.answer(read_back, {"features": sample.documents}, model_scores.shape)
    require.finite(scores, "scores")
    apart = np.median(scores - model_scores)
    largest = np.abs(model_scores).max()
    what = f"scores a document otherwise than the model, beside {apart:g} for all"
    require.equal(scores - apart, model_scores, what, rtol=0, atol=_SINGLE * largest)


def _featureset(model: Model) -> FeatureSet:
    """A match query for each feature, so that any may be missing."""
    features = (
        Feature(name, ("keywords",), {"match": {name: "{{keywords}}"}})
        for name in model.feature_names
    )
    return FeatureSet("checked-features", tuple(features))


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
    rng = np.random.default_rng(seed)
    normalisers = {
        "title": Normaliser("standard", 1.5, 2.0),
        "year": Normaliser("min_max", -1.0, 4.0),
        "body": Normaliser("min_max", 0.5, 0.7),
    }
    models: list[tuple[str, Model, Matrix]] = []
    for what, weights, normalised in (
        ("", rng.normal(size=4), {}),
        (" with a weight of 0", np.array([0.0, 1.1, -0.3, 0.0]), {}),
        (" of negative weights", -rng.random(4), {}),
        (" of small weights", 1e-3 * rng.normal(size=4), {}),
        (" of large weights", 1e3 * rng.normal(size=4), {}),
        (" with normalisers", rng.normal(size=4), normalisers),
        (" of one feature", np.array([-0.123456]), {}),
    ):
        linear = LinearModel(_NAMES[-len(weights) :], weights, normalised)
        models.append((f"a linear model{what}", linear, _documents(rng, len(weights))))
    for missing, (what, names, options) in product(("either way", "as 0", "right"), _TREES):
        documents = _documents(rng, len(names))
        trees = TreeModel(names, _forest(rng, documents, missing, range(5)), **options)
        models.append((f"trees that send missing features {missing}{what}", trees, documents))
    documents = _documents(rng, 4)
    leaf = TreeModel(_NAMES, _forest(rng, documents, "right", range(1)))
    return [ModelSample(*each) for each in (*models, ("a tree of one leaf", leaf, documents))]


def _linear(names: tuple[str, ...], seed: int) -> ModelSample:
    rng = np.random.default_rng(seed)
    weights = rng.permutation(np.linspace(-1.7, 2.1, len(names) + 2)[: len(names)])
    return ModelSample("a linear model", LinearModel(names, weights), _documents(rng, len(names)))


_TREES: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("", _NAMES, {}),
    (", with a base score", _NAMES, {"base": -0.37}),
    (", with a logistic output", _NAMES, {"base": 0.2, "link": "logistic"}),
    (", of one feature", ("title",), {}),
)


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
    left: dict[str, Any] = {
        "either way": rng.random(len(node)) < 0.5,
        "as 0": threshold > 0,
        "right": False,
    }
    return Forest(
        roots=np.unique(root).astype(np.int32),
        feature=feature.astype(np.int32),
        threshold=threshold,
        left=np.where(inner, root + 2 * node + 1, 0).astype(np.int32),
        default_left=inner & left[missing],
        value=np.where(inner, 0.0, rng.normal(size=len(node))).astype(np.float32).astype(float),
    )
