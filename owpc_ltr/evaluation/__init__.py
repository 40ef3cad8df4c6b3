"""Evaluation, comparison, and statistical significance."""
