"""The report: one HTML page that answers, for who never saw the project, what a ranker is worth."""
