"""`serve`: models over HTTP, for whatever speaks a rerank API."""

from __future__ import annotations

import contextlib
import gc
import os
import ssl
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.cli.signals import handling
from owpc_ltr.engine.client.concurrency import ConcurrencyLimiter
from owpc_ltr.engine.client.settings import is_loopback
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.options import ExtraFeatures, SearchIndex
from owpc_ltr.engine.search.search import DEADLINE
from owpc_ltr.errors import BadInput, UsageError, give_warning
from owpc_ltr.host.commands import Plugins
from owpc_ltr.host.web_service import LOOPBACK, WebServer, listening
from owpc_ltr.redaction import Secret
from owpc_ltr.signatures import Help, Reads, job
from owpc_ltr_serve.app import CONCURRENCY, LARGEST_BODY, ServeSettings, create_app
from owpc_ltr_serve.endpoint import Endpoint
from owpc_ltr_serve.experiment_search import ImpressionLog
from owpc_ltr_serve.gateway import LATE, Gateway
from owpc_ltr_serve.metrics import Metrics
from owpc_ltr_serve.model_search import PATH
from owpc_ltr_serve.rankers import Rankers
from owpc_ltr_serve.rerank import rerank_endpoints

if TYPE_CHECKING:
    from owpc_ltr.data.external_features import ExternalTable

DEFAULT_PORT = 8900
TOKEN = "OWPC_LTR_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_SHORTEST_TOKEN = 16
_WAIT_SHARE = 0.5
"""The share of a search's time that it waits for others to end; the engine has the rest."""
_GRACE = 5.0
"""Seconds beyond the deadline in which requests may end when the service stops."""


def _file(words: str, what: str) -> Reads:
    """An option that names a file of the service's own, which must be there."""
    absent = f"cannot read the {what} {{path}}: no such file"
    return Reads(words, panel="Advanced", absent=absent, error=UsageError)


