"""Secrets: what this process proves itself with is replaced by *** in every text that leaves it.

A password, key or token becomes a `Secret` where it is read, and is known from then on. Another
party may repeat it in an answer. So errors, warnings and all that is sanitized for a reader (see
`text.printable`) go through `redacted`. Data stays as it is: ids and texts of documents in files.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self
from urllib.parse import quote, quote_plus

BLACK = "***"
_SHORTEST, _WORD = 4, 8
"""Shorter secrets are not replaced; below the second length, only where they are whole words."""
_URL_USER = re.compile(r"://[^\s\"'<>/?#@]+@")
_USERINFO = re.compile(r"(?<=//)[^\s\"'<>]*@")
_AUTHORIZATION = re.compile(
    r"(?i)\b(basic|bearer|apikey)\s+[A-Za-z0-9+/=._~-]{6,}|(?<=aws4-hmac-sha256 )[^\r\n'\"]+"
    r"|(?<=signature=)[0-9a-f]+|(?<=security-token[:=])\s*[^\s,'\"]+"
)
_SECRET_NAME = re.compile(r"(?i)passw|secret|token|api_?key|_key$|credential|webhook")
_known: set[str] = set()
"""The secrets of this process, as a text is written where nobody knows who read which of them."""


class Secret(str):
    """A password, a key, or a header that carries one: neither its repr nor any text tells it.

    >>> Secret("s3cret")
    '***'
    """

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Make it known to `redacted`, with what a header or an address carries."""
        _known.update(_parts(value))
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"'{BLACK}'"


def redacted(text: str, more: Iterable[str] = ()) -> str:
    """Text without known secrets, and `more`, in any usual form, and without users of addresses.

    >>> redacted("GET http://me:pw@host/ as s3cret", ["s3cret"])
    'GET http://***@host/ as ***'
    """
    if "://" in text:
        text = _URL_USER.sub(f"://{BLACK}@", text)
    pattern = _pattern(frozenset(_known.union(more)))
    return text if pattern is None else pattern.sub(BLACK, text)


def redacted_values(value: object) -> Any:
    """A JSON value whose texts are redacted, at any depth.

    >>> redacted_values({"url": ["http://me:pw@host", 1]})
    {'url': ['http://***@host', 1]}
    """
    if isinstance(value, dict):
        return {redacted(str(key)): redacted_values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_values(part) for part in value]
    return redacted(value) if isinstance(value, str) else value


def redacted_trace(text: str, more: Iterable[str] = ()) -> str:
    """Text that may hold secrets that nobody knows: also without headers that look like one."""
    text = _USERINFO.sub(f"{BLACK}@", redacted(text, more))
    return _AUTHORIZATION.sub(lambda match: f"{match[1] or ''} {BLACK}".strip(), text)


def secrets_of(environ: Mapping[str, str] = os.environ) -> list[str]:
    """What the environment holds under names of secrets, and addresses with a password."""
    held = [value for name, value in environ.items() if _SECRET_NAME.search(name) and value]
    user, password = environ.get("OWPC_LTR_USER"), environ.get("OWPC_LTR_PASSWORD")
    pairs = [f"{user}:{password}"] if user and password else []
    return [*held, *pairs, *(value for value in environ.values() if _USERINFO.search(value))]


def _parts(value: str) -> Iterator[str]:
    """A secret, and what is one in a header (with what its base64 holds) or a webhook's address."""
    yield value
    yield value.partition("://")[2].partition("/")[2]
    scheme, _, token = value.partition(" ")
    if scheme in {"Basic", "Bearer", "ApiKey"}:
        yield token
        # Clients differ in the encoding.
        for encoding in ("utf-8", "latin-1"):
            with suppress(ValueError):
                pair = base64.b64decode(token, validate=True).decode(encoding)
                yield from (pair, pair.partition(":")[2])


@functools.lru_cache(maxsize=4)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
    words = [
        re.escape(form) if len(form) >= _WORD else rf"(?<![\w-]){re.escape(form)}(?![\w-])"
        for form in forms
    ]
    return re.compile("|".join(words)) if words else None


def _forms(secret: str) -> Iterator[str]:
    """How a secret may stand in a text: as it is, quoted, escaped, in base64, in part."""
    if len(secret) < _SHORTEST:
        return
    # A message may hold a line of it only.
    yield from (part for part in (secret, *secret.splitlines()) if len(part) >= _SHORTEST)
    raw = secret.encode("utf-8", "surrogateescape")
    as_json = [json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (True, False)]
    others = [repr(secret)[1:-1], *as_json, *(text.replace("/", r"\/") for text in as_json)]
    others += [html.escape(secret)]
    for quoted in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        others += [quoted, re.sub("%..", lambda match: match[0].lower(), quoted)]
    for encoded in (base64.b64encode, base64.urlsafe_b64encode):
        others.append(encoded(raw).decode())
        # Within more text its letters depend on the place of its first byte, but for the ends.
        for before, first in ((0, 0), (1, 2), (2, 3)):
            letters = encoded(bytes(before) + raw).decode()
            whole = (before + len(raw)) % 3 == 0
            others.append(letters[first:] if whole else letters.rstrip("=")[first:-1])
    yield from (form for form in others if len(form) >= _WORD)
