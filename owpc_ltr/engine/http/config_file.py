"""The configuration file, `~/.config/owpc-ltr/config.toml`: a cluster and its credentials.

```toml
url = "https://search.example.org:9200"
user = "ranker"
password = "…"             # or: api_key = "…"   or: aws_region = "eu-west-1"
ca = "/etc/ssl/our-ca.pem" # optional; aws_service = "es" (default) or "aoss"
```
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from owpc_ltr.engine.http.secret import Secret
from owpc_ltr.errors import BadInput

_LARGEST = 1_000_000


@dataclass(frozen=True)
class Config:
    """What the file says; None where it says nothing."""

    url: str | None = None
    user: str | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    aws_region: str | None = None
    aws_service: str | None = None
    ca: Path | None = None
    url_place: str = "the configuration file"
    """What a message calls the place of the address."""


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file is looked for."""
    folder = environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "owpc-ltr" / "config.toml"


def read_config(path: Path) -> Config:
    """The file's content; an empty Config if there is none.

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
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise BadInput(f"{path} is larger than {_LARGEST} bytes: it is no configuration file")
        content = tomllib.loads(text.decode())
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        # The parser's message can quote the line that holds a password.
        position = getattr(error, "lineno", None)
        where = f", line {position}" if position else ""
        raise BadInput(f'{path}{where} is not TOML: write lines as url = "https://…"') from None
    return _checked(content, path, _line_of_url(text.decode()))


def _line_of_url(text: str) -> str:
    """Where the address stands, as a message says it."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"""\s*["']?url["']?\s*=""", line):
            return f", line {number}"
    return ""


def _checked(content: dict[str, object], path: Path, url_line: str) -> Config:
    from difflib import get_close_matches

    known = [field.name for field in fields(Config)][:-1]
    for key, value in content.items():
        if key not in known:
            # Only a slip of the pen is shown: anything else may be a password out of place.
            slip = get_close_matches(key, known, 1)
            what = f"unknown key '{key}'" if slip and key.isprintable() else "unknown key"
            raise BadInput(f"{path}: {what}; known: {', '.join(known)}")
        if not isinstance(value, str) or not value:
            raise BadInput(f"{path}: {key} must be text in quotes, and not empty")
    if not content.get("url") and len(content) > 0:
        raise BadInput(f"{path}: url is missing: credentials are for the cluster that it names")
    texts = {key: str(value) for key, value in content.items()}
    return Config(
        url=texts.get("url"),
        user=texts.get("user"),
        password=_secret(texts, "password"),
        api_key=_secret(texts, "api_key"),
        aws_region=texts.get("aws_region"),
        aws_service=texts.get("aws_service"),
        ca=Path(texts["ca"]).expanduser() if "ca" in texts else None,
        url_place=f"url of {path}{url_line}",
    )


def _secret(texts: dict[str, str], key: str) -> Secret | None:
    return Secret(texts[key]) if key in texts else None
