"""The code blocks of the pages, run in order on small data of the same form."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import os
import re
import shlex
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sybil import Document, Example, Lexeme, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from owpc_ltr import OwpcLtrWarning, RankingDataset, make_dataset
from owpc_ltr.data.letor import write_letor
from tests.commands import Run
from tests.faults.selection import Selection
from tests.page_outputs import WRITES, check_output, shown_in

ROOT = Path(__file__).parents[1]
NEEDS_NODE = {"movies", "all-movies", "demo-files", "demo-folder", "vectors"}
"""Samples whose pages speak to a cluster."""
SMALLER = {"all-movies", "demo-files", "demo-folder"}
"""Samples that are smaller in tests than what the pages show; `make outputs` has those."""
_REAL = Path(os.environ.get("OWPC_LTR_DATA", "")) / "msrd-movies"

_TITLES = [
    "insidious",
    "chapter",
    *(f"{first}{last}" for first in "bdfgklmn" for last in ("alo", "eri", "uma")),
]
"""Words of titles, which queries ask for; no other field has them."""
_TEXT = {"type": "text", "analyzer": "english"}
_QUERIES, _MOVIES = 220, 300
_COLOURS = ["red", "blue", "green", "black", "white"]
_THINGS = ["shoe", "hat", "coat", "glove", "scarf", "sock"]
_PRODUCTS, _DIMENSIONS = 150, 4


def movies(folder: Path) -> None:
    """Movies, their feature set and its costs, and judged queries.

    Every movie with the query's word in its title is judged. Liked are mostly those whose votes lie
    in one of several ranges: more than a line can tell, so that trees are better.
    """
    rng = np.random.default_rng(7)
    corpus = [_movie(number, rng) for number in range(_MOVIES)]
    with gzip.open(folder / "movies-corpus.jsonl.gz", "wt") as file:
        file.writelines(f"{json.dumps(movie)}\n" for movie in corpus)
    fields = ("title", "overview", "tags", "genres", "director", "actors", "characters")
    mappings = {"properties": dict.fromkeys(fields, _TEXT)}
    (folder / "movies-index-settings.json").write_text(json.dumps({"mappings": mappings}))
    featureset = (ROOT / "featuresets" / "movies.json").read_text()
    for path in (folder / "movies.json", folder / "featuresets" / "movies.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(featureset)
    names = [feature["name"] for feature in json.loads(featureset)["featureset"]["features"]]
    (folder / "movies-costs.json").write_text(json.dumps(dict.fromkeys(names, 0.5)))
    with gzip.open(folder / "movies-judgments.tsv.gz", "wt") as file:
        file.write("query_id\tquery\tdoc_id\tgrade\n")
        for number in range(_QUERIES):
            word = str(rng.choice(_TITLES))
            for movie in corpus:
                if word in movie["title"].split():
                    # People do not agree on one in fifteen.
                    grade = int(movie["votes"] // 600 % 2) ^ int(rng.random() < 1 / 15)
                    file.write(f"q{number}\t{word} {number}\t{movie['id']}\t{grade}\n")


def all_movies(folder: Path) -> None:
    """The movies that a page shows the outputs of, where there are any, and small ones in tests."""
    movies(folder)
    if WRITES:
        for path in _REAL.glob("movies-*"):
            (folder / path.name).write_bytes(path.read_bytes())


def demo_files(folder: Path) -> None:
    """`workflow/`: what `demo --files workflow` writes, in tests of fewer modules and queries."""
    (folder / "workflow").mkdir()
    demo_folder(folder / "workflow")


def demo_folder(folder: Path) -> None:
    """The same where the page is in that folder. It asks the cluster."""
    from owpc_ltr_demo import corpus
    from owpc_ltr_demo.preparation import write_files
    from owpc_ltr_demo.session import DemoOptions, DemoSession

    from owpc_ltr.engine.client.engine import open_engine

    with pytest.MonkeyPatch.context() as patch:
        if not WRITES:
            patch.setattr(corpus, "LEFT_OUT", sys.stdlib_module_names - _READ)
        # Of forty no kinds of models are compared, which takes most of the time.
        fewer = 200 if Selection.asked().thorough else 40
        options = DemoOptions(folder=folder, queries=500 if WRITES else fewer)
        write_files(DemoSession(options), open_engine())


_READ = {"asyncio", "collections", "email", "json", "logging", "os", "re", "string", "textwrap"}
"""The modules with source whose documentation stands for that of the standard library."""


def letor(folder: Path) -> None:
    """Five folders `Fold1` … `Fold5`, each with train.txt, vali.txt and test.txt."""
    parts = [_judged(seed) for seed in range(5)]
    for fold in range(5):
        where = folder / f"Fold{fold + 1}"
        where.mkdir()
        for name, part in (("train", fold), ("vali", fold + 3), ("test", fold + 4)):
            write_letor(parts[part % 5], where / f"{name}.txt")


def dataset(folder: Path) -> None:
    """`data.txt`: 120 judged queries with 5 features, in LETOR's format."""
    write_letor(_judged(11, queries=120), folder / "data.txt")


