"""The pages: made from the code as it is, and pointing at files that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("featuresets/*.md")])


def test_the_reference_is_made_from_the_code_as_it_is() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (made.returncode, made.stdout) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_a_layout_that_is_not_the_tree_is_noticed(tmp_path: Path) -> None:
    """The page of an older tree: `--check` must see that a folder has another name."""
    copy = tmp_path / "docs"
    copy.mkdir()
    for name in ("make_reference.py", "layout.py", "cli.md", "plugins.md", "design.md"):
        (copy / name).write_text((ROOT / "docs" / name).read_text())
    for package in ("owpc_ltr", "plugins"):
        (tmp_path / package).symlink_to(ROOT / package)
    page = copy / "design.md"
    page.write_text(page.read_text().replace("  training/ ", "  learning/ "))
    made = subprocess.run(
        [sys.executable, str(copy / "make_reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1
    assert made.stdout.splitlines() == [
        "docs/design.md is not up to date: run python docs/make_reference.py"
    ]
