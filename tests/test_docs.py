"""The documentation: made from the code, its pages' code runs, and the site builds."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import owpc_ltr
import owpc_ltr.plugin_checks
from tests.commands import Run
from tests.page_outputs import Shown, printed_for, with_changed_words, write_numbers
from tests.pages import NEEDS_NODE, SAMPLES, Unfit, blocks_of, run_page, samples_of
from tests.pages import PAGES as CODE_PAGES

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("featuresets/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def defined_in(source: str) -> set[str]:
    """The names of functions, classes and variables of a module, and of fields and methods."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {part.id for part in targets if isinstance(part, ast.Name)}
    return names


def test_what_one_changes_is_where_the_design_says() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    section = page.partition("## Where do I change")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (.+) \|$", section, flags=re.MULTILINE)[1:]
    assert len(rows) > 35
    for what, where in rows:
        paths = re.findall(r"`((?:owpc_ltr|plugins)/[^`]+)`", where)
        assert paths, what
        assert [path for path in paths if not (ROOT / path).is_file()] == [], what
        names = re.search(r"((?:`\w+`(?:, )?)+) in `([^`]+)`", where)
        if names:
            there = defined_in((ROOT / names[2]).read_text())
            assert [name for name in re.findall(r"\w+", names[1]) if name not in there] == [], what
    assert "gone" not in defined_in("kept = 1\ndef also_kept(gone): ...")


