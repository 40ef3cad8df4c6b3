"""Rankers side by side on the same queries: who is measured on what, and what differs."""
