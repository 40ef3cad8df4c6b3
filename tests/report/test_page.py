"""The page: one file without network, in which foreign texts are texts and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_report.page import safe_json, script_json
from owpc_ltr_report.queries import Example, ExampleDocument

import owpc_ltr
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.evaluate import evaluate
from tests.report.samples import HOSTILE, Elements, against, check_harmless, curves, dataset, linear

_ADDRESS = re.compile(r"""(?:src|href|action|srcset|data)\s*=\s*["']?(?!#)[^"'>\s]""")
MOST = 2_000_000


@pytest.fixture(scope="module")
def hostile() -> str:
    data = dataset(len(HOSTILE), texts=HOSTILE).without_missing()
    evaluation = evaluate(linear(1.0, 0.0, 0.0), data, baseline="feature:bm25")
    named = {**vars(evaluation), "ranker": HOSTILE[0], "warnings": (HOSTILE[1],)}
    page = owpc_ltr.report(type(evaluation)(**named), heading=HOSTILE[2])
    return str(page.html())


def test_hostile_texts_are_shown_and_do_nothing(hostile: str) -> None:
    found = check_harmless(hostile)
    text = " ".join(found.text)
    assert HOSTILE[1] in text
    assert HOSTILE[2] in text
    rows = json.loads(found.scripts[0])["queries"]["per-query"]["rows"]
    assert HOSTILE[3] in {row[1] for row in rows}


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u202e", "\x00", "\x1b"])
def test_what_steers_a_reader_is_escaped(hostile: str, sign: str) -> None:
    assert sign not in hostile


def test_a_page_that_escapes_nothing_is_caught() -> None:
    for text in HOSTILE[:3]:
        with pytest.raises(AssertionError):
            check_harmless(f"<script>1</script><script>2</script><p>{text}</p><script>3</script>")


@given(st.text())
def test_json_within_a_script_reads_back_as_it_was_and_cannot_end_it(text: str) -> None:
    made = script_json({"text": text})
    assert json.loads(made) == {"text": text}
    assert not set("<>&\u2028\u2029") & set(made)


def test_numbers_that_there_are_not_are_null() -> None:
    shown = safe_json({"a": [float("nan"), 1.234567891], "b": float("inf")})
    assert shown == {"a": [None, 1.2346], "b": None}


def test_the_policy_allows_just_the_scripts_of_the_page_and_no_network() -> None:
    found = Elements(owpc_ltr.report(linear(1.0, 0.0, 0.0)).html())
    policy = next(
        attributes["content"] or ""
        for attributes in found.named("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    for script in found.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 2


def test_ten_thousand_queries_fit_on_a_page() -> None:
    texts = tuple(f"a query of several words, number {n}" for n in range(12_000))
    data = dataset(12_000, texts=texts).without_missing()
    evaluation = evaluate(linear(1.0, 0.0, 0.0), data, metrics="mrr", baseline="feature:bm25")
    page = owpc_ltr.report(evaluation).html()
    assert len(page.encode()) < MOST
    assert "holds the 10,000 of 12,000 queries that changed most" in page


def test_what_there_is_nothing_for_is_left_out_and_said() -> None:
    page = owpc_ltr.report(curves())
    assert [section.name for section in page.sections] == ["features"]
    assert {name for name, _ in page.left_out} >= {"a comparison", "training", "scores"}
    assert "Not on this page: a comparison (give judged queries: --data)" in page.html()


def test_no_folder_of_this_machine_is_on_a_page(tmp_path: Path) -> None:
    model = tmp_path / "secret-folder" / "new.json"
    model.parent.mkdir()
    linear(1.0, 0.1, 0.0).save(model)
    found = evaluate(model, dataset().without_missing(), baseline="feature:bm25")
    page = owpc_ltr.report([found, model])
    assert page.title == "new.json against feature:bm25"
    assert "secret-folder" not in page.html()


def test_headings_go_down_one_step_at_a_time() -> None:
    page = owpc_ltr.report([against(1.0, 0.0), linear(1.0, 0.0, 0.0), curves()]).html()
    levels = [int(tag[1]) for tag, _ in Elements(page).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_anchors_are_there_once() -> None:
    page = Elements(owpc_ltr.report([against(1.0, 0.0), linear(1.0, 0.0, 0.0), curves()]).html())
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = [str(attributes["href"])[1:] for attributes in page.named("a")]
    assert links
    assert set(links) <= set(ids)


def test_the_same_results_give_the_same_bytes() -> None:
    parts = against(1.0, 0.0), linear(1.0, 0.0, 0.0)
    assert owpc_ltr.report(parts).html() == owpc_ltr.report(parts).html()


def test_a_page_is_written_whole_and_over_no_input(tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    linear(1.0, 0.0, 0.0).save(model)
    page = owpc_ltr.report(model, out=tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html()
    with pytest.raises(UsageError, match="it is the input"):
        owpc_ltr.report(model, out=model)


def test_what_a_page_has_no_place_for_is_refused() -> None:
    with pytest.raises(UsageError, match="a report has no place for a int"):
        owpc_ltr.report({"a": 1})
    with pytest.raises(BadInput, match="cannot read the model"):
        owpc_ltr.report("none.json")


def test_a_chart_shows_itself_in_a_notebook() -> None:
    bundle = owpc_ltr.report(against(1.0, 0.0)).charts["comparison-all"]._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "var(--" not in bundle["image/svg+xml"]
    assert "better" in bundle["text/plain"]


def test_a_cell_of_several_lines_is_escaped_line_by_line() -> None:
    moved = ExampleDocument(HOSTILE[0], HOSTILE[1], 1, 2, 0.0, ((HOSTILE[2], 1.0),))
    page = owpc_ltr.report(Example("words", "map", 0.1, 0.2, 5, (moved,))).html()
    found = check_harmless(page)
    text = " ".join(found.text)
    for part in HOSTILE[:3]:
        assert part in text
