"""What each command imports, so that none pays for what another needs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr import make_dataset, save_dataset, save_model
from owpc_ltr.models.linear import LinearModel
from tests.engine.deployed import put
from tests.engine.small_cluster import Small, linear, small_cluster

ROOT = Path(__file__).resolve().parents[2]
NEVER_AT_THE_TOP = {*("numba", "llvmlite", "scipy", "xgboost", "opensearchpy", "pandas", "sklearn")}
"""What every file imports inside the functions that need it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a linear model and the data that it scores."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(60, 3)).astype(np.float32)
    queries = np.repeat([f"q{n}" for n in range(6)], 10)
    data = make_dataset(features, rng.integers(0, 3, 60), queries)
    save_dataset(data, tmp_path / "data.parquet")
    save_model(LinearModel(data.feature_names, np.ones(3)), tmp_path / "model.json")
    return tmp_path


def run_all(folder: Path, *commands: tuple[str, ...]) -> list[Imported]:
    """Commands one after the other in one process, whose modules add up."""
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder), "OWPC_LTR_HOME": str(folder / "home")}
    environ["OWPC_LTR_DEADLINE"] = "0.5"  # enough to try again
    return imported_by(*commands, folder=folder, environ=environ)


def run(folder: Path, *words: str) -> Imported:
    (outcome,) = run_all(folder, words)
    return outcome


def test_help_imports_nothing_but_the_command_line(folder: Path) -> None:
    outcome = run(folder, "--help")
    assert outcome.code == 0
    # Plugins mark their lists of commands with pluggy.
    assert outcome.heavy(allowed={"pluggy"}) == []
    assert len(outcome.modules) <= 360
    # Its text names another command, which is no plugin's.
    assert run(folder, "train", "--help").heavy(allowed={"pydantic"}) == []
    for outcome in run_all(folder, ("--version",), ("train", "--help"), ("models", "--help")):
        assert outcome.code == 0
        # Typer parses with pydantic, once there is something to parse.
        assert outcome.heavy(allowed={"pluggy", "pydantic"}) == []
        assert len(outcome.modules) <= 360


def test_a_missing_file_is_told_before_anything_is_imported_to_read_it(folder: Path) -> None:
    for outcome in run_all(
        folder,
        ("evaluate", "none.json", "--data", "none.parquet"),
        ("train", "none.parquet", "--out", "m.json"),
        ("select", "none.parquet"),
        ("compare", "none.json", "feature:1", "--data", "none.parquet"),
        ("export", "none.json", "--target", "opensearch", "--out", "m.json"),
        ("log-features", "none.tsv", "--featureset", "f", "--out", "d.parquet"),
    ):
        assert outcome.code in {2, 3}
        # The library of the command line parses with it.
        assert outcome.heavy(allowed={"pydantic"}) == []
        assert len(outcome.modules) <= 400


