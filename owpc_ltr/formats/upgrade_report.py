"""What an upgrade of the engine would do to a model's rankings, before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.measurement import measure
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.query_analysis import ScoreKind, always_matches, score_kind
from owpc_ltr.files.input import read_text
from owpc_ltr.files.strict_json import parse_json
from owpc_ltr.formats.engine_versions import XGBOOST, MissingRule, ServingProfile, serving_profile
from owpc_ltr.formats.ltr_plugin import Scores, emulate, plugin_definition, rejection_reason
from owpc_ltr.formats.model_conversion import export_linear, for_engine
from owpc_ltr.formats.stored_model import StoredModel, read_model
from owpc_ltr.formats.xgboost_json import to_dump
from owpc_ltr.metrics import parse_metric
from owpc_ltr.metrics.ranking import pair_agreement
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import FORMAT, dataset_of, model_of
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model
from owpc_ltr.text import ShortRepr


@dataclass(frozen=True, repr=False)
class UpgradeEffect(ShortRepr):
    """How a model's scores and orders differ between two versions, on the same documents.

    `refused` says why the new version would not take the model (the rest is then as before).
    Kendall's tau-b is over the queries in which both versions order something; `reordered` counts
    queries in which a pair of documents changes its order, or is tied in only one of them.
    `bm25_factor` is what the values of `bm25_features` were multiplied by. `bm25_mixed` are sums
    of text scores and others, which move by no factor, and `bm25_unsure` features that may be
    either; both were left as they were.
    """

    queries: int
    documents: int
    rescored: int
    reordered: int
    mean_tau: float
    lowest_tau: float
    largest_difference: float
    missing_values: int
    bm25_factor: float
    bm25_features: tuple[str, ...]
    bm25_mixed: tuple[str, ...]
    bm25_unsure: tuple[str, ...]
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The effect as JSON."""
        return asdict(self)


def upgrade_effect(
    stored: StoredModel,
    features: Matrix,
    before: ServingProfile,
    after: ServingProfile,
    offsets: Sequence[int] | NDArray[np.int64] | None = None,
) -> UpgradeEffect:
    """Score the documents as both versions would, and compare.

    `features` were logged on the old version, NaN where missing; `offsets` cut them into queries
    (one query if absent). Text scores are rescaled where BM25 changed between the versions.
    Raises BadInput where the old version would refuse the model.
    """
    cuts = np.asarray([0, len(features)] if offsets is None else offsets, dtype=np.int64)
    factor = after.bm25_factor / before.bm25_factor
    moved, mixed, unsure = (
        _of_kind(stored, kind) if factor != 1 else ()
        for kind in (ScoreKind.text, ScoreKind.mixed, ScoreKind.unknown)
    )
    old, new = (s.astype(np.float64) for s in scores_around(stored, features, before, after))
    agreements = [
        pair_agreement(old[first:last], new[first:last]) for first, last in pairwise(cuts.tolist())
    ]
    taus = np.array([queries.tau for queries in agreements if queries.tau is not None])
    difference = np.abs(new - old)
    return UpgradeEffect(
        queries=len(cuts) - 1,
        documents=len(features),
        rescored=int((difference > 0).sum()),
        reordered=sum(queries.swapped + queries.ties_broken > 0 for queries in agreements),
        mean_tau=float(taus.mean()) if len(taus) else 1.0,
        lowest_tau=float(taus.min(initial=1.0)),
        largest_difference=float(difference.max(initial=0.0)),
        missing_values=int(np.isnan(features).sum()),
        bm25_factor=factor,
        bm25_features=moved,
        bm25_mixed=mixed,
        bm25_unsure=unsure,
        refused=rejection_reason(stored, after),
    )


def scores_around(
    stored: StoredModel, features: Matrix, before: ServingProfile, after: ServingProfile
) -> tuple[Scores, Scores]:
    """The scores of both versions; the same ones twice where the new version refuses the model."""
    names = stored.featureset.feature_names
    old = emulate(stored, features, before)
    if rejection_reason(stored, after):
        return old, old
    factor = after.bm25_factor / before.bm25_factor
    changed = np.array(features, dtype=np.float32)
    if factor != 1:
        texts = _of_kind(stored, ScoreKind.text)
        changed[:, [names.index(name) for name in texts]] *= np.float32(factor)
    return old, emulate(stored, changed, after)


