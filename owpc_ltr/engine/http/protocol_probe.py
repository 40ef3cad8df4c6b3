"""What a port speaks, where what was sent to it broke the connection: plain http, or TLS."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import SplitResult

from owpc_ltr.engine.http.address import port_of

_SECONDS = 5.0


def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake gets an answer there; no certificate is believed or sent."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_SECONDS) as bare,
            context.wrap_socket(bare, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # An alert is TLS too: it wants a certificate of ours, or another version.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


def speaks_http(host: str, port: int) -> bool:
    """Whether a plain request gets a status line there."""
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as bare:
            bare.sendall(f"HEAD / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            return bare.recv(5) == b"HTTP/"
    except OSError:
        return False


def told_protocol(address: SplitResult) -> str | None:
    """What an address with the wrong scheme speaks, and what to write; None where it is right."""
    host, port = address.hostname or "", port_of(address)
    if address.scheme == "http" and speaks_tls(host, port):
        return f"speaks TLS: use https://{address.netloc}{address.path}"
    if address.scheme == "https" and speaks_http(host, port):
        return f"speaks plain http, without TLS: use http://{address.netloc}{address.path}"
    return None
