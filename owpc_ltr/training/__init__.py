"""Training: settings chosen on validation queries, over folds, at a price of features."""
