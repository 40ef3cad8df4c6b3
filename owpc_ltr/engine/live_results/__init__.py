"""Live results: compared, pooled for judging."""