_FETCHED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?([^"'\s>]+)""")
_LINKED = re.compile(r"""<link[^>]*\shref=["']?([^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Not --quiet: it hides warnings from the count by which --strict fails.
    warned = [line for line in built.stderr.splitlines() if not line.startswith("INFO ")]
    assert (built.returncode, warned) == (0, []), built.stderr
    return folder


@pytest.mark.thorough
def test_a_page_fetches_nothing_that_is_not_in_the_folder(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= 20
    for page in pages:
        text = page.read_text()
        for target in [*_FETCHED.findall(text), *_LINKED.findall(text)]:
            assert "//" not in target, (page.name, target)
            base = site if target.startswith("/") else page.parent
            assert (base / re.split("[?#]", target.lstrip("/"))[0]).exists(), (page.name, target)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text())


@pytest.mark.thorough
def test_every_formula_is_drawn_by_the_browser_itself(site: Path) -> None:
    source = (ROOT / "docs" / "mathematics.md").read_text()
    blocks = len(re.findall(r"^\$\$", source, re.MULTILINE))
    page = (site / "mathematics.html").read_text()
    assert page.count('display="block"') == blocks
    assert "arithmatex" not in page
    assert blocks > 10


def test_every_public_name_stands_on_the_page_of_the_python_interface() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    for package in (owpc_ltr, owpc_ltr.plugin_checks):
        for name in package.__all__:
            named = rf"^### {name}$|^\| `{name}` \|"  # errors are rows of a table
            assert name.startswith("__") or re.search(named, page, re.MULTILINE), name


@pytest.mark.thorough
def test_the_search_knows_the_words_of_all_pages(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"].split("#")[0] for entry in index["docs"]}
    assert {"index.html", "python.html", "cli.html", "mathematics.html"} <= places
    # A page that is opened from a disk can load a script, and no JSON.
    script = (site / "search" / "search_index.js").read_text()
    assert json.loads(script.removeprefix("var __index = ")) == index
    assert "unpkg.com" not in (site / "index.html").read_text()


OFFLINE = [page for page in CODE_PAGES if not NEEDS_NODE & set(samples_of(page))]


@pytest.mark.parametrize("page", CODE_PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs_or_says_why_it_does_not(page: Path) -> None:
    for block in blocks_of(page):
        assert block.remarks.get("not run", "a reason")


@pytest.mark.parametrize("page", OFFLINE, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, run: Run) -> None:
    for sample in samples_of(page):
        SAMPLES[sample](tmp_path)
    expected = sum(block.runs for block in blocks_of(page))
    assert run_page(page, tmp_path, run) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```sh\nrm -r x\n```\n", "nothing runs a sh block"),
        ("```\nowpc-ltr plugins\n```\n", "nothing runs a nameless block"),
        ("```console\nowpc-ltr plugins\n```\n", r"begins with \$"),
        ("```console\n$ curl localhost\n```\n", "curl is not run here"),
        ("<!-- not run: far above -->\n\n```sh\nls\n```\n", "nothing runs a sh block"),
    ],
)
def test_a_block_that_nothing_runs_must_say_so(text: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(Unfit, match=complaint):
        blocks_of(page)
    page.write_text(f"<!-- not run: for show -->\n{text.rsplit('-->', maxsplit=1)[-1].lstrip()}")
    (block,) = blocks_of(page)
    assert not block.runs


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("```python\nraise KeyError('lost')\n```\n", KeyError, "lost"),
        ("```python\na = 1\n```\n\n```python\nb = c\n```\n", NameError, "'c'"),
        ('```python title="own.py"\nimport nothing_of_this_name\n```\n', ImportError, "nothing"),
        (
            "```console\n$ owpc-ltr evaluate no.json --data no.parquet\n```\n",
            AssertionError,
            "with 3",
        ),
        ("<!-- exit code: 5 -->\n```console\n$ owpc-ltr plugins\n```\n", AssertionError, "with 0"),
        ("```json\n{1}\n```\n", ValueError, "property name"),
        ("```toml\n[a\n```\n", ValueError, "Expected"),
    ],
)
def test_a_block_that_does_not_do_what_it_says_is_noticed(
    text: str, error: type[Exception], complaint: str, tmp_path: Path, run: Run
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(error, match=complaint) as noticed:
        run_page(page, tmp_path, run)
    assert "page.md" in "".join(noticed.value.__notes__)


def test_an_output_that_a_command_does_not_print_is_noticed(tmp_path: Path, run: Run) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ owpc-ltr plugins metrics --metric ndcg\nno such line\n```\n")
    with pytest.raises(AssertionError, match="does not print 'no such line', as page"):
        run_page(page, tmp_path, run)


def test_numbers_of_an_output_are_written_anew_but_for_times_and_hashes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    lines = (
        "http://a:92 has m-87e1e989 in 2.5 ms",
        "gain +0.0201 [+0.0158, +0.0247]",
        "…",
        "a long li…",
    )
    shown = Shown("owpc-ltr x", lines)
    page.write_text("\n".join(["$ owpc-ltr x", *lines, ""]))
    out = "http://a:93 has m-01234567 in 3.1 ms\ngain -0.1 [-0.2, 0.01]\nmore\na long line of 3\n"
    outputs = printed_for(lines, out.splitlines())
    assert list(outputs.values()) == [line for line in out.splitlines() if line != "more"]
    write_numbers(page, shown, outputs)
    assert page.read_text().splitlines()[1:] == [lines[0], "gain -0.1 [-0.2, 0.01]", *lines[2:]]
    assert printed_for(["b 1", "a 1"], ["a 2", "b 2"]) == {"b 1": "b 2", "a 1": None}


def test_a_column_with_another_name_is_written_and_a_line_that_is_gone_is_not(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.md"
    lines = ("KIND    NDCG@10  RUNS IN", "linear   0.7314  engine", "queries that are gone: 3")
    page.write_text("\n".join(["$ owpc-ltr x", *lines, ""]))
    out = ["wrote x.json", "KIND    NDCG@10  SCORED BY", "linear   0.7315  engine"]
    outputs = with_changed_words(printed_for(lines, out), out)
    assert list(outputs.values()) == [*out[1:], None]
    write_numbers(page, Shown("owpc-ltr x", lines), outputs)
    assert page.read_text().splitlines()[1:] == [*out[1:], lines[2]]


def test_blocks_share_a_namespace_and_files_that_they_wrote(tmp_path: Path, run: Run) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '1. A file,\n\n   ```python title="own.py"\n   size = 3\n   ```\n\n'
        "2. a value, and a command whose output is kept.\n\n"
        "```python\nassert size == 3\nfrom pathlib import Path\n"
        'assert Path("own.py").read_text() == "size = 3\\n"\n```\n\n'
        "```console\n$ owpc-ltr plugins \\\n    --json > plugins.json\n```\n\n"
        "<!-- runs where: owpc_ltr.nothing_of_this_name -->\n```python\nassert False\n```\n\n"
        '```python\nassert "owpc" in Path("plugins.json").read_text()\n```\n'
    )
    assert run_page(page, tmp_path, run) == 4


EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*/*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_a_page_shows_each_example_whole_and_its_project_offers_it(example: Path) -> None:
    shown = [
        block for page in CODE_PAGES for block in blocks_of(page) if block.title == example.name
    ]
    assert [block.source for block in shown] == [example.read_text()]
    project = tomllib.loads((example.parent / "pyproject.toml").read_text())
    (group,) = project["project"]["entry-points"].items()
    (entry,) = group[1].items()
    assert entry[1] == example.stem
    named = {"owpc_ltr": 'name: ClassVar[str] = "{}"', "owpc_ltr.commands": 'Command("{}"'}
    assert named[group[0]].format(entry[0]) in example.read_text()
    assert project["project"]["name"] == example.parent.name
    built = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert built == [example.name]
