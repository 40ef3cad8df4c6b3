"""Models other than linear ones that an engine without any plugin runs, by scripts over queries."""
