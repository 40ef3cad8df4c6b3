"""`fuse`: one learned weight for each leg of a hybrid search, or the reason not to fuse."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.live_queries import InFlight
from owpc_ltr.engine.options import DEFAULT_WINDOW, IN_FLIGHT, OnlyIndex
from owpc_ltr.errors import BadInput, Refused, give_warnings
from owpc_ltr.evaluation.options import METRIC, RESAMPLES, Resamples
from owpc_ltr.files.output import write_output
from owpc_ltr.host.commands import Plugins, ReportPage, write_report
from owpc_ltr.signatures import (
    NO_FEATURE_SET,
    Argument,
    Help,
    Progress,
    Reads,
    Seed,
    Writes,
    job,
    silent,
)

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.legs import FoundDocuments, Legs
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.fusion.evaluation import Fusion, LoggedLegs


@job(changes_cluster=True)
def fuse(
    cluster: Cluster,
    legs: Annotated[
        FeatureSet | Mapping[str, Any] | Path | str,
        Reads(
            "The legs: a feature set of two to five queries (JSON).",
            cli=Path,
            metavar="LEGS.json",
            absent=NO_FEATURE_SET,
        ),
    ],
    *,
    judgments: Annotated[
        Judgments | Path | str,
        Reads(
            "Judged queries: JSON lines, TSV, CSV, qrels …; also .gz or .xz.", project="judgments"
        ),
    ],
    index: OnlyIndex = None,
    window: Annotated[int, Help("How many documents each leg brings.", min=1)] = DEFAULT_WINDOW,
    metric: Annotated[
        Any,
        Help("What is measured, and chooses on validation queries.", cli=str, project="metric"),
    ] = METRIC,
    out: Annotated[
        Path | str | None, Writes("The file of the model, written only if it is better.")
    ] = None,
    query_template_out: Annotated[
        Path | str | None,
        Writes("The file of the query that brings the candidates, for `search(query_template=…)`."),
    ] = None,
    data_out: Annotated[
        Path | str | None,
        Writes(
            "The dataset of all legs' scores (Parquet); an interrupted log is resumed.",
            standard_output="unfinished work is stored beside `data_out`: name a file, not -",
        ),
    ] = None,
    force: Annotated[bool, Help("Write the model even if it is not better.")] = False,
    complete: Annotated[
        bool, Help("The judgments are complete: documents without one are irrelevant.")
    ] = False,
    featureset: Annotated[
        str | None,
        Help("The feature set's name in the cluster; default: the file's."),
        Argument.NAME,
    ] = None,
    topics: Topics = None,
    columns: Columns = None,
    in_flight: InFlight = IN_FLIGHT,
    report: ReportPage = None,
    resamples: Resamples = RESAMPLES,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> Fusion:
    """Learn one weight for each leg of a hybrid search, or say why not to fuse.

    Each leg's best documents are candidates, and every leg scores all of them. The weights are a
    linear model of the legs' scores: an upload, a search, a live comparison and a rollback treat
    it as any other. It is compared, on queries that it was not learned from, with the best leg
    alone; the table also has reciprocal rank fusion and the engines' other ways. Candidates without
    a judgment count as irrelevant.

    A `knn` leg searches by the graph and is scored by a script over the same vectors; where the
    engine allows no scripts, by `knn` among the candidates, and then the client scores the model.
    With `out` the model is written if it is better, else refused (exit code 5).

    Python: `legs` may be a feature set or an object, `judgments` what was read before. Raises
    BadInput for a leg that finds nothing or cannot score every document, and for vectors of another
    length than the field's; Refused, with the `result`, where `out` is given and fusion is not
    better.
    """
    from owpc_ltr.engine.legs import find_candidates, read_legs, shards_of
    from owpc_ltr.evaluation.measurement import Resampling
    from owpc_ltr.fusion.evaluation import FEWEST_QUERIES, learned_fusion
    from owpc_ltr.host.judgment_lists import read_judgments
    from owpc_ltr.models.model_file import save_model

    if isinstance(judgments, Path | str):
        judgments = read_judgments(judgments, topics=topics, columns=columns)
        give_warnings(judgments.notes)
    if len(judgments.queries) < FEWEST_QUERIES:
        raise BadInput(
            f"{len(judgments.queries)} judged queries are too few to learn from some and measure "
            f"on others: give {FEWEST_QUERIES} or more"
        )
    where = cluster.the_index(index)
    searches = read_legs(legs, cluster.engine, where, window, featureset)
    shards = shards_of(cluster.engine, where)
    candidates = find_candidates(
        cluster.engine,
        where,
        searches,
        judgments.queries,
        shards=shards,
        in_flight=in_flight,
        progress=progress,
    )
    store_legs(cluster, searches, where, judgments.queries[0].params)
    logged = _logged(
        cluster, searches, judgments, candidates, index=where, data_out=data_out, progress=progress
    )
    result = learned_fusion(
        searches,
        logged,
        judgments,
        metric,
        identity=cluster.engine.identity(),
        complete=complete,
        plugins=plugins,
        drawing=Resampling(seed, resamples, progress),
    )
    notes = _notes(searches, logged, len(judgments.queries), shards, complete)
    result = replace(result, notes=tuple(notes))
    if query_template_out is not None:
        text = json.dumps(searches.query_template, indent=1, ensure_ascii=False) + "\n"
        write_output(query_template_out, text.encode())
    write_report(result, report, plugins)
    if out is not None:
        if not (result.is_better or force):
            raise Refused(
                f"{out} is not written: fusion is not shown to be better than '{result.best_leg}' "
                f"alone; judge more queries, or write it all the same with `force`"
            ).with_result(result)
        save_model(result.model, out)
    return result


def store_legs(cluster: Cluster, legs: Legs, index: str, params: Mapping[str, Any]) -> None:
    """Store the legs as a feature set, each tried with these parameters; as it is if it is there.

    Raises Refused where another set has the name.
    """
    from owpc_ltr.engine.feature_sets import push

    if legs.name in cluster.store.list_featuresets():
        if cluster.store.get_featureset(legs.name).hash == legs.featureset.hash:
            return
        raise Refused(
            f"there is another feature set '{legs.name}' already: delete it (owpc-ltr featureset "
            f"delete), or take another name with `featureset`"
        )
    needed = {name: params[name] for name in legs.featureset.params if name in params}
    push(cluster, legs.featureset, index=index, params=needed)


def _logged(
    cluster: Cluster,
    legs: Legs,
    judged: Judgments,
    candidates: Sequence[FoundDocuments],
    index: str,
    data_out: Path | str | None,
    progress: Progress,
) -> LoggedLegs:
    """Every leg's score of every candidate, from one snapshot of the index."""
    import numpy as np

    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.engine.feature_log.log_features import log_features
    from owpc_ltr.engine.legs import candidates_as_judgments
    from owpc_ltr.fusion.evaluation import LoggedLegs

    with ExitStack() as temporary:
        if data_out is None:
            folder = temporary.enter_context(tempfile.TemporaryDirectory(prefix="owpc-ltr-fuse-"))
            data_out = Path(folder) / "legs.parquet"
        log_features(
            cluster,
            judgments=candidates_as_judgments(judged, candidates),
            out=data_out,
            index=index,
            featureset=legs.name,
            progress=progress,
        )
        data = read_dataset(Path(data_out))
    by_query = {
        q.query_id: (q, brought) for q, brought in zip(judged.queries, candidates, strict=True)
    }
    rows, served, shards, grades = [], [], [], []
    names = data.doc_ids.to_pylist() if data.doc_ids is not None else []
    for query_id, (start, end) in zip(
        data.query_ids.to_pylist(), pairwise(data.offsets.tolist()), strict=True
    ):
        query, brought = by_query[query_id]
        documents = names[start:end]
        by_leg = [frozenset(leg) for leg in brought.by_leg]
        request = frozenset(brought.by_request)
        rows += [[document in leg for leg in by_leg] for document in documents]
        served += [document in request for document in documents]
        shards += [brought.shards[document] for document in documents]
        grades.append(dict(zip(query.doc_ids, map(float, query.grades), strict=True)))
    found_by, in_request = np.array(rows, np.bool_), np.array(served, np.bool_)
    return LoggedLegs(data, found_by, in_request, np.array(shards, np.int64), grades)


def _notes(
    legs: Legs, logged: LoggedLegs, n_queries: int, shards: int, complete: bool
) -> list[str]:
    """What a reader of the figures has to know of the candidates."""
    import numpy as np

    notes = []
    data = logged.data
    if n_queries > data.n_queries:
        notes.append(
            f"{n_queries - data.n_queries:,} of {n_queries:,} queries have no candidate and are "
            "left out: no ranker gains on them"
        )
    for number, leg in enumerate(legs.legs):
        lacking = int(np.isnan(data.features[:, number]).sum())
        if leg.is_nearest and lacking:
            notes.append(
                f"leg '{leg.name}' has no score for {lacking:,} of {data.n_documents:,} "
                "candidates, which count 0 there: they have no vector, or are beyond its k"
            )
    if shards > 1:
        notes.append(
            f"{shards} shards: windows and k are of each shard, here as in a search, so that a "
            f"query has up to {shards * legs.window * len(legs.legs):,} candidates"
        )
    if not complete:
        notes.append(
            f"{1 - logged.judged_share:.0%} of the candidates have no judgment and count as "
            "irrelevant, in learning and in figures"
        )
    return notes
