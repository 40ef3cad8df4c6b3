"""Contributions of features to scores and ranks."""
