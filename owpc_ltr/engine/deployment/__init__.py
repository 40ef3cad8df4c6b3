"""Uploads: parity, evidence, aliases, deployment records, drift."""