def _of_kind(stored: StoredModel, kind: ScoreKind) -> tuple[str, ...]:
    """The features of the model's set whose scores are of this kind."""
    return tuple(f.name for f in stored.featureset.features if score_kind(f) is kind)


METRIC = "ndcg@10"
_MEANING: dict[MissingRule, str] = {
    "zero": "as 0 would",
    "right": "always right",
    "default": "as each split says",
}


@dataclass(frozen=True)
class Deployed:
    """A model as it lies, or would lie, in the engine.

    `model` is ours, if the file was; `inexact` says why the old engine does not score as it does.
    """

    stored: StoredModel
    model: Model | None = None
    inexact: str | None = None


@dataclass(frozen=True, repr=False)
class UpgradeReport(ShortRepr):
    """The effect of an upgrade; NDCG@10 in both versions, and as the model was trained.

    `model` and `data` are what they are called, for the text.
    """

    before: ServingProfile
    after: ServingProfile
    model_type: str
    effect: UpgradeEffect
    ndcg_before: float
    ndcg_after: float
    ndcg_trained: float | None
    inexact: str | None
    model: str = "the model"
    data: str = "the data"

    @property
    def changes_rankings(self) -> bool:
        """Whether a query's order changes, or the new version does not take the model at all."""
        return self.effect.reordered > 0 or self.effect.refused is not None

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "model": self.model,
            "data": self.data,
            "from": str(self.before),
            "to": str(self.after),
            "model_type": self.model_type,
            **self.effect.as_dict(),
            METRIC: {
                "before": self.ndcg_before,
                "after": self.ndcg_after,
                "as_trained": self.ndcg_trained,
            },
            "inexact_before": self.inexact,
            "changes_rankings": self.changes_rankings,
        }

    def __str__(self) -> str:
        queries = f"{self.effect.queries} queries of {self.data}"
        first = f"{self.model} on {queries}, from {self.before} to {self.after}:"
        return "\n".join([first, *(f"- {sentence}" for sentence in self.sentences())])

    @property
    def refusal(self) -> Refused | None:
        """The error with which the command ends, where rankings change."""
        if not self.changes_rankings:
            return None
        return Refused(
            f"the upgrade from {self.before} to {self.after} changes rankings: train and upload "
            f"for {self.after}, and measure it, before you upgrade"
        )

    def sentences(self) -> list[str]:
        """The report for people, one sentence a line."""
        if self.effect.refused:
            return [f"{self.after} does not take the model: {self.effect.refused}"]
        lines = [*self._why(), self._orders(), self._quality()]
        if self.inexact:
            lines.insert(0, f"{self.before} does not score as trained: {self.inexact}")
        return lines

    def _why(self) -> list[str]:
        effect, lines = self.effect, []
        old, new = (p.missing[self.model_type] for p in (self.before, self.after))
        if old != new:
            lines.append(
                f"a missing feature went {_MEANING[old]} and goes {_MEANING[new]}; the data has "
                f"{effect.missing_values:,} missing values"
            )
        if effect.bm25_features:
            lines.append(
                f"text scores are {effect.bm25_factor:.4g} times what they were: "
                f"{_listed(effect.bm25_features)}"
            )
        if effect.bm25_mixed:
            lines.append(
                "these move too, but not by a factor, for they add constants to text scores: "
                f"{_listed(effect.bm25_mixed)}; log them on {self.after} and train again"
            )
        if effect.bm25_unsure:
            lines.append(
                f"text scores change {effect.bm25_factor:.4g}-fold, and whether these features "
                f"are such cannot be judged: {_listed(effect.bm25_unsure)}; log them on "
                f"{self.after} and train again"
            )
        return lines

    def _orders(self) -> str:
        effect = self.effect
        if not effect.rescored:
            apart = "as long as these do not matter, " * bool(
                effect.bm25_mixed + effect.bm25_unsure
            )
            return f"{apart}no score of {effect.documents:,} documents changes, and no order"
        return (
            f"{effect.rescored:,} of {effect.documents:,} documents get another score (by up to "
            f"{effect.largest_difference:.3g}); {effect.reordered:,} of {effect.queries:,} queries "
            f"get another order (Kendall's tau: mean {effect.mean_tau:.3f}, lowest "
            f"{effect.lowest_tau:.3f})"
        )

    def _quality(self) -> str:
        trained = "" if self.ndcg_trained is None else f"; as trained: {self.ndcg_trained:.4f}"
        return f"{METRIC}: {self.ndcg_before:.4f} before, {self.ndcg_after:.4f} after{trained}"


