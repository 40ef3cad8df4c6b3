"""Plugins: found by entry point, refused when two share a name, harmless when broken."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import py_compile
import subprocess
import sys
import threading
import tomllib
from ast import literal_eval
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from owpc_ltr.errors import PluginError
from owpc_ltr.host import registry
from owpc_ltr.host.registry import PACKAGES, Plugin, Registry, load
from tests.fresh_process import printed_by

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").iterdir())
COMMAND = ROOT / "docs" / "examples" / "owpc-ltr-label-counts"
GOOD = (ROOT / "docs" / "examples" / "owpc-ltr-worst-pairs" / "worst_pairs.py").read_text()


class FakeEntryPoint:
    """An installed plugin line whose module is given, or fails."""

    dist = None

    def __init__(self, name: str, made: ModuleType | Exception) -> None:
        self.name, self.value, self.made = name, f"{name}_module", made

    def load(self) -> ModuleType:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def module(source: str) -> ModuleType:
    made = ModuleType("made")
    sys.modules["made"] = made
    exec(compile(source, "made.py", "exec"), made.__dict__)  # noqa: S102 - the test's own text
    return made


def install(monkeypatch: pytest.MonkeyPatch, *points: Any) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)


def test_every_entry_point_of_ours_offers_a_plugin_of_its_own_name() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    registry_of_all = load()
    assert {plugin.name for plugin in registry_of_all.all()} == set(declared["owpc_ltr"])
    assert not registry_of_all.failures


def test_every_entry_of_a_plugin_package_is_a_plugin() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    offered = {".".join(module.split(".")[:2]) for module in declared["owpc_ltr"].values()}
    entries = {
        f"{package.name}.{entry.stem}"
        for package in (ROOT / "plugins").iterdir()
        if package.name in set(PACKAGES) - {"owpc_ltr_clicks"}
        for entry in package.iterdir()
        if not entry.name.startswith("_")
    }
    assert entries <= offered


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("find('loss', 'cosine')", {"owpc_ltr_losses", "owpc_ltr_losses.cosine"}),
        ("all('judgment-reader')", {"owpc_ltr_judgments"}),
    ],
)
def test_who_asks_for_a_plugin_or_a_kind_imports_no_other(asked: str, wanted: set[str]) -> None:
    code = (
        f"import sys; from owpc_ltr.host.registry import load; load().{asked}; "
        "print({name for name in sys.modules if name.startswith('owpc_ltr_') or name == 'numba'})"
    )
    modules = literal_eval(printed_by(code))
    if "." not in str(wanted):
        modules = {name.partition(".")[0] for name in modules} - {"owpc_ltr_rating"}
    assert modules == wanted


def test_a_shipped_package_offers_the_kind_that_it_is_known_for() -> None:
    offered = {(plugin.cls.__module__.partition(".")[0], plugin.kind) for plugin in load().all()}
    assert {(name, kind) for name, kind in PACKAGES.items() if find_spec(name)} <= offered
    assert all(registry.PACKAGES.get(package, kind) == kind for package, kind in offered)


def test_a_name_that_two_offer_is_refused_whenever_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = [*entry_points(group="owpc_ltr")]
    twin = module(GOOD.replace('"worst-pairs"', '"cosine"'))
    install(monkeypatch, *ours, FakeEntryPoint("something-else", twin))
    installed = load()
    for ask in (lambda: installed.all("loss"), lambda: installed.find("loss", "cosine")):
        for _ in range(2):
            with pytest.raises(PluginError, match="two plugins offer the loss 'cosine'"):
                ask()


def test_a_plugin_is_imported_once_however_many_ask_at_once() -> None:
    together, asked = threading.Barrier(2), list[str]()

    def slow() -> ModuleType:
        asked.append("good")
        with contextlib.suppress(threading.BrokenBarrierError):
            # Whoever else comes here while this one loads would be the second.
            together.wait(timeout=0.2)
        return module(GOOD)

    own_registry = Registry([], entries=[registry.Entry("good", "other 1.0", False, slow)])
    with ThreadPoolExecutor(4) as pool:
        classes = list(pool.map(lambda _: own_registry.find("loss", "worst-pairs"), range(4)))
    assert asked == ["good"]
    assert len(set(classes)) == 1


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(PluginError, match=r"'owcp': did you mean 'owpc'\?; installed: .*owpc"):
        load().find("loss", "owcp")


def test_two_plugins_of_one_kind_and_name_are_refused_naming_both() -> None:
    twin = [Plugin("loss", "twin", object, "first 1.0"), Plugin("loss", "twin", object, "second")]
    with pytest.raises(PluginError, match=r"'twin': first 1\.0 and second"):
        Registry(twin)
    assert Registry([twin[0], Plugin("reranker", "twin", str, "a")]).all()


def test_several_names_may_be_offered_by_one_module() -> None:
    tables = {plugin.name for plugin in load().all("judgment-reader", shipped={"csv", "tsv"})}
    assert {"csv", "tsv"} <= tables - {"jsonl", "parquet"} == tables
    assert {"csv", "jsonl"} <= {plugin.name for plugin in load().all("judgment-reader")}


def test_a_broken_installed_plugin_stops_only_those_who_ask_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = [*entry_points(group="owpc_ltr")]
    broken = FakeEntryPoint("broken", ImportError("no module named torch"))
    install(monkeypatch, *ours, broken, FakeEntryPoint("good", module(GOOD)))
    broken_registry = load()
    assert "worst-pairs" in {plugin.name for plugin in broken_registry.all("loss")}
    assert [failure.plugin for failure in broken_registry.failures_of("judgment-reader")] == [
        "broken"
    ]
    with pytest.raises(PluginError, match=r"'broken' .*ImportError: no module named torch"):
        broken_registry.find("loss", "deep")


def test_a_misspelt_hook_is_an_error_that_names_the_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    misspelt = GOOD.replace("def ltr_losses", "def ltr_loses") + (
        "\n@hookimpl\ndef ltr_optimizers():\n    return []\n"
    )
    install(monkeypatch, FakeEntryPoint("misspelt", module(misspelt)))
    (failure,) = load().failures
    assert failure.plugin == "misspelt"
    assert "ltr_loses" in failure.reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("@hookimpl", ""), r"none of the hooks.*write @hookimpl above ltr_losses\(\)"),
        (("def ltr_losses", "def ltr_loses"), "is not a hook: did you mean 'ltr_losses'"),
        (('= "worst-pairs"', '= "Worst Pairs"'), "in lower case"),
        (("@dataclass(frozen=True)", "@dataclass"), "frozen dataclass"),
        (("import numpy", "import nonumpy"), "nonumpy"),
        (("class WorstPairs:", "class WorstPairs"), "SyntaxError"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(PluginError, match=message) as caught:
        load([path])
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = write(folder, GOOD)
    assert load([path]).find("loss", "worst-pairs")
    {"file": path, "folder": folder}[where].chmod(0o777)
    with pytest.raises(PluginError, match=f"others can write '{tmp_path}.*copy in a folder"):
        load([path])


def test_a_file_in_a_folder_where_each_removes_only_their_own_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    tmp_path.chmod(0o1777)
    assert load([path]).find("loss", "worst-pairs")
    if os.getuid():
        pytest.skip("only root can give files away")
    os.chown(path, 12345, -1)
    with pytest.raises(PluginError, match="belongs to another user"):
        load([path])


def test_bytecode_beside_a_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    planted = write(tmp_path, "raise RuntimeError('planted')", "planted.py")
    cached = Path(importlib.util.cache_from_source(str(path)))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(planted), str(cached), invalidation_mode=unchecked)
    before = cached.read_bytes()
    assert load([path]).find("loss", "worst-pairs")
    assert cached.read_bytes() == before
    cached.unlink()
    load([path])
    assert not cached.exists()


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(PluginError, match="no such file"):
        load([Path("nowhere.py")])


def installed(folder: Path, *examples: Path) -> dict[str, str]:
    """The environment of a process that finds real installations of them, in this folder."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder)]
    subprocess.run([*pip, *map(str, examples)], check=True)
    return {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}


