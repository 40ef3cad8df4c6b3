"""The contract of an export target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import ExportedFile, ExportTarget
from owpc_ltr.testing.model_samples import ModelSample, sample_linear, sample_models
from owpc_ltr.testing.promises import require

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
