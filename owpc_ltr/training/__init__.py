"""Training, selection over folds, feature selection."""