def test_the_example_command_is_there_once_it_is_installed(tmp_path: Path) -> None:
    """By a fresh interpreter, from the shell and from Python."""
    environ = installed(tmp_path / "installed", COMMAND)
    (tmp_path / "data.txt").write_text("1 qid:1 1:1\n2 qid:1 1:2\n2 qid:1 1:3\n")
    call = (
        "import sys, owpc_ltr; from owpc_ltr.cli import main;"
        "print(owpc_ltr.label_counts('data.txt')); sys.argv[1:] = ['--help']; main()"
    )
    listed = "label-counts Count the documents that have each label."
    for words, wanted in (
        (("-m", "owpc_ltr", "label-counts", "data.txt"), ["1: 1 2: 2"]),
        (("-c", call), ["1: 1 2: 2", listed]),
    ):
        said = subprocess.run(
            [sys.executable, *words],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environ,
        ).stdout
        assert all(text in " ".join(said.split()) for text in wanted)


@pytest.mark.thorough
def test_every_example_distribution_is_found_once_it_is_installed(tmp_path: Path) -> None:
    """By a fresh interpreter."""
    names = [example.name for example in EXAMPLES if example != COMMAND]
    code = (
        "import sys; from owpc_ltr import cli\n"
        "for name in sys.argv[1:]:\n"
        "    sys.argv = ['owpc-ltr', 'plugins', 'show', name.removeprefix('owpc-ltr-')]\n"
        "    try: cli.main()\n"
        "    except SystemExit as ended: assert not ended.code"
    )
    listing = printed_by(code, installed(tmp_path, *EXAMPLES), names)
    for name in names:
        assert f"{name.removeprefix('owpc-ltr-')}, of {name} 0.1.0: " in listing
