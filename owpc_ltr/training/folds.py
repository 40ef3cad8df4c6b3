"""Models of folds: a training repeated without each fold of its queries, for its evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from owpc_ltr.data.partitioned.dataset import in_memory
from owpc_ltr.data.splits import HashSplit, fold_of_queries, split_queries
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import spelled
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.plan import Data, Plan

_SALT = "owpc-ltr folds"


def fold_models(
    data: Data, plan: Plan, run: Run, folds: int, validation_share: float
) -> list[Model]:
    """A model for each fold, trained as one of all queries is, without the queries of the fold.

    Spellings of one query are in one fold. Raises BadInput for fewer queries than folds.
    """
    if not folds:
        return []
    data = in_memory(data, spelled("folds"))
    fold = fold_of_queries(data, folds, _SALT)
    models = []
    for number in range(folds):

        def progress(message: str, done: float | None = None, number: int = number) -> None:
            run.progress(f"fold {number + 1} of {folds}: {message}", done)

        rest = data.select(np.flatnonzero(fold != number))
        sides = HashSplit(validation_share, 0.0)
        splits = split_queries(rest, sides, wanted=("train", "validation"))
        own = replace(run, progress=progress)
        models.append(train_plan(splits.training, plan, own, splits.optional_validation).model)
    return models
