"""Gradient descent for linear models and small networks."""
