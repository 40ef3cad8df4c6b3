"""Requests through opensearch-py: connection, retries, limits."""
