"""Plans are read strictly: each mistake is an error that names the file, the table and the key."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_keep.keep import notify
from owpc_ltr_keep.plan import KeepNotify, read_plan
from owpc_ltr_keep.state import KeepStep, locked_folder

from owpc_ltr.errors import BadInput
from owpc_ltr.host.project import PROJECT_FILE
from tests.commands import Run

WHOLE = """
alias = "docs-ranker"
index = "docs"
featureset = "docs"
query_template = "query.json"
window = 50
judgments = "judgments.tsv"
columns = {query = "q", doc_id = "sku"}
metric = "ndcg@10,map"
title_field = "title"

[keep]
folder = "state"
max_absent = 0.05
accept = ["constant-column"]

[keep.train]
loss = "owpc"
folds = 5
settings = {C = 1.0}

[keep.gate]
smallest_gain = 0.002

[keep.shadow]
days = 3

[keep.experiment]
days = 28

[keep.watch]
min_judged = 0.5
max_ms = 50

[keep.notify]
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
    assert whole.folder == str(tmp_path / "state")
    assert whole.judgments == str(tmp_path / "judgments.tsv")
    assert whole.query_template == str(tmp_path / "query.json")
    assert (whole.watch.max_ms, whole.shadow.days, whole.gate.smallest_gain) == (50.0, 3.0, 0.002)
    assert (whole.window, whole.max_absent) == (50, 0.05)
    assert whole.columns == {"query": "q", "doc_id": "sku"}
    assert whole.train == {
        "metric": "ndcg@10,map",
        "loss": "owpc",
        "folds": 5,
        "settings": {"C": 1.0},
    }
    assert whole.experiment_name == "docs-ranker"
    assert plan(tmp_path, ("days = 28", "days = 30")).digest == whole.digest
    assert plan(tmp_path, ("folds = 5", "folds = 4")).digest != whole.digest


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("alias =", "allias =", "plan.toml: there is no key 'allias': did you mean 'alias'?"),
        (
            "smallest_gain",
            "smalest_gain",
            r"\[keep.gate\]: there is no key 'smalest_gain'",
        ),
        ("folds", "fold", r"\[keep.train\]: there is no key 'fold': did you mean 'folds'\?"),
        ("loss", "out", r"\[keep.train\]: there is no key 'out'"),
        (
            "[keep.shadow]",
            "[keep.shaddow]",
            r"\[keep\]: .* 'shaddow': did you mean 'shadow'\?",
        ),
        ('index = "docs"\n', "", "plan.toml lacks the key 'index'"),
        ('index = "docs"', "index = 3", "index = 3 must be a text"),
        ("days = 28", 'days = "28"', r"\[keep.experiment\]: days = '28' must be a number"),
        ("window = 50", "window = 1.5", "window = 1.5 must be a whole number"),
        ("window = 50", "window = 0", "window = 0 must be 1 or more"),
        ("doc_id =", "document =", "unknown role 'document'"),
        ("max_absent = 0.05", "max_absent = 5", "absent.* must be from 0 to 1, not 5.0"),
        ("constant-column", "constant-colum", r"\[keep\] accept: no check is called"),
        ('"ndcg@10,map"', '["ndcg@10"]', "must be a text"),
        ('"ndcg@10,map"', '""', "metric is empty"),
        ("[keep]\n", '[keep]\nindex = "docs"\n', r"\[keep\]: there is no key 'index'"),
        ("ndcg@10", "ndgc@10", "ndgc"),
        ('index = "docs"', 'index = "a,b"', "plan.toml: 'a,b' cannot name an index"),
        ('judgments = "judgments.tsv"', "", r"give one of judgments = FILE and, in \[keep\], ubi"),
        ('folder = "state"', "ubi = true", r"give one of judgments = FILE"),
        ("[keep.experiment]\ndays = 28", "", r"\[keep.shadow\] comes before an experiment"),
        ("[keep.train]", "[keep.train", "cannot read .*line 17"),
        ("[keep.shadow]\ndays = 3", "", None),
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


CLICKS = (
    ('judgments = "judgments.tsv"\n', ""),
    ('folder = "state"\n', "ubi = true\n"),
    ('columns = {query = "q", doc_id = "sku"}\n', ""),
    ("min_judged = 0.5\n", ""),
)


