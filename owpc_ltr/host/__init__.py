"""Plugins: discovery, checks of settings, hooks."""
