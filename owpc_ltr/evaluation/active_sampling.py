"""`judge sample`: the queries whose human labels narrow the interval of a difference most.

Queries are cut into strata by how far two rankers differ in them by the proxy labels. The number
that is drawn of each is Neyman's (1934): in proportion to its queries and to the spread of what
proxy labels do not predict; in whole numbers by Wright (2012). Within a stratum every query is as
likely as any other, so that what is labelled in the end is a random sample of each stratum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.options import Columns
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.options import METRIC, PoolDepth, Split, Strata, Unweighted
from owpc_ltr.files.output import output_file
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import Argument, Help, Reads, Seed, Writes, job
from owpc_ltr.text import text_table

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.grouping import JudgedQuery
    from owpc_ltr.evaluation.data_comparison import ChosenData, ComparisonRequest

SAMPLED_QUERIES = 50
"""How many queries are drawn."""
SHEET_DEPTH = 10
"""How many of each ranker's documents are to be judged."""


@dataclass(frozen=True)
class HumanLabelSample:
    """The queries to judge with their documents, and the strata that they were drawn from.

    `stratum_of` has the stratum of every query: the sample is one of each stratum, and a
    comparison on it needs them. `strata_file` is where they were written, or read.
    """

    queries: tuple[JudgedQuery, ...]
    strata: tuple[Stratum, ...]
    stratum_of: Mapping[str, str]
    sheet: str = ""
    strata_file: str = ""

    @property
    def n_documents(self) -> int:
        """How many pairs of query and document there are to judge."""
        return sum(len(query.doc_ids) for query in self.queries)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "sheet": self.sheet,
            "strata_file": self.strata_file,
            "queries": len(self.queries),
            "documents": self.n_documents,
            "strata": [{**asdict(one), "probability": one.probability} for one in self.strata],
        }

    def __str__(self) -> str:
        rows = [
            (one.name, one.largest, one.queries, one.judged, one.to_judge) for one in self.strata
        ]
        headers = ("STRATUM", "DIFFERENCE UP TO", "QUERIES", "JUDGED", "TO JUDGE")
        beside = f"; strata: {self.strata_file}" if self.strata_file else ""
        return f"{text_table(headers, rows)}\n{self!r}{beside}"

    def __repr__(self) -> str:
        return f"{self.n_documents:,} documents of {len(self.queries):,} queries to grade"


@job
def judge_sample(
    rankers: Annotated[
        Sequence[Any],
        Reads(
            "The two rankers: files of models or TREC runs, feature:NAME.",
            names="ranker",
            cli=list[str],
            absent=None,
        ),
        Argument.RANKER,
    ],
    *,
    proxy_labels: Annotated[
        Any, Reads("Proxy labels (clicks, a language model) of all queries.", cli=Path)
    ],
    human_labels: Annotated[
        Any, Reads("The human labels so far, of a random sample of them.", cli=Path)
    ] = None,
    data: Annotated[
        Any,
        Reads("The documents with their features, where proxy labels are a list.", cli=Path),
        Argument.DATA,
    ] = None,
    out: Annotated[
        Path | str | None,
        Writes(
            "The sheet to fill in (CSV).",
            required=True,
            standard_output="the sheet has its strata beside it: name a file, not -",
        ),
    ] = None,
    strata: Strata = None,
    columns: Columns = None,
    strata_out: Annotated[
        Path | str | None, "The file of the strata; default: beside `out`."
    ] = None,
    stratify_by_grade: Annotated[
        bool,
        Help(
            "Strata of queries whose documents have like proxy grades, whichever rankers there "
            "are; default: like differences of the rankers."
        ),
    ] = False,
    n: Annotated[int, Help("How many queries.", min=1)] = SAMPLED_QUERIES,
    depth: PoolDepth = SHEET_DEPTH,
    metric: Annotated[
        Any,
        Help(
            "The difference by this metric is estimated; of several, by the first.",
            metavar="METRIC",
            cli=str,
        ),
    ] = METRIC,
    split: Split = "auto",
    unweighted: Unweighted = False,
    seed: Seed = 0,
    plugins: Plugins = (),
) -> HumanLabelSample:
    """Draw the queries whose human labels best compare two rankers.

    Queries in which the rankers differ more by the proxy labels are drawn more often. Queries that
    have human labels are not drawn again. The strata are written beside the sheet (OUT.strata.csv):
    give them with --strata to compare and upload, and to the next round. Grade the whole sheet, or
    its first queries.

    Python: labels and data are also judgments and datasets, and `strata_out` is another file for
    the strata.
    Raises UsageError, BadInput, or Refused where no query is left.
    """
    import pyarrow.compute as pc

    from owpc_ltr.data.judgments.pools import write_sheet
    from owpc_ltr.evaluation import proxy_labels as labels
    from owpc_ltr.evaluation.compare import named_rankers
    from owpc_ltr.evaluation.data_comparison import ComparisonRequest, chosen_data
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.evaluation.results import ComparisonPlan
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import first_metric, uneven

    if len(rankers) != 2:
        raise UsageError(f"an interval is of 2 rankers' difference, and there are {len(rankers)}")
    if n < 1 or depth < 1:
        raise UsageError("there is nothing to judge: draw 1 query and 1 document at least")
    beside = _strata_file(out, strata, strata_out, [proxy_labels, human_labels, data, *rankers])
    files = tuple(map(Path, plugins))
    plan = ComparisonPlan((first_metric(metric, load(files)),))
    request = ComparisonRequest(named_rankers(rankers), plan, split, not unweighted, files)
    proxy_labels, human_labels = read_lists(columns, proxy_labels, human_labels)
    candidates, labelled = _candidates(proxy_labels, data)
    chosen = chosen_data(request, labelled)
    part = labels.judged_data(chosen.part)
    gains = _differences(request, chosen._replace(part=part))
    weights = None if unweighted else uneven(part.query_weights)
    if weights is not None:
        gains = gains * (weights / weights.mean())
    judged = np.zeros(part.n_queries, np.bool_)
    if human_labels is not None:
        people = labels.human_sample(labelled, labels.human_labels(human_labels, labelled)).data
        judged = np.array(pc.is_in(part.query_ids, value_set=people.query_ids))
    names = labels.strata_of(part.query_ids, labels.read_strata(strata))
    if names is None:
        sizes = mean_grades(part) if stratify_by_grade else gains
        names = [str(code) for code in strata_by_size(sizes)]
    ids = part.query_ids.to_pylist()
    drawn = draw_next(gains, np.array(names), judged=judged, query_ids=ids, n=n, seed=seed)
    if not len(drawn.queries):
        raise UsageError("all of these queries have human labels: none is left to draw")
    tops = _tops(chosen, candidates, [ids[number] for number in drawn.queries], depth, seed)
    sample = HumanLabelSample(tops, drawn.strata, dict(zip(ids, names, strict=True)))
    if out is None:
        return sample
    write_sheet(sample.queries, (), {}, Path(out))
    if strata is None:
        labels.write_strata(ids, names, beside)
    return replace(sample, sheet=str(out), strata_file=str(beside if strata is None else strata))


