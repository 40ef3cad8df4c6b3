"""Feature sets: query templates, parameters, lint, value bounds."""
