"""The page's table of rights, measured with accounts of a secured Elasticsearch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from owpc_ltr_node.release import ELASTICSEARCH, Release

from tests.commands import Run
from tests.engine.permissions import (
    COMMANDS,
    INDEX,
    Right,
    cases,
    make_world,
    page_rights,
    write_files,
)
from tests.engines.secured_node import PASSWORD, SecuredNode, secured_node

pytestmark = [
    pytest.mark.engines,
    pytest.mark.thorough,
    # As Maven has it, it runs no scripts.
    pytest.mark.filterwarnings("ignore:the client scores", "ignore:no search template is stored"),
]


@pytest.fixture(scope="module")
def secured(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    if release.engine != ELASTICSEARCH:
        pytest.skip("the privileges of the table are Elasticsearch's")
    with secured_node(release) as node:
        make_world(node.admin, tmp_path_factory.mktemp("world"))
        yield node


@pytest.mark.parametrize(("row", "lacking"), [*cases()])
def test_an_account_with_the_rights_of_a_row_needs_no_other_and_each_of_them(
    secured: SecuredNode,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: str,
    lacking: Right | None,
) -> None:
    granted = [right for right in page_rights()[row] if right != lacking]
    on = {
        place: [right.name for right in granted if right.place == place]
        for place in ("cluster", "index", "store")
    }
    account = secured.account(on["cluster"], {f"{INDEX}*": on["index"], "owpc-ltr-*": on["store"]})
    write_files(tmp_path)
    monkeypatch.setenv("OWPC_LTR_USER", account)
    monkeypatch.setenv("OWPC_LTR_PASSWORD", PASSWORD)
    code, _, err = run(*COMMANDS[row], "--url", secured.url)
    if lacking is None:
        assert code == 0, err
        return
    assert code in {4, 5}, err
    assert f"[{lacking.name}," in err or f",{lacking.name}," in err, err
