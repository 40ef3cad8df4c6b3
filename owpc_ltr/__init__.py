"""owpc-ltr: from judged queries to a ranker that runs in OpenSearch or Elasticsearch."""

from owpc_ltr.hookspecs import hookimpl

__all__ = ["__version__", "hookimpl"]

__version__ = "0.1.0"
