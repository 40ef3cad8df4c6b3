"""Compiled loops over queries."""
