"""Connection settings: where the cluster is, its credentials, certificates and time limits.

In this order: what is given in the call; the environment (`OWPC_LTR_URL`, `OWPC_LTR_USER` and
`OWPC_LTR_PASSWORD`, or `OWPC_LTR_API_KEY`, or `OWPC_LTR_AWS_REGION` and `OWPC_LTR_AWS_SERVICE`;
`OWPC_LTR_CA`); the configuration file; the local node, without credentials. `OWPC_LTR_TIMEOUT` and
`OWPC_LTR_DEADLINE` set the time limits.

The configuration file is `~/.config/owpc-ltr/config.toml`:

```toml
url = "https://search.example.org:9200"
user = "ranker"
password = "…"             # or: api_key = "…"   or: aws_region = "eu-west-1"
ca = "/etc/ssl/our-ca.pem" # optional; aws_service = "es" (default) or "aoss"
```

Addresses are parsed strictly. A refused address may hold a password, so no error shows it.
"""

from __future__ import annotations

import base64
import ipaddress
import math
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.redaction import Secret

DEFAULT_URL = "http://127.0.0.1:9200"
TIMEOUT = 60.0
"""Seconds for one attempt at a request."""
DEADLINE = 120.0
"""Seconds for a request with all its retries."""
LARGEST_ANSWER = 256_000_000
"""The most bytes of an answer, unpacked."""
_LARGEST_FILE = 1_000_000
_KEYS = ("url", "user", "password", "api_key", "aws_region", "aws_service", "ca")
"""What the file may say, and the environment as OWPC_LTR_URL and so on."""
_SECRETS = {"password", "api_key"}
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
_PORTS = {"http": 9200, "https": 443}
_SCHEME = re.compile(r"(https?)://", re.IGNORECASE)
_WHERE = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?", re.DOTALL)
_PORT = re.compile(r"[0-9]{1,5}")
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:%-]*)*")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LIKE_THIS = "write it as https://HOST:PORT"


@dataclass(frozen=True)
class Credentials:
    """Credentials for the cluster; `source` says where they were found.

    Either `authorization`, the value of the header, or an AWS region and service whose
    signatures botocore makes with the credentials that it finds itself.
    """

    source: str
    authorization: Secret | None = field(default=None, repr=False)
    aws_region: str | None = None
    aws_service: str = "es"


@dataclass(frozen=True)
class ConnectionSettings:
    """An engine's address and how to speak with it. UsageError where they cannot be."""

    url: str
    credentials: Credentials | None = None
    ca: Path | None = None
    """Certificates, in PEM, that may sign the engine's; else those that the system trusts."""
    insecure: bool = False
    """Whether the engine's certificate goes unchecked, and credentials over plain http."""
    timeout: float = TIMEOUT
    """Seconds for one attempt at a request."""
    deadline: float = DEADLINE
    """Seconds for a request with all its retries."""
    longest: float = math.inf
    """Seconds for those requests too that may take longer, as a merge of segments."""
    largest_answer: int = LARGEST_ANSWER
    """The most bytes of an answer, unpacked."""
    given: bool = True
    """Whether somebody named the address; else it is the local node's."""

    def __post_init__(self) -> None:
        parts = split_url(self.url)
        if self.ca is not None and not self.ca.is_file():
            raise UsageError(f"the file of CA certificates {self.ca} does not exist")
        exposed = parts.scheme == "http" and not is_loopback(parts.hostname)
        if self.credentials is not None and exposed and not self.insecure:
            raise UsageError(
                f"{self.url} would get the credentials of {self.credentials.source} readable by "
                "anyone on the way: use https, or `insecure` if that is meant"
            )

    @property
    def cautions(self) -> list[str]:
        """Warnings to show on each run."""
        if not self.insecure:
            return []
        return [f"`insecure`: nobody checks that {self.url} is the cluster it claims to be"]


