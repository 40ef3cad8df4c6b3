"""What all tests share: which of them run, the seeded generator, the folder of real data."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Generator, Iterator
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from owpc_ltr import redaction
from owpc_ltr.errors import OwpcLtrError
from owpc_ltr.host import registry
from tests.commands import Run, commands_in
from tests.engine.lacking import skip_what_it_lacks
from tests.faults.outcomes import Outcomes
from tests.faults.seeds import Seeds, replay_command, seeds_for
from tests.faults.selection import Selection, node_group, select
from tests.fresh_process import ranx
from tests.session_node import (
    certificates,
    node_for,
    node_url,
    plugin_node,
    session_node,
    vectors_url,
)
from tests.without_plugins import ABSENT, PLUGINS

__all__ = [
    "certificates",
    "node_for",
    "node_url",
    "plugin_node",
    "ranx",
    "session_node",
    "vectors_url",
]

_NEED_PLUGINS = {
    "cluster": {"node"},
    "engines": {"node"},
    "engine/test_workflows.py": PLUGINS,
    "test_benchmarks.py": {"clicks"},
    "test_docs.py": PLUGINS,
    "test_results.py": {"papers"},
}
"""Tests of all pages, of all engines and of benchmarks use plugins, whose own are in `tests/NAME`.

Where one of them is deleted, they are left out.
"""
collect_ignore_glob = [
    pattern for pattern, plugins in _NEED_PLUGINS.items() if not set(plugins).isdisjoint(ABSENT)
]

# A first call compiles, which takes a second, and machines are as slow as they are; a failure must
# come back in the next run.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=100 if Selection.asked().thorough else 15,
    # Files in `tmp_path` are written anew by each example.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def installed_once() -> Iterator[None]:
    """What is installed is looked up once for each search path, not by each command and call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            registry, "entry_points", lambda **group: _installed(tuple(sys.path), **group)
        )
        yield


@functools.cache
def _installed(_path: tuple[str, ...], group: str) -> EntryPoints:
    return entry_points(group=group)


@pytest.fixture(autouse=True)
def no_earlier_comparisons(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Each test counts its own comparisons alone, in processes that it starts, too."""
    name = f"state-{abs(hash(request.node.nodeid))}"
    monkeypatch.delenv("OWPC_LTR_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / name))


@pytest.fixture(scope="session", autouse=True)
def no_comparisons_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures of modules, which are made before any test's, count their own comparisons, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OWPC_LTR_HOME", raising=False)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def errors_are_one_line() -> Iterator[None]:
    """Every error of ours that a user can fix is checked to be one line where it is made."""

    init = OwpcLtrError.__init__

    def checked(error: OwpcLtrError, *args: object) -> None:
        init(error, *args)
        # Plugins that tests write may break the rule.
        maker = sys._getframe(1).f_globals["__name__"]
        assert "\n" not in str(error) or not maker.startswith("owpc_ltr")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwpcLtrError, "__init__", checked)
        yield


@pytest.fixture(autouse=True)
def no_earlier_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test knows its own secrets alone: words of others would be hidden from it."""
    monkeypatch.setattr(redaction, "_known", set())


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands of `owpc-ltr` in the test's own folder, which is the working directory."""
    return commands_in(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, which is not part of the project."""
    default = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("OWPC_LTR_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set OWPC_LTR_DATA to use it")
    return folder


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> Seeds:
    """The seeds of a test that loops over faults: `for seed in seeds(sample=20, whole=1000)`."""
    return seeds_for(request.node)


def pytest_configure(config: pytest.Config) -> None:
    """Outcomes of faults are brought together in the process that prints."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected lasts: in its 500,000 objects no garbage is looked for."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests those that are asked for run; what needs the real node runs in one process."""
    selection = Selection.asked()
    config.hook.pytest_deselected(items=select(items, selection))
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if {"node_for", "node_url", "session_node"} & fixtures:
            item.add_marker(pytest.mark.xdist_group(node_group(item, selection)))
            item.add_marker(pytest.mark.node)
        if "other_engine" in fixtures:
            item.add_marker(pytest.mark.xdist_group("other engine"))
        if "vectors_url" in fixtures:
            item.add_marker(pytest.mark.xdist_group("vectors"))
            item.add_marker(pytest.mark.node)
        if "ranx" in fixtures:
            item.add_marker(pytest.mark.xdist_group("ranx"))
        if hasattr(config, "workerinput"):
            _name_group(item)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of a file without a group share a process: what they share is made once.

    Of all faults each test goes where there is time for it: a file has thousands.
    """
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if group == nodeid else group

    return None if Selection.asked().whole else ByFile(config, log)


def _name_group(item: pytest.Item) -> None:
    """Put the group into the test's id, where `--dist loadgroup` reads it.

    pytest-xdist 3.8 sets `_nodeid` for this, which pytest 9.2 no longer reads.
    """
    mark = item.get_closest_marker("xdist_group")
    if mark is not None and hasattr(item, "id"):
        item._id = type(item.id).parse(f"{item.nodeid}@{mark.args[0]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What failed of the faults is told with the line that runs it again.

    On a local Elasticsearch, which has neither scripts nor reindexing, what needs them is skipped.
    """
    report = yield
    skip_what_it_lacks(report, call)
    if report.failed and item.get_closest_marker("faults"):
        report.sections.append(("the same again", replay_command(item)))
    return report
