"""Settings: the right cluster gets the right credentials, and they are shown nowhere."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import OwpcLtrError
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.retry import Retrying
from owpc_ltr.engine.client.settings import ConnectionSettings, find_settings, port_of, split_url
from owpc_ltr.errors import BadInput, EngineUnavailable, UsageError
from owpc_ltr.names import check_index, check_name, check_store
from tests.engine.fake_engine import (
    WHOLE,
    Clock,
    FakeEngine,
    Reply,
    make_engine,
    message_of_failure,
    one_line,
)

CANARY = "c4n4ry-s3cret"
URL = "https://search.example.org:9200"
FILE = f"""url = "{URL}"
user = "anna"
password = "{CANARY}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    write(path, FILE)
    return path


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def find(url: str | None, config: Path, **environ: str) -> ConnectionSettings:
    return find_settings(url, environ=environ, config=config)


def refused(url: str | None, config: Path, **environ: str) -> str:
    with pytest.raises(OwpcLtrError) as error:
        find(url, config, **environ)
    text = str(error.value)
    assert "\n" not in text
    assert CANARY not in text
    return text


def test_the_call_goes_before_the_environment_and_that_before_the_file(config: Path) -> None:
    assert find(None, config).url == URL
    assert find(None, config, OWPC_LTR_URL="http://a:1").url == "http://a:1"
    assert find("http://b:2/", config, OWPC_LTR_URL="http://a:1").url == "http://b:2"


def test_without_anything_it_is_the_local_node(tmp_path: Path) -> None:
    settings = find(None, tmp_path / "none.toml")
    assert settings.url.startswith("http://127.0.0.1:")
    assert settings.credentials is None


def test_credentials_of_the_file_go_to_its_cluster_only(config: Path) -> None:
    assert find(None, config).credentials is not None
    assert find(f"{URL}/", config).credentials is not None
    for other in ("https://evil.example.org:9200", "http://search.example.org:9200"):
        assert find(other, config).credentials is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(mode: int, config: Path) -> None:
    config.chmod(mode)
    assert f"chmod 600 {config}" in refused(None, config)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f'{FILE}\npasswort = "x"', "unknown key 'passwort'"),
        (f'url = "{URL}"\nuser = "anna"', "password"),
        (f'user = "anna"\npassword = "{CANARY}"', "url is missing"),
        (f'url = "{URL}"\npassword = "{CANARY}', "not TOML"),
        (f'url = "{URL}"\npassword = 7', "must be text"),
        (f'{FILE}api_key = "{CANARY}"', "more than one way"),
        (f'url = "{URL}"\naws_region = "x"\naws_service = "s3"', "es or aoss"),
        (f'url = "{URL}"\napi_key = "{CANARY}\\n"', "not an API key"),
        (f'url = "{URL}"\nca = "/no/such.pem"', "/no/such.pem"),
    ],
)
def test_a_wrong_file_is_named_in_one_line(text: str, what: str, config: Path) -> None:
    write(config, text)
    assert what in refused(None, config)


CARRYING = [
    f"https://anna:{CANARY}@search.example.org",
    f"https://{CANARY}@search.example.org",
    f"anna:{CANARY}@search.example.org",
    f"https://anna:{CANARY}@[::1",
    f"http://anna:{CANARY}@host:notaport",
    f"https://admin:2024/{CANARY}@host",
    f"https://admin:2024#{CANARY}@host",
    f"https://admin:2024?{CANARY}@host",
    f"https://admin:/{CANARY}@host:9200/x",
    f"https://admin:{CANARY}#@host",
    f"https://admin:{CANARY}%40host",
    f"//admin:{CANARY}@host",
    f" https:/admin:{CANARY}@host",
    f"https:admin:{CANARY}@host",
    f"https://admin:{CANARY}\n@host",
]


@pytest.mark.parametrize("url", CARRYING)
def test_a_password_in_the_address_is_refused_and_not_echoed(url: str, config: Path) -> None:
    assert refused(url, config).startswith("`url` carries a user or password")
    message = refused(None, config, OWPC_LTR_URL=url)
    assert message.startswith("OWPC_LTR_URL carries a user or password")
    write(config, f"# our cluster\nurl = {json.dumps(url)}")
    assert refused(None, config).startswith(f"url of {config}, line 2 carries a user or password")
    # It is refused although another address is asked for: credentials are compared with it.
    refused("http://a:1", config)


