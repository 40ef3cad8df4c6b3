"""What another party repeats of a secret leaves by no exit, and every exit is on a list."""

from __future__ import annotations

import ast
import base64
import html
import inspect
import io
import json
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opensearchpy import OpenSearch

from owpc_ltr import connect, redaction
from owpc_ltr.cli.program import crash_message
from owpc_ltr.cli.terminal import OutputStream, print_json
from owpc_ltr.data.blocks import Bars, FactList, Table, html_of, text_table, wrapped_text
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.settings import find_settings
from owpc_ltr.errors import OwpcLtrError, OwpcLtrWarning, give_warnings, reason_of
from owpc_ltr.redaction import Secret, redacted
from owpc_ltr.text import message_line, printable_lines
from tests.engine.fake_engine import FakeEngine, Reply

SECRET = 'c4n4ry/Qu1ver "wörd" &x+9'
PAIR = base64.b64encode(f"anna:{SECRET}".encode()).decode()
FORMS = {
    "raw": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "basic": f"Authorization: Basic {PAIR}",
    "within base64": base64.b64encode(f'{{"password": "{SECRET}"}}'.encode()).decode(),
    "percent": f"?password={quote(SECRET, safe='')}",
    "lower percent": re.sub("%..", lambda match: match[0].lower(), quote(SECRET)),
    "json": json.dumps({"password": SECRET}),
    "repr": repr({"password": SECRET}),
    "html": html.escape(SECRET),
}
TRACES = (
    "c4n4ry",
    "u1ver",
    "rd%22",
    PAIR[8:20],
    FORMS["base64"][4:16],
    FORMS["within base64"][24:40],
)


def untold(*texts: str) -> None:
    for text in texts:
        assert [trace for trace in TRACES if trace.lower() in text.lower()] == [], text


