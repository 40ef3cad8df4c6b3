"""Live results: evaluated, compared, pooled for judging."""
