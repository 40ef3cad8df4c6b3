"""Compiled loops over queries: losses by address, pairs, sorting, linear passes."""