def vectors(folder: Path) -> None:
    """Products with a vector of four numbers, and judged queries that have one of their own.

    Liked is mostly what is near, whatever its words; some products have no vector.
    """
    products, judged = products_and_judgments()
    for name, lines in (("products", products), ("judgments", judged)):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    fields = {f"v{number}": {"type": "float"} for number in range(_DIMENSIONS)}
    mappings = {"properties": {"title": {"type": "text"}, "text": {"type": "text"}, **fields}}
    (folder / "settings.json").write_text(json.dumps({"mappings": mappings}))


def products_and_judgments() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The products, a field for each of their vectors' numbers, and the judgments."""
    rng = np.random.default_rng(11)
    where = rng.normal(size=(_PRODUCTS, _DIMENSIONS)).round(3)
    products: list[dict[str, Any]] = [
        {
            "id": f"p{number}",
            "title": f"{rng.choice(_COLOURS)} {rng.choice(_THINGS)}",
            "text": " ".join(rng.choice([*_COLOURS, *_THINGS], 6)),
            **({f"v{i}": float(x) for i, x in enumerate(where[number])} if number % 9 else {}),
        }
        for number in range(_PRODUCTS)
    ]
    judged: list[dict[str, Any]] = []
    for number in range(60):
        vector = rng.normal(size=_DIMENSIONS).round(3)
        near = where @ vector / np.linalg.norm(where, axis=1) / np.linalg.norm(vector)
        near += rng.normal(scale=0.4, size=_PRODUCTS)  # people do not agree
        words = f"{rng.choice(_COLOURS)} {rng.choice(_THINGS)}"
        for place, index in enumerate(rng.choice(_PRODUCTS, 15, replace=False).tolist()):
            has = bool(index % 9)
            fits = int(products[index]["title"].split()[1] == words.split()[1])
            judgment = {
                "query_id": f"q{number}",
                "query": words,
                "doc_id": f"p{index}",
                "grade": int(has and near[index] > 0.3) + int(has and near[index] > 0) * fits,
            }
            judged.append(judgment | ({} if place else {"vector": vector.tolist()}))
    return products, judged


SAMPLES: dict[str, Callable[[Path], None]] = {
    "movies": movies,
    "all-movies": all_movies,
    "demo-files": demo_files,
    "demo-folder": demo_folder,
    "letor": letor,
    "dataset": dataset,
    "vectors": vectors,
}


def _movie(number: int, rng: np.random.Generator) -> dict[str, Any]:
    def words(count: int, of: Sequence[str] = ("drama", "comedy", "crime", "war")) -> str:
        return " ".join(rng.choice(of, count))

    return {
        "id": str(1000 + number),
        "title": words(3, _TITLES),
        "overview": words(9),
        "tags": [words(1)],
        "genres": [words(1)],
        "director": words(2),
        "actors": [words(2), words(2)],
        "characters": [words(1)],
        "year": int(rng.integers(1950, 2022)),
        "votes": int(rng.integers(0, 3000)),
        "popularity": float(rng.uniform(0, 100)),
    }


def _judged(seed: int, queries: int = 24) -> RankingDataset:
    """Queries of 12 documents, whose grades follow the first two of five features."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(12 * queries, 5))
    noise = rng.normal(scale=0.3, size=len(features))
    grades = np.digitize(2 * features[:, 0] + features[:, 1] + noise, [1.7, 2.4])
    ids = [f"{seed}{number:03d}" for number in range(queries) for _ in range(12)]
    return make_dataset(features, grades, ids)


_MADE = "<!-- Made by docs/make_reference.py"
"""In pages whose examples are doctests of the code that they are made from."""
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    if _MADE not in page.read_text()[:200]
)

_REMARK = re.compile(
    r"[ \t]*<!--\s*(not run|exit code|runs where|output of):\s*(.+?)\s*-->[ \t]*\n"
)
_REMARKS_ABOVE = re.compile(rf"(?:{_REMARK.pattern})+[ \t]*\Z")
_SAMPLES = re.compile(r"<!--\s*runs with:\s*(.+?)\s*-->")
_TITLE = re.compile(r'title="([\w./-]+)"')
_LEXER = RawFencedCodeBlockLexer(re.compile(r"(?P<info>[^\n]*)$\n", re.MULTILINE))
_DATA = {"json": json.loads, "toml": tomllib.loads}


class Unfit(AssertionError):
    """A block that is neither run nor marked as not run."""


@dataclass(frozen=True)
class Block:
    """One fenced block, and the remarks above it."""

    language: str
    title: str | None
    source: Lexeme
    remarks: dict[str, str]

    @property
    def runs(self) -> bool:
        """Whether there is something to do with it here."""
        needed = self.remarks.get("runs where")
        if "not run" in self.remarks or (needed is not None and not is_there(needed)):
            return False
        return self.title is not None or self.language != "text"


def samples_of(page: Path) -> list[str]:
    """The samples that a page is run with."""
    match = _SAMPLES.search(page.read_text())
    return match[1].split(", ") if match else []


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page; Unfit where one is of no kind that runs, and not marked."""
    return [example.parsed for example in _document(page).examples()]