def _strata_file(out: Any, strata: Any, strata_out: Any, inputs: Sequence[Any]) -> Path:
    """The file of new strata, after a check that it can be written."""
    if out is None:
        return Path()
    beside = Path(strata_out or Path(out).with_suffix(".strata.csv"))
    if strata is None:
        output_file(beside, [*(one for one in inputs if isinstance(one, Path | str)), out])
    return beside


def _candidates(proxy_labels: Any, data: Any) -> tuple[RankingDataset, RankingDataset]:
    """The documents with their features, and those with proxy labels."""
    from owpc_ltr.evaluation.proxy_labels import human_labels, human_sample, judged_data

    candidates = judged_data(proxy_labels if data is None else data)
    labelled = candidates
    if data is not None:
        labelled = human_sample(candidates, human_labels(proxy_labels, candidates)).data
    if candidates.doc_ids is None:
        raise BadInput("the data do not know their documents, so that none can be named to judge")
    return candidates, labelled


def _differences(request: ComparisonRequest, chosen: ChosenData) -> Vector:
    from owpc_ltr.evaluation.proxy_labels import check_counted

    a, b = (ranker.values[0] for ranker in chosen.measured(request).rankers.values())
    gains: Vector = a - b
    check_counted(request.plan.metrics[0], gains, gains)
    return gains


def _tops(
    chosen: ChosenData, candidates: RankingDataset, names: list[str], depth: int, seed: int
) -> tuple[JudgedQuery, ...]:
    """The first documents of both rankers, in random order."""
    from owpc_ltr.data.judgments.grouping import JudgedQuery
    from owpc_ltr.data.runs import TrecRun, document_names
    from owpc_ltr.data.splits import hashes_of
    from owpc_ltr.evaluation.ranked_lists import RankedLists
    from owpc_ltr.models.reordering import dataset_scores

    numbers = np.array([candidates.query_ids.index(name).as_py() for name in names], np.int64)
    drawn = candidates.select(numbers)
    tops: list[set[str]] = [set() for _ in names]
    lists: Sequence[Sequence[str]]
    for ranker in chosen.rankers.values():
        if isinstance(ranker, TrecRun):
            run = ranker.lists()
            lists = [run.get(name, ()) for name in names]
        else:
            scores, documents = dataset_scores(ranker, drawn), document_names(drawn).to_pylist()
            lists = RankedLists.of_documents(
                scores, drawn.labels, drawn.offsets, documents, depth=depth
            ).documents
        for top, listed in zip(tops, lists, strict=True):
            top.update(listed[:depth])
    queries = []
    for number, (name, pool) in enumerate(zip(names, map(sorted, tops), strict=True)):
        order = np.argsort(hashes_of(pool, f"{seed} {name}"), kind="stable")
        ids = [pool[place] for place in order.tolist()]
        grades = np.zeros(len(ids), np.float32)
        queries.append(JudgedQuery(name, _params(drawn, number, name), ids, grades))
    return tuple(queries)


