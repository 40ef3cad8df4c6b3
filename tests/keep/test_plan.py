"""Plans are read strictly: each mistake is an error that names the file, the table and the key."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_keep.keep import notify
from owpc_ltr_keep.plan import KeepNotify, file_digest, read_plan
from owpc_ltr_keep.state import locked

from owpc_ltr.errors import BadInput
from tests.commands import Run

WHOLE = """
alias = "docs-ranker"
index = "docs"
featureset = "docs"
query_template = "query.json"
folder = "keep"

[data]
judgments = "judgments.tsv"
accept = ["constant-column"]

[train]
loss = "owpc"
folds = 5
settings = {C = 1.0}

[gate]
metrics = ["ndcg@10", "map"]
smallest_gain = 0.002

[shadow]
days = 3

[experiment]
days = 28

[watch]
min_judged = 0.5
max_ms = 50

[notify]
command = ["logger", "-t", "owpc-ltr"]
webhook = "OWPC_LTR_WEBHOOK"
"""


def plan(folder: Path, *changes: tuple[str, str]) -> Any:
    path, text = folder / "plan.toml", WHOLE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return read_plan(path)


def test_a_whole_plan_is_read_with_paths_from_its_own_folder(tmp_path: Path) -> None:
    whole = plan(tmp_path)
    assert whole.folder == str(tmp_path / "keep")
    assert whole.data.judgments == str(tmp_path / "judgments.tsv")
    assert whole.query_template == str(tmp_path / "query.json")
    assert (whole.watch.max_ms, whole.shadow.days, whole.gate.smallest_gain) == (50.0, 3.0, 0.002)
    assert whole.train == {"loss": "owpc", "folds": 5, "settings": {"C": 1.0}}
    assert whole.experiment_name == "docs-ranker"
    assert plan(tmp_path, ("days = 28", "days = 30")).digest == whole.digest
    assert plan(tmp_path, ("folds = 5", "folds = 4")).digest != whole.digest


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("alias =", "allias =", "plan.toml: there is no key 'allias': did you mean 'alias'?"),
        ("smallest_gain", "smalest_gain", r"\[gate\]: there is no key 'smalest_gain': did you"),
        ("folds", "fold", r"\[train\]: there is no key 'fold': did you mean 'folds'\?"),
        ("loss", "out", r"\[train\]: there is no key 'out'"),
        ("[shadow]", "[shaddow]", "there is no key 'shaddow': did you mean 'shadow'?"),
        ('index = "docs"\n', "", "plan.toml lacks the key 'index'"),
        ('index = "docs"', "index = 3", "index = 3 must be a text"),
        ("days = 28", 'days = "28"', r"\[experiment\]: days = '28' must be a number"),
        ('["ndcg@10", "map"]', '"ndcg@10"', "must be a list of texts"),
        ('["ndcg@10", "map"]', "[]", "metrics"),
        ("ndcg@10", "ndgc@10", "ndgc"),
        ('index = "docs"', 'index = "a,b"', "plan.toml: 'a,b' cannot name an index"),
        ('judgments = "judgments.tsv"', "", r"\[data\] needs one of judgments = FILE and ubi"),
        ('judgments = "judgments.tsv"', "ubi = true", "min_judged needs"),
        ("[experiment]\ndays = 28", "", r"\[shadow\] comes before an experiment"),
        ("[train]", "[train", "cannot read"),
        ("[shadow]\ndays = 3", "", None),
    ],
)
def test_a_mistake_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, complaint: str | None
) -> None:
    if complaint is None:
        assert plan(tmp_path, (old, new)).shadow is None
        return
    with pytest.raises(BadInput, match=complaint):
        plan(tmp_path, (old, new))


@pytest.mark.parametrize("path", ["none.tsv", "."])
def test_files_that_a_plan_names_are_refused_by_name_where_they_cannot_be_read(
    tmp_path: Path, path: str
) -> None:
    for read in (file_digest, read_plan):
        with pytest.raises(BadInput, match=rf"^cannot read {re.escape(str(tmp_path / path))}: "):
            read(tmp_path / path)


def test_the_command_says_what_is_wrong_with_a_plan_before_it_asks_a_cluster(
    tmp_path: Path, run: Run
) -> None:
    nowhere = ("--url", "http://127.0.0.1:9")
    (tmp_path / "plan.toml").write_text(WHOLE.replace("alias", "allias"))
    code, _, err = run("keep", "plan.toml", *nowhere)
    assert (code, err.splitlines()[-1]) == (
        3, "owpc-ltr: plan.toml: there is no key 'allias': did you mean 'alias'?",
    )  # fmt: skip
    (tmp_path / "plan.toml").write_text(WHOLE)
    with locked(tmp_path / "keep"):
        code, _, err = run("keep", "plan.toml", *nowhere)
    assert code == 5
    assert re.search(r"process \d+ on .* holds .*keep/lock: wait for it to end$", err.strip())
    assert "no such file" in run.refusal(3, "keep", "no.toml", *nowhere).lower()


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """The address of a server, and what was sent there."""
    sent: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            sent.append(json.loads(self.rfile.read(length)))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", sent
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_the_change_and_its_address_is_never_shown(
    webhook: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, sent = webhook
    plan, change = KeepNotify(webhook="SECRET_HOOK"), {"alias": "m", "line": "promoted"}
    monkeypatch.setenv("SECRET_HOOK", f"{address}/key")
    assert notify(plan, change) is None
    assert sent == [{"text": "promoted", **change}]
    for broken in (f"{address}/broken", "ftp://secret", "http://127.0.0.1:9/secret", ""):
        monkeypatch.setenv("SECRET_HOOK", broken)
        failure = notify(plan, change)
        assert failure is not None
        assert "secret" not in failure.lower()
        assert "127.0.0.1" not in failure


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("experiment start", ("", "")),
        ("judge clicks", ('judgments = "judgments.tsv"', "ubi = true")),
    ],
)
def test_a_plan_that_needs_the_job_of_a_plugin_that_is_absent_is_refused(
    command: str, change: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"experiment_start": read_plan, "judge_clicks": read_plan}
    del others[command.replace(" ", "_")]
    monkeypatch.setattr("owpc_ltr.host.commands.public_function", others.get)
    with pytest.raises(BadInput, match=f"toml: no plugin offers the command '{command}'"):
        plan(tmp_path, change, ("min_judged = 0.5", ""))