def run_page(page: Path, folder: Path, run: Run) -> int:
    """Run the blocks of a page in a folder, which is the working one; how many were run."""
    document = _document(page)
    done = 0
    # Samples are small: that some features say nothing in them is told, as it should be.
    warnings.filterwarnings("ignore", ".*no value, or one and the same", OwpcLtrWarning)
    for example in document.examples():
        block: Block = example.parsed
        if not block.runs:
            continue
        try:
            done += _run(block, example, folder, run, page)
        except Exception as error:
            error.add_note(f"in the block at line {example.line} of {page.name}")
            raise
    return done


def is_there(name: str) -> bool:
    """Whether a module, or a name of a package, can be had."""
    package, _, last = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(package), last) or bool(
            importlib.util.find_spec(name)
        )
    except ModuleNotFoundError:
        return False


def _document(page: Path) -> Document:
    document = Document.parse(str(page), _blocks)
    document.namespace["__name__"] = "__main__"
    return document


def _blocks(document: Document) -> Iterator[Region]:
    for region in _LEXER(document):
        above = _REMARKS_ABOVE.search(document.text[: region.start])
        remarks = dict(_REMARK.findall(above[0])) if above else {}
        info = region.lexemes["info"].strip()
        title = _TITLE.search(info)
        language = info.split(" ")[0]
        block = Block(language, title[1] if title else None, region.lexemes["source"], remarks)
        region.parsed = block
        region.evaluator = _nothing
        _check(block, f"{document.path}, {document.line_column(region.start)}")
        yield region


def _nothing(_example: Example) -> None:
    """Evaluation is `run_page`'s, which has the folder."""


def _check(block: Block, where: str) -> None:
    if "not run" in block.remarks or block.title or block.language in {"python", "text", *_DATA}:
        return
    if block.language != "console":
        kind = block.language or "nameless"
        raise Unfit(f"{where}: nothing runs a {kind} block: mark it as not run, and why")
    words = [shown.command.split()[0] for shown in shown_in(block.source)]
    if not words:
        raise Unfit(f"{where}: no line of this console block begins with $")
    other = [word for word in words if word != "owpc-ltr"]
    if other:
        raise Unfit(f"{where}: {other[0]} is not run here: mark the block as not run, and why")


def _run(block: Block, example: Example, folder: Path, run: Run, page: Path) -> int:
    if block.title:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.source)
        if path.suffix == ".py":
            example.namespace.update(_imported(path))
    elif block.language == "python":
        example.parsed = block.source
        PythonEvaluator()(example)
    elif block.language == "console":
        _run_commands(block, folder, run, page)
    elif block.language in _DATA:
        _DATA[block.language](block.source)
    else:
        return 0
    return 1


def _imported(path: Path) -> dict[str, Any]:
    """The public names of a file, imported as a module: plugins are compiled from their files."""
    specification = importlib.util.spec_from_file_location(f"page_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _shows_what_runs(page: Path) -> bool:
    """Whether the outputs of a page are of its samples: tests have smaller ones of some."""
    samples = set(samples_of(page))
    return not samples & SMALLER or (WRITES and ("all-movies" not in samples or _REAL.is_dir()))


def _run_commands(block: Block, folder: Path, run: Run, page: Path) -> None:
    expected = int(block.remarks.get("exit code", "0"))
    for shown in shown_in(block.source):
        command = shown.command
        words = shlex.split(command, comments=True)[1:]
        words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
        code, printed, complaints = run(*words)
        if code != expected:
            raise AssertionError(
                f"`{command}` ended with {code}, not {expected}:\n{printed}{complaints}"
            )
        if target is not None:
            (folder / target).write_text(printed)
        elif "output of" not in block.remarks and _shows_what_runs(page):
            check_output(page, shown, printed, complaints)
