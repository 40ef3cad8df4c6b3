"""owpc-ltr: from judged queries to a ranker that runs in OpenSearch or Elasticsearch."""

from owpc_ltr.host.hookspecs import hookimpl
from owpc_ltr.version import VERSION

__all__ = ["__version__", "hookimpl"]

__version__ = VERSION
