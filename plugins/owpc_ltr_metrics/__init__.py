"""The shipped metrics: each file is a plugin, found by its entry point like anybody's."""