def find_settings(
    url: str | None = None,
    *,
    ca: Path | None = None,
    insecure: bool = False,
    environ: Mapping[str, str] = os.environ,
    config: Path | None = None,
) -> ConnectionSettings:
    """The settings of this call, environment and configuration file.

    Credentials and CA of the configuration file are for the cluster that it names, and go to no
    other. Raises UsageError, and BadInput for a file that cannot be right.
    """
    path = config or config_path(environ)
    file, url_place = read_config(path)
    configured = split_url(file["url"], url_place) if file else None
    named = url or environ.get("OWPC_LTR_URL")
    if named:
        parts = split_url(named, "`url`" if url else "OWPC_LTR_URL")
    else:
        parts = configured or split_url(_default_url())
    if configured is None or origin(configured) != origin(parts):
        file = {}
    variables = {key: f"OWPC_LTR_{key.upper()}" for key in _KEYS}
    values = {key: environ[name] for key, name in variables.items() if environ.get(name)}
    trusted = ca or values.get("ca") or file.get("ca")
    return ConnectionSettings(
        parts.geturl().rstrip("/"),
        _credentials(values, variables)
        or _credentials(file, {key: key for key in _KEYS}, f" of {path}"),
        Path(trusted).expanduser() if trusted else None,
        insecure,
        given=bool(named or configured),
        **limits_of(environ),
    )


def limits_of(environ: Mapping[str, str]) -> dict[str, Any]:
    """The limits of ConnectionSettings that OWPC_LTR_TIMEOUT and OWPC_LTR_DEADLINE set, in seconds.

    Raises UsageError for what is no time.

    >>> limits_of({"OWPC_LTR_TIMEOUT": "5"}), limits_of({})
    ({'timeout': 5.0}, {})
    """
    limits: dict[str, Any] = {}
    # Where a user says how long, it holds for a merge of segments too.
    names = {"OWPC_LTR_TIMEOUT": ["timeout"], "OWPC_LTR_DEADLINE": ["deadline", "longest"]}
    for name, fields in names.items():
        text = environ.get(name)
        if not text:
            continue
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= 86_400:
            raise UsageError(
                f"{name} is a number of seconds, above 0 and at most a day, not {text!r}"
            )
        limits |= dict.fromkeys(fields, seconds)
    return limits


def _credentials(
    values: Mapping[str, str], names: Mapping[str, str], place: str = ""
) -> Credentials | None:
    """The credentials among these values, which messages call by these names of this place."""
    user, password, key, region = map(values.get, ("user", "password", "api_key", "aws_region"))
    if sum((bool(user or password), bool(key), bool(region))) > 1:
        raise UsageError(
            f"more than one way to prove who asks: give {names['user']} and {names['password']}, "
            f"or {names['api_key']}, or {names['aws_region']}{place}, and not several"
        )
    if user and password:
        source = f"{names['user']} and {names['password']}{place}"
        return Credentials(source, Secret(f"Basic {_pair(user, password, names, place)}"))
    if user or password:
        lacking = names["password" if user else "user"]
        raise UsageError(f"{lacking}{place} is missing: user and password are needed together")
    if key:
        source = f"{names['api_key']}{place}"
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError(f"{source} is not an API key: it holds a space or worse")
        return Credentials(source, Secret(f"ApiKey {key}"))
    if region:
        source = f"{names['aws_region']}{place}"
        if not _REGION.fullmatch(region):
            raise UsageError(f"{source} is not a region of AWS: write it as eu-west-1")
        service = values.get("aws_service", "es")
        if service not in {"es", "aoss"}:
            raise UsageError(f"the AWS service{place} is something else than es or aoss: give one")
        return Credentials(source, aws_region=region, aws_service=service)
    return None


def _pair(user: str, password: str, names: Mapping[str, str], place: str) -> str:
    """The value that basic authentication sends. Raises UsageError where there is none."""
    if ":" in user:
        raise UsageError(
            f"{names['user']}{place} holds a ':', which no user name may: leave it out"
        )
    try:
        return base64.b64encode(f"{user}:{password}".encode()).decode()
    except UnicodeEncodeError:
        # Such bytes of the environment are half characters here.
        raise UsageError(
            f"{names['user']} or {names['password']}{place} is not UTF-8 text: set them in a UTF-8 "
            "terminal"
        ) from None


