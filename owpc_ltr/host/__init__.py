"""Plugins: found, refused, configured."""
