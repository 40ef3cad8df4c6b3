"""What scores documents: linear models, trees, networks, averages, reorderings."""
