"""Secrets are not shown or written, output is sanitized, shared folders are not trusted."""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrError, partition, save_model
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import find_settings
from owpc_ltr.engine.feature_log.log import open_run
from owpc_ltr.errors import Refused
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.redaction import redacted, secrets_of
from owpc_ltr.text import message_line, printable, printable_lines
from tests.commands import Run

SECRET = "c4n4ry/s3cret#w?rd@x"
FORMS = ("c4n4ry", "s3cret", quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()[:9])
NOBODY = "http://127.0.0.1:9"
ADDRESSES = tuple(
    f"{scheme}{user}{SECRET}@127.0.0.1:9/x"
    for scheme in ("https://", "http:/", "https:", "//", "")
    for user in ("admin:", "")
)
PROXIES = dict.fromkeys(("HTTPS_PROXY", "http_proxy"), f"http://me:{SECRET}@127.0.0.1:9")
AWS = {"OWPC_LTR_AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"}
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    *({"OWPC_LTR_URL": address} for address in ADDRESSES),
    {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": SECRET},
    {"OWPC_LTR_USER": f"anna:{SECRET}", "OWPC_LTR_PASSWORD": SECRET},
    {"OWPC_LTR_USER": SECRET},
    {"OWPC_LTR_PASSWORD": SECRET},
    {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": f"{SECRET}\udcff"},
    {"OWPC_LTR_API_KEY": SECRET},
    {"OWPC_LTR_API_KEY": f"{SECRET}\n"},
    {"OWPC_LTR_API_KEY": SECRET, "OWPC_LTR_USER": "a", "OWPC_LTR_PASSWORD": SECRET},
    {"OWPC_LTR_AWS_REGION": f"eu\n{SECRET}"},
    {**AWS, "OWPC_LTR_AWS_SERVICE": SECRET},
    {**AWS, "AWS_PROFILE": SECRET},
    {**AWS, "AWS_ACCESS_KEY_ID": f"AK\n{SECRET}", "AWS_SECRET_ACCESS_KEY": SECRET},
    {
        **AWS,
        "AWS_ACCESS_KEY_ID": "AK",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SECRET,
    },
    PROXIES,
)
FILES = (
    *(f'url = "{address}"' for address in ADDRESSES),
    f'url = "{NOBODY}"\nuser = "anna"\npassword = "{SECRET}"',
    f'url = "{NOBODY}"\nuser = "anna"\npassword = "{SECRET}',
    f'url = "{NOBODY}"\nuser = "anna"\npassword = {SECRET}',
    f'url = "{NOBODY}"\nuser = "anna:{SECRET}"\npassword = "{SECRET}"',
    f'url = "{NOBODY}"\n"{SECRET}" = "x"',
    f'url = "{NOBODY}"\naws_region = "{SECRET}"',
    f'password = "{SECRET}"\n[{SECRET}]',
)


@pytest.fixture
def run(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> Run:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "0.2")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return run


def check_hidden(*texts: str) -> None:
    for text in texts:
        assert [form for form in FORMS if form in text] == [], text


def check_files(*known: Path) -> None:
    for path in Path().rglob("*"):
        if path.is_file() and path not in known:
            check_hidden(path.read_bytes().decode("utf-8", "replace"), str(path))


@pytest.mark.parametrize("place", range(len(ADDRESSES)))
def test_an_address_of_a_command_tells_no_secret(
    place: int, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    code, out, err = run("models", "show", "--url", ADDRESSES[place])
    assert code == 2
    assert err.startswith("owpc-ltr: --url ")
    check_hidden(out, err, caplog.text)
    check_files()


@pytest.mark.parametrize("place", range(len(ENVIRONMENTS)))
def test_an_environment_tells_no_secret(
    place: int, run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENTS[place].items():
        monkeypatch.setenv(name, value)
    asked = () if "OWPC_LTR_URL" in ENVIRONMENTS[place] else ("--url", NOBODY)
    code, out, err = run("models", "show", *asked)
    assert code in {2, 4}
    assert err.count("\n") == 1
    check_hidden(out, err, caplog.text)
    Path("data.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n" * 2)
    save_model(LinearModel(("1",), np.ones(1)), "model.json")
    assert run("evaluate", "model.json", "--data", "data.txt", "--json")[0] == 0
    check_hidden(caplog.text)
    check_files()


@pytest.mark.parametrize("place", range(len(FILES)))
def test_a_configuration_file_tells_no_secret(
    place: int, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path("config/owpc-ltr/config.toml")
    file.parent.mkdir(parents=True)
    file.write_text(FILES[place])
    file.chmod(0o600)
    for asked in ((), ("--url", NOBODY)):
        code, out, err = run("models", "show", *asked)
        assert code in {2, 3, 4}
        check_hidden(out, err, caplog.text)
    check_files(file)


def test_no_object_of_a_connection_tells_its_secret(tmp_path: Path) -> None:
    for environ in ENVIRONMENTS:
        try:
            settings = find_settings(NOBODY, environ=environ, config=tmp_path / "none")
            engine = Engine(settings)
        except OwpcLtrError as error:
            check_hidden(str(error), repr(error))
            continue
        check_hidden(repr(settings), repr(engine), str(vars(settings)), str(vars(engine)))
        check_hidden(repr(settings.credentials))
        engine.close()


@pytest.mark.parametrize("form", [SECRET, quote(SECRET, safe=""), repr({"a": SECRET}), "s3cret"])
def test_the_canary_sings_where_a_secret_is_told(form: str) -> None:
    with pytest.raises(AssertionError):
        check_hidden(f"before {form} after")


MINE = "what is not to be lost"


def _run(folder: Path) -> None:
    with open_run(folder / "out", {"a": 1}, restart=False):
        pass


def _node(folder: Path) -> None:
    places = pytest.importorskip("owpc_ltr_node.release")
    with places.locked_file(folder / "out.run" / "lock", "a start"):
        pass


def _partition(folder: Path) -> None:
    partition(folder / "data.txt", out=folder / "out.run", buckets=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a dataset, a file of mine, and the folder that is written."""
    (tmp_path / "data.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    (tmp_path / "mine").write_text(MINE)
    (tmp_path / "out.run").mkdir()
    return tmp_path


PLANTED = [
    (_run, "lock"), (_node, "lock"),
    (_partition, "_unfinished"),
]  # fmt: skip


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize(("write", "name"), PLANTED)
def test_a_planted_link_is_not_written_through(
    folder: Path,
    write: Callable[[Path], None],
    name: str,
    link: Callable[[Path, Path], None],
) -> None:
    link(folder / "out.run" / name, folder / "mine")
    with pytest.raises(Refused, match="is a link, or no plain file"):
        write(folder)
    assert (folder / "mine").read_text() == MINE


@pytest.mark.parametrize("write", [_run])
def test_a_run_folder_that_is_a_link_is_refused(
    folder: Path, write: Callable[[Path], None]
) -> None:
    (folder / "out.run").rename(folder / "elsewhere")
    (folder / "out.run").symlink_to("elsewhere")
    with pytest.raises(Refused, match="is a link or a file"):
        write(folder)
    assert list((folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("write", [_run, _partition])
def test_a_folder_of_others_is_refused(folder: Path, write: Callable[[Path], None]) -> None:
    (folder / "out.run").chmod(0o777)
    with pytest.raises(Refused, match=r"every user can write to .*: run chmod o-w"):
        write(folder)
    if os.geteuid() == 0:
        (folder / "out.run").chmod(0o755)
        os.chown(folder / "out.run", 65534, -1)
        with pytest.raises(Refused, match=r"belongs to another user \(number 65534\)"):
            write(folder)
    assert list((folder / "out.run").iterdir()) == []


def test_a_new_run_folder_is_for_its_owner_alone(folder: Path) -> None:
    (folder / "out.run").rmdir()
    with open_run(folder / "out", {"a": 1}, restart=False) as run:
        assert run.path.stat().st_mode & 0o777 == 0o700


PASSWORD = "c4n4ry/s3cret"


@given(st.text())
def test_what_is_shown_steers_nothing_and_can_be_written(text: str) -> None:
    for shown in (printable(text), printable_lines(text).replace("\n", "").replace("\t", "")):
        shown.encode()
        assert not any(c in shown for c in "\x00\x07\x08\r\x1b\x7f\x9b\u202e\u2066\u2028\ufeff")
        assert len(shown.splitlines()) <= 1
    assert printable(printable(text)) == printable(text)
    if text.isprintable():
        assert printable(text) == printable_lines(text)


@given(st.text(st.characters(categories=["L", "N", "P"])))
def test_words_of_any_script_stay_as_they_are(text: str) -> None:
    assert printable(text) == text
    assert printable("नमस्‍ते 👩‍💻\u00a0") == "नमस्‍ते 👩‍💻\u00a0"


@pytest.mark.parametrize(
    "form",
    [
        PASSWORD,
        quote(PASSWORD, safe=""),
        base64.b64encode(PASSWORD.encode()).decode(),
        repr({"password": PASSWORD}),
        f"https://anna:{PASSWORD}@host",
        f"Authorization: Basic {base64.b64encode(f'anna:{PASSWORD}'.encode()).decode()}",
    ],
)
def test_a_secret_is_blacked_in_every_form(form: str) -> None:
    environ = {"OWPC_LTR_PASSWORD": PASSWORD, "OWPC_LTR_USER": "anna", "PATH": "/bin"}
    output = redacted(f"before {form} after", secrets_of(environ))
    assert PASSWORD not in output
    assert base64.b64encode(PASSWORD.encode()).decode() not in output
    assert "***" in output
    assert output.startswith("before ")


def test_what_is_no_secret_stays() -> None:
    text = "KeyError: 'learner' at https://host:9200/_ltr/_model/m@1 in basic.py"
    assert redacted("KeyError: 'learner' in basic.py") == "KeyError: 'learner' in basic.py"
    assert redacted(text).startswith("KeyError: 'learner' at https://")
    assert secrets_of({"PATH": "/bin", "HTTPS_PROXY": "http://proxy:1"}) == []
    assert secrets_of({"HTTPS_PROXY": "http://me:pw@proxy:1"}) == ["http://me:pw@proxy:1"]


def test_a_long_message_keeps_what_is_wrong_and_what_to_do() -> None:
    names = ", ".join(f"feature_{n}" for n in range(2000))
    line = message_line(f"cannot train on data.txt: no feature is called {names}: check the names")
    assert len(line) == 1200
    assert line.startswith("cannot train on data.txt: no feature is called feature_0, ")
    assert line.endswith("feature_1999: check the names")
    assert " … " in line
    assert message_line("x" * 1200) == "x" * 1200
