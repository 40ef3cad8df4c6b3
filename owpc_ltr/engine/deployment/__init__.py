"""Uploads: parity, gate, aliases, certificates, drift, what can be removed."""
