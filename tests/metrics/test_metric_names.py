"""Names of metrics: what they mean, what is refused, and which plugin they come from."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from owpc_ltr_metrics.average_precision import AveragePrecision
from owpc_ltr_metrics.err import ExpectedReciprocalRank
from owpc_ltr_metrics.ndcg import NDCG
from owpc_ltr_metrics.precision import Precision
from owpc_ltr_metrics.reciprocal_rank import ReciprocalRank

from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.host.registry import Entry, Plugin, Registry, installed, load
from owpc_ltr.metrics import Metric, RankedQueries, parse_metric
from tests.fresh_process import printed_by
from tests.metrics.test_metrics import dataset

NAMES = (
    "ndcg",
    "ndcg@2,gain=linear",
    "ndcg-letor@4",
    "map@3",
    "map,relevant-above=1",
    "mrr",
    "winner-takes-all",
    "precision@3",
    "recall@2",
    "err@3,max-grade=3",
    "pairwise-error",
    "rbp@5,persistence=0.95,gain=exponential,max-grade=3",
)


def test_queries_without_relevant_documents_count_as_asked() -> None:
    data = dataset([([1.0, 2.0], [0, 0]), ([2.0, 1.0], [1, 0]), ([], [])])
    for name in ("ndcg", "map", "mrr", "winner-takes-all", "precision@1", "recall@1"):
        for empty, mean in (("", 1 / 3), (",empty=one", 1.0), (",empty=skip", 1.0)):
            assert parse_metric(f"{name}{empty}").mean(*data) == pytest.approx(mean)
    assert np.isnan(parse_metric("map,empty=skip").per_query(*data)).tolist() == [True, False, True]
    # Errors leave queries without pairs out.
    pairs = dataset([([1.0, 2.0], [1, 0]), ([1.0, 1.0], [1, 1])])
    assert parse_metric("pairwise-error").mean(*pairs) == 1.0
    assert parse_metric("pairwise-error,empty=zero").mean(*pairs) == 0.5
    for name, queries in (("map,empty=skip", [([1.0], [0])]), ("map", [])):
        with pytest.raises(BadInput, match=f"none of the {len(queries)} queries counts"):
            parse_metric(name).mean(*dataset(queries))


def test_letor_4_counts_short_lists_zero() -> None:
    data = dataset([([3.0, 2.0, 1.0], [1, 0, 0]), ([2.0, 1.0], [1, 0])])
    assert parse_metric("ndcg-letor@3").per_query(*data).tolist() == [1.0, 1.0]
    assert parse_metric("ndcg-letor@3,short=zero").per_query(*data).tolist() == [1.0, 0.0]


def test_infinite_scores_are_ranked() -> None:
    data = dataset([([-math.inf, 0.0, math.inf], [0, 0, 1]), ([-math.inf, -math.inf], [1, 0])])
    assert parse_metric("mrr").per_query(*data).tolist() == [1.0, 0.75]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@10", "'ndgc': did you mean 'ndcg'?; known: err, map, mrr, ndcg, ndcg-letor, "),
        ("ndcg10", "there is no metric 'ndcg10': did you mean 'ndcg@10'?"),
        ("P@5", "there is no metric 'p': did you mean 'precision'?"),
        ("P_5", "there is no metric 'p_5': did you mean 'precision@5'?"),
        ("ndcg_cut_10", "there is no metric 'ndcg_cut_10': did you mean 'ndcg@10'?"),
        ("ndcg_cut.10", "did you mean 'ndcg@10'?"),
        ("recip_rank", "there is no metric 'recip_rank': did you mean 'mrr'?"),
        ("mapp", "there is no metric 'mapp': did you mean 'map'?"),
        ("ndcg-", "there is no metric 'ndcg-'"),
        ("winner-takes", "there is no metric 'winner-takes'"),
        ("ndcg@ten", "'ndcg@ten' is not a metric: write a whole number after @"),
        ("ndcg@0", "'ndcg@0' is not a metric: 'ndcg' needs a cutoff from 1 up"),
        ("precision", "'precision' needs a cutoff: write precision@10"),
        ("winner-takes-all@3", "'winner-takes-all' takes no cutoff"),
        ("map,gain=linear", "'map' has no option 'gain=linear'; write OPTION=VALUE with one of: "),
        ("map,ties=none", "'map' cannot take ties=none; known: expected, file-order"),
        ("map,ties=a\nb", "'map' cannot take ties=a\\nb; known: expected, file-order"),
        ("map,relevant-above=x", "'map' cannot take relevant-above=nan: it must be a finite"),
        ("err,max-grade=0", "'err' cannot take max-grade=0.0: it must lie between"),
        ("map,ties=expected,ties=file-order", "names an option twice"),
        ("rbp,persistence=1", "'rbp' cannot take persistence=1.0: it must be 0 or more, below 1"),
        ("rbp,persistence=-.5", "'rbp' cannot take persistence=-0.5"),
        ("rbp,gain=linear,max-grade=51", "'rbp' cannot take max-grade=51.0: it must lie between"),
        ("rbp,max-grade=2", "'rbp' has no use for max-grade=2 where gain=binary"),
        ("rbp,gain=linear,relevant-above=1", "'rbp' has no use for relevant-above=1 where gain=l"),
        ("map-letor", "there is no metric 'map-letor'"),
        ("map,short=zero", "'map' has no option 'short=zero'"),
        ("", "there is no metric ''"),
    ],
)
def test_a_metric_that_cannot_be_read_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_metric(text)
    assert message in str(refusal.value)


NONE: Any = "none"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReciprocalRank(short="zero"), "'mrr' has no use for short=zero; its options: rel"),
        (lambda: ReciprocalRank(0), "'mrr' needs a cutoff from 1 up"),
        (lambda: Precision(None), "'precision' needs a cutoff"),
        (lambda: NDCG(discount=NONE), "'ndcg' cannot take discount=none; known: log2, letor"),
        (lambda: NDCG(ties=NONE), "'ndcg' cannot take ties=none; known: expected"),
        (lambda: ReciprocalRank(relevant_above=math.inf), "it must be a finite number"),
        (lambda: ReciprocalRank(relevant_above=NONE), "it must be a number"),
        (lambda: ExpectedReciprocalRank(max_grade=51), "must lie between 0 and 50"),
    ],
)
def test_a_metric_that_makes_no_sense_is_refused_however_it_is_made(
    make: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rest", ["", ",ties=file-order", ",ties=file-order,empty=one"])
def test_names_can_be_read_back(name: str, rest: str) -> None:
    metric = parse_metric(name.upper() + rest)
    assert str(metric) == name + rest
    assert parse_metric(str(metric)) == metric


@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "message"),
    [
        ([1, 2, math.nan], [0, 1, 0], [0, 2, 3], "query 1 .* has a score that is NaN"),
        ([1, 2], [0, math.nan], [0, 1, 2], "query 1 .* has the label nan"),
        ([1, 2], [0, math.inf], [0, 2], "query 0 .* has the label inf"),
        ([1, 2], [0, 1, 1], [0, 3], "scores have shape"),
        ([1, 2], [0, 1], [0, 1], "query offsets end at 1 but there are 2 documents"),
        ([1, 2], [0, 1], [0, 2, 1], "never decrease"),
        ([1, 2], [0, 1], [1, 2], "begin with 0"),
        ([1, 2], [0, -1], [0, 2], "ndcg cannot count the label -1"),
        ([1, 2], [0, 2000], [0, 2], "ndcg cannot count the label 2000: .*gain=linear"),
    ],
)
def test_what_cannot_be_ranked_is_refused(
    scores: list[float], labels: list[float], offsets: list[int], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        parse_metric("ndcg").per_query(
            np.array(scores, dtype=np.float64), np.array(labels, np.float32), np.array(offsets)
        )


def test_err_refuses_a_label_above_its_scale() -> None:
    data = dataset([([1.0, 2.0], [5, 0])])
    with pytest.raises(BadInput, match=r"err cannot count the label 5: .* max-grade="):
        parse_metric("err").per_query(*data)
    assert parse_metric("err,max-grade=5").mean(*data) == pytest.approx(31 / 32 / 2)


@pytest.mark.parametrize("constant", [False, True])
def test_a_query_of_a_million_documents_and_many_queries_of_one(
    constant: bool, rng: np.random.Generator
) -> None:
    n = 1_000_000
    offsets = np.concatenate([[0, n], n + np.arange(1, 100_001)])
    scores = np.zeros(offsets[-1]) if constant else rng.random(offsets[-1])
    labels = np.zeros(offsets[-1], dtype=np.float32)
    labels[rng.choice(n, size=20, replace=False)] = 1
    labels[n::2] = 1
    names = ("ndcg@10", "map", "mrr", "err@10", "pairwise-error")
    queries = RankedQueries(scores, labels, offsets)
    values = {name: parse_metric(name).of(queries) for name in names}
    ones = values["map"][1:]
    np.testing.assert_array_equal(ones, np.resize([1.0, 0.0], 100_000))
    error = values["pairwise-error"][0]
    assert error == 0.5 if constant else 0.2 < error < 0.8
    if constant:
        # McSherry & Najork 2008, summed exactly: E[AP] of 20 relevant in random places.
        terms = [(1 + (j - 1) * 19 / (n - 1)) / (n * j) for j in range(1, n + 1)]
        assert values["map"][0] == pytest.approx(math.fsum(terms), abs=1e-12)


MINE = '''
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.metrics import Metric


@dataclass(frozen=True)
class Depth(Metric):
    """how many documents there are, no more than `at_most`"""

    name: ClassVar[str] = "depth"
    variants: ClassVar = {"of-one": {"at_most": 1}}
    at_most: int = 3
    half: Literal[1, 2] = 1
    shy: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.at_most < 0:
            raise ValueError("at_most may not be negative")

    def values(self, queries):
        return np.minimum(queries.lengths, self.at_most) / self.half

    @property
    def meaning(self):
        return "documents"


@hookimpl
def ltr_metrics():
    return [Depth]
'''


def imported_for(text: str) -> str:
    code = (
        "import sys; from owpc_ltr.metrics import parse_metric; "
        f"parse_metric({text!r}); "
        "print(*[name for name in sys.modules if name.startswith('owpc_ltr_')], "
        "'numba' in sys.modules)"
    )
    return printed_by(code)


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("map", "average_precision"),
        ("ndcg-letor@10", "ndcg"),
        # `pairwise` is a loss.
        ("pairwise-error", "pairwise_error"),
    ],
)
def test_a_text_imports_the_one_metric_that_it_means(text: str, module: str) -> None:
    assert imported_for(text) == f"owpc_ltr_metrics owpc_ltr_metrics.{module} False\n"


def test_a_metric_is_read_as_itself() -> None:
    metric = NDCG(7, gain="linear")
    assert parse_metric(metric) is metric


def test_no_shipped_name_is_that_of_a_shipped_variant() -> None:
    names = [plugin.name for plugin in installed().all("metric") if plugin.shipped]
    for plugin in installed().all("metric"):
        names += [f"{plugin.name}-{suffix}" for suffix in plugin.cls.variants if plugin.shipped]
    assert len(set(names)) == len(names) > 8


def test_a_metric_of_a_file_is_read_with_options_of_any_type(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    registry = load([path])
    metric = parse_metric("depth@2,at-most=5,half=2,shy=yes,empty=one", registry)
    assert str(metric) == "depth@2,at-most=5,half=2,shy=True,empty=one"
    assert parse_metric(str(metric), registry) == metric
    parsed = parse_metric("depth-of-one", registry)
    assert (str(parsed), parse_metric("depth,at-most=1", registry)) == ("depth-of-one", parsed)
    for text, message in (
        ("depth,at-most=x", "'depth' cannot take at-most=x: it must be a whole number"),
        ("depth,half=3", "'depth' cannot take half=3; known: 1, 2"),
        ("depth,shy=perhaps", "'depth' cannot take shy=perhaps: it must be true or false"),
        ("depth,at-most=-1", "'depth' refuses its options: at_most may not be negative"),
    ):
        with pytest.raises(UsageError) as refusal:
            parse_metric(text, registry)
        assert str(refusal.value) == message
    with pytest.raises(UsageError, match="there is no metric 'depth'"):
        parse_metric("depth")


def third(name: str, cls: type[Any]) -> Plugin:
    return Plugin("metric", name, cls, "other 1.0")


def test_two_metrics_of_one_name_are_refused_be_it_a_variants() -> None:
    class Twin(AveragePrecision):
        name = "ndcg-letor"

    class Winner(AveragePrecision):
        name = "winner"
        variants = {"takes-all": {"relevant_above": 1.0}}  # noqa: RUF012 - the test's own

    ndcg, all_or_none = (
        Plugin("metric", name, installed().find("metric", name), "owpc-ltr 0.1")
        for name in ("ndcg", "winner-takes-all")
    )
    registry = Registry([ndcg, third("ndcg-letor", Twin)])
    with pytest.raises(PluginError, match=r"'ndcg-letor' of other 1\.0 and 'ndcg' of owpc-ltr"):
        parse_metric("ndcg-letor", registry)
    assert str(parse_metric("ndcg@3", registry)) == "ndcg@3"
    with pytest.raises(PluginError, match="two plugins offer the metric 'winner-takes-all'"):
        parse_metric("winner-takes-all", Registry([third("winner", Winner), all_or_none]))


def test_a_class_that_is_no_metric_is_refused_by_name() -> None:
    registry = Registry([third("number", int)])
    with pytest.raises(PluginError, match=r"'number' of other 1\.0 .* int must extend"):
        parse_metric("number", registry)
    with pytest.raises(UsageError, match="known: number "):
        parse_metric("numbers", registry)

    class Silent(Metric):
        name = "silent"

    with pytest.raises(TypeError, match="abstract"):
        Silent()  # type: ignore[abstract]


def test_a_plugin_that_cannot_be_loaded_is_named_to_who_asks_for_an_unknown_metric() -> None:
    def broken() -> ModuleType:
        raise ImportError("no module named torch")

    registry = Registry([], entries=[Entry("deep", "deep 2.0", False, broken)])
    with pytest.raises(UsageError, match=r"'deep' \(deep 2\.0\) failed to load: ImportError"):
        parse_metric("deep", registry)
