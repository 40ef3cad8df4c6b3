"""Training, selection over folds, feature cost."""
