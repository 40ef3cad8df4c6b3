"""`judge pool`: a grading sheet of the documents that rankers bring to the top.

Judged are then the lists that users get, by whichever ranker (Spärck Jones & van Rijsbergen 1975).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult
from owpc_ltr.data.options import Columns
from owpc_ltr.engine.live_queries import InFlight, ModelFeatureSet, judged_queries, with_params
from owpc_ltr.engine.options import (
    DEFAULT_WINDOW,
    IN_FLIGHT,
    Params,
    QueryTemplate,
    SearchIndex,
    Window,
)
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.signatures import Argument, Help, Progress, Reads, Seed, Writes, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import JudgedQuery, Judgments
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.live_results.rankers import LiveRanker
    from owpc_ltr.protocols import Model

POOL_DEPTH = 20
"""How many of each ranker's documents are pooled."""
_BATCH = 500


def names_between_commas(text: str) -> list[str]:
    """Names of a text of the command line, without empty ones.

    >>> names_between_commas("query, model.json")
    ['query', 'model.json']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


@dataclass(frozen=True, repr=False)
class JudgmentPool(BlockResult):
    """Queries with their documents to judge, what is shown of these, and what was left out.

    `judged` documents have a grade already; `absent` ones (of runs) are not in the index. `sheet`
    is the file that they were written to. `common` judged ones are graded again, so that raters
    have common pairs. Of a sample, `drawn` queries were drawn from `drawn_from`; without one, both
    are None.
    """

    queries: tuple[JudgedQuery, ...]
    shown: Mapping[str, Mapping[str, Any]]
    judged: int
    absent: int
    sheet: str = ""
    drawn: int | None = None
    drawn_from: int | None = None
    common: int = 0

    @property
    def n_documents(self) -> int:
        """How many pairs of query and document there are to judge."""
        return sum(len(query.doc_ids) for query in self.queries)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "sheet": self.sheet,
            "queries": len(self.queries),
            "documents": self.n_documents,
            "already_judged": self.judged,
            "common": self.common,
            "absent": self.absent,
            "drawn": self.drawn,
            "drawn_from": self.drawn_from,
        }

    def _blocks(self) -> Iterator[Block]:
        drawn = ""
        if self.drawn is not None:
            drawn = (
                f"{self.drawn:,} of {self.drawn_from:,} queries that no model was trained on were "
                "drawn at random; "
            )
        common = ""
        if self.common:
            common = f" ({self.common:,} for a second time, as raters need common pairs)"
        yield (
            f"{drawn}{self.n_documents:,} documents of {len(self.queries):,} queries to grade"
            f"{common}; {self.judged:,} left out that are judged already, {self.absent:,} that are "
            "not in the index"
        )


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
            metavar="RANKER,…",
        ),
        Argument.RANKER,
    ],
    out: Annotated[Path | str | None, Writes("The sheet to fill in (CSV).", required=True)] = None,
    sample: Annotated[
        int | None,
        Help("Draw this many queries at random of those that no model was trained on.", min=1),
    ] = None,
    depth: Annotated[int, Help("How many documents of each ranker to judge.", min=1)] = POOL_DEPTH,
    fields: Annotated[
        Sequence[str],
        Help(
            "What to show of a document: fields, between commas.",
            cli=str,
            parse=names_between_commas,
            metavar="FIELD,…",
        ),
    ] = (),
    judged: Annotated[
        Judgments | RankingDataset | Path | str | None,
        Reads(
            "Existing judgments: documents that they contain are left out, but for some that are "
            "graded again.",
            cli=Path,
        ),
    ] = None,
    columns: Columns = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    window: Window = None,
    featureset: ModelFeatureSet = None,
    in_flight: InFlight = IN_FLIGHT,
    seed: Seed = 0,
    progress: Progress = silent,
) -> JudgmentPool:
    """Write a sheet of the rankers' top documents, for people to grade.

    People fill in the column `grade`; `log_features()` then reads the sheet. Each document of a
    query is listed once, in random order, so that nobody sees ranks or rankers. Models rescore the
    query template, and are stored in the cluster only during the command. The same seed draws the
    same queries, and a larger sample has those of a smaller one.

    Python: `queries` may be what was read before; `rankers` are also queries (objects) and models.
    Raises UsageError for a ranker that is neither a file nor uploaded.
    """
    from owpc_ltr.data.judgment_tables import write_sheet
    from owpc_ltr.engine.live_results.rankers import LiveRankers, records_of
    from owpc_ltr.evaluation.judged_data import choose_queries, read_lists
    from owpc_ltr.evaluation.rules import FEWEST_COMMON

    if not rankers:
        raise UsageError(
            "there is no ranker to pool: give queries, models, uploaded names or TREC runs"
        )
    asked = with_params(_read_queries(queries, columns), params)
    # Where the file of queries has these columns, the judgments may have their own.
    with suppress(BadInput, UsageError) if isinstance(queries, Path | str) else nullcontext():
        (judged,) = read_lists(columns, judged)
    graded = judged_queries(judged) if judged is not None else []
    where = cluster.the_index(index)
    with ExitStack() as trials:
        serving = LiveRankers(
            cluster=cluster,
            query_template=query_template,
            window=window,
            judged=asked,
            trials=trials,
            index=where,
            featureset=featureset,
        )
        served = [serving.of(_ranker(ranker)) for ranker in rankers]
        drawn_from = None
        if sample is not None:
            records = records_of(dict(zip(map(str, rankers), served, strict=True)))
            held_out = [asked[number] for number in choose_queries(records, asked).queries]
            asked, drawn_from = random_sample(held_out, sample, seed), len(held_out)
        pooled = pool(
            cluster.engine,
            where,
            served,
            asked,
            judged={query.query_id: frozenset(query.doc_ids) for query in graded},
            depth=depth,
            window=serving.depth,
            fields=fields,
            seed=seed,
            in_flight=in_flight,
            progress=progress,
            common=FEWEST_COMMON,
        )
    if drawn_from is not None:
        pooled = replace(pooled, drawn=len(asked), drawn_from=drawn_from)
    if out is not None:
        write_sheet(pooled.queries, fields, pooled.shown, Path(out))
        pooled = replace(pooled, sheet=str(out))
    return pooled


def pool(
    engine: Engine,
    index: str,
    rankers: Sequence[LiveRanker | TrecRun],
    queries: Sequence[JudgedQuery],
    *,
    judged: Mapping[str, frozenset[str]],
    depth: int = POOL_DEPTH,
    window: int = DEFAULT_WINDOW,
    fields: Sequence[str] = (),
    seed: int = 0,
    in_flight: int = IN_FLIGHT,
    progress: Progress | None = None,
    common: int = 0,
) -> JudgmentPool:
    """The first `depth` documents of every ranker, each once, without those judged already.

    Their order is drawn by the seed, and depends on nothing that a ranker said. `fields` of the
    documents are shown. `common` judged ones are there, too, but no more than others.
    """
    import numpy as np

    from owpc_ltr.engine.client.engine import search_index
    from owpc_ltr.engine.live_results.rankers import answers_of
    from owpc_ltr.engine.search.request import SearchRequest

    brought: dict[str, set[str]] = {query.query_id: set() for query in queries}
    shared = SearchRequest(index, {}, {}, depth, max(window, depth))
    for of_ranker in answers_of(rankers, queries, shared, in_flight, progress):
        for query, answer in zip(queries, of_ranker, strict=True):
            brought[query.query_id].update(answer.doc_ids[:depth])
    unjudged = [brought[q.query_id] - judged.get(q.query_id, frozenset()) for q in queries]
    n_unjudged = sum(map(len, unjudged))
    again = _again(brought, judged, min(common, n_unjudged), seed)
    unjudged = [of | again.get(q.query_id, set()) for q, of in zip(queries, unjudged, strict=True)]
    ids = sorted(set[str]().union(*unjudged))
    # What is shown of each document that is in the index.
    shown: dict[str, Mapping[str, Any]] = {}
    for first in range(0, len(ids), _BATCH):
        batch = ids[first : first + _BATCH]
        body = {
            "query": {"ids": {"values": batch}},
            "size": len(batch),
            "_source": list(fields) or False,
        }
        for hit in search_index(engine, index, body, "the documents to judge").hits:
            shown[hit["_id"]] = hit.get("_source") or {}
    pooled = [
        replace(query, doc_ids=drawn, grades=np.zeros(len(drawn), np.float32), weights=None)
        for query, documents in zip(queries, unjudged, strict=True)
        if (drawn := _drawn(seed, query.query_id, documents & shown.keys()))
    ]
    n_brought, n_asked = sum(map(len, brought.values())), sum(map(len, unjudged))
    n_pooled = sum(len(query.doc_ids) for query in pooled)
    return JudgmentPool(
        tuple(pooled),
        shown,
        n_brought - n_asked,
        n_asked - n_pooled,
        common=sum(len(again.get(q.query_id, set()) & {*q.doc_ids}) for q in pooled),
    )


def _again(
    brought: Mapping[str, set[str]], judged: Mapping[str, frozenset[str]], n: int, seed: int
) -> dict[str, set[str]]:
    """So many judged documents, by query, drawn by the seed from those that rankers brought."""
    pairs = [
        f"{query_id}\0{document}"
        for query_id, documents in brought.items()
        for document in documents & judged.get(query_id, frozenset())
    ]
    documents_by_query: dict[str, set[str]] = {}
    for pair in _drawn(seed, "common", set(pairs))[:n]:
        query_id, _, document = pair.partition("\0")
        documents_by_query.setdefault(query_id, set()).add(document)
    return documents_by_query


def _drawn(seed: int, query_id: str, documents: set[str]) -> list[str]:
    """The documents in an order that the seed draws, the same whatever else is in the pool."""
    import hashlib

    def draw(document: str) -> bytes:
        return hashlib.blake2b(f"{seed}\0{query_id}\0{document}".encode(), digest_size=8).digest()

    return sorted(documents, key=draw)


def _ranker(ranker: Any) -> Any:
    """A ranker as `LiveRankers` takes it; a file that is no JSON is a run."""
    from owpc_ltr.data.runs import read_run

    if isinstance(ranker, Path | str):
        is_file = Path(ranker).suffix != ".json" and Path(ranker).is_file()
        return read_run(ranker) if is_file else ranker
    if isinstance(ranker, Mapping) or hasattr(ranker, "record"):
        return ranker
    raise BadInput(f"{ranker!r} is not a ranker: give a query, a model, a name or a TREC run")


def random_sample(queries: Sequence[JudgedQuery], n: int, seed: int) -> list[JudgedQuery]:
    """So many queries, each as likely as any other, in their order.

    They are those whose ids have the smallest hashes: the same in whatever order queries are
    given, and a larger sample has those of a smaller one.
    """
    import numpy as np

    from owpc_ltr.data.splits import hashes_of

    hashes = hashes_of([query.query_id for query in queries], f"judge pool {seed}")
    drawn = np.argsort(hashes, kind="stable")[:n]
    return [queries[number] for number in np.sort(drawn).tolist()]


def _read_queries(
    path: Sequence[JudgedQuery] | Path | str, columns: Mapping[str, str] | None
) -> Sequence[JudgedQuery]:
    """The queries of a file, without documents: of a table, lines, or a dataset."""
    if not isinstance(path, Path | str):
        return path
    import numpy as np

    from owpc_ltr.data.judgment_tables import read_queries
    from owpc_ltr.evaluation.judged_data import read_lists

    if Path(path).is_dir() or Path(path).suffix in {".parquet", ".jsonl", ".json"}:
        nothing = np.zeros(0, np.float32)
        return [
            replace(query, doc_ids=[], grades=nothing, weights=None)
            for query in judged_queries(read_lists(columns, path)[0])
        ]
    return read_queries(Path(path), columns)
