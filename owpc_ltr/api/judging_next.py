"""`judge next`: the queries, and their documents, whose human judgment narrows an interval most."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from owpc_ltr.api.comparing_on_data import ChosenData
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.types import JudgedQuery
    from owpc_ltr.evaluation.next_queries import Stratum
    from owpc_ltr.metrics import Metric


@dataclass(frozen=True)
class NextJudgments:
    """The queries to judge with their documents, and the strata that they were drawn from.

    `stratum_of` has the stratum of every query: the sample is one of each stratum, and whoever
    measures on it needs them.
    """

    queries: tuple[JudgedQuery, ...]
    strata: tuple[Stratum, ...]
    stratum_of: Mapping[str, str]

    @property
    def n_documents(self) -> int:
        """How many pairs of query and document there are to judge."""
        return sum(len(query.document_ids) for query in self.queries)


def judge_next(
    rankers: Sequence[Any],
    cheap: Any,
    human: Any = None,
    out: Path | str | None = None,
    *,
    data: Any = None,
    strata: Mapping[str, str] | Path | str | None = None,
    strata_out: Path | str | None = None,
    metric: Any = "ndcg@10",
    n: int = 50,
    depth: int = 10,
    queries: str = "auto",
    unweighted: bool = False,
    seed: int = 0,
    plugins: Sequence[Path | str] = (),
) -> NextJudgments:
    """What people should judge next of cheaply judged queries, to tell two rankers apart.

    `cheap` are the cheap judgments of all queries, `human` those that people made so far of a
    random sample: what they judged is not drawn again. Where the cheap ones are a list, `data` has
    the features. Of each of the `n` queries, which are drawn by chance, the first `depth` documents
    of either ranker are to be judged. With `out` they are written as a CSV whose `grade` column is
    to be filled, and the strata to `strata_out` (beside it). Give them as `strata` to `compare` and
    `upload`, and for the next round. Raises UsageError, BadInput, or Refused where no query is
    left.
    """
    from owpc_ltr.data.judgments.pools import write_sheet
    from owpc_ltr.data.strata import read_strata, write_strata
    from owpc_ltr.files.output import output_file

    if len(rankers) != 2:
        raise UsageError(f"an interval is of 2 rankers' difference, and there are {len(rankers)}")
    if n < 1 or depth < 1:
        raise UsageError("there is nothing to judge: draw 1 query and 1 document at least")
    beside = None
    if out is not None:
        inputs = [
            one for one in (cheap, human, data, strata, *rankers) if isinstance(one, Path | str)
        ]
        output_file(out, inputs)
        beside = Path(strata_out or Path(out).with_suffix(".strata.csv"))
        if strata is None:
            output_file(beside, [*inputs, out])
    asked = _asked(rankers, metric, queries, not unweighted, plugins)
    found = _next(asked, cheap, human, data, read_strata(strata), n, depth, seed)
    if out is not None:
        write_sheet(found.queries, (), {}, Path(out))
        if strata is None and beside is not None:
            write_strata(list(found.stratum_of), list(found.stratum_of.values()), beside)
    return found


def _asked(
    rankers: Sequence[Any], metric: Any, queries: str, weighted: bool, plugins: Sequence[Path | str]
) -> Any:
    from owpc_ltr.api.compared_rankers import Asked, is_live, named_rankers
    from owpc_ltr.evaluation.comparing.side_by_side import Conventions
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric

    named = named_rankers(rankers)
    if any(map(is_live, named.values())):
        raise UsageError("live rankers are not measured here: name files, runs or feature:NAME")
    files = tuple(map(Path, plugins))
    return Asked(named, Conventions((parse_metric(metric, load(files)),)), queries, weighted, files)


def _next(
    asked: Any,
    cheap: Any,
    human: Any,
    data: Any,
    strata: Mapping[str, str] | None,
    n: int,
    depth: int,
    seed: int,
) -> NextJudgments:
    import numpy as np
    import pyarrow.compute as pc

    from owpc_ltr.api.comparing_cheap import judged_data, judged_people
    from owpc_ltr.api.comparing_on_data import chosen_data
    from owpc_ltr.evaluation.evaluate import importance_of
    from owpc_ltr.evaluation.human_sample import human_sample, strata_of
    from owpc_ltr.evaluation.next_queries import draw_next, strata_by_size

    candidates = judged_data(cheap if data is None else data)
    everything = candidates
    if data is not None:
        everything = human_sample(candidates, judged_people(cheap, candidates)).data
    if candidates.document_ids is None:
        raise BadInput("the data do not know their documents, so that none can be named to judge")
    chosen = chosen_data(asked, everything, None, None)
    part = judged_data(chosen.part)
    metric = asked.how.metrics[0]
    gains = _differences(metric, chosen, part)
    weights = importance_of(part) if asked.weighted else None
    scale = np.ones(part.n_queries) if weights is None else weights / weights.mean()
    judged = np.zeros(part.n_queries, np.bool_)
    if human is not None:
        people = human_sample(everything, judged_people(human, everything)).data
        judged = np.array(pc.is_in(part.query_ids, value_set=people.query_ids))
    names = strata_of(part.query_ids, strata)
    if names is None:
        names = [str(code) for code in strata_by_size(scale * gains)]
    ids = part.query_ids.to_pylist()
    drawn = draw_next(scale * gains, np.array(names), judged, ids, n, seed)
    if not len(drawn.queries):
        raise UsageError("people judged all of these queries: there is none to judge next")
    tops = _tops(
        chosen, candidates, [ids[number] for number in drawn.queries.tolist()], depth, seed
    )
    return NextJudgments(tops, drawn.strata, dict(zip(ids, names, strict=True)))


def _differences(metric: Metric, chosen: ChosenData, data: RankingDataset) -> Vector:
    from owpc_ltr.evaluation.comparing.on_data import measure_on_data
    from owpc_ltr.evaluation.human_sample import check_counted

    found = measure_on_data(chosen.rankers, data, (metric,), "zero")
    one, other = (values.values[0] for values in found.rankers.values())
    gains: Vector = one - other
    check_counted(metric, gains, gains)
    return gains


def _tops(
    chosen: ChosenData, candidates: RankingDataset, names: list[str], depth: int, seed: int
) -> tuple[JudgedQuery, ...]:
    """The first documents of either ranker, in an order that tells nothing."""
    import numpy as np
    import pyarrow as pa

    from owpc_ltr.data.judgments.types import JudgedQuery
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.data.splits import hashes_of
    from owpc_ltr.models.reordering import dataset_scores

    numbers = np.array([candidates.query_ids.index(name).as_py() for name in names], np.int64)
    asked = candidates.select(numbers)
    tops: list[set[str]] = [set() for _ in names]
    for ranker in chosen.rankers.values():
        if isinstance(ranker, TrecRun):
            listed = ranker.lists()
            for top, name in zip(tops, names, strict=True):
                top.update(listed.get(name, ())[:depth])
            continue
        rows = _first_rows(dataset_scores(ranker, asked), asked, depth)
        of = np.searchsorted(asked.offsets, rows, side="right") - 1
        assert asked.document_ids is not None  # noqa: S101 - told to the type checker
        documents = asked.document_ids.take(pa.array(rows)).to_pylist()
        for query, document in zip(of.tolist(), documents, strict=True):
            tops[query].add(document)
    found = []
    for number, (name, top) in enumerate(zip(names, tops, strict=True)):
        listed_top = sorted(top)
        order = np.argsort(hashes_of(listed_top, f"{seed} {name}"), kind="stable")
        ids = [listed_top[place] for place in order.tolist()]
        grades = np.zeros(len(ids), np.float32)
        found.append(JudgedQuery(name, _params(asked, number, name), ids, grades))
    return tuple(found)


def _first_rows(scores: Vector, data: RankingDataset, depth: int) -> NDArray[np.int64]:
    """The rows of the best documents of each query."""
    import numpy as np

    of = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    order = np.lexsort((-scores, of))
    within = np.arange(len(of)) - data.offsets[of]
    rows: NDArray[np.int64] = order[within < depth]
    return rows


def _params(data: RankingDataset, number: int, name: str) -> dict[str, Any]:
    if data.query_params is None:
        return {"query": name, "keywords": name}
    params: dict[str, Any] = json.loads(data.query_params[number].as_py())
    said = str(params.get("query", params.get("keywords", name)))
    return {**params, "query": said}
