"""Scores that depend on the whole list."""
