"""The documentation site: built without a warning, and complete without a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import owpc_ltr
import owpc_ltr.plugin_checks

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
_FETCHED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?([^"'\s>]+)""")
_LINKED = re.compile(r"""<link[^>]*\shref=["']?([^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def test_a_page_fetches_nothing_that_is_not_in_the_folder(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= 20
    for page in pages:
        text = page.read_text()
        for target in [*_FETCHED.findall(text), *_LINKED.findall(text)]:
            assert "//" not in target, (page.name, target)
            base = site if target.startswith("/") else page.parent
            assert (base / target.lstrip("/").split("?")[0]).exists(), (page.name, target)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text())


def test_every_formula_is_drawn_by_the_browser_itself(site: Path) -> None:
    source = (ROOT / "docs" / "mathematics.md").read_text()
    blocks = len(re.findall(r"^\$\$", source, re.MULTILINE))
    page = (site / "mathematics.html").read_text()
    assert page.count('display="block"') == blocks
    assert "arithmatex" not in page
    assert blocks > 10


def test_every_public_name_stands_on_the_page_of_the_python_interface(site: Path) -> None:
    page = (site / "python-api.html").read_text()
    for package in (owpc_ltr, owpc_ltr.plugin_checks):
        for name in package.__all__:
            if not name.startswith("__"):
                assert f'id="{package.__name__}.{name}"' in page, name


def test_the_search_knows_the_words_of_all_pages(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"].split("#")[0] for entry in index["docs"]}
    assert {"index.html", "tutorial.html", "cli.html", "mathematics.html"} <= places
