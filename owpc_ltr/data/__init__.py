"""Datasets, splits, and the files they are read from."""
