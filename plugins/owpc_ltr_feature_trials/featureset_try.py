"""`featureset try`: what new features add to a model, and what each feature is worth."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.data.options import TEST_SHARE
from owpc_ltr.engine.options import QueryTemplate
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import ChoosingMetric
from owpc_ltr.host.commands import ConnectsWith
from owpc_ltr.signatures import (
    NO_FEATURE_SET,
    Help,
    Progress,
    Reads,
    Seed,
    Writes,
    job,
    silent,
)
from owpc_ltr.training.options import TrainingData

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr_feature_trials.trial import FeatureTrial


@job(changes_cluster=True)
def featureset_try(
    new: Annotated[
        FeatureSet | Path | str | None,
        Reads(
            "A feature set with the new features, and the old ones that these are derived from.",
            cli=Path,
            metavar="NEW.json",
            absent=NO_FEATURE_SET,
        ),
    ] = None,
    *,
    data: TrainingData,
    cluster: Annotated[Cluster | None, ConnectsWith("new")] = None,
    keep: Annotated[
        Path | str | None,
        Writes(
            "Also write the data with the new features, and store the feature set of all, under "
            "the file's name.",
            standard_output="a feature set is named as the file of `keep`: name a file, not -",
        ),
    ] = None,
    drop: Annotated[
        bool, Help("Also measure what each feature is worth, by leaving it out.")
    ] = False,
    metric: ChoosingMetric = None,
    query_template: QueryTemplate = None,
    seed: Seed = 0,
    progress: Progress = silent,
) -> FeatureTrial:
    """Measure what new features add to a model, before everything is logged again.

    Only the new features are logged, for the documents of the data. The kind of model that `train`
    would take is fitted by folds of the queries that are not held out, with and without them: the
    gain, what each costs in a search, whether it knows the grade, and which old feature it may
    replace. Of many documents a sample is taken, unless `keep` writes all. If the index has changed
    since, that is said, and `keep` is refused.

    With `drop` alone, no cluster is needed.

    Raises UsageError if there is nothing to try, BadInput for a feature that the data have with
    another template, Refused for a feature that the engine refuses.
    """
    import pyarrow.compute as pc

    from owpc_ltr.data.datasets import dataset_of
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.fitting import read_training_queries
    from owpc_ltr.training.kinds import metric_for, sample_of
    from owpc_ltr.training.plan import model_plan
    from owpc_ltr_feature_trials.new_columns import log_new
    from owpc_ltr_feature_trials.trial import try_features

    if new is None and (keep is not None or not drop):
        raise UsageError("give `new`, a feature set with new features, or `drop` alone")
    judged = dataset_of(data)
    sample = sample_of(read_training_queries(judged, None, (0.0, TEST_SHARE)).training)
    log = None
    if new is not None:
        if cluster is None:
            raise UsageError("new features are logged in a cluster: give `cluster`")
        part = sample if keep is None else judged.load()
        whole, log = log_new(cluster, new, part, query=query_template, keep=keep, progress=progress)
        sample = whole.select(pc.is_in(whole.query_ids, value_set=sample.query_ids).to_numpy(False))
    make = partial(model_plan, metric=metric or metric_for(sample))
    return try_features(sample, log, make, Run(seed=seed, progress=progress), drop=drop)