def _default_url() -> str:
    """The address of a node that a plugin runs on this machine, or the engines' usual one."""
    from owpc_ltr.host.commands import plugin_answer

    return str(plugin_answer("ltr_default_url") or DEFAULT_URL)


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The path of the configuration file."""
    folder = environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "owpc-ltr" / "config.toml"


def read_config(path: Path) -> tuple[dict[str, str], str]:
    """The file's values, none if there is no file, and what a message calls the place of its url.

    Raises BadInput, never showing a value, where others could read the file or it is not right.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise BadInput(
                    f"{path} may hold a password and can be read by others (mode "
                    f"{stat.S_IMODE(mode):04o}): chmod 600 {path}"
                )
            text = file.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            raise BadInput(
                f"{path} is larger than {_LARGEST_FILE} bytes: it is not a configuration file"
            )
        content = tomllib.loads(text.decode())
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        # The parser's message can quote the line that holds a password.
        position = getattr(error, "lineno", None)
        where = f", line {position}" if position else ""
        raise BadInput(f'{path}{where} is not TOML: write lines as url = "https://…"') from None
    return _checked(content, path), f"url of {path}{_line_of_url(text.decode())}"


def _line_of_url(text: str) -> str:
    """Where the address stands, as a message says it."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"""\s*["']?url["']?\s*=""", line):
            return f", line {number}"
    return ""


def _checked(content: dict[str, object], path: Path) -> dict[str, str]:
    from difflib import get_close_matches

    for key, value in content.items():
        if key not in _KEYS:
            # Only a slip of the pen is shown: anything else may be a password out of place.
            slip = get_close_matches(key, _KEYS, 1)
            what = f"unknown key '{key}'" if slip and key.isprintable() else "unknown key"
            raise BadInput(f"{path}: {what}; known: {', '.join(_KEYS)}")
        if not isinstance(value, str) or not value:
            raise BadInput(f"{path}: {key} must be text in quotes, and not empty")
    if content and "url" not in content:
        raise BadInput(f"{path}: url is missing: credentials are for the cluster that it names")
    texts = {key: str(value) for key, value in content.items()}
    return {
        key: Secret(text) if key in _SECRETS or "@" in text else text for key, text in texts.items()
    }


def split_url(url: str, place: str = "the engine's address") -> SplitResult:
    """The parts of an engine's address; `place` says where it was written.

    Raises UsageError, which tells the place and what is wrong there, and nothing of the address.
    """
    url = url.strip(" \t\r\n")
    # A password may hold any of /, # and ?: what stands before an '@' is never looked into.
    if "@" in url or "%40" in url:
        raise UsageError(
            f"{place} carries a user or password, which would end up in logs: take them out, and "
            "set OWPC_LTR_USER and OWPC_LTR_PASSWORD"
        )
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise UsageError(f"{place} is not an address of an engine: {_LIKE_THIS}")
    address = url[scheme.end() :]
    if "?" in address or "#" in address:
        raise UsageError(f"{place} is more than the address of an engine: {_LIKE_THIS}")
    host_and_port, slash, path = address.partition("/")
    parts = _WHERE.fullmatch(host_and_port)
    if parts is None or not _is_host(parts["host"]):
        raise UsageError(
            f"{place} has a host that is neither a name (of ASCII letters, digits, '-' and "
            f"dots) nor an IP address: {_LIKE_THIS}"
        )
    port = parts["port"]
    if port is not None and not (_PORT.fullmatch(port) and 0 < int(port) <= 65535):
        raise UsageError(f"{place} has a port that is not between 1 and 65535: {_LIKE_THIS}")
    if not _is_path(slash + path):
        raise UsageError(
            f"{place} has a path with '..', an escaped slash or what no path holds: {_LIKE_THIS}, "
            "with the prefix of a proxy after it if there is one"
        )
    return urlsplit(url)


def port_of(parts: SplitResult) -> int:
    """The port of an address, given or usual."""
    return parts.port or _PORTS[parts.scheme]


def origin(parts: SplitResult) -> tuple[str, str | None, int]:
    """The scheme, host and port of an address."""
    return parts.scheme, parts.hostname, port_of(parts)


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine, so that nobody else can read what is sent."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            return ipaddress.IPv6Address(host[1:-1]).scope_id is None
        except ValueError:
            return False
    labels = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(_NAME.fullmatch(label) for label in labels)


def _is_path(path: str) -> bool:
    if not _PATH.fullmatch(path) or _ESCAPE.search(path):
        return False
    plain = unquote(path)
    same_parts = plain.count("/") == path.count("/")
    return (
        same_parts
        and plain.isprintable()
        and "\\" not in plain
        and not ({".", ".."} & set(plain.split("/")))
    )
