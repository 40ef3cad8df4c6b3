"""Dask workers for partitioned datasets.

Each part's sums are those that it has here, and they are added here in the order of the parts.
"""
