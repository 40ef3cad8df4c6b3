"""Optimizers.

Each file is one; those whose names begin with _ are parts of the one that imports them.
"""