def test_looking_at_all_plugins_imports_no_solver(folder: Path) -> None:
    outcome = run(folder, "plugins", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.heavy(allowed={"pydantic", "numpy", "pyarrow", "pluggy"}) == []


def test_evaluating_a_linear_model_compiles_nothing(folder: Path) -> None:
    outcome = run(folder, "evaluate", "model.json", "--data", "data.parquet", "--split", "all")
    assert outcome.code == 0, outcome.err
    assert outcome.heavy(allowed={"pydantic", "numpy", "pyarrow", "pluggy"}) == []
    assert "pyarrow.dataset" not in outcome.modules
    assert len(outcome.modules) <= 800


def test_comparing_linear_models_compiles_nothing(folder: Path) -> None:
    outcome = run(folder, "compare", "model.json", "feature:1", "--data", "data.parquet")
    assert outcome.code == 0, outcome.err
    # The tests need distributions, and progress is drawn.
    allowed = {"pydantic", "numpy", "pyarrow", "pluggy", "scipy", "rich", "asyncio"}
    assert outcome.heavy(allowed) == []


def test_a_cluster_that_is_not_there_is_told_without_what_its_answers_need(folder: Path) -> None:
    outcome = run(folder, "models", "show", "--url", "http://127.0.0.1:9")
    assert outcome.code == 4
    # The client of the engine is imported with the first request.
    client = {"urllib3", "asyncio", "opensearchpy", "requests"}
    allowed = {*client, "pydantic", "pluggy", "numpy"}
    assert outcome.heavy(allowed) == []
    assert len(outcome.modules) <= 820


def tops(source: str) -> Iterator[str]:
    """The libraries that a module imports when it is imported itself."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_no_file_imports_a_slow_library_at_its_top() -> None:
    importers = {
        str(path.relative_to(ROOT)): slow
        for folder in ("owpc_ltr", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        if (slow := NEVER_AT_THE_TOP & set(tops(path.read_text())))
    }
    # Imported with the first request: its class extends one of opensearch-py.
    assert importers == {"owpc_ltr/engine/client/connection.py": {"opensearchpy"}}


def test_an_import_at_the_top_would_be_seen() -> None:
    seen = tops("import os, numba.core\nfrom xgboost import train\ndef f():\n    import pandas")
    assert NEVER_AT_THE_TOP & set(seen) == {"numba", "xgboost"}


def test_a_heavy_library_would_be_seen(folder: Path) -> None:
    """A plugin file that imports one at its top is what the lists above must tell."""
    (folder / "slow.py").write_text("import scipy\n")
    outcome = run(folder, "plugins", "--plugin", "slow.py")
    assert "scipy" in outcome.heavy()
    assert set(outcome.heavy()) <= set(HEAVY)


@pytest.fixture
def small(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        put(made, linear())
        yield made


def test_what_is_asked_of_a_cluster_needs_no_tables_and_no_compiler(
    small: Small, tmp_path: Path
) -> None:
    model = ("--model", small.name, "--index", small.index)
    place = ("--store", small.name.removeprefix("m-"), "--store-kind", "plugin-free")
    url = small.engine.settings.url
    environ = {**os.environ, "OWPC_LTR_URL": url, "XDG_CONFIG_HOME": str(tmp_path)}
    for outcome in imported_by(
        ("models", "show", *place),
        ("models", "show", small.name, *place),
        ("request", *model, *place),
        ("search", "alpha beta", *model, *place),
        folder=tmp_path,
        environ=environ,
    ):
        assert outcome.code == 0, outcome.err
        client = {"opensearchpy", "requests", "urllib3", "asyncio"}
        assert outcome.heavy(allowed={*client, "pydantic", "numpy", "pystache", "pluggy"}) == []
        assert len(outcome.modules) <= 450 + 370  # opensearch-py brings the first


HEAVY = (
    *("numpy", "numba", "llvmlite", "scipy", "pyarrow", "pandas", "polars", "sklearn", "xgboost"),
    *("opensearchpy", "requests", "urllib3", "asyncio", "pluggy", "pystache", "psutil"),
    *("pydantic", "rich", "botocore", "jgo"),
)
"""Libraries whose import takes as long as a command may."""

_RUN = """
import json, sys
from owpc_ltr.cli import main

told = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["owpc-ltr", *words]
    try:
        main()
    except SystemExit as ended:
        told.append([ended.code, sorted(sys.modules)])
with open("modules.json", "w") as file:
    json.dump(told, file)
"""


@dataclass(frozen=True)
class Imported:
    """The exit code of a command, what it printed, and all modules that were there at its end."""

    code: int
    out: str
    err: str
    modules: frozenset[str]

    def heavy(self, allowed: Collection[str] = ()) -> list[str]:
        """The heavy libraries among the modules, but for those allowed."""
        return [name for name in HEAVY if name in self.modules and name not in allowed]


def imported_by(
    *commands: tuple[str, ...], folder: Path, environ: Mapping[str, str]
) -> list[Imported]:
    """Run commands of `owpc-ltr` in a folder, and note the modules that are there after each."""
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(commands)],
        cwd=folder,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = json.loads((folder / "modules.json").read_text())
    assert len(outcomes) == len(commands), ended.stderr
    return [
        Imported(int(code or 0), ended.stdout, ended.stderr, frozenset(modules))
        for code, modules in outcomes
    ]
