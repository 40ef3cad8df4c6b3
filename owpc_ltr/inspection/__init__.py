"""Checks of data before training."""
