"""Searches with a model: requests, windows, client reranking."""
