"""A secret, by every way into a command, is shown nowhere and written nowhere."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import find_settings
from owpc_ltr.errors import OwpcLtrError
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.commands import Run, commands_in

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
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> Run:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "0.2")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return commands_in(tmp_path, monkeypatch, capsys)


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
    code, out, err = run("models", "list", "--url", ADDRESSES[place])
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
    code, out, err = run("models", "list", *asked)
    assert code in {2, 4}
    assert err.count("\n") == 1
    check_hidden(out, err, caplog.text)
    Path("data.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n" * 2)
    save_model(LinearModel(("1",), np.ones(1)), "model.json")
    assert run("evaluate", "model.json", "data.txt", "--json")[0] == 0
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
        code, out, err = run("models", "list", *asked)
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
