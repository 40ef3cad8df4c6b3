"""Connection settings: where the cluster is, its credentials, certificates and time limits.

In this order: what is given in the call; the environment (`OWPC_LTR_URL`, `OWPC_LTR_USER` and
`OWPC_LTR_PASSWORD`, or `OWPC_LTR_API_KEY`, or `OWPC_LTR_AWS_REGION` and `OWPC_LTR_AWS_SERVICE`;
`OWPC_LTR_CA`); the configuration file; the local node, without credentials. `OWPC_LTR_TIMEOUT` and
`OWPC_LTR_DEADLINE` set the time limits.
"""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from owpc_ltr.engine.http.address import is_local, origin, split_url
from owpc_ltr.engine.http.config_file import Config, config_path, read_config
from owpc_ltr.engine.http.limits import limits_of
from owpc_ltr.engine.http.secret import Secret
from owpc_ltr.errors import UsageError

_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True)
class Credentials:
    """What proves to the cluster who asks; `source` tells where it was found.

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
    timeout: float = 60.0
    """Seconds for one attempt at a request."""
    deadline: float = 120.0
    """Seconds for a request with all its retries."""
    longest: float = math.inf
    """Seconds for those requests too that may take longer, as a merge of segments."""
    largest_answer: int = 256_000_000
    """The most bytes of an answer, unpacked."""
    given: bool = True
    """Whether somebody named the address; else it is the local node's."""

    def __post_init__(self) -> None:
        parts = split_url(self.url)
        if self.ca is not None and not self.ca.is_file():
            raise UsageError(f"the file of CA certificates {self.ca} does not exist")
        exposed = self.credentials is not None and parts.scheme == "http" and not is_local(parts)
        if exposed and not self.insecure:
            raise UsageError(
                f"{self.url} would get the credentials of {self._source} readable by anyone on "
                "the way: use https, or --insecure if that is meant"
            )

    @property
    def cautions(self) -> list[str]:
        """What must be said on each run of such a connection."""
        if not self.insecure:
            return []
        return [f"--insecure: nobody checks that {self.url} is the cluster it claims to be"]

    @property
    def _source(self) -> str:
        return self.credentials.source if self.credentials else "nobody"


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
    file = read_config(path)
    own = None if file.url is None else split_url(file.url, file.url_place)
    named = url or environ.get("OWPC_LTR_URL")
    if named:
        parts = split_url(named, "--url" if url else "OWPC_LTR_URL")
    else:
        parts = own or split_url(_default_url())
    same = own is not None and origin(own) == origin(parts)
    found = _of_environment(environ) or (_of_file(file, path) if same else None)
    given = environ.get("OWPC_LTR_CA")
    trusted = ca or (Path(given) if given else None) or (file.ca if same else None)
    return ConnectionSettings(
        parts.geturl().rstrip("/"),
        found,
        trusted and trusted.expanduser(),
        insecure,
        given=bool(named or own),
        **limits_of(environ),
    )


def _of_environment(environ: Mapping[str, str]) -> Credentials | None:
    return _credentials(
        user=environ.get("OWPC_LTR_USER"),
        password=environ.get("OWPC_LTR_PASSWORD"),
        api_key=environ.get("OWPC_LTR_API_KEY"),
        aws_region=environ.get("OWPC_LTR_AWS_REGION"),
        aws_service=environ.get("OWPC_LTR_AWS_SERVICE"),
        names=("OWPC_LTR_USER", "OWPC_LTR_PASSWORD", "OWPC_LTR_API_KEY", "OWPC_LTR_AWS_REGION"),
        place="",
    )


def _of_file(file: Config, path: Path) -> Credentials | None:
    return _credentials(
        user=file.user,
        password=file.password,
        api_key=file.api_key,
        aws_region=file.aws_region,
        aws_service=file.aws_service,
        names=("user", "password", "api_key", "aws_region"),
        place=f" of {path}",
    )


def _credentials(
    *,
    user: str | None,
    password: str | None,
    api_key: str | None,
    aws_region: str | None,
    aws_service: str | None,
    names: tuple[str, str, str, str],
    place: str,
) -> Credentials | None:
    ways = [bool(user or password), bool(api_key), bool(aws_region)]
    if sum(ways) > 1:
        raise UsageError(
            f"more than one way to prove who asks: give {names[0]} and {names[1]}, or {names[2]}, "
            f"or {names[3]}{place}, and not several"
        )
    if user and password:
        pair = base64.b64encode(_pair(user, password, names, place)).decode()
        return Credentials(f"{names[0]} and {names[1]}{place}", Secret(f"Basic {pair}"))
    if user or password:
        lacking = names[1] if user else names[0]
        raise UsageError(f"{lacking}{place} is missing: user and password are needed together")
    if api_key:
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise UsageError(f"{names[2]}{place} is no API key: it holds a space or worse")
        return Credentials(f"{names[2]}{place}", Secret(f"ApiKey {api_key}"))
    if aws_region:
        if not _REGION.fullmatch(aws_region):
            raise UsageError(f"{names[3]}{place} is no region of AWS: write it as eu-west-1")
        service = aws_service or "es"
        if service not in {"es", "aoss"}:
            raise UsageError(f"the AWS service{place} is something else than es or aoss: give one")
        return Credentials(f"{names[3]}{place}", aws_region=aws_region, aws_service=service)
    return None


def _pair(user: str, password: str, names: tuple[str, str, str, str], place: str) -> bytes:
    """What basic authentication sends. Raises UsageError for what it cannot say."""
    if ":" in user:
        raise UsageError(f"{names[0]}{place} holds a ':', which no user name may: leave it out")
    try:
        return f"{user}:{password}".encode()
    except UnicodeEncodeError:
        # Such bytes of the environment are half characters here.
        raise UsageError(
            f"{names[0]} or {names[1]}{place} is not UTF-8 text: set them in a UTF-8 terminal"
        ) from None


def _default_url() -> str:
    from owpc_ltr_node.local_node import default_url

    return default_url()
