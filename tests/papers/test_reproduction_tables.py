"""Tables of reproductions in every format, and rerankings of bases."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_papers.folders import find_collections
from owpc_ltr_papers.jobs import UNCHANGED, DataFold, Reranking, Tools, Training
from owpc_ltr_papers.results import Reproduction
from owpc_ltr_papers.rows import Row

from owpc_ltr.errors import UsageError
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from tests.datasets import write_parts

names = st.text(alphabet=st.sampled_from("ab |&%$#_{}~^\\<>\"'`*[]−–λ\n\t,é"), max_size=12)
numbers = st.none() | st.floats(-1, 1, allow_nan=False)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    own, gain = draw(numbers), draw(numbers)
    return Row(
        draw(names),
        draw(names),
        draw(names),
        published=draw(numbers),
        cited=draw(names),
        ours=own,
        difference=draw(numbers),
        low=own,
        high=own,
        queries=draw(st.none() | st.integers(0, 10**6)),
        against=draw(names),
        gain=gain,
        gain_low=gain,
        gain_high=gain,
        p=gain if gain is None else abs(gain),
        note=draw(names),
    )


@st.composite
def findings(draw: st.DrawFn) -> Reproduction:
    drawn = draw(st.lists(rows(), min_size=1, max_size=4))
    notes, citations = draw(st.lists(names, max_size=2)), draw(st.lists(names, max_size=2))
    return Reproduction("owpc2009", tuple(drawn), tuple(notes), tuple(citations), 0, quick=False)


def cells_of_markdown(line: str) -> int:
    """How many cells a Markdown reader sees: bars that are not escaped."""
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) - 1


@given(findings())
def test_every_line_of_the_markdown_table_has_as_many_cells(found: Reproduction) -> None:
    lines = found.to_text("markdown").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(found.rows) + 2
    assert len({cells_of_markdown(line) for line in table}) == 1
    assert "<" not in re.sub(r"\\.", "", "\n".join(lines))


def test_a_bar_that_is_not_escaped_would_be_seen() -> None:
    assert cells_of_markdown("| a \\| b |") == 1
    assert cells_of_markdown("| a | b |") == 2
    assert cells_of_markdown("| a \\\\| b |") == 2


def commands_of_latex(text: str) -> str:
    """What is left of LaTeX without what is escaped, our own commands and mathematics."""
    text = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum|dots|S)\{\}", "", text)
    text = re.sub(r"\$(-|\\lambda|\\alpha|\\sigma|\^\{[-\d]\})\$", "", text)
    text = re.sub(r"\\[&%$#_{}]", "", text)
    text = re.sub(r"\\(begin|end)\{(longtable|itemize)\}(\{[lr]+\})?", "", text)
    return re.sub(r"\\(hline|endhead|item|\\)", "", text)


@given(findings())
def test_nothing_in_latex_is_read_as_a_command(found: Reproduction) -> None:
    text = found.to_text("latex").split("\n", 1)[1]
    left = commands_of_latex(text)
    assert not set(left) & set("\\$#_{}%~^")
    body = text.partition("\\endhead\n")[2].partition("\\hline\n\\end{longtable}")[0]
    columns = len(re.search(r"longtable\}\{([lr]+)\}", text)[1])  # type: ignore[index]
    lines = body.splitlines()
    assert len(lines) == len(found.rows)
    for line in lines:
        assert len(re.findall(r"(?<!\\)&", line)) == columns - 1
        assert line.endswith(r" \\")


def test_a_letter_that_is_not_escaped_would_be_seen() -> None:
    assert commands_of_latex(r"a\_b 5 \% $-$") == "ab 5  "
    assert "%" in commands_of_latex("5 %")
    assert "\\" in commands_of_latex(r"\input{x}")


@given(findings())
def test_csv_and_json_have_every_figure_unrounded(found: Reproduction) -> None:
    read = list(csv.DictReader(io.StringIO(found.to_text("csv"))))
    told = json.loads(found.to_text("json"))["rows"]
    assert len(read) == len(told) == len(found.rows)
    for row, line, entry in zip(found.rows, read, told, strict=True):
        assert entry == row.as_dict()
        for name, value in row.as_dict().items():
            if isinstance(value, float):
                assert float(line[name]) == value
            else:
                assert line[name] == ("" if value is None else str(value))


class Balance(HTMLParser):
    """Refuses tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.sources += [name for name, _ in attrs if name in {"src", "href", "onload", "onclick"}]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@given(findings())
def test_the_page_is_well_formed_fetches_nothing_and_runs_nothing(found: Reproduction) -> None:
    page = Balance()
    page.feed(found.to_text("html"))
    assert page.open == []
    assert page.sources == []
    assert {"script", "link", "img", "iframe"}.isdisjoint(page.seen)
    assert page.seen.count("caption") == page.seen.count("table")
    assert page.seen.count("tr") == len(found.rows) + page.seen.count("table")


def test_headers_of_the_page_say_what_they_are_headers_of() -> None:
    row = Row("MQ2008", "map", "OWPC", ours=0.5, low=0.4, high=0.6, queries=5)
    found = Reproduction("owpc2009", (row,), ("a note",), ("a paper",), 0, quick=False)
    page = found.to_text("html")
    assert '<html lang="en">' in page
    assert '<th scope="row">OWPC</th>' in page
    assert page.count('scope="col"') == 6
    assert "color-scheme:light dark" in page
    assert "OWPC" in found._repr_html_()
    assert repr(found) == "Reproduction of owpc2009: 1 rows, 1 notes"
    assert list(found.to_frame()["method"]) == ["OWPC"]


def test_a_format_that_there_is_not_is_refused() -> None:
    found = Reproduction("owpc2009", (), (), (), 0, quick=False)
    with pytest.raises(UsageError, match="no format is called 'pdf'"):
        found.to_text("pdf")


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=5))
def test_a_mean_over_folds_is_the_mean_of_the_values_that_its_interval_is_of(
    folds: list[list[float]],
) -> None:
    from owpc_ltr_papers.rows import compared, interval, mean_over_folds

    values = [np.array(one) for one in folds]
    zeros = [np.zeros(len(one)) for one in folds]
    found = compared(values, zeros, 0)
    if sum(map(len, folds)) == 1:
        assert found is None
        assert interval(values, 0) == (None, None)
        return
    assert found is not None
    assert found.mean_difference == pytest.approx(mean_over_folds(values), abs=1e-12)
    low, high = interval(values, 0)
    assert low is not None
    assert high is not None
    assert low - 1e-9 <= mean_over_folds(values) <= high + 1e-9


TOOLS = Tools(load(), Run(), (parse_metric("ndcg-letor@10"),))
BASE = Training("RankSVM", "pairwise", "larank", is_base=True)


def fold(folder: Path) -> DataFold:
    (collection,) = find_collections(write_parts(folder))[0]
    return collection.readers()["Fold1"]()


def test_a_penalty_that_allows_nothing_leaves_the_base_and_says_so(tmp_path: Path) -> None:
    data = fold(tmp_path)
    base = BASE.do(data, TOOLS, None).model
    assert base is not None
    job = Reranking("still", "listnet", grid={"reranker.penalty": "1e30,1e31"}, base=BASE)
    done = job.do(data, TOOLS, base)
    assert done.notes == (UNCHANGED,)
    own = parse_metric("ndcg-letor@10").per_query(
        base.score(data.test.features), data.test.labels, data.test.offsets
    )
    assert done.values["ndcg-letor@10"].tolist() == own.tolist()