def _kinds(kind: type[OwpcLtrError] = OwpcLtrError) -> Iterator[type[OwpcLtrError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def errors(text: str, _folder: Path) -> Iterator[str]:
    for kind in _kinds():
        if kind.__module__.startswith("owpc_ltr"):
            known: Any = {"status": 400, "path": Path(text)}
            required = [
                parameter.name
                for parameter in inspect.signature(kind.__init__).parameters.values()
                if parameter.default is parameter.empty and parameter.kind < parameter.KEYWORD_ONLY
            ]
            try:
                raise kind(*(known.get(name, text) for name in required[1:]))
            except OwpcLtrError as error:
                yield f"{traceback.format_exc().splitlines()[-1]} {error!r} {error.args}"


def warned(text: str, _folder: Path) -> Iterator[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OwpcLtrWarning)
        give_warnings([text])
    yield str(caught[0].message)


def lines(text: str, _folder: Path) -> Iterator[str]:
    yield from (message_line(text), printable_lines(f"a\n{text}"), wrapped_text(text))
    yield text_table(["NAME"], [[text]])
    yield reason_of(ValueError(text))


def notebook(text: str, _folder: Path) -> Iterator[str]:
    for block in (
        text,
        FactList([(text, text)]),
        Table([text], [[text]]),
        Bars([""], [(text, 1.0)]),
    ):
        yield html_of(["", block])
    yield html_of([text])


def terminal(text: str, _folder: Path) -> Iterator[str]:
    for plain in (True, False):
        stream = io.StringIO()
        outlet = OutputStream(stream, plain=plain)
        with redirect_stdout(outlet), redirect_stderr(outlet):
            print(text)
            print(text, file=sys.stderr)
            print_json({"a": [text], text: 1})
        yield stream.getvalue()


def crash(text: str, folder: Path) -> Iterator[str]:
    yield crash_message(RuntimeError(text))
    logs = [path.read_text() for path in (folder / "state").rglob("*.log")]
    assert logs
    yield from logs


def engine(reason: str, _folder: Path) -> Iterator[str]:
    environ = {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": SECRET, "OWPC_LTR_DEADLINE": "0.2"}
    for status in (400, 403, 503):
        layer = {"type": reason, "reason": f"not for {reason}"}
        bodies: list[Any] = [
            {"error": {**layer, "caused_by": layer}},
            {"error": reason},
            reason.encode(),
        ]
        bodies.append(f"{'x' * 190}{reason}".encode())
        for body in bodies:
            with FakeEngine() as fake:
                fake.on("GET", "*", Reply(body, status))
                settings = find_settings(fake.url, environ=environ, config=Path("none"))
                asked = Engine(settings, Retrying(sleep=lambda _seconds: None))
                with pytest.raises(OwpcLtrError) as raised:
                    asked.request("GET", "/a/_search")
                asked.close()
            shown = "".join(traceback.format_exception(raised.value)).splitlines()
            # A traceback quotes the lines of this file, but none of the values in them.
            yield "".join(text for text in shown if not text.startswith("    "))
            yield repr(raised.value)
            if isinstance(raised.value, EngineRefusal):
                yield from (raised.value.type, raised.value.reason)


def asked_model(text: str, folder: Path) -> Iterator[str]:
    from owpc_ltr_rating.language_model import KEY, judge_ask

    from tests.rating.endpoint import Stub, running
    from tests.rating.grading_sheets import grading_sheet

    grading_sheet(folder / "sheet.csv", 1, 2)
    key = SECRET.encode("ascii", "replace").decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, key)
        for fault in (401, 400, 200):
            body = f"{'' if fault == 401 else 'x' * 390}{text.replace(SECRET, key)}".encode()
            with running(Stub(lambda *_: 0, fault=lambda *_, body=body: body)) as stub:
                stub.status = fault
                with pytest.raises(OwpcLtrError) as raised:
                    judge_ask(
                        folder / "sheet.csv", endpoint=stub.url, model="m", out=folder / "o.jsonl"
                    )
            yield str(raised.value)
            yield str(raised.value.result and raised.value.result.as_dict())
    yield from (path.read_text() for path in folder.glob("o.jsonl*"))


def kept(text: str, folder: Path) -> Iterator[str]:
    from owpc_ltr_keep.keep import KeepRun, notify
    from owpc_ltr_keep.plan import KeepNotify
    from owpc_ltr_keep.state import KeepState, KeepStep

    step = KeepStep(time="2027-01-31T03:17:00Z", step="run", line=text, end="failed")
    KeepState(history=(step,), unsent=(step,)).save(folder)
    command = ("sh", "-c", f"cat > {folder}/told")
    assert notify(KeepNotify(command=command), "m", step) is None
    run = KeepRun("m", None, "failed", step.line, (step,), (step,))
    yield from (str(run), repr(run), str(run.as_dict()), str(run.rows), str(run.refusal))
    yield from ((folder / name).read_text() for name in ("state.json", "told"))


def agent(text: str, _folder: Path) -> Iterator[str]:
    from owpc_ltr_mcp.server import content_of, error_line, text_of

    class Result:
        def as_dict(self) -> dict[str, Any]:
            return {text: [text, {"a": text}]}

        def __str__(self) -> str:
            return text

    yield text_of(Result(), [text])
    yield error_line(RuntimeError(text))
    yield json.dumps(content_of(Result()), ensure_ascii=False)


def page(text: str, _folder: Path) -> Iterator[str]:
    from owpc_ltr_report.page import _environment, safe_json

    yield json.dumps(safe_json({"a": [text]}), ensure_ascii=False)
    yield _environment().from_string("{{ a }}").render(a=text)


def service(text: str, _folder: Path) -> Iterator[str]:
    from owpc_ltr_serve.app import _fault, _response
    from owpc_ltr_serve.endpoint import status_of
    from owpc_ltr_serve.gateway import _error

    refusal = EngineRefusal("GET /", 400, text, text)
    yield _error(refusal.status, refusal.type, refusal.reason).body.decode()
    answer = _response(_fault(status_of(refusal), str(refusal), {"X-LTR-Status": text}))
    yield f"{bytes(answer.body).decode()}{dict(answer.headers)}"


class Exit(NamedTuple):
    """A way out for text that others sent, and the modules that have it."""

    texts: Callable[[str, Path], Iterator[str]]
    modules: tuple[str, ...]
    plugin: str = "owpc_ltr"


EXITS = {
    "errors": Exit(errors, ()),
    "warnings": Exit(warned, ("errors",)),
    "lines": Exit(lines, ()),
    "notebook": Exit(notebook, ()),
    "terminal": Exit(terminal, (
        "cli.app", "cli.generator", "cli.program", "engine.client.retry", "owpc_ltr_demo.session",
        "owpc_ltr_node.engine", "owpc_ltr_node.make_lock", "owpc_ltr_node.release",
        "owpc_ltr_rating.page", "owpc_ltr_serve.serve",
        # Logging of the standard library, whose records hold errors of ours alone.
        "host.web_service", "owpc_ltr_serve.app", "owpc_ltr_serve.gateway",
        "owpc_ltr_serve.experiment_search", "owpc_ltr_serve.rankers",
    )),
    "crash": Exit(crash, ("cli.program",)),
    "engine": Exit(engine, ()),
    "ask": Exit(asked_model, ("owpc_ltr_rating.language_model",), "owpc_ltr_rating"),
    "keep": Exit(kept, ("owpc_ltr_keep.keep", "owpc_ltr_keep.state"), "owpc_ltr_keep"),
    "mcp": Exit(agent, ("owpc_ltr_mcp.server",), "owpc_ltr_mcp"),
    "page": Exit(page, ("owpc_ltr_report.report",), "owpc_ltr_report"),
    "serve": Exit(service, (
        "owpc_ltr_serve.app", "owpc_ltr_serve.endpoint", "owpc_ltr_serve.gateway",
        "owpc_ltr_serve.metrics", "owpc_ltr_serve.rerank",
    ), "owpc_ltr_serve"),
}  # fmt: skip
DATA = (
    # Judgments, features, models, ids and figures, which stay as they are; no message of others.
    "data.judgment_tables", "data.letor", "data.parquet",
    "data.partitioned", "data.runs", "engine.evidence", "engine.feature_log.log",
    "engine.feature_sets", "engine.project", "evaluation.attempts", "evaluation.compare",
    "files.input", "files.output", "formats.import_export", "fusion.fuse", "host.judgment_lists",
    "models.model_file", "plugin_checks.readers", "training.cross_validation",
    "owpc_ltr_clicks.judgments", "owpc_ltr_dask.on_worker", "owpc_ltr_demo.preparation",
    "owpc_ltr_demo.session",
    "owpc_ltr_papers.reproduce", "owpc_ltr_rating.page",
    "owpc_ltr_serve.experiment_search", "owpc_ltr_tune.tune",
    # A node of ours: its files, and commands that get none of this.
    "owpc_ltr_node.home", "owpc_ltr_node.java", "owpc_ltr_node.make_lock",
    "owpc_ltr_node.process", "owpc_ltr_node.settings", "owpc_ltr_node.thai.build",
)  # fmt: skip
PRESENT = [name for name, out in EXITS.items() if find_spec(out.plugin)]


@pytest.fixture
def secret_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Secret(f"Basic {PAIR}")


@pytest.mark.usefixtures("secret_text")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PRESENT)
def test_an_exit_tells_no_secret(name: str, form: str, tmp_path: Path) -> None:
    texts = [*EXITS[name].texts(FORMS[form], tmp_path)]
    untold(*texts)
    assert any(redaction.BLACK in text for text in texts)


@pytest.mark.usefixtures("secret_text")
@pytest.mark.parametrize("name", PRESENT)
def test_without_redaction_each_exit_tells_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_pattern", lambda _secrets: None)
    with pytest.raises(AssertionError):
        untold(*EXITS[name].texts(SECRET, tmp_path))


_LEAVING = {
    *("print", "echo", "warn", "write_output", "open_output", "write_atomically", "Journal"),
    *("open_atomically", "write_text", "write_bytes", "TextContent", "Response", "HTMLResponse"),
    *("PlainTextResponse", "Reply", "json_reply", "report_progress", "open_in_shared", "fdopen"),
}
"""Calls by which text leaves the process, with some methods of modules."""


def _leaves(text: str) -> bool:
    if not re.search(r"\.write\(|subprocess|_log|" + "|".join(_LEAVING), text):
        return False
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call):
            whole = ast.unparse(call.func)
            place, _, name = whole.rpartition(".")
            if name in _LEAVING or place == "subprocess" or "_log" in place.split("."):
                return True
            if name == "write" and place in {"sys.stderr", "sys.stdout", "os"}:
                return True
    return False


