"""`train`: a model of judged queries, its settings chosen on validation queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from owpc_ltr.data.blocks import text_table, wrapped_text
from owpc_ltr.data.options import (
    TEST_SHARE,
    VALIDATION_SHARE,
    MaxFeatureNumber,
    Memory,
)
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.evaluation.options import ChoosingMetric
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import (
    Help,
    Progress,
    Reads,
    Seed,
    Writes,
    job,
    silent,
)
from owpc_ltr.training.options import (
    DEFAULT_LOSS,
    DEFAULT_METRIC,
    DEFAULT_NORMALISATION,
    DEFAULT_OPTIMIZER,
    KNOTS,
    Dask,
    Folds,
    Grid,
    LossChoice,
    Normalise,
    OptimizerChoice,
    Settings,
    Source,
    TestShare,
    Threads,
    TrainingData,
    Validation,
    ValidationShare,
)

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.protocols import Model, Run
    from owpc_ltr.training.feature_selection import FewFeatures
    from owpc_ltr.training.fitting import TrainingQueries, TrainingResult
    from owpc_ltr.training.plan import Plan


@dataclass(frozen=True)
class TrainingSummary:
    """What the command line says of a trained model: candidates, the chosen one, its data."""

    model: Model

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON, without its parity samples."""
        record = self.model.record
        return {key: value for key, value in record.items() if key not in {"probes", "folds"}}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        record = self.model.record
        if "feature_selection" in record:
            yield from _selection_lines(record["feature_selection"])
        if "kinds" in record:
            yield from _kind_lines(record)
        else:
            settings = chosen_settings(record)
            yield from _candidate_lines(record, settings)
            yield chosen_line(settings)
        grades = record["loss"]["settings"].get("grades") if "loss" in record else None
        if grades is not None:
            words = "relevant is a label above 0" if grades == "binary" else "every grade counts"
            yield f"grades: {words} (loss.grades={grades})"
        yield wrapped_text(
            f"trained on {record['queries']} queries, {record['documents']} documents"
            f"{_ending(record.get('certificate'))}"
        )
        yield from _share_lines(record)
        if record.get("folds"):
            yield wrapped_text(
                f"cross-validated by {len(record['folds'])} more models: evaluate, compare and "
                "compare-live count all these queries"
            )
        if record.get("missing") is not None:
            cost = (
                "missing values are 0: to see what that costs, train another model without "
                "`missing`, and compare both with `evaluate(baseline=…)`"
            )
            if self.model.kind == "linear":
                cost = (
                    "missing values are 0 to every linear model: `missing='zero'` changes nothing "
                    "here"
                )
            yield wrapped_text(cost)


