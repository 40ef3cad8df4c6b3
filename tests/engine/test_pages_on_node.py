"""The code of the pages that speak to a cluster runs on a real node."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.commands import Run, commands_in
from tests.engine.conftest import SessionNode
from tests.pages import NEEDS_NODE, PAGES, SAMPLES, blocks_of, run_page, samples_of

pytestmark = pytest.mark.node

ON_NODE = [page for page in PAGES if NEEDS_NODE & set(samples_of(page))]


@pytest.fixture
def empty_node(session_node: SessionNode) -> Iterator[str]:
    """The session's own node, for pages use plain names: never one that somebody named.

    What a page, or the demo, has made is taken away, for the next one makes it again.
    """
    _empty(session_node.status.url)
    yield session_node.status.url
    _empty(session_node.status.url)


def _empty(url: str) -> None:
    engine = Engine(ConnectionSettings(url))
    for name in ("movies", "python-docs", "products", "owpc-ltr-store", "owpc-ltr-pointers"):
        with contextlib.suppress(EngineRefusal):
            # A name that was made anew is an alias, and it is its index that is taken away.
            for index in engine.request("GET", f"/{name}"):
                engine.request("DELETE", f"/{index}")
    engine.close()


@pytest.fixture
def run(
    empty_node: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    command = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("OWPC_LTR_URL", empty_node)
    return command


# What stands in for a page's data is small: its columns are copies of each other by chance.
@pytest.mark.filterwarnings("ignore:.* stands again as :owpc_ltr.errors.OwpcLtrWarning")
@pytest.mark.parametrize("page", ON_NODE, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_on_a_node(page: Path, tmp_path: Path, run: Run) -> None:
    for sample in samples_of(page):
        SAMPLES[sample](tmp_path)
    expected = sum(block.runs for block in blocks_of(page))
    assert run_page(page, tmp_path, run) == expected
