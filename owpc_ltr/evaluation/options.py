"""Parameters of jobs that measure rankers, each described once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from owpc_ltr.errors import UsageError
from owpc_ltr.host.commands import NO_STORE, ConnectsWith
from owpc_ltr.signatures import Argument, Help, Reads, Writes

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import JudgedTable

METRICS = ("ndcg@10", "map", "mrr")
"""What is measured unless metrics are named; the first one decides."""
METRIC = METRICS[0]
RESAMPLES = 10_000
"""Permutations of a test, and bootstrap samples of an interval."""
WORST_QUERIES = 5
"""How many of the queries that lose most a comparison's text shows."""


def split_in_words(split: str) -> str:
    """Which queries a figure is of."""
    return {
        "test": "held out",
        "folds": "cross-validated",
        "all": "all of them",
        "unknown": "it is not known whether they are training queries",
    }.get(split, f"{split} split")


Metrics = Annotated[
    Sequence[Any] | str,
    Help(
        "Metrics, as ndcg@10,map; default: ndcg@10, map, mrr.",
        flag="--metric",
        metavar="METRIC",
        cli=list[str],
        project="metric",
    ),
]
ChoosingMetric = Annotated[
    Any,
    Help(
        "Validation queries choose by this metric; of several, as map,ndcg@10, by the first.",
        flag="--metric",
        metavar="METRIC",
        cli=str,
        panel="Model",
        project="metric",
    ),
]
Split = Annotated[
    str,
    Help(
        "Which queries: auto (those that no ranker was trained on), all, test, validation or "
        "train.",
        metavar="SPLIT",
    ),
]
Unweighted = Annotated[bool, Help("Give every query the same weight.", panel="Advanced")]
SmallestGain = Annotated[
    float, Help("Better only where the 95 % interval of the gain lies above this.", min=0)
]
Baseline = Annotated[
    str | None,
    Help("Compare each ranker with this one alone; default: all pairs.", metavar="RANKER"),
]
Unjudged = Annotated[
    Literal["zero", "skip", "condensed"],
    Help(
        "Unjudged documents of lists: zero (irrelevant), skip (their queries left out), condensed "
        "(removed).",
        panel="Advanced",
    ),
]
Worst = Annotated[
    int, Help("How many of the queries that lose most to show.", min=0, panel="Advanced")
]
Segments = Annotated[
    Sequence[str] | str | None,
    Help(
        "Show the comparison in segments of the queries: by length, by frequency (query weights), "
        "or by a parameter of the queries, in which no ranker may lose either.",
        metavar="KIND,…",
        cli=str,
    ),
]
AcceptLoss = Annotated[
    Sequence[str] | str,
    Help(
        "A segment that the better ranker may lose, as 'length: 1 word'.",
        metavar="SEGMENT",
        cli=list[str],
    ),
    Argument.LIST,
]
Looks = Annotated[
    bool,
    Help(
        "Compare nothing: list the comparisons on these queries that were counted, and how many "
        "are left.",
        panel="Advanced",
    ),
]
ProxyLabels = Annotated[
    Any,
    Reads(
        "Proxy labels (clicks, a language model) of all queries, where the judgments are human "
        "labels of a random sample of them.",
        cli=Path,
        panel="Data",
    ),
]
PerQueryTable = Annotated[
    Path | str | None,
    Writes(
        "Also write the values of every query, as .csv or .parquet.",
        standard_output="the values of queries go to a file: name one, not -",
        panel="Advanced",
    ),
]
LatexTable = Annotated[
    Path | str | None, Writes("Also write the means as a LaTeX table (booktabs).", panel="Advanced")
]
Resamples = Annotated[int, Help("Permutations and bootstrap samples.", min=100, panel="Advanced")]
Documents = Annotated[
    Path | str | None,
    Reads("The file that was indexed, for rerankers that read fields of documents.", panel="Data"),
]
IdField = Annotated[
    str | None,
    Help(
        "The field of `documents` with the document's id; default: the line number.",
        metavar="FIELD",
        panel="Data",
    ),
    Argument.NAME,
]
IndexToCheck = Annotated[
    str | None,
    Help(
        "Search this index for some queries; warn if it does not return the judged documents.",
        panel="Engine",
    ),
    Argument.NAME,
]
QueryTemplate = Annotated[
    Path | str | None,
    Reads(
        "Your application's query (JSON), with {{keywords}}; default: all text fields.",
        panel="Engine",
    ),
]


class JudgmentChecker(Protocol):
    """What a job that trains asks of a cluster."""

    def check_judgments(
        self, judgments: RankingDataset, *, index: str, query_template: Path | str | None
    ) -> list[str]:
        """What looks harmful in judgments when the engine is asked some of their queries."""
        ...


EngineOfJudgments = Annotated["JudgmentChecker | None", NO_STORE, ConnectsWith("index")]


def engine_warnings(
    cluster: JudgmentChecker | None,
    data: JudgedTable,
    index: str | None,
    query_template: Path | str | None,
) -> list[str]:
    """What looks harmful in the judgments of the data, when the engine is asked their queries."""
    if index is None:
        if query_template is not None:
            raise UsageError("`query_template` is sent to an index: name it with `index`")
        return []
    if cluster is None:
        raise UsageError("`index` is an index of a cluster: give `cluster`")

    warnings: list[str] = cluster.check_judgments(
        data.head, index=index, query_template=query_template
    )
    return warnings
