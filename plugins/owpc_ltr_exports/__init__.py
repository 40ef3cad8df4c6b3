"""The shipped export targets: each entry is a plugin, found by its entry point like anybody's."""
