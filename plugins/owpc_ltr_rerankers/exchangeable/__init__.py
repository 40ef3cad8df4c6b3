"""Exchangeable reranking: scores that depend on the whole list."""
