"""Uploads: parity, gates, aliases, deployment records, drift."""