@job
def serve(
    cluster: Cluster,
    models: Annotated[
        Sequence[Path | str],
        Reads(
            "Files, and names of uploaded models (NAME, NAME:challenger, NAME-HASH), the first is "
            "the default; default: every model of the cluster.",
            metavar="MODEL",
            cli=list[str],
            absent=None,
        ),
    ] = (),
    *,
    host: Annotated[str, Help("The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Help("The port to listen on; 0: a free one.", min=0, max=65535)] = (
        DEFAULT_PORT
    ),
    index: SearchIndex = None,
    extra_features: ExtraFeatures = (),
    deadline: Annotated[
        float,
        Help(
            "Seconds for a request, from its arrival to its answer; searches without a model may "
            f"take {LATE:g} more."
        ),
    ] = DEADLINE,
    concurrency: Annotated[
        int, Help("Requests that are answered at the same time; more get 503.", min=1)
    ] = CONCURRENCY,
    largest_body: Annotated[int, Help("Bytes of a request.", min=1, panel="Advanced")] = (
        LARGEST_BODY
    ),
    impressions: Annotated[
        Path | str | None,
        Help(
            "Append which documents each search showed, with what the user typed, to this file "
            "(JSON lines, queries of UBI): `judge_clicks()` reads it.",
            metavar="FILE",
            cli=Path,
        ),
    ] = None,
    token_file: Annotated[
        Path | str | None,
        _file(f"The token that requests must carry; default: {TOKEN}.", "token"),
    ] = None,
    certificate: Annotated[
        Path | str | None,
        _file("Certificate of the service (PEM): it then speaks https.", "certificate"),
    ] = None,
    key: Annotated[Path | str | None, _file("Key of the certificate (PEM).", "key")] = None,
    client_ca: Annotated[
        Path | str | None,
        _file("Authority whose certificates clients must show (PEM).", "authority"),
    ] = None,
    plugins: Plugins = (),
) -> None:
    """Serve models over HTTP, as Cohere's rerank API and as the engine's own searches.

    POST /v1/rerank and /v2/rerank are as Cohere's.
    Documents are objects of feature values, ids, or the LTR plugin's log.

    POST /INDEX/_search is a search of the engine in a model's order; the body names the model. No
    other path is forwarded.

    GET /health says which model each name is, GET /metrics what Prometheus collects.

    On another address than this machine's own, requests need a token or a client certificate.
    The token stands in the environment, OWPC_LTR_SERVE_TOKEN, or in a file that only you can read.

    It runs until Ctrl-C or SIGTERM, and then ends the requests that it has begun.

    Python: `extra_features` may also be data frames.
    """
    token = find_token(token_file)
    tls = _tls(certificate, key, client_ca)
    check_binding(host, token=token is not None, tls=tls)
    searches = ConcurrencyLimiter(concurrency, patience=_WAIT_SHARE)
    tables: tuple[ExternalTable, ...] = ()
    if extra_features:
        from owpc_ltr.data.external_features import read_external_features

        tables = read_external_features(extra_features)
    rankers = Rankers(cluster, models, index, tables, plugins=plugins, searches=searches)
    # A page of a browser has neither token nor certificate.
    hosts = () if token or "ssl_ca_certs" in tls else (*LOOPBACK, host)
    settings = ServeSettings(concurrency, deadline, largest_body, token=token)
    metrics = Metrics(rankers.states)
    log = None if impressions is None else ImpressionLog(impressions, metrics.impression_lost)
    app = create_app(rankers, settings, metrics, service_endpoints(rankers, metrics, log))
    server = _Server(app, hosts, timeout_graceful_shutdown=int(deadline + _GRACE), **tls)
    try:
        server.config.load()
    except OSError as error:  # what OpenSSL says is one too
        raise BadInput(
            f"cannot speak https with {certificate} and {key}: {type(error).__name__}: are they a "
            "certificate and its key, in PEM?"
        ) from error
    with listening(host, port) as listener:
        rankers.start()
        names = ", ".join(rankers.names) or "no model yet"
        where, port = listener.getsockname()[:2]
        address = f"{'https' if tls else 'http'}://{f'[{where}]' if ':' in where else where}:{port}"
        print(f"serving {names} at {address}", file=sys.stderr, flush=True)
        # What lives as long as the service is not looked through again and again by the collector.
        gc.collect()
        gc.freeze()
        server.run([listener])


def service_endpoints(
    rankers: Rankers, metrics: Metrics, log: ImpressionLog | None
) -> list[Endpoint]:
    """All that the service answers but `/health`."""
    return [
        *rerank_endpoints(rankers, metrics),
        Endpoint(PATH, Gateway(rankers, metrics, log).answer, late=LATE),
        Endpoint("/metrics", metrics.answer, methods=("GET",), at_once=metrics.answer),
    ]


def find_token(file: Path | str | None) -> Secret | None:
    """The token of this file, or of the environment, if there is one.

    Raises UsageError for a token that can be guessed, BadInput for a file that others can read.
    """
    if file is None:
        text = os.environ.get(TOKEN, "")
        if not text:
            return None
    else:
        try:
            with Path(file).open() as opened:
                mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
                text = opened.read(10_000).strip()
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot read the token {file}: {type(error).__name__}") from error
        if mode & 0o077:
            raise BadInput(f"{file} holds a token and can be read by others: chmod 600 {file}")
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(
            f"{file or TOKEN} is not a token: use {_SHORTEST_TOKEN} or more letters and digits, as "
            "from openssl rand -hex 32"
        )
    return Secret(text)


def check_binding(host: str, *, token: bool, tls: dict[str, Any]) -> None:
    """Refuse to listen beyond this machine where anybody could ask. Raises UsageError."""
    if is_loopback(host):
        return
    if not token and "ssl_ca_certs" not in tls:
        raise UsageError(
            f"`host` {host} can be reached from other machines: set {TOKEN} or `token_file`, or "
            "demand client certificates with `client_ca`"
        )
    if not tls:
        give_warning(
            f"the token can be read on its way to {host}: give `certificate` "
            f"and `key`, unless a proxy before this service speaks https"
        )


def _tls(
    certificate: Path | str | None, key: Path | str | None, client_ca: Path | str | None
) -> dict[str, Any]:
    """What uvicorn needs to speak https; empty for plain http."""
    if certificate is None and key is None and client_ca is None:
        return {}
    if certificate is None or key is None:
        raise UsageError("https needs both `certificate` and `key`: give both")
    files = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    if client_ca is None:
        return files
    return {**files, "ssl_ca_certs": str(client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}


class _Server(WebServer):
    """A server that a signal ends without an error."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let Ctrl-C, SIGTERM and SIGHUP stop the service, where it runs in the main thread."""
        with handling(self.handle_exit):
            yield