def test_every_module_that_lets_text_out_is_on_the_list() -> None:
    root, modules = Path(__file__).parents[1], set()
    for folder in (root / "owpc_ltr", root / "plugins"):
        for path in folder.rglob("*.py"):
            place = ".".join(path.relative_to(folder).with_suffix("").parts)
            if _leaves(path.read_text()):
                modules.add(place)
    listed = {*DATA, *(name for out in EXITS.values() for name in out.modules)}
    there = {name for name in listed if find_spec(name.partition(".")[0]) or "_ltr" not in name}
    assert modules == there, "say in EXITS how it is redacted, or in DATA that it holds no message"
    assert _leaves("sys.stderr.write(text)")
    assert not _leaves("file.write(text)")


@given(st.text(min_size=8), st.text(max_size=9), st.text(max_size=9))
def test_no_form_of_a_secret_stays_whatever_is_around_it(
    secret: str, before: str, after: str
) -> None:
    redaction._known.clear()
    try:
        raw, whole = secret.encode("utf-8", "surrogatepass"), f"{before}{secret}{after}"
        Secret(secret)
    except UnicodeEncodeError:
        return
    encoded = base64.b64encode(before.encode() + raw + after.encode()).decode()
    for text in (whole, json.dumps(whole), quote(whole, safe=""), encoded):
        assert redacted(text) != text
        assert secret not in redacted(text).replace(redaction.BLACK, "")
    redaction._known.clear()


