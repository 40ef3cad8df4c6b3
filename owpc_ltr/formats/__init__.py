"""Model formats of other libraries and engines."""
