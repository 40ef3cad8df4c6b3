"""The report: one HTML page that says whether a ranker is better, how sure that is, and why."""
