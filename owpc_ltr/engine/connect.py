"""`connect`: a cluster by its address, or the one that the environment names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from owpc_ltr.engine.options import Authority, Insecure, StoreKind, StoreName, Url
from owpc_ltr.errors import give_warning
from owpc_ltr.names import check_store
from owpc_ltr.signatures import public

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster


@public
def connect(
    url: Url = None,
    *,
    store_kind: StoreKind = None,
    store: StoreName = None,
    ca: Authority = None,
    insecure: Insecure = False,
    caution: Annotated[
        Callable[[str], None] | None, "Called with what the user must know; default: a warning."
    ] = None,
) -> Cluster:
    """The cluster at `url`, of the environment or the configuration file, else the local node.

    `url` may also be a ready client, an `opensearchpy.OpenSearch`, for both engines, with its own
    authentication, proxies and connections. Requests then go through it, retried as always and not
    by the client. Its timeout is for each read of an answer, not for the whole of it, and answers
    of any size are read.

    Credentials come from OWPC_LTR_USER and OWPC_LTR_PASSWORD, OWPC_LTR_API_KEY, or the
    configuration file, never from an argument. `store_kind` is `ltr-plugin` or `plugin-free`;
    left out, what the cluster has. `store` names one of several stores. `caution` is told what the
    user must know (an unverified certificate, say); left out, it is a warning.

    Nothing is asked of the cluster yet. Raises UsageError and BadInput for invalid settings.
    """
    from owpc_ltr.engine.client.engine import open_engine
    from owpc_ltr.engine.cluster import Cluster

    if store is not None:
        check_store(store)
    tell = caution or give_warning
    authority = None if ca is None else Path(ca)
    named = {"--url": url if isinstance(url, str) else None, "--ca": authority}
    typed = [str(word) for pair in named.items() if pair[1] is not None for word in pair]
    return Cluster(
        open_engine(url, ca=authority, insecure=insecure, caution=tell),
        store_kind,
        store,
        (*typed, *(["--insecure"] if insecure else [])),
    )
