"""Judgment readers."""
