"""Live results of the whole index: measured, compared, and pooled for judging."""