STRANGE = [
    *("localhost:9200", "ftp://a", "http://", "https://a?x=1", "https://a/#x", "a b", "http://a:0"),
    *("http://a b", "http://a\tb", "http://a%00", "http://a\x00", "http://ä.example", "http://a:"),
    *("http://a:65536", "http://a:-1", "http://a:١", "http://a:1:2", "http://:1", "http://a..b"),
    *("http://a/..", "http://a/../b", "http://a/%2e%2e/b", "http://a/b%2f..", "http://a/\\b"),
    *("http://a/b c", "http://a/%0d%0a", "http://a/%zz", "http://a/ü", "http://[::1", "http://::1"),
    *("http://[::1%25eth0]", "http://[1.2.3.4]", "http://[]", "http://-a", "http://" + "a" * 64),
    *("http://\u202ea", "http://a\ufeff", "http://a/\x7f", "HTTP//a", "http:/a", "http://a\\b"),
]


@pytest.mark.parametrize("url", STRANGE)
def test_what_is_no_address_is_refused_and_not_echoed(url: str) -> None:
    with pytest.raises(UsageError) as error:
        split_url(url, "OUR-PLACE")
    text = str(error.value)
    assert text.startswith("OUR-PLACE ")
    assert text.isprintable()
    assert url not in text


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://search.example.org:9200", "search.example.org", 9200),
        ("HTTPS://Search.Example.org./", "search.example.org.", 443),
        ("http://127.0.0.1", "127.0.0.1", 9200),
        ("http://[::1]:65535/a/b-c/%7Eme", "::1", 65535),
        ("http://opensearch_node1:1/_plugin.x/", "opensearch_node1", 1),
        (" https://xn--bcher-kva.example ", "xn--bcher-kva.example", 443),
    ],
)
def test_an_address_is_its_parts(url: str, host: str, port: int) -> None:
    parts = split_url(url)
    assert (parts.hostname, port_of(parts)) == (host, port)


SCHEMES = st.sampled_from(["http://", "https://", ""])


@given(st.text("aZ0-_./:?#%@[]\\ \n\x00äé1", max_size=24), SCHEMES)
def test_what_is_taken_means_the_same_to_every_reader(rest: str, scheme: str) -> None:
    """An accepted address survives being written and read again, and holds nothing hidden."""
    try:
        parts = split_url(scheme + rest)
    except UsageError:
        return
    again = split_url(parts.geturl())
    assert again == parts
    assert parts.username is parts.password is None
    assert parts.query == parts.fragment == ""
    assert urllib3.util.parse_url(parts.geturl()).host in {parts.hostname, f"[{parts.hostname}]"}


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({"OWPC_LTR_AWS_REGION": f"eu\n{CANARY}"}, "OWPC_LTR_AWS_REGION is not a region"),
        ({"OWPC_LTR_AWS_REGION": "eu", "OWPC_LTR_AWS_SERVICE": CANARY}, "es or aoss"),
        ({"OWPC_LTR_API_KEY": f"{CANARY}\n"}, "not an API key"),
        ({"OWPC_LTR_USER": "a", "OWPC_LTR_PASSWORD": f"{CANARY}\udcff"}, "not UTF-8"),
        ({"OWPC_LTR_USER": f"a:{CANARY}", "OWPC_LTR_PASSWORD": CANARY}, "holds a ':'"),
        ({"OWPC_LTR_USER": "a", "OWPC_LTR_PASSWORD": "b", "OWPC_LTR_API_KEY": CANARY}, "more than"),
    ],
)
def test_credentials_that_cannot_be_are_refused_and_not_echoed(
    environ: dict[str, str], what: str, config: Path
) -> None:
    assert what in refused(URL, config, **environ)