@job(shows=TrainingSummary)
def train(
    data: TrainingData,
    *,
    out: Annotated[
        Path | str | None, Writes("The model file (JSON).", required=True, project="model")
    ] = None,
    loss: LossChoice = None,
    optimizer: OptimizerChoice = None,
    settings: Settings = None,
    grid: Grid = None,
    metric: ChoosingMetric = None,
    runs_in: Annotated[
        Literal["engine", "plugin", "client"],
        Help(
            "Where the kind of model that is chosen must run: every engine, an engine with the LTR "
            "plugin, or the client, which scores any.",
            flag="--in",
            panel="Model",
        ),
    ] = "engine",
    normalise: Normalise = DEFAULT_NORMALISATION,
    missing: Annotated[
        Literal["zero"] | None,
        Help("zero: missing values are 0, as OpenSearch before 3.2 scores trees.", panel="Model"),
    ] = None,
    piecewise_linear: Annotated[
        bool,
        Help(
            "Learn a curve for each feature, not a weight; any optimizer of linear models can.",
            panel="Model",
        ),
    ] = False,
    knots: Annotated[
        int | None,
        Help(
            f"The most knots of a curve of a piecewise-linear model; default: {KNOTS}.",
            min=2,
            panel="Model",
        ),
    ] = None,
    max_features: Annotated[
        int | None,
        Help(
            "Leave out features until the model uses so many at most: one by one, the one that "
            "loses least on the validation queries.",
            min=1,
            panel="Model",
        ),
    ] = None,
    feature_cost: Annotated[
        Mapping[str, Any] | Path | str | None,
        Reads(
            "With `max_features`, leave out the feature that loses least for what it costs: what "
            '`profile` printed as JSON, or {"feature": milliseconds}.',
            cli=Path,
            panel="Model",
        ),
    ] = None,
    validation: Validation = None,
    validation_share: ValidationShare = VALIDATION_SHARE,
    test_share: TestShare = TEST_SHARE,
    folds: Folds = None,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    dask: Dask = None,
    source: Source = None,
    report: ReportPage = None,
    seed: Seed = 0,
    threads: Threads = 1,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> Model:
    """Train a ranker; validation queries choose its settings.

    Without a loss, an optimizer or settings of them, kinds of models are compared over three folds:
    linear, piecewise-linear, pairwise-interaction trees, the sum of these three, boosted trees. Of
    those that run in every engine (`runs_in`), the simplest is taken that is within half a standard
    error, and .002, of the best. Its settings are those that are best on the folds, and it learns
    from all queries that are not kept out.

    The metric is ndcg@10 for several grades; else it is map.

    Without `validation`, the queries of `data` are split by the hash of their ids into training,
    validation and test queries. `evaluate(model, data)` then measures on the test queries. With
    `folds` none are kept out, and it measures on all (cross-validated). Where the kind is chosen,
    the validation queries are among those of the folds.

    Without `grid`, C is chosen from 0.001 … 10 if the optimizer has one. With `max_features`,
    features are left out one by one; the model's record says which, and at what loss. Warns about
    judgments that are likely to hurt the model.

    Python: `loss` and `optimizer` are names, classes, or objects with settings; a loss is also a
    function (scores, labels, weights) → (value, gradient) of a query. Data that are one side of a
    split (`data.split().training`) are not split again; `validation_share=0, test_share=0` trains
    on everything. `missing="zero"` sends missing values where 0 goes; left out, trees learn where
    they go.
    `model.record` tells everything of how the model was trained. Warnings (a collapsed optimum,
    say) are given as `OwpcLtrWarning`.
    Raises UsageError for a choice that cannot be made, Refused for data that nothing can be
    learned from.

    >>> import owpc_ltr as ltr
    >>> data = ltr.make_dataset([[1.0], [2.0], [3.0]], [0, 1, 2], ["a", "a", "a"])
    >>> model = ltr.train(data, settings={"C": 1.0}, validation_share=0, test_share=0)
    >>> int(model.score([[1.0], [2.0]]).argmax())
    1
    """
    from owpc_ltr.host.registry import load
    from owpc_ltr.inspection.checks import warnings_before_training
    from owpc_ltr.metrics import first_metric
    from owpc_ltr.models.combined import with_folds
    from owpc_ltr.models.model_file import save_model, with_warnings
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.feature_selection import few_features
    from owpc_ltr.training.fitting import (
        fold_models,
        read_training_queries,
        split_and_train,
        workers_at,
    )
    from owpc_ltr.training.kinds import metric_for, train_best_kind
    from owpc_ltr.training.plan import model_plan

    if knots is not None and not piecewise_linear:
        raise UsageError("`knots` is of piecewise-linear models: add `piecewise_linear`")
    registry = load(map(Path, plugins))
    make = partial(model_plan, normalise=normalise, missing=missing, registry=registry)
    # What cannot be planned is refused before any data are read.
    plan = make(
        loss=loss or DEFAULT_LOSS,
        optimizer=optimizer or DEFAULT_OPTIMIZER,
        settings=settings,
        grid=grid,
        metric=metric or DEFAULT_METRIC,
        piecewise_linear=piecewise_linear,
        knots=KNOTS if knots is None else knots,
    )
    chosen = any((loss, optimizer, settings, grid, piecewise_linear, max_features, dask))
    few = few_features(max_features, feature_cost)
    others = {"validation": validation, "max_features": max_features, "dask": dask}
    _check_folds(folds, others, test_share)
    run = Run(seed=seed, threads=threads, progress=progress)
    with workers_at(dask, (data, validation), plugins) as workers:
        # Where the kind is chosen, folds of all queries that are not kept out choose settings too.
        shares = validation_share if chosen else 0.0, test_share if folds is None else 0.0
        queries = read_training_queries(
            data,
            validation,
            shares,
            memory=memory,
            max_feature_number=max_feature_number,
            source=source,
        )
        if few is not None:
            queries = queries.in_memory("`max_features`")

        def train_on(part: JudgedTable, of: Run) -> TrainingResult:
            if chosen:
                return split_and_train(part, plan, of, validation_share)
            return train_best_kind(
                part, None, make, metric, runs_in, run=of, validation_share=validation_share
            )

        if chosen:
            queries = queries.fit_for(plan, workers)
            if metric is None:
                by_labels = metric_for(queries.training.head)
                plan = replace(plan, metric=first_metric(by_labels, registry))
        before = warnings_before_training(queries.training.head)
        give_warnings(before)
        if chosen:
            trained = _trained(queries, plan, run, few)
        else:
            trained = train_best_kind(
                queries.training,
                queries.validation,
                make,
                metric,
                runs_in,
                run=run,
                validation_share=validation_share,
                source=queries.source,
            )
        models = fold_models(
            queries.splits.everything, lambda rest, of: train_on(rest, of).model, run, folds or 0
        )
    give_warnings(trained.all_warnings)
    ranker: Model = with_folds(trained.model, models)
    ranker = with_warnings(ranker, (*before, *trained.all_warnings))
    if out is not None:
        save_model(ranker, out)
    name = "the model" if out is None else Path(out).name
    write_report([{name: ranker}, queries.training], report, plugins)
    return ranker


def _check_folds(folds: int | None, others: Mapping[str, Any], test_share: float) -> None:
    """Refuse what does not go with folds. Raises UsageError."""
    if folds is None:
        return
    for name, given in others.items():
        if given is not None:
            raise UsageError(f"`folds` and `{name}` do not go together: give one")
    if test_share not in {0.0, TEST_SHARE}:
        raise UsageError("`folds` keeps no test queries out: leave `test_share` out")


def _trained(
    queries: TrainingQueries, plan: Plan, run: Run, few: FewFeatures | None
) -> TrainingResult:
    """The model of a plan; of so many features at most, where these were given."""
    from owpc_ltr.training.feature_selection import train_on_few_features
    from owpc_ltr.training.fitting import train_plan

    training, validation, source = queries.training, queries.validation, queries.source
    if few is None:
        return train_plan(training, plan, run, validation, source)
    return train_on_few_features(
        training.load(),
        plan,
        run,
        None if validation is None else validation.load(),
        max_features=few.most,
        costs=few.costs,
        source=source,
    )


def _ending(certificate: Mapping[str, Any] | None) -> str:
    """Why and after what the fit ended, as far as its optimizer tells; nothing of a sum."""
    if certificate is None:
        return ""
    counts = {"passes": certificate["passes"], "non-zero duals": certificate["nonzero_duals"]}
    text = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    reason = certificate["stop_reason"]
    if reason and text:
        return f"; {reason} ({text})"
    return f"; {reason or text}" if reason or text else ""


def chosen_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the chosen candidate: the first that was as good as the best."""
    value = record["validation"]
    row = next(row for row in record["table"] if row.get("validation") == value)
    return {name: row[name] for name in row if "." in name}


def _settled(part: Mapping[str, Any]) -> str:
    """What the folds chose for a kind, or for a part of a sum: C, or how many trees."""
    settings = part["optimizer"]["settings"]
    return f"C={settings['C']:g}" if "C" in settings else f"{settings['trees']} trees"


def chosen_line(settings: Mapping[str, Any]) -> str:
    """The settings of the chosen candidate."""
    values = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"chosen: {values or 'the defaults'}"


def _kind_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of models that were compared, and why one was chosen."""
    choice = record["kinds"]
    rows = [
        [
            kind["kind"],
            float(kind["mean"]),
            f"[{kind['low']:+.4f}, {kind['high']:+.4f}]" if number else "",
            kind["runs_in"],
            round(kind["used"]),
            round(kind["trees"]) or "",
        ]
        for number, kind in enumerate(choice["compared"])
    ]
    if rows:
        title = str(record["select"]).upper()
        yield text_table(["KIND", title, "GAIN (95 %)", "RUNS IN", "FEATURES", "TREES"], rows)
    yield wrapped_text(f"kind: {choice['kind']}: {choice['why']}")
    parts = record.get("parts") or {choice["kind"]: record}
    settled = [f"{name}, {_settled(part)}" for name, part in parts.items()]
    yield wrapped_text(f"chosen: {'; '.join(settled)}")


def _share_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """What became of the other queries, where a share was kept out."""
    split = (record.get("source") or {}).get("split") or {}
    validation, test = split.get("validation", 0.0), split.get("test", 0.0)
    others = [f"{validation:.0%} chose the settings"] if validation else []
    others += [f"{test:.0%} are kept for evaluate"] if test else []
    if others:
        yield f"that is {1 - validation - test:.0%} of the queries; {', '.join(others)}"


def _candidate_lines(record: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    """A table of the candidates, with the settings in which they differ, if they do."""
    table = record["table"]
    varied = [name for name in settings if len({str(row[name]) for row in table}) > 1]
    keys = ("validation", "risk_ratio", "relative_gap")
    rows = [
        [
            *(str(row[name]) for name in varied),
            *(float("nan") if row.get(key) is None else float(row[key]) for key in keys),
            row["passes"],
        ]
        for row in table
    ]
    if varied:
        select = f"validation {record['select']}"
        yield text_table([*varied, select, "risk ratio", "gap", "passes"], rows)


def _selection_lines(chosen: Mapping[str, Any]) -> Iterator[str]:
    """Each model of a feature selection, from all features down, and what was kept."""
    columns = {"features": "FEATURES", "milliseconds": "MS", "validation": "VALIDATION"}
    if not chosen["milliseconds"]:
        del columns["milliseconds"]
    path = chosen["path"]
    yield text_table(
        ["LEFT OUT", *columns.values()],
        [(_left_out(step), *(step[key] for key in columns)) for step in path],
    )
    kept = chosen["kept"]
    yield wrapped_text(f"kept {len(kept)} features: {', '.join(kept)}")


def _left_out(step: Mapping[str, Any]) -> str:
    """The feature that a step leaves out, and how many more its model does not use."""
    unused = f"{len(step['unused'])} unused" if step["unused"] else ""
    return " + ".join(filter(None, [step["dropped"], unused])) or "–"
