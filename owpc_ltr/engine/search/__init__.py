"""Searches, before and after a model: requests, windows, client-side reranking, latency."""
