"""An engine's address: read strictly, without echoing what is refused, and probed for TLS.

What is refused may be a password.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from urllib.parse import SplitResult, unquote, urlsplit

from owpc_ltr.errors import UsageError

_PORTS = {"http": 9200, "https": 443}
_SCHEME = re.compile(r"(https?)://", re.IGNORECASE)
_WHERE = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?", re.DOTALL)
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:%-]*)*")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LIKE_THIS = "write it as https://HOST:PORT"
_PROBE_SECONDS = 5.0


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
        raise UsageError(f"{place} is no address of an engine: {_LIKE_THIS}")
    rest = url[scheme.end() :]
    if "?" in rest or "#" in rest:
        raise UsageError(f"{place} is more than the address of an engine: {_LIKE_THIS}")
    where, slash, path = rest.partition("/")
    parts = _WHERE.fullmatch(where)
    if parts is None or not _is_host(parts["host"]):
        raise UsageError(
            f"{place} has a host that is no name and no IP address, which are of ASCII letters, "
            f"digits, '-' and dots: {_LIKE_THIS}"
        )
    if not _is_port(parts["port"]):
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
    """Who is spoken to: scheme, host and port."""
    return parts.scheme, parts.hostname, port_of(parts)


def is_local(parts: SplitResult) -> bool:
    """Whether it is this very machine, so that nobody is on the way."""
    if parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def other_protocol(address: SplitResult) -> str | None:
    """What an address with the wrong scheme speaks, and what to write; None where it is right."""
    host, port = address.hostname or "", port_of(address)
    if address.scheme == "http" and _speaks_tls(host, port):
        return f"speaks TLS: use https://{address.netloc}{address.path}"
    if address.scheme == "https" and _speaks_http(host, port):
        return f"speaks plain http, without TLS: use http://{address.netloc}{address.path}"
    return None


def _speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake gets an answer there; no certificate is believed or sent."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_PROBE_SECONDS) as bare,
            context.wrap_socket(bare, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # An alert is TLS too: it wants a certificate of ours, or another version.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


def _speaks_http(host: str, port: int) -> bool:
    """Whether a plain request gets a status line there."""
    try:
        with socket.create_connection((host, port), timeout=_PROBE_SECONDS) as bare:
            bare.sendall(f"HEAD / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            return bare.recv(5) == b"HTTP/"
    except OSError:
        return False


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            return ipaddress.IPv6Address(host[1:-1]).scope_id is None
        except ValueError:
            return False
    labels = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(_NAME.fullmatch(label) for label in labels)


def _is_port(port: str | None) -> bool:
    if port is None:
        return True
    return re.fullmatch(r"[0-9]{1,5}", port) is not None and 0 < int(port) <= 65535


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
