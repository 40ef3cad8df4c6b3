"""Requests to a cluster: connection settings, client, retries, refusals."""