@pytest.mark.parametrize("header", ["Basic {}", "ApiKey {}", "Bearer {}"])
def test_a_secret_is_known_by_what_carries_it(header: str) -> None:
    Secret(header.format(PAIR))
    Secret("https://hooks.example.org/services/T0/token-of-mine")
    assert redacted(f"{PAIR}, anna:{SECRET}, {SECRET}") == "***, ***, ***"
    assert redacted("POST /services/T0/token-of-mine") == "POST /***"


def test_the_credentials_of_a_given_client_are_known() -> None:
    client = OpenSearch("http://127.0.0.1:9", http_auth=("anna", SECRET))
    connect(client)
    assert redacted(f"no rights for {SECRET}") == "no rights for ***"


def test_short_secrets_are_words_and_what_is_no_secret_stays() -> None:
    for secret in ("abc", "admin", "12345"):
        Secret(secret)
    text = "abc of shop-admin and administrators: 123456"
    assert redacted(text) == text
    assert redacted("user admin:12345 (admin)") == "user ***:*** (***)"
    stream = io.StringIO()
    with redirect_stdout(OutputStream(stream)):
        print_json({"seed": 12345, "ok": True, "user": "admin"})
    assert json.loads(stream.getvalue()) == {"seed": 12345, "ok": True, "user": "***"}
    for text in ("a basic introduction to models@shop", "https://host/a@b //x:y"):
        assert redacted(text) == text
    assert redacted("see https://key@host/ and http://a:b@h") == (
        "see https://***@host/ and http://***@h"
    )
