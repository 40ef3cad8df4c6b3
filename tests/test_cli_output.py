"""Tables: as wide as their content, never wider than the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.plain_text import text_table

WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=11)


def test_columns_fit_their_content_and_numbers_stand_to_the_right() -> None:
    lines = text_table(["NAME", "N"], [("a", 1), ("long name", 20)]).splitlines()
    assert lines == ["NAME        N", "a           1", "long name  20"]


def test_a_column_of_text_that_is_too_wide_is_wrapped_under_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = text_table(["KEY", "TEXT"], [("one", "word " * 30), ("two", "short")]).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line[:3] for line in lines] == ["KEY", "one", "   ", "two"]
    assert " ".join(line[3:].strip() for line in lines[1:3]) == "word " * 29 + "word"


@given(st.lists(st.tuples(st.lists(WORD, max_size=40), st.lists(WORD, max_size=40)), max_size=4))
def test_no_line_is_wider_than_80_and_no_word_is_lost(
    texts: list[tuple[list[str], list[str]]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        told = text_table(["A", "B"], [(" ".join(a), " ".join(b)) for a, b in texts]).splitlines()
    assert all(len(line) <= 80 for line in told)
    shown = " ".join(told).split()
    words = [word for a, b in texts for word in (*a, *b)]
    assert sorted(shown) == sorted(["A", "B", *words])
