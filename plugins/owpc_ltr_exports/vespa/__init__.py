"""Vespa: a model as a rank profile."""
