"""`train_reranker`: a reordering of the lists of a base ranker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import text_table
from owpc_ltr.data.options import TEST_SHARE, VALIDATION_SHARE, MaxFeatureNumber, Memory
from owpc_ltr.errors import give_warnings
from owpc_ltr.evaluation.options import ChoosingMetric, Documents, IdField
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Progress, Reads, Seed, job, silent
from owpc_ltr.training.options import (
    DEFAULT_RERANKER,
    RERANKING_LOSS,
    RERANKING_METRIC,
    Grid,
    LossChoice,
    ModelFile,
    Settings,
    Source,
    TestShare,
    Threads,
    TrainingData,
    Validation,
    ValidationShare,
)
from owpc_ltr.training.train import TrainingSummary, chosen_line

if TYPE_CHECKING:
    from owpc_ltr.models.combined import ReorderingModel
    from owpc_ltr.protocols import Model


class RerankerSummary(TrainingSummary):
    """What the command line says of a reranker: candidates, the chosen one, its data."""

    def _lines(self) -> Iterator[str]:
        record = self.model.record
        settings = record["chosen"]
        if record["validation"] is not None:
            yield _candidates(record["table"], record["select"])
        if settings is None:
            yield "kept the base: nothing was better on the validation queries"
        else:
            yield chosen_line(settings)
        yield f"learned on {record['queries']} queries, {record['documents']} documents"


@job(shows=RerankerSummary)
def train_reranker(
    data: TrainingData,
    *,
    base: Annotated[
        Model | Path | str,
        Reads(
            "The ranker whose lists are reordered: MODEL.json, or feature:NAME for a feature.",
            absent=NO_MODEL,
            unless="feature:",
            cli=str,
            metavar="RANKER",
        ),
        Argument.RANKER,
    ],
    out: ModelFile = None,
    reranker: Annotated[
        Any,
        Help(
            "The reranker (see `plugins()`).",
            cli=str,
            panel="Model",
            metavar="NAME",
        ),
    ] = DEFAULT_RERANKER,
    loss: LossChoice = RERANKING_LOSS,
    settings: Settings = None,
    grid: Grid = None,
    metric: ChoosingMetric = RERANKING_METRIC,
    documents: Documents = None,
    id_field: IdField = None,
    validation: Validation = None,
    validation_share: ValidationShare = VALIDATION_SHARE,
    test_share: TestShare = TEST_SHARE,
    max_feature_number: MaxFeatureNumber = None,
    memory: Memory = None,
    source: Source = None,
    report: ReportPage = None,
    seed: Seed = 0,
    threads: Threads = 1,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> ReorderingModel:
    """Train a reranker, which reorders the lists of a base ranker.

    The base ranker alone is kept unless a reranker is better on the validation queries. Queries are
    split as by `train()`. The settings are those of the loss and of the reranker, as
    `settings={"reranker.terms": 2}`.

    Python: `reranker` is a name or a class; everything else is as for `train`.
    Raises UsageError for a choice that cannot be made.
    """
    from owpc_ltr.data.documents import with_document_fields
    from owpc_ltr.data.partitioned import in_memory
    from owpc_ltr.evaluation.judged_data import unused_weights
    from owpc_ltr.host.registry import load
    from owpc_ltr.inspection.checks import warnings_before_training
    from owpc_ltr.inspection.measures import constant_in_training
    from owpc_ltr.models.combined import read_base
    from owpc_ltr.models.model_file import save_model, with_warnings
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.fitting import constant_in_all, read_training_queries
    from owpc_ltr.training.rerankers import fit_reranker, reranking_plan

    registry = load(map(Path, plugins))
    plan = reranking_plan(loss, reranker, settings, grid, metric, registry=registry)
    queries = read_training_queries(
        data,
        validation,
        (validation_share, test_share),
        memory=memory,
        max_feature_number=max_feature_number,
    )
    if source is None and queries.source is not None:
        base_file = {"base": Path(base).name} if isinstance(base, Path | str) else {}
        source = {**queries.source, **base_file}
    training = in_memory(queries.training, "a reranker")
    chosen_on = queries.validation
    constant = constant_in_training(constant_in_all([training]))
    warnings = [*warnings_before_training(training), *constant]
    if chosen_on is not None:
        chosen_on = in_memory(chosen_on, "a reranker")
        warnings += [f"validation: {warning}" for warning in unused_weights(chosen_on)]
    give_warnings(warnings)
    ranker = read_base(str(base), training) if isinstance(base, str | Path) else base
    path = None if documents is None else Path(documents)
    training = with_document_fields(training, plan.field_names, path, id_field)
    if chosen_on is not None:
        chosen_on = with_document_fields(chosen_on, plan.field_names, path, id_field)
    run = Run(seed=seed, threads=threads, progress=progress)
    fitted = fit_reranker(
        training,
        ranker,
        plan,
        run,
        chosen_on,
        source=source,
    )
    model: ReorderingModel = with_warnings(fitted, warnings)
    if out is not None:
        save_model(model, out)
    name = "the reranker" if out is None else Path(out).name
    write_report([{name: model}, queries.training], report, plugins)
    return model


def _candidates(rows: Sequence[Mapping[str, Any]], select: str) -> str:
    """The base and each candidate, with the settings in which they differ."""
    varied = [
        name
        for name in rows[-1]
        if name not in {"reordering", "validation"}
        and len({str(row.get(name)) for row in rows[1:]}) > 1
    ]
    return text_table(
        ["CANDIDATE", *varied, f"validation {select}"],
        [
            [
                "reranked" if row["reordering"] else "the base",
                *(str(row.get(setting, "")) for setting in varied),
                row["validation"],
            ]
            for row in rows
        ],
    )
