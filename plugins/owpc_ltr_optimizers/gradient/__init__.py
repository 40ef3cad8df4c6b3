"""Gradient: linear models, or a small network, for any loss."""
