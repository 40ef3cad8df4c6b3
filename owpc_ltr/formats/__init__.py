"""Model formats of other tools and engines: one small pure converter per family."""
