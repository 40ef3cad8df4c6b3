"""The rating page in a real browser: by keyboard, after a crash, in two tabs, on a phone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_rating.page import judge_page
from owpc_ltr_rating.ratings import read_ratings

from tests.rating.grading_sheets import grading_sheet
from tests.rating.test_page import served_page

pytestmark = pytest.mark.thorough

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser_type() -> Iterator[tuple[Any, str]]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        yield started.chromium, program


def launched(browser_type: tuple[Any, str], profile: Path, **how: Any) -> Any:
    """A browser whose storage outlives it, as a person's does."""
    chromium, program = browser_type
    return chromium.launch_persistent_context(
        str(profile), executable_path=program, args=["--no-sandbox"], **how
    )


def opened(context: Any, address: str, rater: str = "ann") -> Any:
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.faults = faults
    page.goto(address)
    page.fill("#rater", rater)
    page.keyboard.press("Enter")
    return page


def shown(page: Any) -> tuple[str, str]:
    """The query on the page, and the document's number."""
    title = page.text_content("#fields dd").split("title ")[-1]
    return page.text_content("#query"), title


def rated(page: Any, number: int) -> None:
    """Wait until the page has counted so many ratings, of other tabs too."""
    page.locator("#place", has_text=f"{number} of").wait_for(timeout=10_000)


def exported(page: Any) -> list[dict[str, Any]]:
    with page.expect_download() as download:
        page.click("#export-done" if page.is_visible("#export-done") else "#export")
    return [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]


def axe(page: Any) -> list[str]:
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    return [violation["id"] for violation in page.evaluate("axe.run()")["violations"]]


def test_a_thousand_pairs_by_keyboard_lose_no_answer(
    tmp_path: Path, browser_type: tuple[Any, str]
) -> None:
    truth = grading_sheet(tmp_path / "sheet.csv", queries=100, documents=10)
    address = Path(tmp_path / "page.html")
    judge_page(tmp_path / "sheet.csv", out=address)
    given: dict[tuple[str, str], int] = {}

    def rate(page: Any, times: int) -> None:
        for _ in range(times):
            query, document = shown(page)
            grade = (len(given) * 7) % 4
            # A repeat is a second answer to the same pair.
            given.setdefault((query, document), grade)
            page.keyboard.press(str(grade))

    context = launched(browser_type, tmp_path / "profile")
    page = opened(context, address.as_uri())
    rate(page, 300)
    page.reload()
    page.keyboard.press("Enter")
    assert page.text_content("#place") == "300 of 1030 rated"
    rate(page, 200)
    # Two tabs: what one has rated the other does not ask again.
    other = opened(context, address.as_uri())
    assert other.text_content("#place") == "500 of 1030 rated"
    rate(other, 1)
    rated(page, 501)
    for number, tab in enumerate((page, other) * 50, 502):
        rate(tab, 1)
        rated(page, number)
        rated(other, number)
    # A crash: the browser ends without a word.
    context.close()
    context = launched(browser_type, tmp_path / "profile")
    page = opened(context, address.as_uri())
    assert page.text_content("#place") == "601 of 1030 rated"
    while page.is_visible("#work"):
        rate(page, 1)
    lines = exported(page)
    assert page.faults == []
    context.close()
    assert len(lines) == 1030
    first = {
        (line["query"], line["doc_id"]): line["grade"] for line in lines if not line.get("repeat")
    }
    assert len(first) == len(truth) == 1000
    wanted = {(query, document): grade for (query, document), grade in given.items()}
    grades = {(query, doc_id.rpartition("-")[2]): grade for (query, doc_id), grade in first.items()}
    assert grades == wanted
    assert sum(line.get("repeat", False) for line in lines) == 30


