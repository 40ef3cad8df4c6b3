"""Models: linear, trees, networks, averages, rerankers."""
