"""Requests to a cluster through opensearch-py: settings, connection, retries, checked answers."""
