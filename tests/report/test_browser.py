"""The page in a real browser: phones and desks, light and dark, keyboard, printing, no network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import owpc_ltr
from owpc_ltr import evaluate
from tests.proxy_labels import comparison
from tests.report.samples import HOSTILE, against, curves, dataset, fused, hostile_clicked, linear

pytestmark = pytest.mark.thorough

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VIEWS = [(width, theme) for width in (390, 1440) for theme in ("light", "dark")]
_WAIT = 60_000
_AT = """(() => {
    const at = document.activeElement;
    if (at === document.body) return null;
    const place = [...document.querySelectorAll("*")].indexOf(at);
    return `${place} ${getComputedStyle(at).outlineStyle}`;
})()"""
"""Where the keyboard is, and how that is seen."""
_BOXES = """[...document.querySelectorAll(".chart")].filter((each) => each.checkVisibility()).map(
    (each) => {
        const box = each.querySelector("svg").getBoundingClientRect();
        return { width: box.width, height: box.height };
    }
)"""
"""How large the visible charts are."""


@dataclass(frozen=True)
class Seen:
    """A page as a browser has it, what it said, and what it asked the network for."""

    page: Any
    said: list[str]
    asked: list[str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def small() -> str:
    return str(owpc_ltr.report(against(1.0, 0.0, 20)).html())


@pytest.fixture(scope="module")
def report() -> str:
    texts = (*HOSTILE, *(f"ordinary words {n}" for n in range(60)))
    data = dataset(len(texts), texts=texts)
    model = linear(1.0, 0.1, -0.2)
    evaluation = evaluate(model, data, baseline="feature:bm25")
    return str(owpc_ltr.report([evaluation, model, curves()], heading="A <small> report").html())


def opened(
    browser: Any, html: str, tmp_path: Path, width: int = 1440, theme: str = "light"
) -> Seen:
    """The page of this text, drawn, where every request but that for itself is refused."""
    file = tmp_path / "report.html"
    file.write_text(html)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    seen = Seen(page, [], [])
    page.on("console", lambda message: seen.said.append(message.text))
    page.on("pageerror", lambda error: seen.said.append(str(error)))
    address = file.as_uri()

    def answer(route: Any) -> None:
        if route.request.url == address:
            route.continue_()
        else:
            seen.asked.append(route.request.url)
            route.abort()

    page.route("**/*", answer)
    page.goto(address)
    if "data-drawn" in html or "dataset.drawn" in html:
        page.wait_for_selector("html[data-drawn]", timeout=_WAIT)
    return seen


def look_at(seen: Seen, width: int, theme: str) -> None:
    """The same page in another window, which draws again where that is needed, and theme."""
    seen.page.emulate_media(color_scheme=theme)
    seen.page.set_viewport_size({"width": width, "height": 900})
    drawn = "narrow" if width < 640 else "wide"
    seen.page.wait_for_selector(f'html[data-drawn="{drawn}"]', timeout=_WAIT)


def overflow(seen: Seen) -> int:
    """By how much the page is wider than its window."""
    return int(seen.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def faults(seen: Seen, *rules: str, within: str = "html") -> list[str]:
    """What keeps people from using the page, of the graver kinds, by axe-core; by these rules."""
    if not seen.page.evaluate("'axe' in window"):
        # The page's policy forbids scripts in it; the browser's own console is above that.
        seen.page.evaluate(_axe())
    only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    # Told are violations alone: what was found in order takes as long again to be described.
    options = {**only, "resultTypes": ["violations"]}
    violations = seen.page.evaluate(
        "([part, options]) => axe.run(part, options).then((found) => found.violations)",
        [within, options],
    )
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in violations
        if each["impact"] in {"serious", "critical"}
    ]


@cache
def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def check_view(seen: Seen, width: int, charts: int) -> None:
    """Nothing is said or asked for, nothing is too wide, shut to anybody, or not drawn."""
    assert seen.said == []
    assert seen.asked == []
    assert overflow(seen) <= 0
    assert faults(seen) == []
    boxes = seen.page.evaluate(_BOXES)
    assert len(boxes) == charts
    for box in boxes:
        assert 100 <= box["width"] <= width
        assert box["height"] >= 40


def test_a_page_is_whole_quiet_and_open_to_everybody(
    browser: Any, report: str, tmp_path: Path
) -> None:
    seen = opened(browser, report, tmp_path, *VIEWS[0])
    for width, theme in VIEWS:
        look_at(seen, width, theme)
        check_view(seen, width, 10)
    seen.page.context.close()


def judged_by_clicks() -> str:
    return str(owpc_ltr.report(hostile_clicked()).html())


def judged_by_two() -> str:
    return str(owpc_ltr.report(comparison(metrics=["ndcg@5", "mrr"])).html())


def of_fusion() -> str:
    return str(owpc_ltr.report(fused(0.0)).html())


@pytest.mark.parametrize(
    ("made", "charts"), [(judged_by_clicks, 5), (judged_by_two, 4), (of_fusion, 4)]
)
def test_pages_of_proxy_judgments_and_of_fusions_are_so_too(
    browser: Any, tmp_path: Path, made: Callable[[], str], charts: int
) -> None:
    """On a phone in the dark, and on a desk by day."""
    seen = opened(browser, made(), tmp_path, 390, "dark")
    check_view(seen, 390, charts)
    look_at(seen, 1440, "light")
    check_view(seen, 1440, charts)
    seen.page.context.close()


def test_search_filters_the_queries_and_leafs_through_them(
    browser: Any, report: str, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    seen = opened(browser, report, tmp_path)
    page, status = seen.page, seen.page.locator(".status")
    rows = page.locator(".queries tbody tr")
    assert status.inner_text() == "Queries 1 to 20 of 70."
    page.get_by_label("Search queries").fill("WORDS ordinary 7")
    expect(status).to_contain_text("of 6.")
    assert rows.count() == 6
    assert all("7" in row for row in rows.all_inner_texts())
    page.get_by_label("Search queries").fill("no such words")
    expect(status).to_contain_text("No query")
    assert rows.count() == 0
    page.get_by_label("Search queries").fill("<script>")
    expect(status).to_contain_text("of 1.")
    assert HOSTILE[0] in rows.first.inner_text()
    page.get_by_label("Search queries").fill("")
    expect(status).to_contain_text("of 70.")
    first = rows.first.inner_text()
    page.get_by_role("button", name="Later").click()
    expect(status).to_contain_text("21 to 40")
    assert rows.first.inner_text() != first
    page.get_by_label("Order").select_option("gains")
    expect(status).to_contain_text("1 to 20")
    changes = [float(row.split("\t")[3].replace("−", "-")) for row in rows.all_inner_texts()]
    assert changes == sorted(changes, reverse=True)
    assert seen.said == []
    page.context.close()


def test_the_keyboard_reaches_everything(browser: Any, report: str, tmp_path: Path) -> None:
    seen = opened(browser, report, tmp_path, 390)
    page = seen.page
    reachable = page.evaluate(
        """[...document.querySelectorAll(
            'a, summary, input, select, button:not(:disabled), [tabindex="0"]'
        )].filter((each) => each.checkVisibility()).length"""
    )
    visited = set()
    for _ in range(reachable + 2):
        page.keyboard.press("Tab")
        visited.add(page.evaluate(_AT))
    visited.discard(None)
    assert len(visited) == reachable
    assert all(str(each).endswith(" solid") for each in visited)
    page.context.close()


def test_it_prints_on_light_paper_with_its_tables_open(
    browser: Any, report: str, tmp_path: Path
) -> None:
    seen = opened(browser, report, tmp_path, 1440, "dark")
    made = seen.page.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    assert made.startswith(b"%PDF")
    seen.page.emulate_media(media="print", color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(paper) == "rgb(255, 255, 255)"
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details:not([open])").count() == 0
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert seen.page.locator("details[open]").count() == 0
    assert overflow(seen) <= 0
    seen.page.context.close()


def with_fault(page: str, old: str, new: str) -> str:
    """The page with a fault in it."""
    assert old in page
    return page.replace(old, new)


def test_a_page_with_faults_is_caught_at_each(browser: Any, small: str, tmp_path: Path) -> None:
    liar = with_fault(small, "<footer>", '<footer><div style="width:3000px">wide</div>')
    liar = with_fault(liar, "<label>Search queries ", "<label></label><p>Search queries ")
    liar = with_fault(liar, '<html lang="en">', "<html>")
    liar = with_fault(liar, "--quiet: #566173", "--quiet: #c0c6cf")
    seen = opened(browser, liar, tmp_path, 390)
    assert overflow(seen) > 0
    assert seen.said == []
    assert seen.asked == []
    assert any(fault.startswith("label") for fault in faults(seen, "label"))
    assert any(fault.startswith("html-has-lang") for fault in faults(seen, "html-has-lang"))
    faint = faults(seen, "color-contrast", within="header")
    assert any(fault.startswith("color-contrast") for fault in faint)
    seen.page.context.close()


def test_a_page_that_asks_the_network_or_says_something_is_caught(
    browser: Any, small: str, tmp_path: Path
) -> None:
    picture = '<footer><img alt="" src="https://example.org/x.png">'
    seen = opened(browser, with_fault(small, "<footer>", picture), tmp_path, 390)
    assert seen.asked or seen.said
    seen.page.context.close()
    # Nothing is drawn, so nothing is waited for.
    broken = with_fault(small, "structuredClone(spec)", "specification")
    broken = with_fault(broken, "dataset.drawn", "dataset.never")
    seen = opened(browser, broken, tmp_path, 390)
    assert seen.said
    assert seen.asked == []
    seen.page.context.close()
