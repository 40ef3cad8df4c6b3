"""Judged queries with their features: the dataset, its splits, and the files it is read from."""
