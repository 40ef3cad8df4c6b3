"""Files: text, JSON, atomic output, locks, journals."""
