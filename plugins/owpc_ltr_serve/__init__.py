"""A service that ranks: rerank APIs over HTTP for every model of the registry."""
