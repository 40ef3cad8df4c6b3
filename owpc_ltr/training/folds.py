"""Models of folds: a training repeated without each fold of its queries, for its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import JudgedTable, in_memory
from owpc_ltr.data.splits import HashSplit, fold_of_queries, split_queries
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import option_name
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.plan import Plan

_SALT = "owpc-ltr folds"


def fold_models(
    data: JudgedTable,
    plan_of: Callable[[RankingDataset, Run], Plan],
    run: Run,
    folds: int,
    validation_share: float,
) -> list[Model]:
    """A model for each fold, trained as one of all queries is, without the queries of the fold.

    `plan_of` says how a model of some queries is trained, as it did for those of all. Spellings of
    one query are in one fold. Raises BadInput for fewer queries than folds.
    """
    if not folds:
        return []
    data = in_memory(data, option_name("folds"))
    fold = fold_of_queries(data, folds, _SALT)
    models = []
    for number in range(folds):

        def progress(message: str, done: float | None = None, number: int = number) -> None:
            run.progress(f"fold {number + 1} of {folds}: {message}", done)

        rest, own = data.select(np.flatnonzero(fold != number)), replace(run, progress=progress)
        models.append(model_of_queries(rest, plan_of(rest, own), own, validation_share))
    return models


def model_of_queries(data: RankingDataset, plan: Plan, run: Run, validation_share: float) -> Model:
    """A model of these queries, of which a share chooses the settings."""
    # Queries that another split has cut are not split by the same hash.
    sides = HashSplit(validation_share, 0.0, "owpc-ltr inner")
    splits = split_queries(data, sides, wanted=("train", "validation"))
    return train_plan(splits.training, plan, run, splits.optional_validation).model
