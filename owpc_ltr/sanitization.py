"""Sanitized output: control characters are escaped, and secrets are replaced by ***."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

_INVISIBLE = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
# Joiners (U+200C, U+200D) are part of words and pictures, and stay.
_STEERING = re.compile(f"[{_INVISIBLE}]")
_STEERING_LINES = re.compile(f"(?![\n\t])[{_INVISIBLE}]")
_USERINFO = re.compile(r"(?<=//)[^\s\"'<>]*@")
_AUTHORIZATION = re.compile(
    r"(?i)\b(basic|bearer|apikey)\s+[A-Za-z0-9+/=._~-]{6,}|(?<=aws4-hmac-sha256 )[^\r\n'\"]+"
    r"|(?<=signature=)[0-9a-f]+|(?<=security-token[:=])\s*[^\s,'\"]+"
)
_SECRET_NAME = re.compile(r"(?i)passw|secret|token|api_?key|credential")
BLACK = "***"
_LONGEST, _END = 1200, 500


def printable(text: str) -> str:
    r"""Text on one line: control characters, line breaks and marks of direction are escaped.

    >>> printable("a\x1b[31mb\nc\u202e")
    'a\\x1b[31mb\\nc\\u202e'
    """
    return _STEERING.sub(_escaped, text)


def message_line(text: str) -> str:
    """A message on one line of at most 1,200 characters: its middle is left out.

    What is wrong stands at its beginning, and what to do at its end.

    >>> len(message_line(f"cannot read {'x' * 5000}: check the name"))
    1200
    """
    line = printable(text)
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST - _END - 3]} … {line[-_END:]}"


def printable_lines(text: str) -> str:
    r"""The same, where line breaks and tabs are meant.

    >>> printable_lines("a\x1b[31m\n\tb")
    'a\\x1b[31m\n\tb'
    """
    return _STEERING_LINES.sub(_escaped, text)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without these secrets in any usual form, userinfo of addresses, and signatures.

    >>> redacted("GET http://me:pw/x@host/ as s3cret", ["s3cret"])
    'GET http://***@host/ as ***'
    """
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, BLACK)
    text = _USERINFO.sub(f"{BLACK}@", text)
    return _AUTHORIZATION.sub(lambda found: f"{found[1] or ''} {BLACK}".strip(), text)


def secrets_of(environ: Mapping[str, str] = os.environ) -> list[str]:
    """What the environment holds under names of secrets, and addresses with a password."""
    held = [value for name, value in environ.items() if _SECRET_NAME.search(name) and value]
    user, password = environ.get("OWPC_LTR_USER"), environ.get("OWPC_LTR_PASSWORD")
    pairs = [f"{user}:{password}"] if user and password else []
    return [*held, *pairs, *(value for value in environ.values() if _USERINFO.search(value))]


def _forms(secret: str) -> list[str]:
    """How a secret may stand in a text: as it is, quoted, escaped, in base64."""
    raw = secret.encode("utf-8", "surrogateescape")
    found = [secret, repr(secret)[1:-1], quote(raw, safe=""), quote(raw)]
    found += [base64.b64encode(raw).decode(), printable(secret)]
    # A message may hold a line of it only.
    return found + [line for line in secret.splitlines() if len(line) > 3]


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
