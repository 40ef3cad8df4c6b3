"""Models that an engine without the LTR plugin runs."""