def _params(data: RankingDataset, number: int, name: str) -> dict[str, Any]:
    if data.query_params is None:
        return {"query": name, "keywords": name}
    params: dict[str, Any] = json.loads(data.query_params[number].as_py())
    return {**params, "query": str(params.get("query", params.get("keywords", name)))}


STRATA = 4
"""How many strata there are of queries in which the rankers differ."""
_EVEN = 2.0
"""What proxy labels do not tell spreads much more evenly than what they do: strata are thought
to spread by the mean square of their own differences, and so many times that of all."""


@dataclass(frozen=True)
class Stratum:
    """Queries of one sampling probability: how many there are, are judged, and are drawn."""

    name: str
    largest: float
    queries: int
    judged: int
    to_judge: int

    @property
    def probability(self) -> float:
        """How likely a query of it is judged in the end."""
        return (self.judged + self.to_judge) / self.queries


@dataclass(frozen=True, eq=False)
class Drawn:
    """The queries to judge, by number in the order in which they were drawn, and the strata."""

    queries: NDArray[np.int64]
    strata: tuple[Stratum, ...]


def strata_by_size(differences: Vector, strata: int = STRATA) -> NDArray[np.int64]:
    """The stratum of each query: 0 without a difference; the others are of equal size.

    Differences of one size are in one stratum.
    """
    sizes = np.abs(differences)
    apart = sizes > 0
    codes = np.zeros(len(sizes), np.int64)
    if apart.any():
        cuts = np.unique(np.quantile(sizes[apart], np.arange(1, strata) / strata))
        codes[apart] = 1 + np.searchsorted(cuts, sizes[apart], side="left")
    # Strata that nobody is in have no number.
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def mean_grades(data: RankingDataset) -> Vector:
    """The mean label of each query's documents, as the proxy judge gave them."""
    grades: Vector = np.add.reduceat(data.labels.astype(np.float64), data.offsets[:-1])
    return grades / np.diff(data.offsets)


def draw_next(
    differences: Vector,
    strata: NDArray[np.str_],
    judged: NDArray[np.bool_],
    query_ids: list[str],
    n: int,
    seed: int = 0,
) -> Drawn:
    """Draw `n` further queries, or all that are left.

    `differences` are the proxy labels, times the queries' weights; `judged` says which queries
    have human labels. The same seed draws the same.
    """
    from owpc_ltr.data.splits import hashes_of

    names, codes = np.unique(strata, return_inverse=True)
    sizes = np.bincount(codes)
    counts = np.bincount(codes[judged], minlength=len(names))
    spread = _spread(differences, codes, len(names))
    to_judge = allocated(sizes, counts, spread, n) - counts
    order = np.argsort(hashes_of(query_ids, f"judge next {seed}"), kind="stable")
    order = order[~judged[order]]
    # The place of each query among the unjudged ones of its stratum.
    by_stratum = np.argsort(codes[order], kind="stable")
    strata_left = codes[order][by_stratum]
    place = np.arange(len(strata_left)) - np.searchsorted(strata_left, strata_left)
    chosen = np.sort(by_stratum[place < to_judge[strata_left]])
    largest = np.zeros(len(names))
    np.maximum.at(largest, codes, np.abs(differences))
    columns = (column.tolist() for column in (names, largest, sizes, counts, to_judge))
    return Drawn(order[chosen], tuple(map(Stratum, *columns)))


def allocated(
    sizes: NDArray[np.int64], counts: NDArray[np.int64], spread: Vector, n: int
) -> NDArray[np.int64]:
    """How many queries of each stratum are judged after `n` new ones, for the least variance.

    Each has 2 where it can, for what spreads unseen cannot be told.
    """
    judged = np.maximum(counts, np.minimum(sizes, 2))
    left = max(0, counts.sum() + n - int(judged.sum()))
    for _ in range(min(left, int((sizes - judged).sum()))):
        gain = np.where(judged < sizes, (sizes * spread) ** 2 / (judged * (judged + 1.0)), -1.0)
        judged[int(gain.argmax())] += 1
    return judged


def _spread(differences: Vector, codes: NDArray[np.int64], width: int) -> Vector:
    """How far human differences of each stratum are expected to spread about proxy ones."""
    squares = np.bincount(codes, differences**2, width) / np.bincount(codes, minlength=width)
    spread: Vector = np.sqrt(squares + _EVEN * (float((differences**2).mean()) or 1.0))
    return spread
