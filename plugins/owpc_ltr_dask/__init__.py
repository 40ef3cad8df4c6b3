"""Dask workers: passes over a folder of parts, reckoned by several processes or machines.

Each part's sums are those that it has here, and they are added here in the order of the parts.
"""
