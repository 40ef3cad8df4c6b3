"""Feature sets: the engine's own templates, loaded, linted, and bounded in their values."""
