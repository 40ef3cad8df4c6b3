"""`compare`: any rankers side by side on the same queries, and whether chance explains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.api.compared_rankers import (
    Asked,
    check_baseline,
    check_unjudged,
    is_live,
    named_rankers,
)
from owpc_ltr.api.evaluation import METRICS
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.api.comparing_live import LiveSearch
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.types import Judgments
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset
    from owpc_ltr.evaluation.comparing.result import RankerComparison

    OneData = RankingDataset | PartitionedDataset | Judgments | Path | str

Progress = Callable[[str, float | None], None]


def compare(
    rankers: Sequence[Any] | Mapping[str, Any],
    data: OneData | Sequence[OneData],
    metrics: Sequence[Any] | str = METRICS,
    *,
    baseline: str | None = None,
    queries: str = "auto",
    unjudged: str = "zero",
    unweighted: bool = False,
    live: LiveSearch | bool = False,
    cheap: OneData | None = None,
    strata: Mapping[str, str] | Path | str | None = None,
    documents: Path | str | None = None,
    id_field: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
    plugins: Sequence[Path | str] = (),
) -> RankerComparison:
    """Rankers side by side: means with intervals, and each pair's difference, tested and corrected.

    `rankers` are models, their files, runs (`read_run`) and their files, `feature:NAME`, and
    `live:NAME@INDEX`: an uploaded model, or a query in a file (QUERY.json), which an engine ranks
    its whole index by; a mapping gives them names of one's own. One live ranker, or `live`, makes
    all of them rank the whole index; `live` says where and how. `data` are judged queries: a
    dataset, a folder of parts, or, for runs and live rankers, judgments.

    Pairs are all pairs, or each ranker against the `baseline`, a name. `queries`: `auto` takes
    those that none of the rankers was trained on; or `all`, `train`, `validation`, `test`.
    `unjudged` says what unjudged documents of runs and live lists are: `zero` (irrelevant), `skip`
    (a query with one among the first that a metric looks at is left out), `condensed` (taken out of
    the lists). Means and tests weigh queries by their importance unless `unweighted`. `documents`
    is the file that was indexed, for rerankers that read fields of documents. The same `seed` gives
    the same numbers.

    `data` may also be a list of test data, one for each fold. A ranker is then a list of one model
    for each fold, or one that ranks in all of them (a feature, a run); their test queries are
    pooled, with one test over all. A query in two folds is refused, and so is a model that has seen
    a query of its own fold.

    With `cheap` judgments of all queries (clicks, a language model), `data` are human ones of a
    random sample of them, and each pair has a prediction-powered interval besides (`powered`).
    `strata` are those that `judge_next` wrote, where it drew the sample.

    Raises UsageError for what there is not, Refused where too few queries are left, BadInput for
    data of other features or queries.
    """
    from owpc_ltr.api.compared_data import Data
    from owpc_ltr.evaluation.comparing.side_by_side import Conventions
    from owpc_ltr.evaluation.comparing.statistics import Drawing
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import Metric, parse_metric

    asked = named_rankers(rankers)
    check_baseline(baseline, asked)
    check_unjudged(unjudged)
    files = [Path(plugin) for plugin in plugins]
    registry = load(files)
    listed = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    parsed = tuple(dict.fromkeys(parse_metric(one, registry) for one in listed))
    how = Conventions(parsed, unjudged, baseline, Drawing(seed, resamples, progress))
    wanted = Asked(asked, how, queries, not unweighted, tuple(files))
    if not isinstance(data, Data | Path | str):
        from owpc_ltr.api.comparing_folds import compare_over_folds

        if live or cheap is not None or strata is not None:
            raise UsageError("folds are compared on judged documents: leave out live and cheap")
        return compare_over_folds(wanted, data, documents, id_field)
    lists = [name for name, ranker in asked.items() if isinstance(ranker, list | tuple)]
    if lists:
        raise UsageError(
            f"'{lists[0]}' is a list of models, which is compared over folds: give a list of test "
            "data, too"
        )
    if cheap is None and strata is not None:
        raise UsageError("strata are of a sample of cheaply judged queries: give --cheap, too")
    if cheap is not None:
        from owpc_ltr.api.comparing_cheap import compare_with_cheap

        if live or any(map(is_live, asked.values())):
            raise UsageError("live rankers are not compared by cheap judgments: leave out --cheap")
        return compare_with_cheap(wanted, data, cheap, strata, documents, id_field)
    if live or any(map(is_live, asked.values())):
        if documents is not None:
            raise UsageError(
                "--documents is for judged documents: live rankers read fields from the index; "
                "leave it out"
            )
        from owpc_ltr.api.comparing_live import LiveSearch, compare_live

        return compare_live(wanted, data, live if isinstance(live, LiveSearch) else LiveSearch())
    from owpc_ltr.api.comparing_on_data import compare_on_data

    return compare_on_data(wanted, data, documents, id_field)
