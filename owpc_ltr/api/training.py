"""`train`, `select` and `average`: rankers from judged queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.training.defaults import KNOTS

if TYPE_CHECKING:
    from owpc_ltr_dask.connection import Workers

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model, Run
    from owpc_ltr.training.cross_validation import Selection
    from owpc_ltr.training.feature_cost import Costs

Progress = Callable[[str, float | None], None]


def train(
    data: RankingDataset | PartitionedDataset,
    *,
    validation: RankingDataset | PartitionedDataset | None = None,
    loss: Any = "owpc",
    optimizer: Any = "larank",
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    select: Any = "map",
    normalise: str = "scale",
    missing: str | None = None,
    piecewise_linear: bool = False,
    knots: int = KNOTS,
    costs: Costs | None = None,
    source: Mapping[str, Any] | None = None,
    seed: int = 0,
    threads: int = 1,
    plugins: Sequence[Path | str] = (),
    progress: Progress | None = None,
) -> Model:
    """A model of `data`, its settings chosen by the metric `select` on the validation queries.

    `loss` and `optimizer` are names (see `owpc-ltr plugins`), classes, or objects with settings.
    `settings` fixes some (`{"generator": "inverse"}`), `grid` tries several (`{"C": "1e-3..1e3"}`);
    without a grid, C is chosen from 10⁻³ … 10³ where the optimizer has one. `normalise`: `scale`
    divides features by their spread within queries, `none` does not. With `missing="zero"` missing
    values are 0 in training, and trees send them where 0 goes, as engines before 3.8 do; left out,
    trees learn where they go. With `piecewise_linear` an optimizer of linear models learns curves
    between `knots` quantiles of each feature: an additive model. With `costs`
    features that cost more than they are worth are left out. `source` is what the record says of
    where the data are from; left out, what the data know of it. `model.record` tells everything of
    how it was trained. Warnings (a collapsed optimum, say) are given as `OwpcLtrWarning`.

    Raises UsageError for a choice that cannot be made, Refused for data that nothing can be
    learned from.

    >>> import owpc_ltr as ltr
    >>> data = ltr.make_dataset([[1.0], [2.0], [3.0]], [0, 1, 2], ["a", "a", "a"])
    >>> int(ltr.train(data, settings={"C": 1.0}).score([[1.0], [2.0]]).argmax())
    1
    """
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset, head_of, in_memory
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.host.registry import load
    from owpc_ltr.inspection.constant import silent_in_training
    from owpc_ltr.inspection.quick import warnings_before_training
    from owpc_ltr.models.model_file import with_warnings
    from owpc_ltr.training.candidates import check_room, loaded, train_plan, train_plan_by_parts
    from owpc_ltr.training.feature_cost import train_at_cost
    from owpc_ltr.training.plan import model_plan

    registry = load(map(Path, plugins))
    plan = model_plan(
        registry,
        loss=loss,
        optimizer=optimizer,
        settings=settings,
        grid=grid,
        select=select,
        normalise=normalise,
        missing=missing,
        piecewise_linear=piecewise_linear,
        knots=knots,
    )
    if costs is not None:
        data = in_memory(data, "a price of features")
    if isinstance(data, PartitionedDataset):
        check_room(plan, data, validation)
    before = warnings_before_training(head_of(data))
    give_warnings(before)
    run = _run(seed, threads, progress)
    if isinstance(data, PartitionedDataset):
        trained = train_plan_by_parts(data, plan, run, validation, source)
    elif costs is None:
        trained = train_plan(data, plan, run, loaded(validation), source)
    else:
        trained = train_at_cost(data, plan, run, loaded(validation), costs, source).trained
    after = (*trained.warnings, *silent_in_training(trained.silent_features))
    give_warnings(after)
    return with_warnings(trained.model, (*before, *after))


def train_reranker(
    data: RankingDataset | PartitionedDataset,
    base: Model | str | Path,
    *,
    validation: RankingDataset | PartitionedDataset | None = None,
    reranker: Any = "exchangeable",
    loss: Any = "bregman",
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    select: Any = "ndcg@10",
    documents: Path | str | None = None,
    id_field: str | None = None,
    source: Mapping[str, Any] | None = None,
    seed: int = 0,
    threads: int = 1,
    plugins: Sequence[Path | str] = (),
    progress: Progress | None = None,
) -> ReorderingModel:
    """A reordering of the lists of `base`: a model, its file, or `feature:NAME`.

    The base as it is stays a candidate, and is kept unless another is better on the validation
    queries. `documents` is the file that was indexed, for rerankers that read fields of documents,
    their ids in `id_field` (default: line numbers). Everything else is as for `train`.
    """
    from owpc_ltr.data.document_fields import with_document_fields
    from owpc_ltr.data.partitioned.dataset import in_memory
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.evaluation.unused_weights import unused_weights
    from owpc_ltr.host.registry import load
    from owpc_ltr.inspection.quick import warnings_before_training
    from owpc_ltr.models.model_file import with_warnings
    from owpc_ltr.models.reordering import read_base
    from owpc_ltr.training.plan import reranking_plan
    from owpc_ltr.training.rerankers import fit_reranker

    registry = load(map(Path, plugins))
    plan = reranking_plan(
        registry, reranker=reranker, loss=loss, settings=settings, grid=grid, select=select
    )
    data = in_memory(data, "a reranker")
    validation = None if validation is None else in_memory(validation, "a reranker")
    told = warnings_before_training(data)
    if validation is not None:
        told += [f"validation: {note}" for note in unused_weights(validation)]
    give_warnings(told)
    ranker = read_base(str(base), data) if isinstance(base, str | Path) else base
    named = None if documents is None else Path(documents)
    parts = [
        None if part is None else with_document_fields(part, plan.field_names, named, id_field)
        for part in (data, validation)
    ]
    run = _run(seed, threads, progress)
    assert parts[0] is not None  # noqa: S101 - told to the type checker
    return with_warnings(fit_reranker(parts[0], ranker, plan, run, parts[1], source).model, told)


def keep_warnings(model: Any, found: Sequence[str]) -> Any:
    """The same ranker with these warnings in its record, too: what was found before training."""
    from owpc_ltr.models.model_file import with_warnings

    return with_warnings(model, found)


def check_plan(*, plugins: Sequence[Path | str] = (), **how: Any) -> None:
    """Refuse what `train`, or with a `reranker` `train_reranker`, would, before data are read."""
    from owpc_ltr.host.registry import load
    from owpc_ltr.training.plan import model_plan, reranking_plan

    registry = load(map(Path, plugins))
    if "reranker" in how:
        reranking_plan(registry, **how)
    else:
        model_plan(registry, **how)


def select(
    data: RankingDataset | PartitionedDataset | Sequence[Any],
    *,
    folds: int = 5,
    losses: Sequence[Any] = ("owpc",),
    optimizers: Sequence[Any] = ("larank",),
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    select: Any = "map",
    metrics: Sequence[Any] = ("map", "ndcg@1", "ndcg@3", "ndcg@10"),
    normalise: str = "scale",
    jobs: int = 1,
    journal: Path | str | None = None,
    workers: Workers | None = None,
    seed: int = 0,
    plugins: Sequence[Path | str] = (),
    progress: Progress | None = None,
) -> Selection:
    """Losses, optimizers and settings compared over folds, chosen on each fold's validation.

    `data` is a dataset, to be cut into `folds` by the hash of its query ids, or folds (see
    `owpc_ltr.training.cross_validation.Fold`). With a `journal` a stopped run goes on. With
    `workers` (see `use_workers`) each path of fits over a folder of parts is one worker's, and as
    many are walked side by side as the workers have threads, whatever `jobs` is.
    """
    from itertools import product

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.errors import UsageError, give_warnings
    from owpc_ltr.evaluation.unused_weights import unused_weights
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric
    from owpc_ltr.training.cross_validation import Selection, choose, cut_folds, families_of
    from owpc_ltr.training.cross_validation import select as fit_all
    from owpc_ltr.training.plan import model_plan

    registry = load(map(Path, plugins))
    plans = [
        model_plan(
            registry,
            loss=loss,
            optimizer=optimizer,
            settings=settings,
            grid=grid,
            select=select,
            normalise=normalise,
        )
        for loss, optimizer in product(losses, optimizers)
    ]
    if workers is not None:
        if not isinstance(data, PartitionedDataset):
            raise UsageError(
                "workers go through a folder of parts: make one with owpc-ltr partition"
            )
        jobs = workers.threads
    if isinstance(data, RankingDataset):
        cut: list[Any] = list(cut_folds(data, folds))
    elif isinstance(data, PartitionedDataset):
        cut = list(cut_folds(data if workers is None else workers.whole(data), folds))
    else:
        cut = list(data)
    give_warnings(dict.fromkeys(note for fold in cut for note in unused_weights(fold.test)))
    kept = None if journal is None else Path(journal)
    run = _run(seed, 1, progress)
    measured = [parse_metric(metric, registry) for metric in metrics]
    rows = fit_all(cut, plans, measured, run, jobs=jobs, journal=kept, elsewhere=workers)
    chosen = choose(rows, plans[0].select, families_of(rows))
    return Selection(
        tuple(fold.name for fold in cut),
        tuple(rows),
        tuple(chosen),
        str(plans[0].select),
        tuple(measured),
    )


def read_costs(
    path: Path | str,
    price: float | None = None,
    *,
    keep_gain: float | None = None,
    over: str | float | None = None,
) -> Costs:
    """Costs of features for `train`: what `profile --json` printed, or {"feature": milliseconds}.

    `price` is what a millisecond must gain of the metric that chooses (.001). With `keep_gain`
    instead, the cheapest model is chosen that keeps this share of what all features gain over the
    feature `over` alone (by default the one that ranks best), or over that validation metric.
    """
    from owpc_ltr.errors import UsageError
    from owpc_ltr.training.feature_cost import read_costs as read

    if price is not None and keep_gain is not None:
        raise UsageError("a price and a share of the gain are two ways to choose: give one")
    return read(Path(path), 0.001 if price is None else price, keep_gain, over)


def _run(seed: int, threads: int, progress: Progress | None) -> Run:
    """What every fit is given besides its loss and data."""
    from dataclasses import replace

    from owpc_ltr.protocols import Run

    quiet = Run(seed=seed, threads=threads)
    return quiet if progress is None else replace(quiet, progress=progress)
