"""Foreign text: nothing steers the terminal, nothing secret is told, and plain text stays."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.sanitization import message_line, printable, printable_lines, redacted, secrets_of

SECRET = "c4n4ry/s3cret"


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
        SECRET,
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        repr({"password": SECRET}),
        f"https://anna:{SECRET}@host",
        f"Authorization: Basic {base64.b64encode(f'anna:{SECRET}'.encode()).decode()}",
    ],
)
def test_a_secret_is_blacked_in_every_form(form: str) -> None:
    environ = {"OWPC_LTR_PASSWORD": SECRET, "OWPC_LTR_USER": "anna", "PATH": "/bin"}
    told = redacted(f"before {form} after", secrets_of(environ))
    assert SECRET not in told
    assert base64.b64encode(SECRET.encode()).decode() not in told
    assert "***" in told
    assert told.startswith("before ")


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
