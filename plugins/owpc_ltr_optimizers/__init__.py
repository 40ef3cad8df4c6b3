"""The shipped optimizers: each file is a plugin, found by its entry point like anybody's."""