def test_every_key_does_what_the_help_says(tmp_path: Path, browser_type: tuple[Any, str]) -> None:
    grading_sheet(tmp_path / "sheet.csv", queries=4, documents=3)
    judge_page(tmp_path / "sheet.csv", out=tmp_path / "page.html", grades=3)
    context = launched(browser_type, tmp_path / "profile")
    page = opened(context, (tmp_path / "page.html").as_uri())
    first = shown(page)
    page.keyboard.press("s")
    assert shown(page) != first
    page.keyboard.press("4")
    assert page.text_content("#place") == "0 of 12 rated"
    second = shown(page)
    page.keyboard.press("3")
    page.keyboard.press("Backspace")
    assert shown(page) == second
    page.keyboard.press("u")
    page.keyboard.type("not shown")
    page.keyboard.press("Enter")
    assert page.locator("mark").count() == 0
    while not page.locator("mark").count() and page.is_visible("#work"):
        page.keyboard.press("h")
        if not page.locator("mark").count():
            page.keyboard.press("h")
            page.keyboard.press("1")
    assert page.locator("mark").count() > 0
    assert page.get_attribute("#highlight", "aria-pressed") == "true"
    page.keyboard.press("?")
    assert page.is_visible("#manual")
    page.keyboard.press("2")
    page.keyboard.press("Escape")
    while page.is_visible("#work"):
        page.keyboard.press("2")
    lines = exported(page)
    context.close()
    (odd,) = [line for line in lines if line["grade"] is None]
    assert (odd["query"], odd["reason"]) == (second[0], "not shown")
    assert (lines[-1]["query"], lines[-1]["doc_id"].rpartition("-")[2]) == first
    # Queries are kept together, but for what was put off.
    queries = [line["query_id"] for line in lines[:-1]]
    assert len([1 for a, b in pairwise(queries) if a != b]) == 3
    grading = tmp_path / "export.jsonl"
    grading.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(read_ratings(grading)) == 12


def test_raters_share_the_queries_and_a_part_is_rated_by_all(
    tmp_path: Path, browser_type: tuple[Any, str]
) -> None:
    truth = grading_sheet(tmp_path / "sheet.csv", queries=8, documents=10)
    judge_page(
        tmp_path / "sheet.csv", out=tmp_path / "page.html", raters=["ann", "bob"], overlap=10
    )
    sides = []
    context = launched(browser_type, tmp_path / "profile")
    for rater in ("ann", "bob"):
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.select_option("#raters", rater)
        page.click("text=Start")
        while page.is_visible("#work"):
            page.keyboard.press("1")
        lines = exported(page)
        assert {line["judged_by"] for line in lines} == {rater}
        sides.append({(line["query_id"], line["doc_id"]) for line in lines})
    context.close()
    assert sides[0] | sides[1] == truth.keys()
    assert len(sides[0] & sides[1]) == 8


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_view_is_accessible_and_fits(
    width: int, theme: str, tmp_path: Path, browser_type: tuple[Any, str]
) -> None:
    grading_sheet(tmp_path / "sheet.csv", hostile=True, documents=1)
    judge_page(tmp_path / "sheet.csv", out=tmp_path / "page.html")
    how = {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
    context = launched(browser_type, tmp_path / "profile", **how)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    views = [axe(page)]
    page.fill("#rater", "ann")
    page.keyboard.press("Enter")
    for key in ("h", "?", "Escape", "u", "Escape", *"123012"):
        page.keyboard.press(key)
        views.append(axe(page))
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    context.close()
    assert views == [[]] * 12


def test_served_answers_are_written_as_they_are_given(
    tmp_path: Path, browser_type: tuple[Any, str]
) -> None:
    sheet, out = tmp_path / "sheet.csv", tmp_path / "answers.jsonl"
    grading_sheet(sheet, queries=2)
    context = launched(browser_type, tmp_path / "profile")
    with served_page(sheet, out) as url:
        page = opened(context, url)
        for key in ("1", "2", "Backspace", "3"):
            page.keyboard.press(key)
        page.wait_for_timeout(500)
        assert [rating.grade for rating in read_ratings(out).values()] == [1, 3]
    # What is rated while the service is down is kept, and sent once it is up.
    page.keyboard.press("2")
    page.wait_for_selector("#trouble:not([hidden])")
    port = int(url.rpartition(":")[2])
    with served_page(sheet, out, port):
        page.reload()
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
        assert [rating.grade for rating in read_ratings(out).values()] == [1, 3, 2]
    context.close()