@pytest.mark.parametrize(
    "text",
    [
        "url = " + "[" * 5000 + f'"{CANARY}"',
        "url = " + "9" * 5000,
        f'"{CANARY}" = "x"',
        f'password = "{CANARY}" x',
        f'[a]\nb = "{CANARY}"',
        f'url = "{CANARY}"',
        f'url = "{URL}"\n{CANARY} = 1e999999999999',
        "# \udcff " + CANARY,
    ],
)
def test_no_damage_of_the_file_shows_what_it_holds(text: str, config: Path) -> None:
    config.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert str(config) in refused(None, config)


def test_credentials_do_not_travel_readable(config: Path) -> None:
    key = {"OWPC_LTR_API_KEY": CANARY}
    assert "use https" in refused("http://search.example.org", config, **key)
    assert find("http://127.0.0.1:9200", config, **key).credentials is not None
    assert find("http://[::1]:9200", config, **key).credentials is not None
    open_settings = find_settings(
        "http://search.example.org", insecure=True, environ=key, config=config
    )
    assert open_settings.cautions


def test_half_of_user_and_password_is_refused(config: Path) -> None:
    assert "OWPC_LTR_PASSWORD" in refused(URL, config, OWPC_LTR_USER="anna")
    assert "OWPC_LTR_USER" in refused(URL, config, OWPC_LTR_PASSWORD=CANARY)


def test_a_directory_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(BadInput):
        find(None, tmp_path)


# --- names

BAD = [
    *("", " ", "a b", "../a", "a/../b", "..", "a..b", "*", "a*", "a,b", "a/b", "a?b", "a#b", "-a"),
    *("_all", "_ltr", "a\n", "a\0", "a%2f", "é", "\u202ea", "a" * 300, "{{a}}", "a:b"),
]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_mean_more_is_refused(name: str) -> None:
    for check in (check_index, check_store, lambda name: check_name("model", name)):
        with pytest.raises(UsageError) as error:
            check(name)
        assert str(error.value).isprintable()


@pytest.mark.parametrize("name", ["movies", "movies-owpc@1f3a9c", "v1.2", "Fs_1", "a" * 128, "0"])
def test_a_plain_name_is_good(name: str) -> None:
    assert check_name("model", name) == name
    assert check_index(name) == name


def test_stores_are_in_lower_case_and_hidden_indices_can_be_read() -> None:
    assert check_store("other") == "other"
    with pytest.raises(UsageError, match="lower case"):
        check_store("Other")
    assert check_index(".ds-logs-2026.01.01") == ".ds-logs-2026.01.01"


def test_time_limits_come_from_the_environment(config: Path) -> None:
    settings = find(URL, config, OWPC_LTR_TIMEOUT="5", OWPC_LTR_DEADLINE="0.5")
    assert (settings.timeout, settings.deadline, settings.longest) == (5, 0.5, 0.5)
    usual = find(URL, config)
    assert (usual.timeout, usual.deadline, usual.longest) == (60, 120, float("inf"))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e9", "soon", "5s"])
@pytest.mark.parametrize("name", ["OWPC_LTR_TIMEOUT", "OWPC_LTR_DEADLINE"])
def test_what_is_no_time_is_refused(name: str, text: str, config: Path) -> None:
    assert f"{name} is a number of seconds" in refused(URL, config, **{name: text})


def secret_settings(url: str, way: str) -> ConnectionSettings:
    environ = {
        "basic": {"OWPC_LTR_USER": "anna", "OWPC_LTR_PASSWORD": CANARY},
        "api key": {"OWPC_LTR_API_KEY": CANARY},
    }[way]
    return find_settings(url, environ={**environ, "XDG_CONFIG_HOME": "/nonexistent"})


