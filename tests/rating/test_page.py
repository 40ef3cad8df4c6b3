"""The page of a sheet: what it holds, what it never shows, and the service that keeps answers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_rating.merge import judge_merge
from owpc_ltr_rating.page import create_app, judge_page, read_sheet
from owpc_ltr_rating.ratings import read_ratings

from owpc_ltr.data.judgments import is_machine
from owpc_ltr.errors import BadInput, OwpcLtrWarning, UsageError
from owpc_ltr.host.web_service import LOOPBACK, WebServer, listening
from tests.commands import commands_in
from tests.faults.disk import full_after
from tests.rating.grading_sheets import grading_sheet, posted


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    grading_sheet(tmp_path / "sheet.csv", hostile=True)
    return tmp_path / "sheet.csv"


def data_of(html: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="sheet">(.*?)</script>', html)
    page_data: dict[str, Any] = json.loads(text)
    return page_data


def test_the_page_holds_what_raters_may_see_and_runs_its_own_script_alone(sheet: Path) -> None:
    sheet.write_text(sheet.read_text().replace(",\n", ",3\n"))
    html = judge_page(sheet, out=sheet.parent / "page.html").html
    assert (sheet.parent / "page.html").read_text() == html
    data = data_of(html)
    assert len(data["pairs"]) == 30
    assert set(data["pairs"][0]) == {"query_id", "query", "doc_id", "need", "fields"}
    assert data["pairs"][0]["fields"]["body"].endswith("</script><!-- =1+1")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    for rule in ("default-src 'none'", f"script-src 'sha256-{digest}'", "img-src 'none'"):
        assert rule in policy
    assert "connect-src 'none'" in policy


def test_images_are_shown_only_if_asked_for(sheet: Path) -> None:
    assert "img-src http: https:" in judge_page(sheet, images=["title"]).html
    with pytest.raises(UsageError, match="the sheet shows no field 'cover': it shows title, body"):
        judge_page(sheet, images=["cover"])
    with pytest.raises(UsageError, match="'a=b' has an equals sign"):
        judge_page(sheet, raters=["a=b"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("query_id,query,doc_id,grade\n", "the sheet has no document to grade"),
        ("query_id,query,doc_id,grade\nq,a,d,\nq,a,d,\n", "line 3: document 'd' of query 'q' is"),
        ("query_id,query,doc_id,grade\nq,a,d\n", "line 2: 3 fields where the header has 4"),
        ("query_id,query,doc_id,grade\nq, ,d,\n", "line 2: an id"),
        ("query_id,query,grade\nq,a,\n", "no column is called 'doc_id'"),
        ('query_id,query,doc_id,grade\n"q,a,d,\n', "line 2: "),
        (
            "query_id,query,doc_id,grade\nq,a,d,\nq,b,e,\n",
            "line 3: query 'q' has query 'b', and",
        ),
        ("query_id,query,doc_id,grade\nq,a,d,\np,a,d,\n", "line 3: the query 'a' has the ids 'q'"),
    ],
)
def test_what_is_no_sheet_is_refused_by_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    with pytest.raises(BadInput) as raised:
        judge_page(tmp_path / "sheet.csv")
    assert message in str(raised.value)


def test_the_command_says_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    grading_sheet(Path("sheet.csv"))
    code, out, err = run("judge", "page", "sheet.csv", "--out", "page.html", "--raters", "ann,bob")
    assert (code, err) == (0, "")
    assert out.startswith("30 pairs of 6 queries to rate. Open page.html in a browser")
    result = json.loads(run("judge", "page", "sheet.csv", "--out", "page.html", "--json")[1])
    assert result["pairs"] == 30


@contextmanager
def served_page(sheet: Path, out: Path, port: int = 0) -> Iterator[str]:
    """The address of the page of a sheet, whose answers go to a file."""
    made = judge_page(sheet, serve=False)
    html, policy = (
        text.replace('"served": false', '"served": true').replace(
            "connect-src 'none'", "connect-src 'self'"
        )
        for text in (made.html, made.policy)
    )
    app = create_app(html, read_sheet(sheet), out)
    server = WebServer(app, LOOPBACK, policy=policy)
    with listening("127.0.0.1", port) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(10)


def post(url: str, content: Any, **headers: str) -> tuple[int, str]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    answer = urllib3.request(
        "POST",
        f"{url}/answers",
        body=body,
        headers={"Content-Type": "application/json", **headers},
        retries=False,
    )
    return answer.status, answer.data.decode()


def test_the_service_appends_answers_to_its_own_sheet(sheet: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    digest = read_sheet(sheet).digest
    answer = {"sheet": digest, "judged_by": "ann", "query_id": "q0", "query": "alien0"}
    with served_page(sheet, out) as url:
        assert b"<title>Grade documents" in urllib3.request("GET", url).data
        assert post(url, {**answer, "doc_id": "d0-1", "grade": 2})[0] == 204
        # A crash leaves half a line, which the page sends again.
        with out.open("a") as file:
            file.write('{"sheet": "')
        assert post(url, {**answer, "doc_id": "d0-2", "grade": 1})[0] == 204
        assert [rating.grade for rating in read_ratings(out).values()] == [2, 1]
        before = out.read_bytes()
        for content, status, words in (
            ({**answer, "doc_id": "d0-1", "grade": 2, "sheet": "another"}, 409, "another sheet"),
            ({**answer, "doc_id": "nosuch", "grade": 2}, 400, "has no document 'nosuch'"),
            ({**answer, "doc_id": "d0-1", "grade": "2"}, 400, "'grade' is not a number"),
            (b"{", 400, ""),
            (b"\xff", 400, ""),
            (b"[" * 60_000, 400, ""),
            (b'"' + b"x" * 70_000 + b'"', 413, "at most 65536 bytes"),
        ):
            code, text = post(url, content)
            assert code == status
            assert words in text
        assert out.read_bytes() == before
    assert oct(out.stat().st_mode & 0o077) == "0o0"
    with out.open("a") as file:
        file.write('{"sheet": "')
    with pytest.warns(OwpcLtrWarning, match="the last line is torn"):
        create_app("", read_sheet(sheet), out)
    assert out.read_bytes() == before
    grading_sheet(tmp_path / "other.csv", queries=2)
    with pytest.raises(BadInput, match="has answers to another sheet"):
        create_app("", read_sheet(tmp_path / "other.csv"), out)


ODD: st.SearchStrategy[Any] = st.sampled_from((
    None, True, "", " ", "3", [], {}, -5, 0.5, 5, 99, 1e308, 10**400, -(10**400), 2.0, "x" * 300,
    "model:gpt", "GPT-5", "clicks", "Claude", "ann=1", "ann,bob", "a\nb", "a\x1b[31m", "\u202eann",
    " ann", "unnamed:x", "bob", "q1", "alien1", "d1-1", "\ufdd0",
))  # fmt: skip
NAMES = ("sheet", "judged_by", "query_id", "query", "doc_id", "grade", "seconds", "reason",
         "repeat", "undone", "prompt", "more")  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*could not be rated")
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), ODD, max_size=2), max_size=6))
def test_every_answer_that_is_acknowledged_is_read_by_judge_merge(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("answers")
    grading_sheet(folder / "sheet.csv", queries=2)
    sheet, out = read_sheet(folder / "sheet.csv"), folder / "out.jsonl"
    app = create_app("", sheet, out)
    pair = sheet.pairs[0]
    plain = {
        "sheet": sheet.digest, "judged_by": "ann", "query_id": pair.query_id, "query": pair.query,
        "doc_id": pair.doc_id, "grade": 2, "seconds": 1.5,
    }  # fmt: skip
    last = {**plain, "doc_id": sheet.pairs[1].doc_id}
    acknowledged = 0
    for number, changed in enumerate([*changes, {}]):
        content = {**plain, **changed} if number < len(changes) else last
        status, text = posted(app, json.dumps(content).encode())
        assert status in {204, 400, 409}
        assert "\n" not in text
        assert bool(text) == (status != 204)
        acknowledged += status == 204
    assert status == 204
    assert len(out.read_text().splitlines()) == acknowledged
    merged = judge_merge([out], sheet=folder / "sheet.csv").judgments
    known = {each.key: each.query for each in sheet.pairs}
    for query in merged.queries:
        assert all(
            known[query.query_id, doc_id] == query.params["query"] for doc_id in query.doc_ids
        )
        assert set(query.grades.tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert not any(map(is_machine, query.judged_by or ()))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"query": "alien1"}, "the sheet has no document 'd0-1' of query 'alien1'"),
        ({"query_id": "q1"}, "the sheet has no document 'd0-1' of query 'alien0'"),
        ({"grade": -5}, "the grade -5 is not a whole number from 0 to 2"),
        ({"grade": 1e308}, "the grade 1e+308 is not a whole number from 0 to 2"),
        ({"grade": 0.5}, "the grade 0.5 is not a whole number from 0 to 2"),
        ({"grade": 3}, "the grade 3 is not a whole number from 0 to 2"),
        ({"grade": 10**400}, "the answer: its 'grade' is too large: '10000"),
        ({"grade": True}, "the answer: its 'grade' is not a number: 'True'"),
        ({"seconds": 10**400}, "the answer: its 'seconds' is too large: '10000"),
        ({"seconds": "1"}, "the answer: its 'seconds' is not a number: '1'"),
        ({"repeat": 1}, "the answer: its 'repeat' is not true or false: '1'"),
        ({"undone": "yes"}, "the answer: its 'undone' is not true or false: 'yes'"),
        ({"reason": {}}, "the answer: its 'reason' is not a text: '{}'"),
        ({"judged_by": "cyd"}, "'cyd' is not one of the raters: ann, bob"),
    ],
)
def test_an_answer_is_one_of_this_sheet_on_its_scale_by_its_raters(
    changed: dict[str, Any], complaint: str, sheet: Path, tmp_path: Path
) -> None:
    read, out = read_sheet(sheet), tmp_path / "answers.jsonl"
    app = create_app("", read, out, 2, ("ann", "bob"))
    answer = {"sheet": read.digest, "judged_by": "ann", "query_id": "q0", "query": "alien0",
              "doc_id": "d0-1", "grade": 2}  # fmt: skip
    status, text = posted(app, json.dumps({**answer, **changed}).encode())
    assert (status, complaint in text) == (400, True), text
    assert out.read_bytes() == b""
    assert posted(app, json.dumps(answer).encode()) == (204, "")


@pytest.mark.parametrize(
    "name", ["model:gpt", "GPT-5", "clicks", "Claude", "unnamed:x", "a\nb", "\u202eann", "x" * 61]
)
def test_a_person_is_not_called_as_a_machine_is(name: str, sheet: Path) -> None:
    """Their grades would count as a machine's."""
    with pytest.raises(UsageError, match=r"`raters`: .*: rename it"):
        judge_page(sheet, raters=["ann", name])
    app = create_app("", read_sheet(sheet), sheet.parent / "answers.jsonl")
    answer = {"sheet": read_sheet(sheet).digest, "judged_by": name, "query_id": "q0",
              "query": "alien0", "doc_id": "d0-1", "grade": 2}  # fmt: skip
    status, text = posted(app, json.dumps(answer).encode())
    assert (status, text.endswith("choose another name")) == (400, True), text


def test_on_a_full_disk_an_answer_is_refused_in_one_line(sheet: Path, tmp_path: Path) -> None:
    read, out = read_sheet(sheet), tmp_path / "answers.jsonl"
    app = create_app("", read, out)
    answer = {"sheet": read.digest, "judged_by": "ann", "query_id": "q0", "query": "alien0",
              "doc_id": "d0-1", "grade": 2}  # fmt: skip
    with full_after(50):
        status, text = posted(app, json.dumps(answer).encode())
    assert status == 500
    assert text.startswith(f"cannot write {out}: File too large; ")
    assert out.read_bytes() == b""


def test_without_the_extra_a_page_is_not_served(
    sheet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "owpc_ltr.host.web_service", None)
    with pytest.raises(UsageError, match=r"pip install 'owpc-ltr\[serve\]'"):
        judge_page(sheet, serve=True, out=sheet.parent / "answers.jsonl")
    with pytest.raises(UsageError, match="`out` names the file of the answers"):
        judge_page(sheet, serve=True)