def test_clicks_alone_are_a_plan_where_users_decide_and_none_where_nobody_does(
    tmp_path: Path,
) -> None:
    assert plan(tmp_path, *CLICKS).ubi
    no_users = ("[keep.shadow]\ndays = 3\n\n[keep.experiment]\ndays = 28\n", "")
    with pytest.raises(BadInput, match=r"clicks are no evidence .*: add \[keep.experiment\]"):
        plan(tmp_path, *CLICKS, no_users)
    with pytest.raises(BadInput, match="min_judged needs"):
        plan(tmp_path, *CLICKS[:3])
    with pytest.raises(BadInput, match="columns are those of a judgment list"):
        plan(tmp_path, *CLICKS[:2], CLICKS[3])


@pytest.mark.parametrize(
    ("judges", "is_refused"),
    [(("clicks", "clicks"), True), (("clicks", "gpt-4o"), True), (("clicks", "anna"), False)],
)
def test_a_file_without_a_human_label_is_a_plan_only_where_users_decide(
    tmp_path: Path, judges: tuple[str, str], *, is_refused: bool
) -> None:
    first, other = judges
    (tmp_path / "judgments.tsv").write_text(
        f"q\tsku\tgrade\tjudged_by\nshoe\td1\t1\t{first}\nshoe\td2\t0\t{other}\n"
    )
    assert plan(tmp_path).experiment is not None
    no_users = ("[keep.shadow]\ndays = 3\n\n[keep.experiment]\ndays = 28\n", "")
    if not is_refused:
        assert plan(tmp_path, no_users).experiment is None
        return
    alone = " and ".join(dict.fromkeys(judges))
    with pytest.raises(BadInput, match=rf"judgments of {alone} alone are no evidence"):
        plan(tmp_path, no_users)


def test_a_plan_that_is_named_is_for_the_cluster_that_it_names(tmp_path: Path, run: Run) -> None:
    (tmp_path / "plan.toml").write_text(f'url = "http://127.0.0.1:9/"\n{WHOLE}')
    err = run.refusal(2, "keep", "plan.toml", "--url", "http://127.0.0.1:8")
    assert "plan.toml is for the cluster http://127.0.0.1:9/, and this run is connected to" in err
    with locked_folder(tmp_path / "state"):
        run.refusal(4, "keep", "plan.toml", "--url", "http://127.0.0.1:9")
        (tmp_path / PROJECT_FILE).write_text((tmp_path / "plan.toml").read_text())
        assert "url http://127.0.0.1:9/" in run.refusal(4, "keep")
        run.refusal(4, "keep", "--url", "http://127.0.0.1:8")


@pytest.mark.parametrize("path", ["none.toml", "."])
def test_a_plan_that_cannot_be_read_is_refused_by_name(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadInput, match=rf"^cannot read {re.escape(str(tmp_path / path))}: "):
        read_plan(tmp_path / path)


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
    with locked_folder(tmp_path / "state"):
        code, _, err = run("keep", "plan.toml", *nowhere)
    assert code == 4
    assert re.search(r"process \d+ on .* holds .*state/lock: wait for it to end$", err.strip())
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
    plan = KeepNotify(webhook="SECRET_HOOK")
    step = KeepStep(time="2027-01-31T03:17:00Z", step="promote", line="it is", end="promoted")
    monkeypatch.setenv("SECRET_HOOK", f"{address}/key")
    assert notify(plan, "m", step) is None
    assert sent == [{"text": "m: promoted: it is", "alias": "m", **asdict(step)}]
    for broken in (f"{address}/broken", "ftp://secret", "http://127.0.0.1:9/secret", ""):
        monkeypatch.setenv("SECRET_HOOK", broken)
        failure = notify(plan, "m", step)
        assert failure is not None
        assert "secret" not in failure.lower()
        assert "127.0.0.1" not in failure


@pytest.mark.parametrize(
    ("command", "changes"), [("experiment start", ()), ("judge clicks", CLICKS)]
)
def test_a_plan_that_needs_the_job_of_a_plugin_that_is_absent_is_refused(
    command: str,
    changes: tuple[tuple[str, str], ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = {"experiment_start": read_plan, "judge_clicks": read_plan}
    del others[command.replace(" ", "_")]
    monkeypatch.setattr("owpc_ltr.host.commands.public_function", others.get)
    with pytest.raises(BadInput, match=f"toml: no plugin offers the command '{command}'"):
        plan(tmp_path, *changes)
