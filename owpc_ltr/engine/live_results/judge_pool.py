"""`judge pool`: a grading sheet of the documents that rankers bring to the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.defaults import DEFAULT_WINDOW
from owpc_ltr.engine.live_queries import (
    IN_FLIGHT,
    InFlight,
    ModelFeatureSet,
    judged_queries,
    with_params,
)
from owpc_ltr.engine.options import ExtraFeatures, Params, QueryTemplate, SearchIndex, Window
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.host.commands import ReportPage, write_report
from owpc_ltr.signatures import Help, Progress, Reads, Seed, Writes, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.data.judgments.queries import JudgedQuery, Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.judgment_pool import Pooled
    from owpc_ltr.engine.search.serving import Serve
    from owpc_ltr.protocols import Model

POOL_DEPTH = 20
"""How many of each ranker's documents are pooled."""
_QUERY = "query"
"""What the query alone is called, which models rescore."""


def names_between_commas(text: str) -> list[str]:
    """Names of a text of the command line, without empty ones.

    >>> names_between_commas("query, model.json")
    ['query', 'model.json']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


@job
def judge_pool(
    cluster: Cluster,
    *,
    queries: Annotated[
        Sequence[JudgedQuery] | Path | str,
        Reads("Queries: a table with a column `query`, a line each, or a dataset.", cli=Path),
    ],
    rankers: Annotated[
        Sequence[Path | str | Mapping[str, Any] | Model],
        Reads(
            "Whose lists are judged: query (the query template alone), QUERY.json, MODEL.json, "
            "uploaded names, TREC runs; between commas.",
            cli=str,
            parse=names_between_commas,
            absent=None,
        ),
    ],
    out: Annotated[Path | str | None, Writes("The sheet to fill in (CSV).", required=True)] = None,
    sample: Annotated[
        int | None,
        Help("Draw so many queries, of those that none of the models was trained with.", min=1),
    ] = None,
    depth: Annotated[int, Help("How many of each ranker's documents.", min=1)] = POOL_DEPTH,
    fields: Annotated[
        Sequence[str],
        Help(
            "What to show of a document: fields, between commas.",
            cli=str,
            parse=names_between_commas,
        ),
    ] = (),
    judged: Annotated[
        Judgments | RankingDataset | Path | str | None,
        Reads("Judgments that there are: what they have is left out.", cli=Path),
    ] = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    window: Window = DEFAULT_WINDOW,
    featureset: ModelFeatureSet = None,
    extra_features: ExtraFeatures = (),
    in_flight: InFlight = IN_FLIGHT,
    report: ReportPage = None,
    seed: Seed = 0,
    progress: Progress = silent,
) -> Pooled:
    """Write a sheet of the documents that rankers bring to the top.

    Its grades are for people to fill in. A document stands there once for a query, in a drawn order
    that tells nothing of ranks and rankers. Once its `grade` column is filled, log-features reads
    it. Models rescore the query template; those that are not uploaded are in the cluster only
    meanwhile.

    Python: `queries` may be what was read before; `rankers` are also queries (objects) and models.
    Raises UsageError for a ranker that is neither a file nor uploaded.
    """
    from dataclasses import replace

    from owpc_ltr.data.judgments.pools import write_sheet
    from owpc_ltr.engine.options import tables_of, the_index
    from owpc_ltr.engine.search.judgment_pool import PoolPlan, pool

    wanted = _read_queries(queries) if isinstance(queries, Path | str) else list(queries)
    wanted = with_params(wanted, params)
    known = judged_queries(judged) if judged is not None else []
    done = {one.query_id: frozenset(one.document_ids) for one in known}
    where = the_index(cluster.engine, index)
    template = cluster.template(where, query_template)[0]
    with ExitStack() as kept:
        at_work = PoolRankers.of(
            cluster, rankers, template, featureset, tables=tables_of(extra_features), kept=kept
        )
        if sample is not None:
            wanted = at_work.sampled(wanted, sample, seed)
        plan = PoolPlan(where, at_work.ways, at_work.runs, depth, window, fields, seed, in_flight)
        found = pool(cluster.engine, plan, wanted, done, progress)
    if out is not None:
        write_sheet(found.queries, fields, found.shown, Path(out))
        found = replace(found, sheet=str(out))
    write_report(found, report)
    return found


@dataclass(frozen=True)
class PoolRankers:
    """Rankers at work until `kept` ends: how they serve, by which query, or as lists of a run.

    `records` are those of the models.
    """

    ways: list[tuple[Serve, dict[str, Any]]]
    runs: list[Mapping[str, Sequence[str]]]
    records: dict[str, Mapping[str, Any]]

    @staticmethod
    def of(
        cluster: Cluster,
        rankers: Sequence[Any],
        template: dict[str, Any],
        featureset: str | None,
        *,
        tables: Sequence[ExternalTable],
        kept: ExitStack,
    ) -> PoolRankers:
        """The rankers that are named; models rescore the `template`.

        In the `tables` is what they read from outside the index. Raises UsageError where there is
        no ranker, or one is neither a file nor uploaded.
        """
        from owpc_ltr.data.judgments.pools import read_run_lists
        from owpc_ltr.engine.search.serving import query_alone, with_stored

        if not rankers:
            raise UsageError(
                "there is no ranker to pool: give queries, models, uploaded names or TREC runs"
            )
        found = PoolRankers([], [], {})
        alone = query_alone(cluster.engine, cluster.store)
        for ranker in rankers:
            if ranker == _QUERY:
                found.ways.append((alone, template))
            elif isinstance(ranker, Mapping):
                found.ways.append((alone, dict(ranker)))
            elif not isinstance(ranker, Path | str) or Path(ranker).suffix == ".json":
                read = _read_ranker(ranker)
                if isinstance(read, dict):
                    found.ways.append((alone, read))
                    continue
                serve = kept.enter_context(_on_trial(cluster, read, featureset, tables))
                found.ways.append((serve, template))
                found.records[str(ranker)] = read.record
            elif Path(ranker).is_file():
                found.runs.append(read_run_lists(Path(ranker)))
            else:
                name = cluster.models.resolve(str(ranker))
                deployment = cluster.models.deployment(name)
                own, interval = cluster.holding(str(ranker)).store, cluster.models.interval(name)
                serve = with_stored(cluster.engine, own, own.get_model(name), interval, tables)
                found.ways.append((serve, template))
                found.records[name] = deployment.record if deployment else {}
        return found

    def sampled(self, queries: Sequence[JudgedQuery], number: int, seed: int) -> list[JudgedQuery]:
        """So many of the queries, drawn of those that no model was trained with, in their order."""
        import numpy as np

        from owpc_ltr.evaluation.held_out import choose_queries

        left = choose_queries(self.records, queries).queries
        chosen = np.random.default_rng(seed).permutation(left)[:number]
        return [queries[place] for place in np.sort(chosen).tolist()]


def _read_queries(path: Path | str) -> list[JudgedQuery]:
    """The queries of a file, without documents: of a table, lines, or a dataset."""
    from dataclasses import replace

    import numpy as np

    from owpc_ltr.data.judgments.pools import read_queries

    if Path(path).is_dir() or Path(path).suffix in {".parquet", ".jsonl", ".json"}:
        nothing = np.zeros(0, np.float32)
        return [
            replace(query, document_ids=[], grades=nothing, weights=None)
            for query in judged_queries(path)
        ]
    return read_queries(Path(path))


def _read_ranker(ranker: Any) -> Any:
    """A query, or a model, as its file has it."""
    from owpc_ltr.engine.search.request import split_body
    from owpc_ltr.files.strict_json import read_json_object
    from owpc_ltr.models.model_file import load_scoring_model

    if not isinstance(ranker, Path | str):
        return ranker
    content = read_json_object(Path(ranker))
    if {"kind", "record"} <= content.keys():
        return load_scoring_model(Path(ranker))
    return split_body(content)[0]


def _on_trial(
    cluster: Cluster, model: Any, featureset: str | None, tables: Sequence[ExternalTable]
) -> Any:
    from owpc_ltr.engine.deployment.serving_mode import on_trial
    from owpc_ltr.engine.options import the_featureset

    if not hasattr(model, "record"):
        raise BadInput(f"{model!r} is no ranker: give a query, a model, a name or a TREC run")
    wanted = model.record.get("featureset_hash")
    own = cluster.store.get_featureset(the_featureset(cluster.store, featureset, wanted))
    return on_trial(cluster.engine, cluster.store, model, own, tables)