@pytest.mark.parametrize("way", ["basic", "api key"])
@pytest.mark.parametrize("status", [200, 401, 403, 500, 503])
def test_credentials_are_sent_and_shown_nowhere(
    way: str, status: int, fake: FakeEngine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    import base64
    import traceback

    caplog.set_level(logging.DEBUG)
    engine = Engine(secret_settings(fake.url, way), Retrying(clock=clock, sleep=clock.sleep))
    fake.on("GET", "/docs", Reply({"error": "no"}, status))
    shown = [repr(engine), repr(engine.settings), str(vars(engine))]
    try:
        engine.request("GET", "/docs", deadline=3)
    except (EngineUnavailable, EngineRefusal) as error:
        shown += [str(error), repr(error), "".join(traceback.format_exception(error))]
        captured = traceback.TracebackException.from_exception(error, capture_locals=True)
        shown += list(captured.format())
    shown.append(caplog.text)
    encoded = base64.b64encode(f"anna:{CANARY}".encode()).decode()
    assert not [text for text in shown if CANARY in text or encoded in text]
    expected = {"basic": f"Basic {encoded}", "api key": f"ApiKey {CANARY}"}[way]
    assert fake.requests[0].headers["authorization"] == expected
    engine.close()


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_name_where_they_came_from(
    status: int, fake: FakeEngine, clock: Clock
) -> None:
    fake.on("GET", "/docs", Reply({"error": "no"}, status))
    for way, name in (("basic", "OWPC_LTR_PASSWORD"), ("api key", "OWPC_LTR_API_KEY")):
        engine = Engine(secret_settings(fake.url, way))
        assert name in message_of_failure(engine, "GET", "/docs")
        engine.close()
    assert len(fake.requests) == 2
    with pytest.raises(EngineUnavailable, match="OWPC_LTR_USER"):
        make_engine(fake.url, clock).request("GET", "/docs")


def test_signatures_for_aws_are_opensearch_pys_own(
    fake: FakeEngine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    environ = {"OWPC_LTR_AWS_REGION": "eu-west-1", "OWPC_LTR_AWS_SERVICE": "aoss"}
    engine = Engine(find_settings(fake.url, environ={**environ, "XDG_CONFIG_HOME": "/none"}))
    fake.on("POST", "/docs/_search", WHOLE)
    assert engine.request("POST", "/docs/_search", body={"a": 1}) == WHOLE
    signed = fake.requests[0].headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/aoss/aws4_request" in signed
    assert "x-amz-content-sha256" in fake.requests[0].headers
    assert CANARY not in str(fake.requests[0])
    engine.close()


AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": CANARY}


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({"AWS_PROFILE": f"no-{CANARY}"}, "ProfileNotFound"),
        ({**AWS, "AWS_SESSION_TOKEN": f"a\n{CANARY}"}, "a line break in a key"),
        ({**AWS, "AWS_ACCESS_KEY_ID": f"a\n{CANARY}"}, "a line break in a key"),
    ],
)
def test_aws_credentials_that_cannot_be_are_one_line(
    environ: dict[str, str],
    what: str,
    fake: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("botocore")
    caplog.set_level(logging.DEBUG)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    region = {"OWPC_LTR_AWS_REGION": "eu-west-1", "XDG_CONFIG_HOME": "/none"}
    with pytest.raises(UsageError) as error:
        Engine(find_settings(fake.url, environ=region)).request("GET", "/docs")
    assert what in one_line(error)
    assert "AWS_PROFILE" in str(error.value)
    assert CANARY not in str(error.value)
    assert CANARY not in caplog.text
    assert fake.requests == []


def test_a_session_of_aws_is_not_logged(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("botocore")
    caplog.set_level(logging.DEBUG)
    for name, value in {**AWS, "AWS_SESSION_TOKEN": f"t-{CANARY}"}.items():
        monkeypatch.setenv(name, value)
    region = {"OWPC_LTR_AWS_REGION": "eu-west-1", "XDG_CONFIG_HOME": "/none"}
    engine = Engine(find_settings(fake.url, environ=region))
    fake.on("GET", "/docs", WHOLE)
    assert engine.request("GET", "/docs") == WHOLE
    assert fake.requests[0].headers["x-amz-security-token"] == f"t-{CANARY}"
    assert CANARY not in caplog.text
    assert CANARY not in repr(engine) + str(vars(engine)) + str(vars(engine.settings))
    engine.close()


def test_the_address_of_a_proxy_is_shown_without_its_password() -> None:
    pytest.importorskip("owpc_ltr_node")
    from owpc_ltr_node.home import reason

    for fault in (
        ValueError(f"Failed to parse: http://me:{CANARY}/x@proxy:3128"),
        OSError(f"HTTPSConnectionPool(host='x'): https://{CANARY}@proxy"),
    ):
        assert CANARY not in reason(fault)
    assert reason(ValueError()) == ""
