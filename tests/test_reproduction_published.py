"""The published figures: all there, each cited, and the same where two sources have them."""

from __future__ import annotations

import re

import pytest
from owpc_ltr_papers.protocol_run import PROTOCOLS
from owpc_ltr_papers.published import Figure, figures, published, sources

GOV = [f"LETOR 3.0 {name}" for name in ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004")]
PLACE = re.compile(r"(Table|Tableau) \d, (p\. \d+|§ \d)|§ \d, p\. \d+|sheet \w+|\w+_results\.csv")
ALL = [figure for source in sources() for figure in figures(source)]


def test_every_protocol_has_figures_and_every_source_says_where_they_are_from() -> None:
    for name, protocol in PROTOCOLS.items():
        assert protocol().sources[0] == name
        assert figures(name)
    for source in sources().values():
        assert source.title
        assert source.authors
        assert source.published


@pytest.mark.parametrize("figure", ALL[::7], ids=lambda one: f"{one.source}-{one.method}")
def test_each_figure_is_cited_with_its_table_and_place(figure: Figure) -> None:
    assert PLACE.fullmatch(figure.where), figure
    assert figure.cited == f"{figure.source}, {figure.where}"


def test_no_figure_stands_twice() -> None:
    keys = [(one.source, one.data_set, one.method, one.metric) for one in ALL]
    assert len(keys) == len(set(keys))


def test_values_are_what_metrics_can_be() -> None:
    assert all(0 < one.value < 1 for one in ALL if one.data_set != "worked example")


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("owpc2009", 6 * (3 + 3 * 6)),
        ("inex2009", 5),
        ("lambdarank", 3),
        ("exchangeable2014", 6 * 2 * 4),
        ("letor3", 4 * 8 * 7),
        ("letor2", 7 * 6),
    ],
)
def test_the_tables_are_whole(source: str, count: int) -> None:
    assert len(figures(source)) == count


def disagreements(one: str, other: str, method: str, named: str, metric: str) -> list[str]:
    """Data sets on which two sources differ by more than rounding to three digits."""
    found = []
    for data_set in GOV:
        a, b = published(one, data_set, method, metric), published(other, data_set, named, metric)
        if a is None or b is None or abs(a.value - b.value) > 0.00051:
            found.append(data_set)
    return found


def test_the_paper_s_baselines_are_letor_s() -> None:
    """Two independent transcriptions: a wrong digit in either would be seen."""
    for method, named in (("RankSVM", "RankSVM"), ("SVMmap", "SVMmap"), ("AdaRank", "AdaRank-MAP")):
        assert disagreements("owpc2009", "letor3", method, named, "map") == []
    assert disagreements("owpc2009", "letor3", "AdaRank", "AdaRank-NDCG", "ndcg-letor@3") == []
    for method in ("RankSVM", "SVMmap", "ListNet"):
        assert disagreements("owpc2009", "letor3", method, method, "ndcg-letor@3") == []


def test_a_method_taken_for_another_is_seen() -> None:
    assert disagreements("owpc2009", "letor3", "RankSVM", "SVMmap", "map") != []


def test_a_figure_that_nobody_published_is_none() -> None:
    assert published("owpc2009", "LETOR 3.0 OHSUMED", "OWPC g_All", "map") is None
