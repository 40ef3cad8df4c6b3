"""Dask workers for partitioned datasets.

The sums of a part are the same on a worker and in this process, and this process adds them in the
order of the parts.
"""