def report_upgrade(
    path: Path,
    before: ServingProfile,
    after: ServingProfile,
    data: RankingDataset | None = None,
    featureset: FeatureSet | None = None,
) -> UpgradeReport:
    """What the upgrade does to a model's rankings of judged documents.

    Without data, of the few that a model file remembers; UsageError where it remembers none.
    Raises BadInput where the data has other features, or the old version refuses the model.
    """
    deployed = read_deployed(path, before, featureset)
    if data is None:
        model = deployed.model
        samples = model.record.get("probes") if model is not None else None
        if model is None or not samples:
            raise UsageError(f"{path} remembers no judged documents: give --data FILE")
        data = dataset_of(samples, model.feature_names)
    stored = deployed.stored
    features = _columns(data, stored.featureset.feature_names)
    effect = upgrade_effect(stored, features, before, after, data.offsets)
    rankings = [s.astype(np.float64) for s in scores_around(stored, features, before, after)]
    if deployed.model is not None:
        rankings.append(deployed.model.score(features))
    metric = parse_metric(METRIC)
    means = [measure(scores, data, [metric])[0].mean for scores in rankings]
    return UpgradeReport(
        before=before,
        after=after,
        model_type=stored.type,
        effect=effect,
        ndcg_before=means[0],
        ndcg_after=means[1],
        ndcg_trained=means[2] if len(means) > 2 else None,
        inexact=deployed.inexact,
    )


def read_deployed(path: Path, before: ServingProfile, featureset: FeatureSet | None) -> Deployed:
    """Our model file as the old engine would keep it, or what `GET _ltr/_model/…` answered.

    Without a feature set the templates are unknown, and so is which features are text scores.
    """
    content = parse_json(read_text(path, largest=100_000_000), str(path))
    if isinstance(content, dict) and content.get("format") == FORMAT:
        return deploy(model_of(content, path), before, featureset)
    source = content.get("_source", content) if isinstance(content, dict) else {}
    if "model" in source:
        return Deployed(read_model(source, str(path)))
    raise BadInput(
        f"{path} is neither a model file of owpc-ltr nor a model that a store answered: import it "
        "first"
    )


def deploy(model: Model, before: ServingProfile, featureset: FeatureSet | None) -> Deployed:
    """The model in the form that the old engine would be given, exact where there is one."""
    model = for_engine(model)
    names = model.feature_names
    templates = {f.name: f for f in featureset.features} if featureset is not None else {}
    lacking = [name for name in names if featureset is not None and name not in templates]
    if lacking:
        raise BadInput(f"the feature set lacks '{lacking[0]}', which the model needs")
    features = FeatureSet(
        "upgrade-check", tuple(templates.get(n, Feature(n, (), "")) for n in names)
    )
    if isinstance(model, LinearModel):
        return Deployed(export_linear(model, features, "upgrade-check"), model)
    inexact = None
    try:
        always = {feature.name for feature in features.features if always_matches(feature)}
        model_type, definition = plugin_definition(model, names, before, always)
    except Refused as refusal:
        if not isinstance(model, TreeModel):
            raise
        # What may be deployed nevertheless: the trees with their own directions.
        model_type, inexact = XGBOOST, str(refusal)
        definition = to_dump(model, names, serving_profile("opensearch", "3.8.0"))
    return Deployed(StoredModel("upgrade-check", model_type, definition, features), model, inexact)


def _columns(data: RankingDataset, names: tuple[str, ...]) -> NDArray[np.float32]:
    places = {name: column for column, name in enumerate(data.feature_names)}
    for name in names:
        if name not in places:
            raise BadInput(
                f"the data lacks the feature '{name}', which the model needs: use the data of its "
                "feature set"
            )
    return np.ascontiguousarray(data.features[:, [places[name] for name in names]])


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{', '.join(names[:8])}{more}"
