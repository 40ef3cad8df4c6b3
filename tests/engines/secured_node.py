"""An Elasticsearch with security, and accounts that have some rights and no others.

As Maven has it, it has no analyzer for the index of native users: accounts are files, which it
reads again while it runs.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from owpc_ltr_node import settings as node_settings
from owpc_ltr_node.release import Release
from owpc_ltr_node.settings import LocalNode

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings, Credentials
from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.redaction import Secret
from tests.session_node import running_node

ADMIN, PASSWORD, _ROUNDS = "admin", "a-password-of-tests", 10_000
_SECURITY = {
    "xpack.security.enabled": "true",
    "xpack.security.http.ssl.enabled": "false",
    "xpack.security.transport.ssl.enabled": "false",
    "resource.reload.interval.high": "100ms",
}


@dataclass(frozen=True)
class SecuredNode:
    """Its address, an engine that may do everything, and the folder of its accounts."""

    url: str
    admin: Engine
    config: Path

    def account(self, cluster: Sequence[str], indices: Mapping[str, Sequence[str]]) -> str:
        """A new account with these privileges and PASSWORD: its name."""
        name = f"account-{uuid.uuid4().hex[:8]}"
        named = [{"names": [of], "privileges": [*has]} for of, has in indices.items() if has]
        # YAML is a superset of JSON.
        role = {name: {"cluster": [*cluster], "indices": named}}
        for file, line in (
            ("roles.yml", json.dumps(role)[1:-1]),
            ("users", f"{name}:{_HASHED}"),
            ("users_roles", f"{name}:{name}"),
        ):
            with (self.config / file).open("a") as lines:
                lines.write(f"{line}\n")
        engine = self.engine(name)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with suppress(EngineUnavailable, EngineRefusal):
                known = engine.request("GET", "/_security/user/_privileges")
                if set(known["cluster"]) == set(cluster) and len(known["indices"]) == len(named):
                    break
            time.sleep(0.05)
        engine.close()
        return name

    def engine(self, name: str) -> Engine:
        """The cluster as an account sees it."""
        return Engine(ConnectionSettings(self.url, Credentials("the test", Secret(_basic(name)))))


def _basic(name: str = ADMIN) -> str:
    return f"Basic {base64.b64encode(f'{name}:{PASSWORD}'.encode()).decode()}"


def _hashed(password: str) -> str:
    """A password as Elasticsearch's file realm has it."""
    salt = hashlib.sha256(password.encode()).digest()
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS, 32)
    encoded = [base64.b64encode(part).decode() for part in (salt, key)]
    return f"{{PBKDF2}}{_ROUNDS}${encoded[0]}${encoded[1]}"


_HASHED = _hashed(PASSWORD)


@contextmanager
def secured_node(release: Release) -> Iterator[SecuredNode]:
    """A node with security, and one user of the file realm, who is a superuser."""
    plain = node_settings.settings

    def secured(node: LocalNode, folder: Path) -> str:
        (folder / "config" / "users").write_text(f"{ADMIN}:{_HASHED}\n")
        (folder / "config" / "users_roles").write_text(f"superuser:{ADMIN}\n")
        lines = plain(node, folder).replace("xpack.security.enabled: false\n", "")
        return lines + "".join(f"{key}: {value}\n" for key, value in _SECURITY.items())

    def ask(port: int, path: str, timeout: float = 5.0) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            connection.request("GET", path, headers={"Authorization": _basic()})
            answer = connection.getresponse()
            content = answer.read()
            return json.loads(content) if answer.status == 200 else None
        except OSError:
            return None
        finally:
            connection.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_settings, "settings", secured)
        patch.setattr("owpc_ltr_node.process.get_json", ask)
        with running_node(release, heap="512m") as node:
            url, folder = node.status.url, Path(str(node.status.folder))
            admin = Engine(ConnectionSettings(url, Credentials("the test", Secret(_basic()))))
            yield SecuredNode(url, admin, folder / "config")
            admin.close()
